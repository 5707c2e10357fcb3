"""Files of shared policies that the release before wrote: version 2."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.errors import ModelFileError
from cobandits.policies import Shared
from tests.golden import FOLDER, fingerprint, little_memory
from tests.shared_states import assert_same, content, n_dropped, saved, write

Floats = NDArray[np.floating]

ELSEWHERE = 1e-12  # on another machine sums are rounded otherwise: 2e-16 was seen
LEARNED = ["middle", "over-budget"]


def old(name: str) -> Path:
    return FOLDER / f"version-2-{name}.npz"


def memory(name: str) -> AbstractContextManager[None]:
    """Hold as many rows and directions as the policy that wrote the file."""
    return little_memory() if name == "over-budget" else nullcontext()


def same_arms(policy: Shared) -> Floats:
    return np.random.default_rng(0).standard_normal((n_tasks(policy), 4, policy.dim))


def n_tasks(policy: Shared) -> int:
    assert policy.n_tasks is not None
    return policy.n_tasks


@pytest.mark.parametrize("name", LEARNED)
def test_a_policy_says_what_the_one_that_was_saved_said(name: str) -> None:
    with np.load(FOLDER / f"version-2-{name}-says.npz") as file:
        before: dict[str, NDArray[Any]] = {key: file[key] for key in file.files}
    close = 0.0 if str(before.pop("fingerprint")) == fingerprint() else ELSEWHERE
    with memory(name):
        policy = Shared.load(old(name))
        explained = policy.explain_all()
        shares = policy.probabilities(np.arange(n_tasks(policy)), same_arms(policy))
    del before["shares"]  # what is explored was decided otherwise
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    now = {"weights": explained.weights, "uncertainty": explained.uncertainty}
    assert now.keys() == before.keys()
    for key, values in before.items():
        np.testing.assert_allclose(now[key], values, rtol=close, atol=close, err_msg=key)


@pytest.mark.parametrize("name", LEARNED)
def test_no_array_is_lost_or_changed(name: str) -> None:
    """Each is in the file of today too, to the last bit, whatever its name; but for candidates."""
    header, arrays = content(old(name))
    slots = arrays.pop("slots")
    for key in ("errors", "rivals", "rival_places"):  # of candidates that there are no more
        del arrays[key]
    with memory(name):
        policy = Shared.load(old(name))
        now = saved(policy)
    held = {(a.dtype, a.shape, a.tobytes()) for a in now.arrays.values()}
    for key, values in arrays.items():
        assert (values.dtype, values.shape, values.tobytes()) in held, key
    assert now.arrays["store.dropped"].tolist() == np.flatnonzero(slots == -2).tolist()
    assert not now.arrays["prior.mean"].any()
    assert not now.arrays["selector.mean"].any()
    assert now.header["version"] == 5
    setting = {**header["setting"], "labels": False, "on_change": "start-over"}
    setting["rewards"] = "gaussian"
    assert now.header["setting"] == setting
    assert now.header["prior"] == header["prior"]
    assert now.header["drift"] == header["alarm"]
    assert now.header["state"]["range"] == [header["lowest"], header["highest"]]
    for key in ("rewards", "seen", "due", "changes"):
        assert now.header["state"][key] == header[key]


def test_a_policy_without_rewards_is_a_new_one() -> None:
    policy = Shared.load(old("new"))
    assert_same(policy, Shared(dim=20, n_tasks=12, on_change="start-over", rewards="gaussian"))
    assert policy.prior is None


@pytest.mark.parametrize("name", ["new", *LEARNED])
def test_it_goes_on_as_a_file_of_today_made_from_it(tmp_path: Path, name: str) -> None:
    """Over refits, and where rows are dropped."""
    with memory(name):
        first = Shared.load(old(name))
        first.save(tmp_path / "today")
        assert (n_dropped(first) > 0) == (name == "over-budget")
        second, start, refits = Shared.load(tmp_path / "today"), first.rewards, 0
        rng, thetas = np.random.default_rng(1), np.random.default_rng(2).standard_normal(first.dim)
        for n in range(40):
            tasks = rng.permutation(n_tasks(first))[:6]
            arms = rng.standard_normal((6, 3, first.dim))
            decided = first.decide(tasks, arms, np.random.default_rng(n))
            again = second.decide(tasks, arms, np.random.default_rng(n))
            np.testing.assert_array_equal(decided.chosen, again.chosen)
            refits += first.refit_due(6)
            for policy in (first, second):
                policy.learn(tasks, arms, decided, decided.features(arms) @ thetas)
        assert_same(first, second)
        assert first.rewards == start + 240
        assert refits > 1


def test_damage_is_noticed(tmp_path: Path) -> None:
    header, arrays = content(old("middle"))
    for key, values, message in (
        ("thetas", arrays["thetas"] * np.nan, "a NaN or an infinite value in posteriors.thetas"),
        ("slots", np.full_like(arrays["slots"], -2), "store.sizes above 0 of store.dropped"),
        ("slots", np.full_like(arrays["slots"], 99), "slots that are not those of slot_tasks"),
        ("slots", arrays["slots"][:1], "slots of shape"),
        ("slots", arrays["slots"] * 1.0, "slots of shape .* type float64"),
        ("rows", arrays["rows"][1:], "store.rows of shape"),
        ("counts_whole", arrays["counts_whole"] + 1000, "state.full_counts above counts"),
    ):
        write(tmp_path / "bad", header, {**arrays, key: values})
        with pytest.raises(ModelFileError, match=f"bad holds {message}.*relearn its log"):
            Shared.load(tmp_path / "bad")
    for key in arrays:
        write(tmp_path / "bad", header, {name: a for name, a in arrays.items() if name != key})
        with pytest.raises(ModelFileError, match="not a whole cobandits shared-policy"):
            Shared.load(tmp_path / "bad")


@pytest.mark.parametrize("version", [1, 6, "2", None])
def test_other_versions_are_refused_with_advice(tmp_path: Path, version: object) -> None:
    header, arrays = content(old("middle"))
    write(tmp_path / "bad", {**header, "version": version}, arrays)
    message = f"version {version!r}; this release reads .* version 5: upgrade cobandits, or load"
    with pytest.raises(ModelFileError, match=message):
        Shared.load(tmp_path / "bad")
