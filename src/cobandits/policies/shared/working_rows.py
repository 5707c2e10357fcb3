"""Rows for least squares, made of rewards of any likelihood.

Of a Gaussian reward it is ``[phi, 1, y]`` as it comes. Of others it is ``sqrt(w) [phi, 1, z]``,
with a working reward and a weight that depend on the linear predictor (see ``likelihoods``). A row
of one reward has an intercept above 0. Compressed rows, of several rewards, have none above 0: they
stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import turns
from cobandits.linalg import median
from cobandits.policies.shared import reward_config
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    Hyperparameters,
    HyperparameterSelector,
    Prior,
)
from cobandits.policies.shared.likelihoods import LIKELIHOODS, Likelihood, Working, mode
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore

__all__ = [
    "Reweighting",
    "first_prior",
    "first_selector",
    "learn_rewards",
    "linked_coordinates",
    "n_outliers",
    "predict_errors",
    "reinterpreted",
    "robust_weights",
    "suitable",
    "weighted_rows",
]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_MEDIAN_SQUARE = 0.455  # of a standard Gaussian variable


def learn_rewards(
    likelihood: Likelihood, posteriors: TaskPosteriors, tasks: Codes, F: Doubles
) -> tuple[Doubles, Doubles]:
    """Learn rows ``[phi, 1, y]`` one after the other, in place, all or none.

    A reward is made Gaussian at the mode along its arm, under the task's posterior before it.
    Returns squared errors before each row was learned, and the expected ones.
    """
    if not likelihood.weighs:
        return posteriors.learn(tasks, F)
    posteriors.check(F)
    squares, expected = np.empty(len(tasks)), np.empty(len(tasks))
    turn = turns(tasks)
    for n in range(int(turn.max(initial=-1)) + 1):
        some = np.flatnonzero(turn == n)  # each task once
        rows, places = F[some], tasks[some]
        etas, variances = _predicted(posteriors, places, rows)
        squares[some], expected[some] = _errors(
            likelihood, etas, variances, rows[:, -1], posteriors.prior.noise
        )
        y, noise = likelihood.nearest(rows[:, -1]), posteriors.prior.noise
        if likelihood.noise is not None:
            etas = mode(likelihood, etas, variances, y)
        z, w = likelihood.working(etas, y, variances + noise)
        # What is unknown outside of the basis is noise too, which the weight has no part in.
        outside = posteriors.noises[places] - noise
        scaled = (noise + outside) / (noise / w + outside)
        posteriors.learn(places, _weighted(rows, Working(z, scaled)))
    return squares, expected


def predict_errors(
    likelihood: Likelihood, posteriors: TaskPosteriors, tasks: Codes, F: Doubles
) -> tuple[Doubles, Doubles]:
    """Return squared errors of predicting rows ``[phi, 1, y]``, (m,), and the expected ones."""
    if not likelihood.weighs:
        return posteriors.predict_errors(tasks, F)
    etas, variances = _predicted(posteriors, tasks, F)
    return _errors(likelihood, etas, variances, F[:, -1], posteriors.prior.noise)


def _predicted(posteriors: TaskPosteriors, tasks: Codes, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return means and variances of the linear predictors of rows, (m,)."""
    _, expected = posteriors.predict_errors(tasks, F)
    etas = np.einsum("md,md->m", F[:, :-1], posteriors.thetas[tasks])
    return etas, np.maximum(expected - posteriors.prior.noise, reward_config.LEAST_RESOLVED)


def _errors(
    likelihood: Likelihood, etas: Doubles, variances: Doubles, rewards: Doubles, noise: float
) -> tuple[Doubles, Doubles]:
    """Return squared errors, (m,), and the expected ones, to first order in the variances."""
    if likelihood.noise is None:
        return (rewards - etas) ** 2, variances + noise
    means = likelihood.mean(etas)
    slopes = likelihood.slope(means)
    expected = np.maximum(slopes + slopes**2 * variances, np.finfo(float).tiny)
    return (rewards - means) ** 2, expected


def weighted_rows(
    likelihood: Likelihood, posteriors: TaskPosteriors | None, tasks: Codes, F: Doubles
) -> Doubles:
    """Return rows ``[phi, 1, y]`` as they are stored, weighted by what is known of tasks."""
    if not likelihood.weighs or (posteriors is None and likelihood.noise is None):
        return F
    y = F[:, -1]
    if posteriors is None:
        etas: Doubles = np.full(len(F), likelihood.link(_typical(y)))
        return _weighted(F, likelihood.working(etas, y))
    etas, variances = _predicted(posteriors, tasks, F)
    return _weighted(F, likelihood.working(etas, y, variances + posteriors.prior.noise))


