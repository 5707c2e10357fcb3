"""Rewards that are learned in one call lead to the bits of one call each."""

from __future__ import annotations

import io

import numpy as np
import pytest

from cobandits import Shared
from cobandits.decisions import Decisions
from cobandits.policies.gaussian import COMPILED

Stream = tuple[list[int], np.ndarray, np.ndarray]  # tasks, vectors (n, d), rewards


def stream(kind: str, seed: int, n: int = 450, d: int = 6) -> Stream:
    """Return rewards of tasks that come one by one, and change after two thirds of them."""
    rng = np.random.default_rng(seed)
    tasks = [int(rng.integers(1 + k // 6)) for k in range(n)]
    X, thetas = rng.standard_normal((n, d)), rng.standard_normal((n, d))
    y = np.einsum("nd,nd->n", X, thetas[tasks]) * np.where(np.arange(n) < 2 * n // 3, 1, -9)
    if kind == "clicks":
        return tasks, X, (y > 3).astype(float)
    return tasks, X, y + (0.1 * rng.standard_normal(n) if kind == "numbers" else 0)


def saved(policy: Shared) -> bytes:
    buffer = io.BytesIO()
    policy.save(buffer)
    return buffer.getvalue()


def learned(policy: Shared, rewards: Stream, lengths: np.random.Generator | None) -> list[int]:
    """Let a policy learn in runs of any length that it allows, or one at a time."""
    (tasks, X, y), start, runs = rewards, 0, []
    while start < len(tasks):
        most = min(policy.run_length, len(tasks) - start)
        m = 1 if lengths is None else int(lengths.integers(1, most + 1))
        rows = slice(start, start + m)
        chosen = Decisions(chosen=np.zeros(m, np.int64), probabilities=np.ones(m), policy="a")
        policy.learn(tasks[rows], X[rows, None, :], chosen, y[rows])
        start += m
        runs.append(m)
    return runs


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["numbers", "exact", "clicks"])
def test_runs_have_the_bits_of_one_at_a_time(kind: str, seed: int) -> None:
    rewards = stream(kind, seed)
    one, many = (Shared(dim=6) for _ in range(2))
    learned(one, rewards, None)
    runs = learned(many, rewards, np.random.default_rng(seed))
    assert saved(one) == saved(many)
    assert one.rewards == len(rewards[0])
    if COMPILED and kind != "clicks":
        assert max(runs) > 10  # it is no comparison of the same calls


def test_a_run_ends_before_a_refit() -> None:
    policy = Shared(dim=6)
    assert policy.run_length == 1  # the first reward makes the prior
    tasks, X, y = stream("numbers", 9)
    learned(policy, (tasks[:300], X[:300], y[:300]), np.random.default_rng(0))
    assert not policy.refit_due(policy.run_length) or policy.run_length == 1
