"""Tables whose right verdict is known: what tasks have in common is constructed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.tasks import TaskRows

Floats = NDArray[np.floating]

KINDS = ("common", "means", "low rank", "unrelated", "nothing")


def constructed(kind: str, seed: int, *, n_tasks: int, n_rows: int, dim: int = 8) -> TaskRows:
    """Return rows with an intercept, noise of variance 1, and one of five kinds of theta."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    X = rng.standard_normal((n_tasks * n_rows, dim))
    owners = np.repeat(np.arange(n_tasks), n_rows)
    means, slopes = _thetas(kind, rng, n_tasks, dim)
    signal = means[owners] + np.einsum("nd,nd->n", X, slopes[owners])
    rewards = 3 + signal + rng.standard_normal(len(owners))
    return TaskRows.from_arrays(np.column_stack([X, np.ones(len(X))]), rewards, owners)


def _thetas(kind: str, rng: np.random.Generator, n_tasks: int, dim: int) -> tuple[Floats, Floats]:
    """Return the tasks' means, (T,), and slopes, (T, d)."""
    means, slopes = np.zeros(n_tasks), np.zeros((n_tasks, dim))
    if kind != "nothing":
        means = rng.standard_normal(n_tasks)
    if kind == "common":
        slopes[:] = rng.standard_normal(dim) / np.sqrt(dim)
    if kind == "low rank":
        slopes = rng.standard_normal((n_tasks, 2)) @ rng.standard_normal((2, dim)) / np.sqrt(dim)
    if kind == "unrelated":
        slopes = rng.standard_normal((n_tasks, dim)) / np.sqrt(dim)
    return means, slopes