class Reweighting:
    """Rows of single rewards of a store, weighted again by posteriors, step by step.

    Linear predictors move by a limited step: Newton's method alone can overshoot, and diverge.
    """

    def __init__(self, likelihood: Likelihood, store: RowStore) -> None:
        self.likelihood, self.store = likelihood, store
        owners, F = store.flat
        self._single = np.flatnonzero(F[:, -2] > 0)
        self._rows, working = _single(F[self._single])
        self._rows[:, -1] = likelihood.recovered(working)
        self._tasks = store.tasks[owners[self._single]]
        self._etas: Doubles | None = None
        self.moved = np.inf  # largest step of a linear predictor last time

    def step(self, posteriors: TaskPosteriors) -> RowStore:
        """Return the store with rows weighted by posteriors."""
        if self.likelihood.noise is None:
            return self._with(robust_weights(posteriors, self._tasks, self._rows))
        etas = np.einsum("md,md->m", self._rows[:, :-1], posteriors.thetas[self._tasks])
        if self._etas is not None:
            steps = np.clip(
                etas - self._etas, -reward_config.PREDICTOR_STEP, reward_config.PREDICTOR_STEP
            )
            etas, self.moved = self._etas + steps, float(np.abs(steps).max(initial=0))
        self._etas = etas
        return self._with(self.likelihood.working(etas, self._rows[:, -1]))

    def _with(self, working: Working) -> RowStore:
        owners, F = self.store.flat
        found = F.copy()
        found[self._single] = _weighted(self._rows, working)
        return replace(self.store, row_buffer=found, owner_buffer=owners)


def robust_weights(posteriors: TaskPosteriors, tasks: Codes, F: Doubles) -> Working:
    """Return weights of rows ``[phi, 1, y]`` that posteriors have learned from.

    A row is weighted by the error that it would have if it had not been learned from, and by the
    noise of its task: the mean of squared errors, and a few more that are as expected of all tasks.
    """
    etas, variances = _predicted(posteriors, tasks, F)
    noise, y = posteriors.prior.noise, F[:, -1]
    if not len(y):
        return Working(y, y)
    left = np.maximum(1 - variances / noise, reward_config.LEAST_LEFT)  # 1 - leverage
    squares = (y - etas) ** 2 / (noise * left)
    noise *= max(1.0, float(np.median(squares)) / _MEDIAN_SQUARE)  # where it is taken for too small
    squares = np.minimum((y - etas) ** 2 / (noise * left), reward_config.OUTLIER_SIZE**2)
    prior, n = reward_config.NOISE_PSEUDO_ROWS, np.bincount(tasks)
    ratios = (prior + np.bincount(tasks, squares)) / (prior + n)
    spread = noise * np.maximum(ratios, reward_config.LEAST_NOISE_RATIO)[tasks]
    weights = LIKELIHOODS["robust"].working(etas, y, spread * left).weights
    return Working(y, weights * noise / spread)


def reinterpreted(before: Likelihood, after: Likelihood, store: RowStore) -> RowStore:
    """Return the store with its rows as they would be under another likelihood.

    Rewards are recovered. Compressed rows are those of rewards near the mean of all: there both
    likelihoods are straight lines.
    """
    owners, F = store.flat
    found, one = F.copy(), F[:, -2] > 0
    rows, working = _single(F[one])
    rows[:, -1] = before.recovered(working)
    center = _typical(rows[:, -1], *_compressed_mean(before, F[~one]))
    old, new = before.link(center), after.link(center)
    found[one] = _weighted(rows, after.working(np.full(len(rows), new), rows[:, -1]))
    slope, slope_then = (float(x.slope(np.array([center]))[0]) for x in (after, before))
    residuals = (F[~one, -1] - old * F[~one, -2]) * slope_then  # in units of rewards
    found[~one, -1] = new * F[~one, -2] + residuals / slope
    found[~one] *= np.sqrt(slope / slope_then)
    return replace(store, row_buffer=found, owner_buffer=owners)


def _typical(rewards: Doubles, mean: float = 0.0, n: float = 0.0) -> float:
    """Return the mean of whole rewards, (m,), n more with a ``mean``, and half of another one."""
    return float((rewards.sum() + mean * n + 0.5) / (len(rewards) + n + 1))


