"""How the shared policy decides, given its state; nothing that has been learned changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.policies.propensities import draw, greedy
from cobandits.policies.shared.beliefs import Beliefs
from cobandits.policies.shared.exploration import (
    RULES,
    Experience,
    Explore,
    chosen_probabilities,
    sampled_probabilities,
    sampled_values,
    winning_probabilities,
    with_floor,
)
from cobandits.policies.shared.honesty import honest_variances
from cobandits.policies.shared.optimism import basis_variance, confidence_radius, upper_bounds
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.state import State

__all__ = ["bounds", "choose", "expected_rewards", "intervals", "probabilities"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


def choose(
    state: State,
    places: Codes,
    arms: Floats,
    rng: np.random.Generator,
    *,
    explore: Explore,
    floor: float,
) -> tuple[Codes, Floats | Callable[[], Floats]]:
    """Return the chosen arms, (m,), and their probabilities, (m,), or what computes these."""
    posteriors, (m, K) = state.posteriors, arms.shape[:2]
    if posteriors is None or explore in ("never", "ucb"):
        return draw(probabilities(state, places, arms, explore=explore, floor=floor), rng)
    if explore == "needed" and state.lowest != state.highest:
        best, others = posteriors.greedy(places, arms, state.counts, state.seen, state.top)
    else:
        best, others = np.full(m, -1), m > 0
    chosen, beliefs = best, None
    if explore == "always":
        beliefs = posteriors.beliefs(places, arms)
        chosen = sampled_values(beliefs, rng).argmax(axis=1)
    elif others:
        sampled = best < 0
        beliefs = _beliefs(state, posteriors, places[sampled], arms[sampled], explore)
        chosen = best.copy()
        chosen[sampled] = sampled_values(beliefs, rng).argmax(axis=1)
    if floor:
        chosen = np.where(rng.random(m) < floor, rng.integers(K, size=m), chosen)
    if explore == "always" and beliefs is not None:
        return chosen, partial(sampled_probabilities, beliefs, chosen, floor, K)
    return chosen, partial(chosen_probabilities, best, beliefs, chosen, floor, K)


def probabilities(
    state: State, places: Codes, arms: Floats, *, explore: Explore, floor: float
) -> Floats:
    """Return the probabilities of all arms, (m, K)."""
    posteriors, (m, K) = state.posteriors, arms.shape[:2]
    if posteriors is None:
        return np.full((m, K), 1 / K)
    if explore == "never":
        return with_floor(greedy(posteriors.values(places, arms)), floor, K)
    if explore == "ucb":
        known = posteriors.beliefs(places, arms)
        dim, basis = _subspace(state, posteriors, arms)
        upper = upper_bounds(known, state.calibration, dim=dim, basis=basis)
        return with_floor(greedy(upper), floor, K)
    beliefs = _beliefs(state, posteriors, places, arms, explore)
    shares = np.stack([winning_probabilities(beliefs, np.full(m, k)) for k in range(K)], axis=1)
    return with_floor(shares / shares.sum(axis=1, keepdims=True), floor, K)


def expected_rewards(state: State, tasks: NDArray[Any], arms: Floats) -> Floats:
    """Return the expected rewards of arms, (m, K), within the range of rewards."""
    if state.posteriors is None:
        raise DataError("nothing is expected before the first reward; call learn with one first")
    places = state.tasks.find(tasks)
    etas = state.posteriors.values(places, arms) + state.posteriors.thetas[places, -1:]
    return state.likelihood.mean(etas)


def bounds(
    state: State, tasks: NDArray[Any], arms: Floats, *, confidence: Floats
) -> tuple[Floats, Floats]:
    """Return the least and the largest expected rewards of arms, (m, K), in confidence sets.

    ``confidence``, (m, 1) or (1, 1), has the probabilities of the sets. These have as many
    dimensions as the posteriors, also where tasks share few directions.
    """
    posteriors = state.posteriors
    if posteriors is None:
        return np.full(arms.shape[:2], -np.inf), np.full(arms.shape[:2], np.inf)
    places = state.tasks.find(tasks)
    beliefs = posteriors.beliefs(places, arms)
    basis = _subspace(state, posteriors, arms)[1]
    width = confidence_radius(confidence, posteriors.weights.dim) * np.sqrt(
        beliefs.variances + basis
    )
    etas = beliefs.values + posteriors.thetas[places, -1:]
    return state.likelihood.mean(etas - width), state.likelihood.mean(etas + width)


def intervals(
    state: State, tasks: NDArray[Any], arms: Floats, *, confidence: float
) -> tuple[Floats, Floats]:
    """Return the ends of intervals of the expected rewards of arms, (m, K), each by itself."""
    posteriors = state.posteriors
    if posteriors is None or state.rewards < 2:  # one reward tells no variance
        return np.full(arms.shape[:2], -np.inf), np.full(arms.shape[:2], np.inf)
    places = state.tasks.find(tasks)
    beliefs = posteriors.beliefs(places, arms)
    variances = honest_variances(posteriors, state.selector, places, beliefs)
    width = confidence_radius(confidence, 1) * np.sqrt(variances)
    etas = beliefs.values + posteriors.thetas[places, -1:]
    return state.likelihood.mean(etas - width), state.likelihood.mean(etas + width)


def _subspace(state: State, posteriors: TaskPosteriors, arms: Floats) -> tuple[int, Floats]:
    """Return how many directions tasks share, and what is not known of these, as variances, (m, K).

    They are those of a typical arm, times how large an arm is. Where tasks share none, all
    directions count, and there is nothing to learn of them. The set of so few dimensions is a
    heuristic: it explores less than one that holds theta with the stated probability. Values are
    those of rewards only where the likelihood is Gaussian; else these variances are not known.
    """
    prior = posteriors.prior
    if not prior.rank or state.likelihood.noise is not None:
        return prior.rank or posteriors.weights.dim, np.zeros(arms.shape[:2])
    matrix, error = prior.coordinates.matrix, state.selector.recent_error
    Z = arms @ matrix[:-1] + matrix[-1]
    sizes = np.einsum("mkp,mkp->mk", Z, Z) / np.trace(prior.feature_second_moment)
    numbers = prior.rank * prior.coordinates.dim
    return prior.rank, basis_variance(numbers, state.seen, error) * sizes


def _beliefs(
    state: State, posteriors: TaskPosteriors, places: Codes, arms: Floats, explore: Explore
) -> Beliefs:
    """Return the beliefs to sample with, under the exploration rule."""
    beliefs = posteriors.beliefs(places, arms)
    if explore == "always":  # all of the variance is sampled
        return beliefs
    experience = Experience(
        counts=state.counts[places],
        seen=max(1, state.seen),
        tops=state.top - posteriors.thetas[places, -1],
        rewards_differ=state.lowest != state.highest,
        calibration=state.calibration,
        noise=posteriors.prior.noise if state.likelihood.noise is None else None,
    )
    return RULES[explore](beliefs, experience)
