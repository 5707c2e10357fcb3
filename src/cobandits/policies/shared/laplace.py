"""Learn the prior and all posteriors from the rows of a state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from cobandits.errors import DataError
from cobandits.policies.shared import reward_config
from cobandits.policies.shared.empirical_bayes import (
    DecomposedPrior,
    Hyperparameters,
    HyperparameterSelector,
    PriorFit,
    Priors,
    fit_priors,
    is_explained,
    unexplained_share,
)
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.state import State
from cobandits.policies.shared.working_rows import Reweighting, first_prior, linked_coordinates

__all__ = ["Learned", "learn_all", "posteriors_under", "sizes_named"]


class Learned(NamedTuple):
    """What a refit learns."""

    store: RowStore  # rows near the thetas
    selector: HyperparameterSelector
    posteriors: TaskPosteriors
    growth: float  # of the number of rewards until the next refit, as a factor


@contextmanager
def sizes_named() -> Iterator[None]:
    """Say what it means if a matrix cannot be decomposed."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"features or rewards differ too much in size to be learned from ({error}); "
            "scale them to about 1"
        ) from error


def learn_all(state: State) -> Learned:
    """Learn the prior, and all posteriors under it, from the rows of a state.

    Where rewards are not Gaussian, rows are weighted near the thetas that are known, and then again
    near those that follow: Newton's method towards the mode of every posterior, at which the
    posterior is the Laplace approximation.
    """
    likelihood, selector, store = state.likelihood, state.selector, state.store
    best = selector.best(store)
    steps = Reweighting(likelihood, store) if likelihood.weighs else None
    if steps is not None and state.posteriors is not None:
        store = steps.step(state.posteriors)
    error = selector.recent_error if likelihood.noise is None else 0.0
    unexplained = unexplained_share(store, error)
    fit = _fitted(state, store, best, explained=is_explained(unexplained))
    for _ in range(reward_config.ROBUST_FITS if _lacks_weights(state) else 0):
        assert steps is not None
        store = steps.step(posteriors_under(store, selector.following(best, fit), fit))
        fit = _fitted(state, store, best)
    following = selector.following(best, fit)
    growth = fit.growth(best, unexplained=unexplained)
    prior, blocks = _prior_under(following, fit), fit.blocks
    del fit  # its likelihoods take more memory than the rows
    posteriors = TaskPosteriors.of(store, prior, blocks)
    for _ in range(reward_config.LAPLACE_PASSES if steps is not None else 0):
        assert steps is not None
        store = steps.step(posteriors)
        posteriors = TaskPosteriors.of(store, posteriors.prior)
        if likelihood.noise is None or steps.moved < reward_config.LAPLACE_TOLERANCE:
            break
    return Learned(store, following, posteriors, growth)


def _lacks_weights(state: State) -> bool:
    """Tell whether rows will have weights that nothing that was learned so far could say."""
    likelihood = state.likelihood
    return likelihood.weighs and likelihood.noise is None and state.posteriors is None


def posteriors_under(
    store: RowStore, selector: HyperparameterSelector, fit: PriorFit
) -> TaskPosteriors:
    """Return all posteriors under the prior of a fit that a selector selects."""
    return TaskPosteriors.of(store, _prior_under(selector, fit), fit.blocks)


def _prior_under(selector: HyperparameterSelector, fit: PriorFit) -> DecomposedPrior:
    """Return the prior of a fit that a selector selects."""
    return DecomposedPrior.of(selector.scaled(fit.under(selector.hyperparameters)))


def _fitted(
    state: State, store: RowStore, best: Hyperparameters, *, explained: bool = False
) -> PriorFit:
    """Fit the priors to the rows of a store, from where the last fit ended."""
    likelihood, selector = state.likelihood, state.selector
    coordinates, start = linked_coordinates(likelihood, store), selector.start(best)
    if coordinates is not None and start is None:
        start = Priors(*(2 * [first_prior(likelihood, store, coordinates)]))
    return fit_priors(
        store,
        start,
        best,
        least_noise=selector.least_noise,
        noise=likelihood.noise,
        coordinates=coordinates,
        explained=explained,
    )
