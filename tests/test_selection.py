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
    fit_priors,
    task_blocks,
)
from cobandits.policies.shared.row_store import DROPPED, NEW, RowStore
from tests.multitask import drawn, normal_equations, rows, stored

Floats = NDArray[np.floating]


SOME = stored(*drawn()[:2])  # rows without an offset
PRIORS = fit_priors(SOME, None, Hyperparameters()).following(Hyperparameters())


def with_errors(*errors: float, full: float = 0.0, clear: float = 0.0) -> HyperparameterSelector:
    """Return a selector of two tasks with so many errors of the candidates so far."""
    return HyperparameterSelector(
        priors=PRIORS,
        errors=np.array([*errors, full, clear], np.float64),
        thetas=np.zeros((2, 4, 4)),
        places=np.arange(2),
    )


def test_the_candidates_with_the_least_errors_are_best() -> None:
    assert with_errors(3.0, 2.0, 0.2, 0.1).best(SOME) == Hyperparameters(shared=True, offset=True)
    assert with_errors(2.0, 3.0, 0.1, 0.2).best(SOME) == Hyperparameters(shared=False, offset=False)


@pytest.mark.parametrize(("alone", "shared"), [(0.9, False), (1.1, True), (-1.0, False)])
def test_tasks_share_only_where_that_is_better(alone: float, shared: bool) -> None:
    """By how much errors exceed those of the prior that shares, in units of what counts."""
    unit = config.AS_GOOD - 1
    assert 0 < unit <= 0.05
    assert with_errors(100 + 100 * unit * alone, 100, 1, 1).best(SOME).shared is shared


@pytest.mark.parametrize(("full", "clear"), [(0.9, False), (1.1, True), (-1.0, False)])
def test_directions_are_left_out_only_where_that_is_better(full: float, clear: bool) -> None:
    """By how much errors with all directions exceed those without, in units of what counts."""
    errors = 100 + 100 * (config.AS_GOOD - 1) * full
    assert with_errors(200, 100, 1, 1, full=errors, clear=100).best(SOME).clear is clear


def test_directions_that_noise_made_do_not_stand_out() -> None:
    """Three are fitted to tasks of rank 2 with much noise; two are clear, and nearer the truth."""
    Phi, y, Theta = drawn(d=20, T=40, n=15, noise=3.0)
    fit = fit_priors(stored(Phi, y), None, Hyperparameters())
    clear = fit.shared.clear
    assert clear is not None
    assert clear.factors.L.shape[1] == 2 < fit.shared.factors.L.shape[1]
    full, left = (
        float(
            np.sum((fit.thetas(Hyperparameters(shared=True, clear=value))[:, :-1] - Theta.T) ** 2)
        )
        for value in (False, True)
    )
    assert left < full


def test_directions_that_stand_out_are_learned_again_where_they_are_in_use() -> None:
    """Without the others rewards are more likely under them than as they were among these."""
    Phi, y, _ = drawn(d=20, T=40, n=15, noise=3.0)
    used = Hyperparameters(shared=True, clear=True)
    fits = [fit_priors(stored(Phi, y), None, one) for one in (Hyperparameters(), used)]
    costs = []
    for fit in fits:
        assert fit.shared.clear is not None
        factors, likelihood = fit.shared.clear.factors, fit.likelihoods[0]
        assert factors.L.shape[1] == 2
        costs.append(likelihood.value(factors.L, float(np.log(factors.noise)))[0])
    assert costs[1] < costs[0]


@pytest.mark.parametrize(("alone", "shared"), [(1.001, True), (0.999, False)])
def test_tasks_that_share_go_on_while_that_is_no_worse(alone: float, shared: bool) -> None:
    sharing = replace(with_errors(alone, 1, 1, 1), hyperparameters=Hyperparameters(shared=True))
    assert sharing.best(SOME).shared is shared
    assert not with_errors(alone, 1, 1, 1).best(SOME).shared  # and do not begin to for so little