def _compressed_mean(likelihood: Likelihood, F: Doubles) -> tuple[float, float]:
    """Return the mean reward of compressed rows, and of how many rewards they are."""
    n, total = F[:, -2] @ F[:, -2:]
    if not n > 0:
        return 0.0, 0.0
    mean = likelihood.mean(np.array([total / n]))
    return float(mean[0]), float(n / likelihood.slope(mean)[0])


def _single(F: Doubles) -> tuple[Doubles, Working]:
    """Return rows of single rewards without their weights, and working rewards with weights."""
    rows = F / F[:, -2:-1]
    return rows, Working(rows[:, -1].copy(), F[:, -2] ** 2)


def _weighted(F: Doubles, working: Working) -> Doubles:
    """Return rows ``sqrt(w) [phi, 1, z]`` of rows ``[phi, 1, y]``."""
    rows = F.copy()
    rows[:, -1] = working.rewards
    rows *= np.sqrt(working.weights)[:, None]
    return rows


def first_selector(likelihood: Likelihood) -> HyperparameterSelector:
    """Return the selector before the first refit."""
    if likelihood.noise is None:
        return HyperparameterSelector()
    known = Hyperparameters(offset=True, noise=likelihood.noise)
    return HyperparameterSelector(hyperparameters=known)


def linked_coordinates(likelihood: Likelihood, store: RowStore) -> Coordinates | None:
    """Return coordinates in which a feature that is seldom other than 0 is no larger for it.

    A log-odds has no scale that rewards could show, so the prior of a feature must not be wide
    only because it is rare. None where rewards are Gaussian.
    """
    if likelihood.noise is None:
        return None
    coordinates, (_, F) = Coordinates.of(store), store.flat
    n = (F[:, -2] ** 2).sum()
    shares = (F[:, -2] ** 2) @ (F[:, :-2] != 0) / n  # (d,), of rows
    if coordinates.dim < len(coordinates.matrix):  # principal directions
        return coordinates
    scales = np.append(np.sqrt(np.clip(shares, 1 / n, 1)), 1.0)
    return Coordinates(matrix=coordinates.matrix * scales)


def first_prior(likelihood: Likelihood, store: RowStore, coordinates: Coordinates) -> Prior:
    """Return the prior to begin with: each coordinate and the offset of the mean."""
    assert likelihood.noise is not None
    (n, total), p = store.products()[-2, -2:], coordinates.dim
    return Prior(
        coordinates=coordinates,
        covariance=np.eye(p) * reward_config.PREDICTOR_VARIANCE / p,
        mean=np.zeros(p),
        offset=float(total / n),
        noise=likelihood.noise,
        feature_second_moment=np.eye(p),
    )


def suitable(store: RowStore, lowest: float, highest: float) -> Likelihood:
    """Return the likelihood that whole rewards suggest, from rows ``[phi, 1, y]``.

    0 and 1 are clicks if few of them are 1: at higher rates Gaussian posteriors are nearly right,
    and safer with few rewards per task. Other whole numbers from 0 on are counts if they vary about
    as much as counts do: ratings and grades vary less.
    """
    (n, total), (_, squares) = store.reward_products()
    if n < reward_config.FEWEST_TO_TELL or lowest != 0 or highest < 1:
        return LIKELIHOODS["gaussian"]
    mean = total / n
    if highest == 1:
        return LIKELIHOODS["binary" if mean <= reward_config.HIGHEST_CLICK_RATE else "gaussian"]
    counts = squares / n - mean**2 >= reward_config.LEAST_DISPERSION * mean
    return LIKELIHOODS["count" if counts else "gaussian"]


def n_outliers(squares: Doubles, expected: Doubles, rewards: Doubles) -> int:
    """Return how many errors are far beyond what their median tells, and the rewards' own spread.

    While tasks are learned, errors differ by task and arm as if they had tails, but no more than
    rewards do. If most of these differ by less than predictions err, none is an outlier.

    ``squares``, ``expected`` and ``rewards``, (m,), are of the same predictions.
    """
    if len(squares) < reward_config.FEWEST_OUTLIERS:
        return 0
    ratios = squares / expected
    usual = median(ratios) / _MEDIAN_SQUARE
    spread = median((rewards - median(rewards)) ** 2) / _MEDIAN_SQUARE
    if median(squares) > spread * _MEDIAN_SQUARE:
        return 0
    far = (ratios > reward_config.OUTLIER_RATIO_SQUARED * usual) & (squares > spread)
    return int(np.count_nonzero(far))
