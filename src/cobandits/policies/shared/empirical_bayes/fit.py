"""Fit the priors that a refit chooses from to the rows of all tasks."""

from __future__ import annotations

from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config, reward_config
from cobandits.policies.shared.empirical_bayes.factors import (
    Factors,
    NoiseBounds,
    Problem,
    fit_factors,
    fit_isotropic,
)
from cobandits.policies.shared.empirical_bayes.fitted import FittedPrior, PriorFit, Priors
from cobandits.policies.shared.empirical_bayes.hyperparameters import Hyperparameters
from cobandits.policies.shared.empirical_bayes.likelihood import SummedLikelihood
from cobandits.policies.shared.empirical_bayes.prior import Coordinates, Prior, Products
from cobandits.policies.shared.empirical_bayes.rows import (
    BlockRows,
    FitRows,
    Scale,
    busiest_slots,
)
from cobandits.policies.shared.row_store import RowStore

__all__ = [
    "Fit",
    "first_hyperparameters",
    "fit_both",
    "fit_priors",
    "sharing_thetas",
    "start_of",
]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
LikelihoodT = TypeVar("LikelihoodT", bound=SummedLikelihood)


class Fit(NamedTuple, Generic[LikelihoodT]):
    """A prior that was fitted, and the likelihood that it was fitted by."""

    prior: FittedPrior
    likelihood: LikelihoodT


