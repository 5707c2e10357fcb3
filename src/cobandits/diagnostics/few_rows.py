"""What tasks share where each has fewer rows than features: a Gaussian prior, by EM.

A basis cannot be told from noise by least squares there, since weights take up most of the rows. A
prior ``theta_t ~ N(m, C)``, with thetas integrated out, can: each of its entries is estimated from
all tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate, Status
from cobandits.estimators.lowrank import LowRank
from cobandits.linalg import factor
from cobandits.tasks import TaskRows, TaskStatistics
from cobandits.tasks.held import HeldTasks

__all__ = ["has_few_rows", "shared_fit"]

Floats = NDArray[np.floating]

_TASKS_PER_FEATURE = 5  # fewer do not tell a covariance
_WORK = 1e7  # T d^3, the most that a step of EM may cost
_STEPS = 100  # of EM; predictions no longer change by then
_SETTLED = 1e-5  # relative change of the noise variance in a step
_LEAST = 1e-8  # variance of theta, for features of mean square 1 and noise of variance 1


class _Sums(NamedTuple):
    """Sufficient statistics, for features of mean square 1."""

    grams: Floats  # (T, d, d)
    moments: Floats  # (T, d)
    squares: Floats  # (T,)
    n_rows: int


class _Prior(NamedTuple):
    mean: Floats  # (d,)
    covariance: Floats  # (d, d)
    noise: float  # variance


def has_few_rows(tasks: HeldTasks) -> bool:
    """Return whether tasks have fewer rows than features, and are enough to tell a prior."""
    d, T = tasks.dim, tasks.n_tasks
    return d * _TASKS_PER_FEATURE <= T <= _WORK / d**3 and tasks.n_rows < d * T


def shared_fit(tasks: HeldTasks, estimator: LowRank, rng: int = 0) -> Estimate:
    """Fit what tasks share: a basis, or a prior where rows are few and nothing else is asked for.

    >>> from cobandits.environments import Synthetic
    >>> tasks = Synthetic(dim=3, n_tasks=40, rank=1, noise_std=0.1).problem(n_rows=2, seed=1).tasks
    >>> shared_fit(tasks, LowRank(ridge="auto")).estimator
    'a prior by EM'
    """
    given = estimator.rank != "auto" or estimator.ridge != "auto"
    if given or not (isinstance(tasks, TaskRows) and has_few_rows(tasks)):
        return estimator.fit(tasks, rng=rng)
    squares = tasks.mean_squares()
    units = np.sqrt(np.where(squares > 0, squares, 1.0))
    Theta, steps = _posterior_means(_sums(tasks, units))
    B, W = factor(Theta / units[:, None])
    return Estimate(
        basis=B,
        weights=W,
        labels=tasks.labels,
        status=Status(outcome="converged", message="EM settled", iterations=steps),
        estimator="a prior by EM",
        feature_names=tasks.feature_names,
    )


def _sums(tasks: TaskRows, units: Floats) -> _Sums:
    sums = TaskStatistics.of(tasks).sums
    return _Sums(
        grams=sums["grams"] / np.outer(units, units),
        moments=sums["moments"] / units,
        squares=sums["squares"],
        n_rows=tasks.n_rows,
    )


def _posterior_means(sums: _Sums) -> tuple[Floats, int]:
    """Return each task's theta given the most likely prior, (d, T), and the steps of EM."""
    d = sums.moments.shape[1]
    noise = float(sums.squares.sum()) / sums.n_rows
    prior = _Prior(np.zeros(d), np.eye(d) * noise / d, noise)
    steps, change = 0, np.inf
    while steps < _STEPS and change > _SETTLED:
        before, prior = prior.noise, _m_step(sums, *_e_step(sums, prior))
        steps, change = steps + 1, abs(prior.noise / before - 1)
    return _e_step(sums, prior)[0].T, steps


def _e_step(sums: _Sums, prior: _Prior) -> tuple[Floats, Floats]:
    """Return the posteriors of all tasks: means, (T, d), and covariances, (T, d, d)."""
    precision = np.linalg.inv(prior.covariance)
    covariances = np.linalg.inv(precision + sums.grams / prior.noise)
    known = sums.moments / prior.noise + precision @ prior.mean
    return np.einsum("tij,tj->ti", covariances, known), covariances


def _m_step(sums: _Sums, thetas: Floats, covariances: Floats) -> _Prior:
    """Return the prior and the noise that are most likely given the posteriors."""
    mean = thetas.mean(axis=0)
    apart = thetas - mean
    left = sums.squares.sum() - 2 * np.einsum("ti,ti->", sums.moments, thetas)
    left += np.einsum("ti,tij,tj->", thetas, sums.grams, thetas, optimize=True)
    left += np.einsum("tij,tji->", sums.grams, covariances)
    noise = max(float(left) / sums.n_rows, np.finfo(np.float64).tiny)
    covariance = (apart.T @ apart + covariances.sum(axis=0)) / len(thetas)
    return _Prior(mean, covariance + _LEAST * noise * np.eye(len(mean)), noise)
