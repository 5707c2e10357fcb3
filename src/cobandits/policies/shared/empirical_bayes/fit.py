"""Fit the priors that a refit chooses from to the rows of all tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock, task_blocks
from cobandits.policies.shared.empirical_bayes.factors import (
    Factors,
    NoiseBounds,
    Problem,
    fit_factors,
    fit_isotropic,
)
from cobandits.policies.shared.empirical_bayes.fitted import (
    FittedPrior,
    Hyperparameters,
    PriorFit,
    Priors,
)
from cobandits.policies.shared.empirical_bayes.prior import Coordinates, Prior
from cobandits.policies.shared.row_store import RowStore

__all__ = ["busiest_slots", "first_hyperparameters", "fit_priors"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


def first_hyperparameters(store: RowStore) -> Hyperparameters:
    """Return what to begin with: an offset where rewards have a mean beyond their deviation."""
    products = store.products()[-2:, -2:]
    n, mean, square = (
        products[0, 0],
        products[0, 1] / products[0, 0],
        products[1, 1] / products[0, 0],
    )
    return Hyperparameters(offset=bool(n >= config.OFFSET_REWARDS and 2 * mean**2 > square))


def fit_priors(
    store: RowStore,
    start: Priors | None,
    used: Hyperparameters,
    *,
    least_noise: float | None = None,
    noise: float | None = None,
) -> PriorFit:
    """Fit both priors to the rows of all tasks, from ``start`` or from vague priors on.

    The mean stays as it was while the covariance is fitted, and follows from it then; so does the
    isotropic variance. The next fit goes on from there.

    Parameters
    ----------
    used : Hyperparameters
        Those to use. A prior that is a candidate alone is learned from some of the tasks.
    least_noise : float, optional
        Bound of the noise's variance while directions that tasks share are learned.
    noise : float, optional
        The variance of the noise, where it is known.
    """
    coordinates = Coordinates.of(store)
    start = Priors.vague(store) if start is None else start.in_coordinates(coordinates)
    moment = _feature_second_moment(store, coordinates)
    start = Priors(*(replace(prior, feature_second_moment=moment) for prior in start))
    slots = busiest_slots(store, coordinates.dim)
    blocks = list(task_blocks(store, slots, coordinates))
    weighted, scale = _without_outliers(blocks, start.alone.center)
    least = config.LEAST_NOISE * scale
    bounds = NoiseBounds(least, config.MOST_NOISE * scale)
    bounds = bounds if noise is None else NoiseBounds(noise, noise)
    alone = _fit_alone(weighted, start.alone, bounds, all_tasks=not used.shared)
    if noise is None:
        share = config.NOISE_SHARE * scale if least_noise is None else least_noise
        share = min(share, config.NOISE_SHARE * scale) * _parameter_share(start.shared, weighted)
        bounds = bounds._replace(least=max(least, share))
    shared = _fit_shared(weighted, start.shared, bounds, scale)
    return PriorFit(blocks=blocks, shared=shared, alone=alone)


def _parameter_share(prior: Prior, blocks: list[TaskBlock]) -> float:
    """Return how many numbers L has over the number of rows, at most 1.

    The more rows there are for each, the less can L explain their noise.
    """
    rows = sum(float((block.features[..., -1] ** 2).sum()) for block in blocks)
    columns = Factors.of(prior.covariance, prior.noise).L.shape[1] + 1  # and one to be found
    return float(min(1.0, columns * len(prior.mean) / rows))


def _fit_shared(
    blocks: list[TaskBlock], start: Prior, bounds: NoiseBounds, scale: float
) -> FittedPrior:
    """Fit a prior under which thetas share directions.

    If what was isotropic does not suit the new rewards at all, it is mended first.
    """
    bounds = bounds.resolving(start.covariance)
    factors = Factors.of(start.covariance, bounds.clip(start.noise))
    likelihood = factors.likelihood(blocks, start.center)
    information = factors.information(likelihood)
    for _ in range(config.ISOTROPIC_STEPS):
        suited = factors.suited_to(information)
        if abs(np.log(suited.rho / factors.rho)) < config.ISOTROPIC_TOLERANCE:
            break
        factors, likelihood = suited, suited.likelihood(blocks, start.center)
        information = factors.information(likelihood)
    columns = min(config.MOST_COLUMNS, len(start.covariance) - 1, len(information.pulls) - 1)
    found = fit_factors(Problem(likelihood, information, scale, bounds, columns), factors)
    return FittedPrior(factors=found, likelihood=likelihood, start=start, before=factors)


def _fit_alone(
    blocks: list[TaskBlock], start: Prior, bounds: NoiseBounds, *, all_tasks: bool
) -> FittedPrior:
    """Fit a prior without a preferred direction, by secants of MacKay's rule."""
    p, some, bounds = len(start.mean), _some(blocks), bounds.resolving(start.covariance)
    isotropic = float(np.trace(start.covariance)) / p
    factors = Factors(L=np.zeros((p, 0)), isotropic=isotropic, noise=bounds.clip(start.noise))
    slope, before = -1.0, (0.0, 0.0)
    for step in range(config.ALONE_STEPS):
        found = _alone_step(some, start, factors, bounds).scaled_factors
        at, gain = float(np.log(factors.rho)), float(np.log(found.rho / factors.rho))
        if abs(gain) < config.ALONE_TOLERANCE:
            break
        if step and at != before[0]:  # the rule alone is slow where there is little noise
            slope = float(np.clip((gain - before[1]) / (at - before[0]), -1.0, -0.05))
        most = float(np.log(config.VARIANCE_STEP))
        factor, before = float(np.exp(np.clip(-gain / slope, -most, most))), (at, gain)
        factors = replace(factors, isotropic=factor * factors.rho * found.noise, noise=found.noise)
    return _alone_step(blocks if all_tasks else some, start, factors, bounds)


