"""A covariance of low rank plus isotropic, fitted to the rewards of all tasks.

L has no fixed rank. It has a Gaussian prior, whose penalty is one on the trace of ``L L'``, so
columns that few rewards speak for stay at 0. A column is added where the gradient of the
likelihood at 0 exceeds the penalty, along the eigenvectors of that gradient; so a fit has as many
columns as the rewards ask for, up to ``MOST_COLUMNS``.

L has far more numbers than there are rewards at first, so the largest posterior density would
explain every reward and find no noise. The noise is therefore bounded from below by a share of the
errors with which rewards were predicted before they were learned (:class:`NoiseBounds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.descent import Bounds, descend
from cobandits.policies.shared.empirical_bayes.likelihood import (
    Information,
    MarginalLikelihood,
    SummedLikelihood,
)

__all__ = [
    "Factors",
    "NoiseBounds",
    "Problem",
    "column_precision",
    "fit_factors",
    "fit_isotropic",
]

Doubles = NDArray[np.float64]


class NoiseBounds(NamedTuple):
    """The least and the largest variance of the noise; both are the same where it is known."""

    least: float
    most: float = np.inf

    def resolving(self, covariance: Doubles) -> NoiseBounds:
        """Return bounds such that rows can be factorised, unless the noise is known."""
        least = max(self.least, config.LEAST_RESOLVED * float(np.trace(covariance)))
        return self if self.least == self.most else NoiseBounds(least, max(self.most, least))

    def clip(self, noise: float) -> float:
        """Return the nearest variance within the bounds."""
        return float(min(max(noise, self.least), self.most))


@dataclass(frozen=True, kw_only=True, eq=False)
class Factors:
    """``C = L L' + tau^2 I``, and the noise."""

    L: Doubles  # (p, q)
    isotropic: float  # tau^2
    noise: float

    @classmethod
    def of(cls, covariance: Doubles, noise: float) -> Factors:
        """Return a covariance of low rank plus isotropic, without columns that are negligible."""
        values, vectors = np.linalg.eigh(covariance)
        p = len(values)
        q = min(config.MOST_COLUMNS, p - 1)
        rest = max(float(values[: p - q].mean()), config.NARROWEST_VARIANCE * float(values[-1]))
        wide = values - rest > config.LEAST_COLUMN * values[-1]
        wide[: p - q] = False
        L = vectors[:, wide] * np.sqrt(values[wide] - rest)
        return cls(L=L, isotropic=rest, noise=noise)

    @cached_property
    def covariance(self) -> Doubles:
        """C, (p, p), exactly symmetric."""
        C = self.L @ self.L.T
        C = (C + C.T) / 2
        C.flat[:: len(C) + 1] += self.isotropic
        return np.asarray(C)

    @property
    def n_columns(self) -> int:
        """How many columns L has, without those that are negligible."""
        widths = np.linalg.svd(self.L, compute_uv=False) ** 2
        return int((widths > config.LEAST_COLUMN * widths.max(initial=0.0)).sum())

    @property
    def rho(self) -> float:
        """The isotropic variance over that of the noise."""
        return self.isotropic / self.noise

    def information(self, likelihood: SummedLikelihood) -> Information:
        """Return what rewards say about thetas."""
        return likelihood.information(self.L, float(np.log(self.noise)))

    def total(self, likelihood: SummedLikelihood) -> Doubles:
        """Return the sum of the information of all tasks, times the noise, (p, p)."""
        return likelihood.total(self.L, float(np.log(self.noise)))

    def score(self, likelihood: SummedLikelihood) -> Doubles:
        """Return the gradient of twice the log-likelihood in the covariance, (p, p)."""
        products = self.information(likelihood).pull_products
        return np.asarray((products / self.noise - self.total(likelihood)) / self.noise)

    def thetas(self, likelihood: MarginalLikelihood, center: Doubles) -> Doubles:
        """Return the posterior means of thetas with this center in the coordinates, (T, p)."""
        pulls = likelihood.pulls(self.L, float(np.log(self.noise)), center)
        return np.asarray(pulls @ self.covariance / self.noise + center)

    def clear(self, likelihood: SummedLikelihood, bounds: NoiseBounds, *, n_tasks: int) -> Factors:
        """Return the factors with as many of the widest columns as rewards speak for.

        So many that the log-likelihood, with the noise that suits it, is largest when each column
        is charged what the widest direction that noise alone makes would gain. Where T tasks share
        nothing, the sample variance of that one of p directions exceeds what is expected by the
        share ``x = 2 sqrt(p / T) + p / T`` (Marchenko and Pastur), which gains ``T (x - log(1 + x))
        / 2``: about 0.7 to 1 for each of its p numbers where p is at most 4 T. Akaike asks for 1.
        """
        U, roots, _ = np.linalg.svd(self.L, full_matrices=False)
        noises = np.unique([bounds.clip(self.noise * factor) for factor in config.CLEAR_NOISES])
        costs = likelihood.nested(U * roots, np.log(noises))  # (noise, columns)
        x = 2 * np.sqrt(len(U) / n_tasks) + len(U) / n_tasks
        gain = config.CLEAR_GAIN * n_tasks * (x - np.log1p(x)) / 2
        costs += gain * np.arange(costs.shape[1])
        i, k = np.unravel_index(int(costs.argmin()), costs.shape)
        noise = float(noises[i])
        return Factors(L=U[:, :k] * roots[:k], isotropic=self.rho * noise, noise=noise)

    def suited_to(self, information: Information) -> Factors:
        """Return the isotropic variance that rewards suggest, by MacKay's rule.

        Before any reward, what L leaves of ``SIGNAL_RATIO`` is expected of it. It is at most
        ``VARIANCE_STEP`` times as large or small.
        However few tasks leave the shared directions, the next one may: the isotropic part has a
        least share of all variance, as if ``OWN_PSEUDO_TASKS`` more tasks had no directions.
        """
        p, step, pseudo = len(self.L), config.VARIANCE_STEP, config.OWN_PSEUDO_TASKS
        n_tasks = information.n_tasks
        expected = max(0.0, config.SIGNAL_RATIO - float((self.L**2).sum()) / self.noise) / p
        factor = information.isotropic_ratio(self.noise, self.rho, expected)
        least = pseudo / (n_tasks + pseudo) * float((self.L**2).sum()) / p
        changed = self.isotropic * float(np.clip(factor, 1 / step, step))
        return replace(self, isotropic=max(changed, least, config.LEAST_RHO * self.noise))


