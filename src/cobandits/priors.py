"""One Gaussian prior for the thetas of all tasks, learned from all of them (empirical Bayes).

With ``theta_t ~ N(0, C)`` and rewards ``y = phi' theta_t + e``, ``e ~ N(0, noise)``, the covariance
``C`` says what tasks have in common. If they share a basis, ``C`` has a few large directions
and next to nothing elsewhere: a new task is then learned as fast as its weights in them. If
they share nothing, ``C`` is a multiple of the identity, and every task is a ridge
regression of its own with the ridge that suits the data. Between the two nothing needs to be
chosen: neither a rank nor a ridge, nor how far a task may leave the subspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import blocks
from cobandits.tasks import TaskStatistics

__all__ = ["Prior", "improved"]

Floats = NDArray[np.floating]

_FIRST_NOISE = 0.1  # share of the rewards' mean square that is noise, to begin with
_LEAST_NOISE = 1e-10  # and at least
_LEAST_SPREAD = 1e-12  # of a direction, as a share of the widest
_ISOTROPIC = 5.0  # tasks that a covariance with no preferred direction counts as


@dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """Where thetas are expected, and how far rewards are from what they predict."""

    covariance: Floats  # (d, d), of thetas, for features in units of their root mean square
    units: Floats  # (d,)
    noise: float  # variance of the noise

    @classmethod
    def vague(cls, tasks: TaskStatistics) -> Prior:
        """Return one with no preferred direction, as wide as the rewards are."""
        square = float(tasks.squares.sum()) / tasks.n_rows
        return cls(
            covariance=np.eye(tasks.dim) * (square or 1.0) / tasks.dim,
            units=_units(tasks),
            noise=_FIRST_NOISE * (square or 1.0),
        )

    @cached_property
    def root(self) -> Floats:
        """``R``, (d, d), such that theta is ``R omega`` with ``omega ~ N(0, I)``."""
        return self._scaled_root / self.units[:, None]

    @cached_property
    def _scaled_root(self) -> Floats:
        values, vectors = np.linalg.eigh(self.covariance)
        spread = np.sqrt(np.maximum(values, _LEAST_SPREAD * values[-1]))
        return np.asarray((vectors * spread) @ vectors.T)

    @cached_property
    def spectrum(self) -> Floats:
        """The variances of the prior's directions, (d,), falling."""
        return np.asarray(np.linalg.eigvalsh(self.covariance)[::-1])

    def precisions(self, grams: Floats) -> Floats:
        """Return the posterior precision of omega in tasks with these ``Phi' Phi``, (m, d, d)."""
        R = self.root
        return np.eye(len(R)) + (R.T @ grams @ R) / self.noise

    def whitened(self, moments: Floats) -> Floats:
        """Return ``R' Phi' y / noise`` of tasks with these ``Phi' y``, (m, d)."""
        return moments @ self.root / self.noise


def improved(tasks: TaskStatistics, prior: Prior | None, *, iterations: int) -> Prior:
    """Return a prior under which the rewards of all tasks are more likely.

    Expectation and maximisation: every task's posterior under the prior, then the covariance
    and the noise that these posteriors suggest. The covariance is drawn towards a multiple of
    the identity, which counts as five tasks: else a few tasks would be explained by
    directions of their own.
    """
    prior = Prior.vague(tasks) if prior is None else _in_units(prior, _units(tasks))
    for _ in range(iterations):
        prior = _step(tasks, prior)
    return prior


def _step(tasks: TaskStatistics, prior: Prior) -> Prior:
    """Do one step of expectation and maximisation."""
    d, T = tasks.dim, tasks.n_tasks
    second = np.zeros((d, d))  # sum of E[omega omega']
    misfit = float(tasks.squares.sum())
    for block in blocks(T, 4 * d * d * 8):
        grams, moments = tasks.grams[block], tasks.moments().T[block]
        C = np.linalg.inv(prior.precisions(grams))  # (block, d, d)
        omega = (C @ prior.whitened(moments)[:, :, None])[..., 0]
        theta = omega @ prior.root.T
        predicted = (grams @ theta[:, :, None])[..., 0]
        second += omega.T @ omega + C.sum(axis=0)
        misfit += float(np.sum(theta * (predicted - 2 * moments)))
        misfit += prior.noise * float(d * len(C) - np.einsum("tii->", C))
    F = prior._scaled_root
    covariance = F @ (second / T) @ F
    width = np.trace(covariance) / d
    square = float(tasks.squares.sum()) / tasks.n_rows
    return Prior(
        covariance=(T * covariance + _ISOTROPIC * width * np.eye(d)) / (T + _ISOTROPIC),
        units=prior.units,
        noise=max(misfit / tasks.n_rows, _LEAST_NOISE * square, np.finfo(float).tiny),
    )


def _units(tasks: TaskStatistics) -> Floats:
    """Return the root mean square of each feature, (d,); 1 for one that is always 0."""
    squares = tasks.mean_squares()
    return np.sqrt(np.where(squares > 0, squares, 1.0))


def _in_units(prior: Prior, units: Floats) -> Prior:
    """Return the same prior for features in other units."""
    ratio = units / prior.units
    covariance = prior.covariance * np.outer(ratio, ratio)
    return Prior(covariance=covariance, units=units, noise=prior.noise)
