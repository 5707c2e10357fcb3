"""Learn the prior and all posteriors from the rows of a state."""

from __future__ import annotations

from typing import NamedTuple

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import (
    DecomposedPrior,
    HyperparameterSelector,
    fit_em,
)
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.state import State
from cobandits.policies.shared.working_rows import Reweighting, first_prior, linked_coordinates

__all__ = ["Learned", "learn_all"]


class Learned(NamedTuple):
    """What a refit learns."""

    store: RowStore  # rows near the thetas
    selector: HyperparameterSelector
    posteriors: TaskPosteriors


def learn_all(state: State, store: RowStore) -> Learned:
    """Learn the prior, and all posteriors under it, from the rows of a store.

    Where rewards are not Gaussian, rows are weighted near the thetas that are known, and then again
    near those that follow: Newton's method towards the mode of every posterior, at which the
    posterior is the Laplace approximation.
    """
    likelihood, selector, best = state.likelihood, state.selector, state.selector.best()
    steps = Reweighting(likelihood, store) if likelihood.weighs else None
    if steps is not None and state.posteriors is not None:
        store = steps.step(state.posteriors)
    coordinates, start = linked_coordinates(likelihood, store), selector.prior
    if coordinates is not None and start is None:
        start = first_prior(likelihood, store, coordinates)
    fit = fit_em(store, start, best, coordinates)
    prior = DecomposedPrior.of(fit.under(best))
    posteriors = TaskPosteriors.of(store, prior)
    for _ in range(config.LAPLACE_PASSES if steps is not None else 0):
        assert steps is not None
        store = steps.step(posteriors)
        posteriors = TaskPosteriors.of(store, prior)
        if likelihood.noise is None or steps.moved < config.LAPLACE_TOLERANCE:
            break
    return Learned(store, selector.following(best, fit), posteriors)
