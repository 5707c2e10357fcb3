"""What a shared policy holds, as its file and its snapshots say it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.policies import Shared
from cobandits.policies.shared.state import State

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class Saved(NamedTuple):
    """The content of a file: it is all that a policy holds."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def content(path: Path) -> Saved:
    """Return what a file holds."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return Saved(json.loads(arrays.pop("header").tobytes()), arrays)


def write(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a file that holds this."""
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, header=text, **arrays)


def saved(policy: Shared) -> Saved:
    """Return what the file of a policy holds."""
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder, "policy"))
        return content(Path(folder, "policy"))


def assert_holds(policy: Shared, before: Saved) -> None:
    """Compare all that a policy holds with what one held, bit for bit."""
    now = saved(policy)
    assert now.header == before.header
    assert now.arrays.keys() == before.arrays.keys()
    for name, values in before.arrays.items():
        assert now.arrays[name].flags.c_contiguous == values.flags.c_contiguous, name
        np.testing.assert_array_equal(now.arrays[name], values, err_msg=name, strict=True)


def assert_same(one: Shared, other: Shared) -> None:
    """Compare all that two policies hold, bit for bit."""
    assert_holds(one, saved(other))


def thetas(policy: Shared) -> Floats:
    """Return the thetas of tasks 0 to the last that had rewards, with intercepts, (T, d + 1)."""
    arrays, prior = saved(policy).arrays, policy.prior
    assert prior is not None
    tasks = arrays["state.tasks"]
    found = np.tile(prior.theta, (tasks.max() + 1, 1))
    found[tasks] = arrays["posteriors.thetas"]
    return found


def made(chosen: Codes | list[int]) -> Decisions:
    """Return decisions for some arms."""
    return Decisions(chosen=chosen, probabilities=np.ones(len(chosen)), policy="made")


def state_of(policy: Shared) -> State:
    """Return what a refit would begin with: faster than a file."""
    return policy.snapshot([0], np.zeros((1, 1, policy.dim)), made([0]), [0.0]).state


def full_counts(policy: Shared) -> Codes:
    """Return the rewards of each task when its theta was last learned in all directions."""
    state = state_of(policy)
    return state.full_counts[: len(state.tasks)].copy()


def n_dropped(policy: Shared) -> int:
    """Return how many tasks have lost their rows."""
    return len(state_of(policy).store.dropped)