class Problem(NamedTuple):
    """What factors are fitted to."""

    likelihood: SummedLikelihood
    scale: float  # variance of the rewards
    noise: NoiseBounds
    most_columns: int
    steps: int  # of L-BFGS


def column_precision(p: int, scale: float) -> float:
    """Return the precision of each number of L, of p coordinates and rewards of a variance."""
    return config.COLUMN_PRECISION * p / scale


def fit_factors(problem: Problem, start: Factors) -> Factors:
    """Maximise the posterior density of L and the noise from ``start`` on, by L-BFGS.

    ``rho`` stays: the isotropic variance goes with the noise.
    """
    likelihood, scale, noise = problem.likelihood, problem.scale, problem.noise
    rho, p = start.rho, len(start.L)
    precision = column_precision(p, scale)
    L = _with_columns(problem, start, precision)
    if not L.shape[1]:
        return fit_isotropic(likelihood, start, noise=noise)
    unit, shape = np.sqrt(scale / p), L.shape

    def objective(numbers: Doubles) -> tuple[float, Doubles]:
        L, log_noise = numbers[:-1].reshape(shape) * unit, float(numbers[-1])
        try:
            value, gradient, in_noise = likelihood.value(L, log_noise)
        except np.linalg.LinAlgError:  # a step too long to be factorised: a shorter one is tried
            return np.inf, np.zeros_like(numbers)
        value += 0.5 * precision * float((L**2).sum())
        gradient = (gradient + precision * L) * unit
        return value, np.append(gradient.ravel(), in_noise)

    found = descend(
        objective,
        np.append(L.ravel() / unit, np.log(start.noise)),
        Bounds(float(np.log(noise.least)), float(np.log(noise.most))),
        steps=problem.steps,
        tolerance=config.FIT_TOLERANCE,
    )
    variance = float(np.exp(found[-1]))
    return Factors(L=found[:-1].reshape(shape) * unit, isotropic=rho * variance, noise=variance)


def fit_isotropic(likelihood: SummedLikelihood, start: Factors, *, noise: NoiseBounds) -> Factors:
    """Return a covariance without a preferred direction, and the noise that suits it."""
    variance = noise.clip(likelihood.squares() / likelihood.n_rows)
    L = np.zeros((len(start.L), 0))
    return Factors(L=L, isotropic=start.rho * variance, noise=variance)


def _with_columns(problem: Problem, start: Factors, precision: float) -> Doubles:
    """Return L with columns added where the likelihood asks for them more than the prior allows."""
    most = problem.most_columns
    L = start.L[:, max(0, start.L.shape[1] - most) :]
    new = most - L.shape[1]
    if not new:
        return L
    values, vectors = np.linalg.eigh(start.score(problem.likelihood))
    asked = np.flatnonzero(values > precision)[-new:]
    size = np.sqrt(config.NEW_COLUMN * problem.scale / len(L))
    return np.hstack([L, size * vectors[:, asked]])