def test_an_offset_has_to_be_clearly_better() -> None:
    unit = config.CLEARLY_WORSE - 1
    assert 0 < unit <= 0.1
    for gain, offset in ((0.9, False), (1.1, True), (-1.0, False)):
        assert with_errors(1, 1, 1 + gain * unit, 1).best(SOME).offset is offset


def test_only_a_clear_difference_changes_the_offset() -> None:
    """Either way: all errors so far are lost with a change."""
    unit = config.CLEARLY_WORSE - 1
    for gain, offset in ((0.9, True), (1.1, False), (-1.0, True)):
        selector = with_errors(1, 1, 1, 1 + gain * unit)
        selector = replace(selector, hyperparameters=Hyperparameters(offset=True))
        assert selector.best(SOME).offset is offset


def test_first_rewards_say_nothing_of_what_is_shared() -> None:
    for shared in (False, True):
        selector = with_errors(0, 0, 0.4, 1.1)
        selector = replace(selector, hyperparameters=Hyperparameters(shared=shared))
        assert selector.best(SOME) == Hyperparameters(shared=shared)


def test_before_anything_was_predicted_the_default_hyperparameters_are_best() -> None:
    selector = HyperparameterSelector().scored(
        np.array([-1, 0]), np.ones((2, 4)), np.ones(2), np.ones(2)
    )
    np.testing.assert_array_equal(selector.errors, 0)
    assert selector.best(SOME) == Hyperparameters()
    assert selector.least_noise is None
    Phi, y, _ = drawn()
    assert selector.best(stored(Phi, y + 100)) == Hyperparameters(offset=True)
    assert selector.best(stored(Phi[:4, :1], y[:4, :1] + 100)) == Hyperparameters()


def test_only_tasks_that_were_learned_from_are_scored() -> None:
    rng = np.random.default_rng(0)
    places = np.array([1, -1, 0])  # slot 1 had too few rows to be learned from in time
    selector = replace(
        with_errors(*[1.0] * 4, full=1.0, clear=1.0),
        thetas=rng.standard_normal((2, 4, 4)),
        places=places,
    )
    numbers = [0, 1, 0, 2, 1, 3]  # the default hyperparameters are among both kinds
    F, slots = rng.standard_normal((6, 5)), np.array([2, -1, 1, 0, 3, -2])
    predicted = [selector.thetas[place, numbers] @ F[i, :-1] for place, i in ((0, 0), (1, 3))]
    errors = (F[0, -1] - predicted[0]) ** 2 + (F[3, -1] - predicted[1]) ** 2
    found = selector.scored(slots, F, np.arange(6.0), np.full(6, 2.0))
    np.testing.assert_allclose(found.errors, 1 + errors)
    np.testing.assert_allclose(found.recent, [2, errors[1], 6, 15, 12])
    np.testing.assert_array_equal(selector.errors, 1)  # this one stays as it is


def test_the_first_reward_of_a_task_is_scored_for_the_offset_alone() -> None:
    Phi, y, _ = drawn(n=4)
    used = Hyperparameters(shared=True)
    fit = fit_priors(stored(Phi, y + 2), None, used)
    selector = HyperparameterSelector().following(used, fit)
    row = rows(Phi, y + 2)[:1, 1]
    for slot in (NEW, DROPPED):
        scored = selector.scored(np.array([slot]), row, np.ones(1), np.ones(1))
        errors = [
            (row[0, -1] - row[0, :-1] @ fit.shared.prior(offset=offset).theta) ** 2
            for offset in (False, True)
        ]
        expected = [0, 0, *errors, 0, 0] if slot == NEW else np.zeros(6)
        np.testing.assert_allclose(scored.errors, expected, rtol=1e-9)
        np.testing.assert_array_equal(scored.recent, [0, 0, 1, 1, 1])


def every_candidate(used: Hyperparameters) -> list[Hyperparameters]:
    """Return the hyperparameters in use with each value of each, the same one twice."""
    found = [used._replace(shared=value) for value in (False, True)]
    found += [used._replace(offset=value) for value in (False, True)]
    return found + [used._replace(shared=True, clear=value) for value in (False, True)]


