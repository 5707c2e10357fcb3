"""Nothing that the shared policy decides or learns has changed since it was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden import SCENARIOS, Trajectory, fingerprint, path, play

# On another machine sums are rounded otherwise. A refit takes a few steps towards an optimum, and
# how far these get depends on the last bits; so trajectories are alike there, not the same.
ELSEWHERE, SMALL = 1.0, 0.01  # of the norm, of which 0.36 was seen, and of a number


def recorded(name: str) -> tuple[str, Trajectory]:
    with np.load(path(name), allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    return str(arrays.pop("fingerprint")), arrays


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_trajectory_is_as_it_was(name: str) -> None:
    machine, before = recorded(name)
    if machine == fingerprint():
        now = play(SCENARIOS[name])
        assert now.keys() == before.keys()
        for key, values in before.items():
            np.testing.assert_array_equal(now[key], values, err_msg=key, strict=True)
        return
    now = play(SCENARIOS[name], forced=before["chosen"])
    for key in before.keys() - {"chances"}:
        far, size = np.linalg.norm(now[key] - before[key]), np.linalg.norm(before[key])
        assert far <= ELSEWHERE * size + SMALL * np.sqrt(before[key].size), key
