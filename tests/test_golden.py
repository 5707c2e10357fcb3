"""Nothing that the shared policy decides or learns has changed since it was recorded."""

from __future__ import annotations

import numpy as np
import pytest

from tests.golden import SCENARIOS, Trajectory, fingerprint, path, play

# On another machine sums are rounded otherwise, and expectation and maximisation carries that on.
ELSEWHERE = 1e-6  # 7e-9 was the most that was seen, over six BLAS kernels and without the extension


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
        np.testing.assert_allclose(
            now[key], before[key], rtol=ELSEWHERE, atol=ELSEWHERE, err_msg=key
        )