@pytest.mark.parametrize("used", [Hyperparameters(), Hyperparameters(shared=True, offset=True)])
def test_candidates_are_all_different_and_in_one_order(used: Hyperparameters) -> None:
    different = list(dict.fromkeys(every_candidate(used)))
    assert candidates(used) == different
    assert len(different) == 4


def test_every_candidate_predicts_with_the_thetas_that_it_would_have_had() -> None:
    Phi, y, _ = drawn(n=4)
    used = Hyperparameters(shared=True, offset=True)
    fit = fit_priors(stored(Phi, y + 2), None, Hyperparameters())
    selector = HyperparameterSelector(hyperparameters=used, errors=np.arange(6.0))
    selector = selector.following(used, fit)
    np.testing.assert_allclose(selector.errors, np.arange(6.0) / 2)
    assert selector.hyperparameters == used
    assert selector.thetas.shape == (8, 4, 6)
    row = rows(Phi, y + 2)[3, 1:2]  # of task 3
    scored = selector.scored(np.array([3]), row, np.ones(1), np.ones(1))
    errors = scored.errors - selector.errors
    for number, candidate in enumerate(every_candidate(used)):
        prior = fit.chosen(candidate).prior(offset=candidate.offset)
        for t, F in enumerate(rows(Phi, y + 2)):
            theta, _ = normal_equations(F[:, :-1] @ prior.coordinates.matrix, y[t] + 2, prior)
            features = prior.coordinates.matrix @ theta + prior.theta
            held = selector.thetas[selector.places[t], candidates(used).index(candidate)]
            np.testing.assert_allclose(held, features, rtol=1e-6, atol=1e-8)
            if t == 3:
                error = row[0, -1] - row[0, :-1] @ features
                assert errors[number] == pytest.approx(error**2, rel=1e-5, abs=1e-9)


def test_with_another_offset_all_starts_afresh() -> None:
    """All candidates predict otherwise then: the errors cannot be compared."""
    Phi, y, _ = drawn(n=4)
    used = Hyperparameters(offset=True)
    fit = fit_priors(stored(Phi, y), None, used)
    selector = HyperparameterSelector(errors=np.arange(6.0), recent=np.ones(5))
    found = selector.following(used, fit)
    np.testing.assert_array_equal(found.errors, np.zeros(6))
    np.testing.assert_array_equal(found.recent, np.zeros(5))
    assert found.start(used) is found.priors is not None
    assert found.start(Hyperparameters()) is None


@pytest.mark.parametrize(("ratio", "share"), [(0.5, 0.15), (1.0, 0.3), (1.5, 0.45), (50.0, 0.75)])
def test_the_noise_is_bounded_by_a_share_of_the_latest_errors(ratio: float, share: float) -> None:
    """It grows where errors are larger than expected, since then directions have fitted noise."""
    used = Hyperparameters(shared=True)
    recent = np.array([10.0, 40.0, 20.0, 7 * ratio, 7.0])
    selector = HyperparameterSelector(hyperparameters=used, recent=recent)
    assert selector.least_noise == pytest.approx(share * 4.0)
    alone = replace(selector, hyperparameters=Hyperparameters())
    assert alone.least_noise == pytest.approx(0.75 * 4.0)  # as directions predict worse


@pytest.mark.parametrize(("found", "spread"), [(0.5, 1.0), (1.0, 1.0), (4.0, 3.8), (1e9, 30.0)])
def test_variances_are_scaled_by_how_errors_exceed_what_was_expected(
    found: float, spread: float
) -> None:
    """The noise apart; posterior means stay, since the noise is scaled too."""
    fit = fit_priors(SOME, None, Hyperparameters())
    priors = fit.following(Hyperparameters())
    noise, now = priors.alone.noise, fit.under(Hyperparameters()).noise
    n = 100_000.0  # so many that chance is small
    recent = np.array([0, 0, n, n * (now + found * noise), n * 2 * noise])
    selector = HyperparameterSelector(priors=priors, recent=recent, noise=noise)
    after = selector.following(Hyperparameters(), fit)
    assert after.spread == pytest.approx(spread, rel=0.06)
    few = replace(selector, recent=recent / 1e4, spread=7.0)
    assert few.following(Hyperparameters(), fit).spread == 7
    plain = fit.under(Hyperparameters())
    scaled = after.scaled(plain)
    np.testing.assert_allclose(scaled.covariance, after.spread * plain.covariance)
    assert scaled.noise == pytest.approx(after.spread * plain.noise)


