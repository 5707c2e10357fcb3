"""Hyperparameters are selected by the errors of candidates on rewards not yet learned from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import (
    DecomposedPrior,
    Hyperparameters,
    HyperparameterSelector,
    Prior,
    candidates,
    fit_em,
    task_blocks,
)
from cobandits.policies.shared.empirical_bayes.em import m_step, posterior_means
from cobandits.policies.shared.row_store import RowStore
from tests.multitask import drawn, normal_equations, rows, stored

Floats = NDArray[np.floating]

SHRINKAGES, SHARES, OFFSETS = config.SHRINKAGE_PSEUDO_TASKS, config.NOISE_SHARES, config.OFFSETS


def with_errors(*errors: float) -> HyperparameterSelector:
    """Return a selector of two tasks with so many errors of the candidates so far."""
    return HyperparameterSelector(
        errors=np.array(errors, np.float64), thetas=np.zeros((2, 6, 4)), places=np.arange(2)
    )


def test_the_candidates_with_the_least_errors_are_best() -> None:
    best = with_errors(3.0, 2.0, 4.0, 9.0, 7.0, 8.0, 0.2, 0.1).best()
    assert best == Hyperparameters(SHRINKAGES[1], SHARES[1], OFFSETS[1])
    best = with_errors(2.0, 3.0, 4.0, 9.0, 7.0, 6.0, 0.1, 0.2).best()
    assert best == Hyperparameters(SHRINKAGES[0], SHARES[2], OFFSETS[0])


@pytest.mark.parametrize(
    ("least", "middle", "most", "best"),
    [(0, 0.7, 0.97, 2), (0, 0.7, 1.1, 1), (0, 1.1, 0.7, 2), (1.1, 0, 3, 1), (0, 1.1, 1.1, 0)],
)
def test_of_candidates_as_good_the_one_that_shrinks_most_is_best(
    least: float, middle: float, most: float, best: int
) -> None:
    """By how much errors exceed the least ones, in units of what counts as nothing."""
    unit = config.AS_GOOD - 1
    assert 0 < unit <= 0.02
    errors = 100 + 100 * unit * np.array([least, middle, most])
    selector = with_errors(*errors, 1, 1, 1, 1, 1)
    assert selector.best().shrinkage_pseudo_tasks == SHRINKAGES[best]


def test_an_offset_has_to_be_clearly_better() -> None:
    unit = config.CLEARLY_WORSE - 1
    assert 0 < unit <= 0.1
    for gain, offset in ((0.9, False), (1.1, True), (-1.0, False)):
        selector = with_errors(1, 1, 1, 1, 1, 1, 1 + gain * unit, 1)
        assert selector.best().offset is offset


def test_before_anything_was_predicted_the_default_hyperparameters_are_best() -> None:
    selector = HyperparameterSelector().scored(np.array([-1, 0]), np.ones((2, 4)))
    np.testing.assert_array_equal(selector.errors, 0)
    assert selector.best() == Hyperparameters()


def test_only_tasks_that_were_learned_from_are_scored() -> None:
    rng = np.random.default_rng(0)
    places = np.array([1, -1, 0])  # slot 1 had too few rows to be learned from in time
    selector = replace(
        with_errors(*[1.0] * 8), thetas=rng.standard_normal((2, 6, 4)), places=places
    )
    numbers = [0, 1, 2, 3, 2, 4, 2, 5]  # the default hyperparameters are among all three kinds
    F, slots = rng.standard_normal((6, 5)), np.array([2, -1, 1, 0, 3, -2])
    predicted = [selector.thetas[place, numbers] @ F[i, :-1] for place, i in ((0, 0), (1, 3))]
    sums = 1 + (F[0, -1] - predicted[0]) ** 2 + (F[3, -1] - predicted[1]) ** 2
    np.testing.assert_allclose(selector.scored(slots, F).errors, sums)
    np.testing.assert_array_equal(selector.errors, 1)  # this one stays as it is


def every_candidate(used: Hyperparameters) -> list[Hyperparameters]:
    """Return the hyperparameters in use with each value of each, the same one thrice."""
    found = [used._replace(shrinkage_pseudo_tasks=value) for value in SHRINKAGES]
    found += [used._replace(noise_share=value) for value in SHARES]
    return found + [used._replace(offset=value) for value in OFFSETS]


@pytest.mark.parametrize("used", [Hyperparameters(), Hyperparameters(12.0, 0.3, True)])
def test_candidates_are_all_different_and_in_one_order(used: Hyperparameters) -> None:
    different = list(dict.fromkeys(every_candidate(used)))
    assert candidates(used) == different
    assert len(different) == 6


def test_every_candidate_predicts_with_the_thetas_that_it_would_have_had() -> None:
    Phi, y, _ = drawn(n=4)
    used = Hyperparameters(shrinkage_pseudo_tasks=12.0, noise_share=0.3, offset=True)
    fit = fit_em(stored(Phi, y + 2), None, used)
    selector = HyperparameterSelector(hyperparameters=used, errors=np.arange(8.0))
    selector = selector.following(used, fit)
    np.testing.assert_allclose(selector.errors, np.arange(8.0) / 2)
    assert selector.hyperparameters == used
    assert selector.thetas.shape == (8, 6, 6)
    row = rows(Phi, y + 2)[3, 1:2]  # of task 3
    errors = selector.scored(np.array([3]), row).errors - selector.errors
    for number, candidate in enumerate(every_candidate(used)):
        prior = m_step(fit.prior, fit.statistics, candidate)
        for t, F in enumerate(rows(Phi, y + 2)):
            theta, _ = normal_equations(F[:, :-1] @ prior.coordinates.matrix, y[t] + 2, prior)
            features = prior.coordinates.matrix @ theta + prior.theta
            held = selector.thetas[selector.places[t], candidates(used).index(candidate)]
            np.testing.assert_allclose(held, features, rtol=1e-6, atol=1e-8)
            if t == 3:
                error = row[0, -1] - row[0, :-1] @ features
                assert errors[number] == pytest.approx(error**2, rel=1e-5, abs=1e-9)


def test_errors_of_another_offset_are_forgotten() -> None:
    """With an offset all candidates predict otherwise: the errors cannot be compared."""
    Phi, y, _ = drawn(n=4)
    used = Hyperparameters(offset=True)
    selector = HyperparameterSelector(errors=np.arange(8.0))
    np.testing.assert_array_equal(
        selector.following(used, fit_em(stored(Phi, y), None, used)).errors, np.zeros(8)
    )


# ---- on tasks with and without a common basis


def selected(Phi: Floats, y: Floats) -> tuple[DecomposedPrior, HyperparameterSelector, RowStore]:
    """Learn a prior again and again as rows come, at growing intervals, as a policy does."""
    T, n, d = Phi.shape
    store, selector, F = RowStore.empty(n_tasks=T, dim=d), HyperparameterSelector(), rows(Phi, y)
    prior: Prior | None = None
    due = 1
    for i in range(n):
        selector = selector.scored(store.slots, F[:, i])
        store = store.added(np.arange(T), F[:, i])
        if i + 1 >= due:
            best = selector.best()
            fit = fit_em(store, selector.prior, best)
            selector, prior = selector.following(best, fit), fit.under(best)
            due = int(np.ceil(1.25 * (i + 1)))
    assert prior is not None
    return DecomposedPrior.of(prior), selector, store


def errors_of_theta(prior: Prior, store: RowStore, Theta: Floats) -> float:
    """Return the sum of squared errors of all thetas and intercepts."""
    total = 0.0
    for block in task_blocks(store, np.arange(Theta.shape[1]), prior.coordinates):
        theta = posterior_means(block, prior) @ prior.coordinates.matrix.T
        theta += prior.theta
        theta[:, :-1] -= Theta.T[block.slots]
        total += float((theta**2).sum())
    return total


def isotropic(prior: DecomposedPrior) -> Prior:
    """Return a prior without a preferred direction that is as wide."""
    p = prior.coordinates.dim
    return replace(prior.plain, covariance=np.eye(p) * np.trace(prior.covariance) / p)


def test_tasks_with_nothing_in_common_get_no_preferred_direction() -> None:
    """As many tasks as features: the prior that shrinks least is misled by a few directions."""
    chosen, errors = [], np.zeros(3)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Phi, Theta = rng.standard_normal((30, 24, 30)), rng.standard_normal((30, 30))
        y = np.einsum("tnd,dt->tn", Phi, Theta) + 0.1 * rng.standard_normal((30, 24))
        prior, selector, store = selected(Phi, y)
        assert selector.prior is not None  # the one that shrinks least
        chosen.append(selector.hyperparameters.shrinkage_pseudo_tasks)
        if chosen[-1] == SHRINKAGES[-1]:
            assert prior.spectrum[0] < 1.01 * prior.spectrum[-1]
        each = prior, isotropic(prior), selector.prior
        errors += [errors_of_theta(one, store, Theta) for one in each]
    assert chosen.count(SHRINKAGES[-1]) >= 7
    assert errors[0] < 1.02 * errors[1]
    assert errors[2] > 1.15 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_tasks_with_a_common_basis_get_a_prior_of_its_rank(seed: int) -> None:
    Phi, y, Theta = drawn(d=30, T=30, n=15, noise=0.1, seed=seed)
    prior, selector, store = selected(Phi, y)
    assert selector.hyperparameters.shrinkage_pseudo_tasks < SHRINKAGES[-1]
    assert prior.rank == 2
    errors, worse = (errors_of_theta(one, store, Theta) for one in (prior, isotropic(prior)))
    assert errors < 0.1 * worse


def test_an_offset_is_selected_where_rewards_have_a_mean() -> None:
    Phi, y, _ = drawn(d=6, T=30, n=12, noise=0.1)
    assert selected(Phi, y + 50)[0].offset == pytest.approx(50, abs=0.5)
