"""Files of shared policies of earlier releases: versions 3 and 4, without and with a change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cobandits.policies import Shared
from tests.golden import FOLDER
from tests.shared_states import assert_same, content, saved, state_of
from tests.shared_trajectory import DIM, TASKS, play

NAMES = ["3-middle", "3-change", "4-middle", "4-change"]
CANDIDATES = {"selector.errors", "selector.thetas", "selector.places"}  # those of 3 are not today's
FORGOTTEN = {"3": CANDIDATES | {f"before.{one}" for one in CANDIDATES}, "4": set[str]()}


def old(name: str) -> Path:
    return FOLDER / f"version-{name}.npz"


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_says_what_the_one_that_was_saved_said(name: str) -> None:
    policy = Shared.load(old(name))
    arms = np.random.default_rng(0).standard_normal((TASKS, 4, DIM))
    found = policy.explain_all()
    with np.load(FOLDER / f"version-{name}-says.npz") as says:
        np.testing.assert_allclose(found.weights, says["weights"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.uncertainty, says["uncertainty"], rtol=1e-9)
        shares = policy.probabilities(np.arange(TASKS), arms)
        np.testing.assert_allclose(shares, says["prob"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_is_forgotten(name: str) -> None:
    policy = Shared.load(old(name))
    now, before = saved(policy), content(old(name))
    for key in before.arrays.keys() - FORGOTTEN[name[0]]:
        np.testing.assert_array_equal(now.arrays[key], before.arrays[key], err_msg=key, strict=True)
    assert now.header["version"] == 5
    assert (state_of(policy).before is not None) == name.endswith("change")


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("4")])
def test_a_file_of_version_4_is_as_one_of_today(name: str) -> None:
    now, before = saved(Shared.load(old(name))), content(old(name))
    assert now.arrays.keys() == before.arrays.keys()
    assert now.header == {**before.header, "version": 5}


@pytest.mark.parametrize("name", NAMES)
def test_it_goes_on_as_a_file_of_today_made_from_it(tmp_path: Path, name: str) -> None:
    """Over refits."""
    first = Shared.load(old(name))
    first.save(tmp_path / "today")
    second, before = Shared.load(tmp_path / "today"), first.prior
    for n in range(90, 120):
        play(first, n)
        play(second, n)
    assert first.prior is not before
    assert_same(first, second)