# ---- on tasks with and without a common basis


def selected(Phi: Floats, y: Floats) -> tuple[DecomposedPrior, HyperparameterSelector, RowStore]:
    """Learn a prior again and again as rows come, at growing intervals, as a policy does."""
    T, n, d = Phi.shape
    store, selector, F = RowStore.empty(n_tasks=T, dim=d), HyperparameterSelector(), rows(Phi, y)
    prior: Prior | None = None
    due = 1
    for i in range(n):
        selector = selector.scored(store.slots, F[:, i], np.ones(T), np.ones(T))
        store = store.added(np.arange(T), F[:, i])
        if i + 1 >= due:
            best = selector.best(store)
            fit = fit_priors(store, selector.start(best), best, least_noise=selector.least_noise)
            selector, prior = selector.following(best, fit), fit.under(best)
            due = int(np.ceil(1.25 * (i + 1)))
    assert prior is not None
    return DecomposedPrior.of(prior), selector, store


def errors_of_theta(prior: Prior, store: RowStore, Theta: Floats) -> float:
    """Return the sum of squared errors of all thetas and intercepts."""
    total = 0.0
    for block in task_blocks(store, np.arange(Theta.shape[1]), prior.coordinates):
        for slot, Z, y in zip(*block, strict=True):
            theta = prior.coordinates.matrix @ normal_equations(Z, y, prior)[0] + prior.theta
            theta[:-1] -= Theta.T[slot]
            total += float(theta @ theta)
    return total


def isotropic(prior: DecomposedPrior) -> Prior:
    """Return a prior without a preferred direction that is as wide."""
    p = prior.coordinates.dim
    return replace(prior.plain, covariance=np.eye(p) * np.trace(prior.covariance) / p)


def test_tasks_with_nothing_in_common_get_no_preferred_direction() -> None:
    """As many tasks as features: a prior that shares is misled by a few directions."""
    chosen, errors = [], np.zeros(3)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Phi, Theta = rng.standard_normal((30, 24, 30)), rng.standard_normal((30, 30))
        y = np.einsum("tnd,dt->tn", Phi, Theta) + 0.1 * rng.standard_normal((30, 24))
        prior, selector, store = selected(Phi, y)
        assert selector.priors is not None
        chosen.append(selector.hyperparameters.shared)
        if not chosen[-1]:
            assert prior.spectrum[0] < 1.01 * prior.spectrum[-1]
        each = prior, isotropic(prior), selector.priors.shared
        errors += [errors_of_theta(one, store, Theta) for one in each]
    assert chosen.count(False) >= 7
    assert errors[0] < 1.02 * errors[1]
    assert errors[2] > 1.02 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_tasks_with_a_common_basis_get_a_prior_of_its_rank(seed: int) -> None:
    Phi, y, Theta = drawn(d=30, T=30, n=15, noise=0.1, seed=seed)
    prior, selector, store = selected(Phi, y)
    assert selector.hyperparameters.shared
    assert prior.rank in (2, 3)  # a third one may be on its way to 0
    errors, worse = (errors_of_theta(one, store, Theta) for one in (prior, isotropic(prior)))
    assert errors < 0.1 * worse


def test_an_offset_is_selected_where_rewards_have_a_mean() -> None:
    Phi, y, _ = drawn(d=6, T=30, n=12, noise=0.1)
    assert selected(Phi, y + 50)[0].offset == pytest.approx(50, abs=0.5)