def _some(blocks: list[TaskBlock]) -> list[TaskBlock]:
    """Return the first tasks, so many that their rows have few numbers."""
    found, left = [], config.ALONE_NUMBERS
    for block in blocks:
        tasks = max(1, int(left / block.features[0].size))
        slots, Z, y = block
        found.append(TaskBlock(slots[:tasks], Z[:tasks], y[:tasks]))
        left -= found[-1].features.size
        if left <= 0:
            break
    return found


def _alone_step(
    blocks: list[TaskBlock], start: Prior, factors: Factors, bounds: NoiseBounds
) -> FittedPrior:
    likelihood = factors.likelihood(blocks, start.center)
    found = fit_isotropic(likelihood, factors, noise=bounds)
    return FittedPrior(factors=found, likelihood=likelihood, start=start, before=factors)


def _feature_second_moment(store: RowStore, coordinates: Coordinates) -> Doubles:
    """Return the second moment of the features, (p, p).

    Correlations in few rows are mostly chance, so they are shrunken towards 0.
    """
    products = store.products()[:-1, :-1]
    n, p = float(products[-1, -1]), coordinates.dim
    second = coordinates.matrix.T @ products @ coordinates.matrix / n
    alone: Doubles = np.diag(np.diag(second))
    return np.asarray((n * (second + second.T) / 2 + p * alone) / (n + p))


def _without_outliers(blocks: list[TaskBlock], center: Doubles) -> tuple[list[TaskBlock], float]:
    """Return blocks in which tasks with outliers have less weight, and the variance of rewards."""
    residuals = [block.rewards - block.features @ center for block in blocks]
    squares = np.concatenate([np.einsum("bn,bn->b", r, r) for r in residuals])
    ones = (block.features[..., -1] for block in blocks)
    counts = np.concatenate([np.einsum("bn,bn->b", one, one) for one in ones])
    most = config.OUTLIER_RATIO * float(np.median(squares / counts))
    level = float(sum((block.rewards**2).sum() for block in blocks)) / float(counts.sum())
    least = config.CONSTANT_VARIANCE * level or 1.0  # less is rounding
    if most <= least or (squares <= most * counts).all():
        return blocks, max(least, float(squares.sum() / counts.sum()))
    roots = np.sqrt(np.minimum(1.0, most * counts / np.maximum(squares, most * counts)))
    parts = np.split(roots, np.cumsum([len(block.slots) for block in blocks])[:-1])
    lighter = [
        TaskBlock(slots, Z * root[:, None, None], y * root[:, None])
        for (slots, Z, y), root in zip(blocks, parts, strict=True)
    ]
    weights = roots**2
    return lighter, float(weights @ squares) / float(weights @ counts)


def busiest_slots(store: RowStore, dim: int) -> Codes:
    """Return the slots with most rows, as many as there is time to learn a prior from."""
    slots = np.argsort(-store.sizes, kind="stable")
    slots = slots[store.sizes[slots] > 0]
    numbers = np.cumsum(np.minimum(store.sizes[slots], dim + 1)) * dim
    return slots[: max(1, int(np.searchsorted(numbers, config.FIT_NUMBERS)))]