def first_hyperparameters(rows: Products) -> Hyperparameters:
    """Return what to begin with: an offset where rewards have a mean beyond their deviation."""
    products = rows.products()[-2:, -2:]
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
    coordinates: Coordinates | None = None,
    explained: bool = False,
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
        The variance of the noise, where it is known: of rows that are weighted by it. Then none
        of them are taken for outliers.
    coordinates : Coordinates, optional
        In place of those that suit the rows.
    explained : bool
        Whether next to nothing is left of rewards to explain: then fewer tasks are learned from.
    """
    start = start_of(store, start, coordinates)
    coordinates = start.shared.coordinates
    slots = busiest_slots(store, coordinates.dim, explained=explained)
    rows = BlockRows.of(store, slots, coordinates)
    shared, alone = fit_both(rows, start, used, least_noise=least_noise, noise=noise)
    return PriorFit(
        shared=shared.prior,
        alone=alone.prior,
        blocks=rows.blocks,
        likelihoods=(shared.likelihood, alone.likelihood),
    )


def start_of(
    rows: Products, start: Priors | None, coordinates: Coordinates | None = None
) -> Priors:
    """Return the priors that a fit starts from, in coordinates, or in those that suit the rows."""
    coordinates = Coordinates.of(rows) if coordinates is None else coordinates
    start = Priors.vague(rows) if start is None else start.in_coordinates(coordinates)
    moment = _feature_second_moment(rows, coordinates)
    return Priors(*(replace(prior, feature_second_moment=moment) for prior in start))


def fit_both(
    rows: FitRows[LikelihoodT],
    start: Priors,
    used: Hyperparameters,
    *,
    least_noise: float | None = None,
    noise: float | None = None,
) -> tuple[Fit[LikelihoodT], Fit[LikelihoodT]]:
    """Fit the prior that shares, and the one that does not, to rows that may be on shards."""
    all_tasks, before = not used.shared, Factors.of(start.shared.covariance, start.shared.noise)
    if noise is not None:
        known = NoiseBounds(noise, noise)
        alone = _fit_alone(rows, start.alone, known, all_tasks=all_tasks)
        scale = reward_config.PREDICTOR_VARIANCE
        return _fit_shared(rows, start.shared, before, known, scale, clear=used.clear), alone
    rows, size = rows.without_outliers(start.alone.center)
    alone = _fit_alone(rows, start.alone, _noise_bounds(size), all_tasks=all_tasks)
    shared = _fit_sharing(
        rows, start.shared, before, size, least_noise=least_noise, clear=used.clear
    )
    return shared, alone


def _fit_sharing(
    rows: FitRows[LikelihoodT],
    start: Prior,
    before: Factors,
    scale: Scale,
    *,
    least_noise: float | None,
    clear: bool,
) -> Fit[LikelihoodT]:
    """Fit the prior that shares to rows of some size; ``before`` are the factors of its start."""
    bounds, share = _noise_bounds(scale), config.NOISE_SHARE * scale.variance
    share = share if least_noise is None else min(share, least_noise)
    least = max(bounds.least, share * _parameter_share(before, scale.n_rows))
    bounds = bounds._replace(least=least)
    return _fit_shared(rows, start, before, bounds, scale.variance, clear=clear)


def sharing_thetas(
    store: RowStore, start: Priors, *, offset: bool, least_noise: float | None
) -> tuple[Codes, Doubles]:
    """Fit the prior that shares to the rows of a store; return slots, and their thetas under it.

    These are (m,) and (m, d + 1), with intercepts.
    """
    start = start_of(store, start)
    coordinates = start.shared.coordinates
    slots = busiest_slots(store, coordinates.dim)
    rows, scale = BlockRows.of(store, slots, coordinates).without_outliers(start.alone.center)
    before = Factors.of(start.shared.covariance, start.shared.noise)
    fit = _fit_sharing(rows, start.shared, before, scale, least_noise=least_noise, clear=False)
    found = np.concatenate([block.slots for block in rows.blocks])
    return found, fit.prior.thetas(fit.likelihood, offset=offset)


def _noise_bounds(scale: Scale) -> NoiseBounds:
    return NoiseBounds(config.LEAST_NOISE * scale.variance, config.MOST_NOISE * scale.variance)


def _parameter_share(factors: Factors, n_rows: float) -> float:
    """Return how many numbers L has over those that the rows determine well, at most 1.

    The more rows there are for each, the less can L explain their noise.
    """
    p, columns = factors.L.shape
    numbers = (columns + 1) * p  # one column may yet be found
    return float(min(1.0, config.ROWS_PER_NUMBER * numbers / n_rows))


def _fit_shared(
    rows: FitRows[LikelihoodT],
    start: Prior,
    factors: Factors,
    bounds: NoiseBounds,
    scale: float,
    *,
    clear: bool,
) -> Fit[LikelihoodT]:
    """Fit a prior under which thetas share directions; ``factors`` are those of its start.

    If what was isotropic does not suit the new rewards at all, it is mended first. ``clear`` is
    whether the prior with clear directions alone is in use.
    """
    bounds = bounds.resolving(start.covariance)
    factors = replace(factors, noise=bounds.clip(start.noise))
    likelihood = rows.likelihood(factors.rho, start.center)
    information = factors.information(likelihood)
    for _ in range(config.ISOTROPIC_STEPS):
        suited = factors.suited_to(information)
        if abs(np.log(suited.rho / factors.rho)) < config.ISOTROPIC_TOLERANCE:
            break
        factors = suited
        del likelihood  # rows of both would take twice the memory
        likelihood = rows.likelihood(factors.rho, start.center)
        information = factors.information(likelihood)
    columns = min(config.MOST_COLUMNS, len(start.covariance) - 1, information.n_tasks - 1)
    problem = Problem(likelihood, scale, bounds, columns, config.FIT_STEPS)
    found = fit_factors(problem, factors)
    fitted = FittedPrior.of(found, likelihood, start=start, before=factors)
    return Fit(replace(fitted, clear=_clear(fitted, problem, in_use=clear)), likelihood)


def _clear(fitted: FittedPrior, problem: Problem, *, in_use: bool) -> FittedPrior | None:
    """Return the prior with the directions alone that stand out of noise; None if all or none do.

    They are learned again without the others where such a prior is in use.
    """
    likelihood, bounds = problem.likelihood, problem.noise
    clear = fitted.factors.clear(likelihood, bounds, n_tasks=fitted.information.n_tasks)
    if clear.L.shape[1] in (0, fitted.factors.L.shape[1]):
        return None
    if in_use:
        few = problem._replace(most_columns=clear.L.shape[1], steps=config.CLEAR_STEPS)
        clear = fit_factors(few, clear)
    return FittedPrior.of(clear, likelihood, start=fitted.start, before=fitted.before)


def _fit_alone(
    rows: FitRows[LikelihoodT], start: Prior, bounds: NoiseBounds, *, all_tasks: bool
) -> Fit[LikelihoodT]:
    """Fit a prior without a preferred direction, by secants of MacKay's rule."""
    p, some, bounds = len(start.mean), rows.some(), bounds.resolving(start.covariance)
    isotropic = float(np.trace(start.covariance)) / p
    factors = Factors(L=np.zeros((p, 0)), isotropic=isotropic, noise=bounds.clip(start.noise))
    slope, before = -1.0, (0.0, 0.0)
    likelihood = some.likelihood(factors.rho, start.center)
    for step in range(config.ALONE_STEPS):
        found = fit_isotropic(likelihood, factors, noise=bounds)
        found = found.suited_to(found.information(likelihood))
        at, gain = float(np.log(factors.rho)), float(np.log(found.rho / factors.rho))
        if abs(gain) < config.ALONE_TOLERANCE:
            break
        if step and at != before[0]:  # the rule alone is slow where there is little noise
            slope = _slope((at, gain), before)
        most = float(np.log(config.VARIANCE_STEP))
        factor, before = float(np.exp(np.clip(-gain / slope, -most, most))), (at, gain)
        factors = replace(factors, isotropic=factor * factors.rho * found.noise, noise=found.noise)
        likelihood = some.likelihood(factors.rho, start.center)
    if all_tasks:
        likelihood = rows.likelihood(factors.rho, start.center)
    found = fit_isotropic(likelihood, factors, noise=bounds)
    return Fit(FittedPrior.of(found, likelihood, start=start, before=factors), likelihood)


def _slope(here: tuple[float, float], before: tuple[float, float]) -> float:
    """Return the slope of MacKay's rule by the secant of two points with their gains.

    It is -1, as if the rule were right, where gains do not shrink: a long step could lead anywhere.
    """
    (at, gain), (last, last_gain) = here, before
    if abs(gain) > config.SHRINKING * abs(last_gain):
        return -1.0
    return float(np.clip((gain - last_gain) / (at - last), -1.0, -0.05))


def _feature_second_moment(rows: Products, coordinates: Coordinates) -> Doubles:
    """Return the second moment of the features, (p, p).

    Correlations in few rows are mostly chance, so they are shrunken towards 0.
    """
    products = rows.products()[:-1, :-1]
    n, p = float(products[-1, -1]), coordinates.dim
    second = coordinates.matrix.T @ products @ coordinates.matrix / n
    alone: Doubles = np.diag(np.diag(second))
    return np.asarray((n * (second + second.T) / 2 + p * alone) / (n + p))
