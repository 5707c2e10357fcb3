"""Posteriors of tasks whose rows were dropped, carried over from one prior to another."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.carry_over import carry_over, pseudo_rows
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    Prior,
)
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from tests.multitask import SHARED, fitted
from tests.posteriors import (
    N_TASKS,
    check_same,
    covariance,
    errors_of_thetas,
    late_tasks,
    learned_in_turn,
    posterior,
    reduced,
    related_tasks,
    residual_parts,
    rows_of,
    some_prior,
    stored,
    wide_prior,
)

Doubles = NDArray[np.float64]


def refitted(store: RowStore, prior: DecomposedPrior, before: TaskPosteriors) -> TaskPosteriors:
    """Return posteriors from rows, and of tasks without rows what they were, as a refit does."""
    after, dropped = TaskPosteriors.of(store, prior), store.dropped
    carry_over(after, before, dropped[before.weights.log_volumes[dropped] > 0])
    return after


# ---- pseudo-rows


def check_pseudo_rows(posteriors: TaskPosteriors, n_tasks: int) -> None:
    """Learn the pseudo-rows of all tasks from scratch, and compare means and covariances."""
    tasks = np.arange(n_tasks)
    fresh = TaskPosteriors(
        n_tasks=n_tasks, prior=posteriors.prior, directions=posteriors.weights.dim
    )
    X, y = pseudo_rows(posteriors, tasks, np.sqrt(fresh.noises))
    m, q, width = X.shape
    assert (m, q) == (n_tasks, posteriors.weights.dim) == y.shape
    F = np.concatenate([X, y[..., None]], axis=2).reshape(m * q, width + 1)
    fresh.learn(np.repeat(tasks, q), F)
    np.testing.assert_allclose(fresh.weights.means, posteriors.weights.means, atol=1e-8)
    for t in range(n_tasks):
        expected = covariance(posteriors, t)
        np.testing.assert_allclose(covariance(fresh, t), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [20, 60, 300])
def test_pseudo_rows_learned_from_scratch_give_the_posterior_again(n: int) -> None:
    """Also of tasks with fewer rows than features, and of two without any."""
    tasks, F = late_tasks(n=n)
    check_pseudo_rows(TaskPosteriors.of(stored(tasks, F), some_prior(F)), N_TASKS)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("n", [6, 120, 900])
def test_pseudo_rows_of_few_directions_give_the_posterior_again(n: int, rank: int) -> None:
    posteriors, _, _ = reduced(n=n, rank=rank)
    assert posteriors.is_reduced
    posteriors.learn(*rows_of(20, 18, seed=8))
    check_pseudo_rows(posteriors, 6)


def test_pseudo_rows_of_a_task_without_rewards_say_nothing() -> None:
    posteriors = TaskPosteriors(n_tasks=1, prior=wide_prior())
    X, y = pseudo_rows(posteriors, np.array([0]), np.ones(1))
    np.testing.assert_array_equal(X, 0)
    np.testing.assert_array_equal(y, 0)


def test_normal_equations_of_pseudo_rows_are_those_of_the_rows() -> None:
    """In a full basis ``X'X`` and ``X'y`` are all that any prior needs of the rows."""
    tasks, F = late_tasks(n=200)
    posteriors = TaskPosteriors.of(stored(tasks, F), some_prior(F))
    std = np.full(N_TASKS, np.sqrt(posteriors.prior.noise))
    X, y = pseudo_rows(posteriors, np.arange(N_TASKS), std)
    for t in range(N_TASKS):
        rows, rewards = F[tasks == t, :-1], F[tasks == t, -1]
        np.testing.assert_allclose(X[t].T @ X[t], rows.T @ rows, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(X[t].T @ y[t], rows.T @ rewards, rtol=1e-8, atol=1e-7)


# ---- all directions: nothing is lost


def changed(prior: DecomposedPrior, F: Doubles, what: str) -> DecomposedPrior:
    """Return another prior."""
    if what == "offset":
        return replace(prior, offset=-1.2)
    if what == "mean":
        return replace(prior, mean=prior.mean[::-1].copy())
    if what == "noise":
        return replace(prior, noise=1.1)
    if what == "covariance":
        covariance = some_prior(F, seed=4).covariance
        return DecomposedPrior.of(replace(prior.plain, covariance=covariance))
    if what == "coordinates":
        return replace(some_prior(F[:8] * [1, 1, 9, 1, 1, 1]), offset=0.7)
    assert what == "nothing"
    return prior


PRIORS = ["nothing", "offset", "mean", "noise", "covariance", "coordinates"]


@pytest.mark.parametrize("what", PRIORS)
def test_dropped_tasks_get_the_posteriors_that_their_rows_would_have_given(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Exactly, as if all rows had been learned under the new prior: by normal equations."""
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    tasks, F = late_tasks(n=200)
    store = stored(tasks, F)
    assert 1 < len(store.dropped) < N_TASKS - 2  # two tasks never came
    before = learned_in_turn(some_prior(F), tasks, F)
    prior = changed(before.prior, F, what)
    after = refitted(store, prior, before)
    A = prior.coordinates.matrix
    for t in range(N_TASKS):
        mean, P = posterior(prior, F[tasks == t])
        theta = A @ mean + prior.theta
        np.testing.assert_allclose(after.thetas[t], theta, rtol=1e-8, atol=1e-8)
        S = after.directions.T @ covariance(after, t) @ after.directions
        np.testing.assert_allclose(S, A @ P @ A.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(after.noises, prior.noise, rtol=1e-12)
    check_same(after, learned_in_turn(prior, tasks, F), rtol=1e-8)
    np.testing.assert_array_equal(after.thetas[N_TASKS - 1], prior.theta)


def test_posteriors_that_were_carried_over_go_on_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    tasks, F = late_tasks(n=200)
    before = learned_in_turn(some_prior(F), tasks[:150], F[:150])
    prior = changed(before.prior, F, "covariance")
    after = refitted(stored(tasks[:150], F[:150]), prior, before)
    after.learn(tasks[150:], F[150:])
    check_same(after, learned_in_turn(prior, tasks, F), rtol=1e-8)


def test_carrying_over_a_few_tasks_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    tasks, F = late_tasks(n=200)
    before = learned_in_turn(some_prior(F), tasks, F)
    together = refitted(stored(tasks, F), before.prior, before)
    monkeypatch.setattr(config, "BLOCK_BYTES", 1)
    check_same(refitted(stored(tasks, F), before.prior, before), together, rtol=1e-12)


# ---- few directions: nearly nothing is lost


def test_few_directions_are_carried_over_to_a_better_prior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Directions of the old basis that are not in the new one keep what they held."""
    tasks, F, Theta = related_tasks()
    prior, early = (
        DecomposedPrior.of(fitted(stored(tasks[:n], F[:n], 60), 3, least_noise=0.0).under(SHARED))
        for n in (len(F), 300)
    )
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 1)
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    store = stored(tasks, F, 60)
    assert 30 < len(store.dropped) < 60
    before = TaskPosteriors(n_tasks=60, prior=early)
    before.learn(tasks, F)
    after = refitted(store, prior, before)
    fresh = TaskPosteriors(n_tasks=60, prior=prior)
    fresh.learn(tasks, F)
    assert errors_of_thetas(fresh, Theta) < 0.1
    assert errors_of_thetas(after, Theta) < 0.9 * errors_of_thetas(before, Theta)
    assert errors_of_thetas(after, Theta) < 1.5 * errors_of_thetas(fresh, Theta)
    again = refitted(store, prior, after)  # the same prior: nothing is lost any more
    np.testing.assert_allclose(again.thetas, after.thetas, rtol=1e-5, atol=1e-6)


def test_where_directions_are_left_out_correlated_features_are_accounted_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four directions of twelve: what they predict along with others is not lost with the prior.

    Mean squared errors of prediction, against thetas from all rows under the new prior.
    """
    rng, d, n_tasks, n = np.random.default_rng(0), 11, 100, 30
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 1)
    shape = 0.9 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    arms = rng.standard_normal((n_tasks * n, d)) @ np.linalg.cholesky(shape).T
    X = np.column_stack([arms, np.ones(n_tasks * n)])
    tasks = np.repeat(np.arange(n_tasks), n)
    first, second = (_rotated(rng, d, X, angle) for angle in (0.0, 0.3))
    root = first.vectors * np.sqrt(first.variances)
    Theta = rng.standard_normal((n_tasks, d + 1)) @ root.T @ first.coordinates.matrix.T
    y = np.einsum("nd,nd->n", X, Theta[tasks]) + 0.3 * rng.standard_normal(len(X))
    F = np.column_stack([X, y])
    before, after, whole = (
        TaskPosteriors(n_tasks=n_tasks, prior=p) for p in (first, second, second)
    )
    assert before.batch.dim < d + 1
    for learned in (before, whole):
        learned.learn(tasks, F)
    carry_over(after, before, np.arange(n_tasks))
    errors = [
        float(np.mean(np.einsum("nd,nd->n", X, (each.thetas - Theta)[tasks]) ** 2))
        for each in (before, after, whole)
    ]
    assert errors[1] < 1.5 * max(errors[0], errors[2])


def _rotated(rng: np.random.Generator, d: int, X: Doubles, angle: float) -> DecomposedPrior:
    """Return a prior with few wide directions, each of which is turned by an angle."""
    basis = np.linalg.qr(np.random.default_rng(7).standard_normal((d + 1, d + 1)))[0]
    turn = np.cos(angle) * basis + np.sin(angle) * np.roll(basis, 1, axis=1)
    variances = np.geomspace(2.0, 0.02, d + 1)
    return DecomposedPrior.of(
        Prior(
            coordinates=Coordinates(matrix=np.eye(d + 1)),
            covariance=turn * variances @ turn.T,
            mean=np.zeros(d + 1),
            offset=0.0,
            noise=0.09,
            feature_second_moment=X.T @ X / len(X),
        )
    )


def partly_dropped(n: int = 120) -> tuple[TaskPosteriors, RowStore]:
    """Return posteriors of tasks, and a store in which the rows of tasks 0 to 2 are dropped."""
    posteriors, tasks, F = reduced(n=n)
    staying = tasks > 2
    store = stored(tasks[staying], F[staying], 6).drop(np.array([0, 1, 2]))
    more = rows_of(20, 18, seed=8)
    posteriors.learn(*more)
    return posteriors, store


def test_parts_of_thetas_outside_of_the_basis_are_carried_over_as_they_are() -> None:
    """Whatever else a new prior does to a theta, its part outside is added to it as it was."""
    before, store = partly_dropped()
    gone, parts = np.arange(3), residual_parts(before)
    assert np.abs(parts[gone]).max() > 0.1
    without = copy.deepcopy(before)
    without.thetas -= parts
    np.testing.assert_allclose(residual_parts(without), 0, atol=1e-12)
    prior = replace(wide_prior(18, seed=4), offset=-0.3, noise=0.4)
    for now in (before.prior, prior):
        after, twin = (refitted(store, now, each) for each in (before, without))
        moved = after.thetas - twin.thetas
        np.testing.assert_allclose(moved[gone], parts[gone], atol=1e-12)
        np.testing.assert_array_equal(moved[3:], 0)  # these follow from rows that are stored
        np.testing.assert_array_equal(after.noises, twin.noises)
        np.testing.assert_array_equal(after.weights.roots, twin.weights.roots)


def test_tasks_do_not_become_more_certain_by_being_carried_over() -> None:
    """Where nothing is learned and the prior stays, thetas stay too."""
    before, store = partly_dropped()
    now = before
    for _ in range(12):
        now = refitted(store, before.prior, now)
    for t in range(3):
        here, there = (np.trace(covariance(posteriors, t)) for posteriors in (now, before))
        assert here == pytest.approx(there, rel=0.05)
        far = np.linalg.norm(now.thetas[t] - before.thetas[t])
        assert far < 0.05 * np.linalg.norm(before.thetas[t])


def all_dropped() -> RowStore:
    """Return a store in which the rows of all tasks are dropped."""
    return RowStore.empty(n_tasks=6, dim=18).drop(np.arange(6))


@pytest.mark.parametrize("q", [12, 15, 19])
def test_thetas_are_kept_where_the_basis_has_fewer_directions_than_before(q: int) -> None:
    """Under the same prior; what is in directions that move no more is not lost."""
    prior, (tasks, F) = wide_prior(18), rows_of(600, 18)
    before = TaskPosteriors(n_tasks=6, prior=prior, directions=q)
    before.learn(tasks, F)
    after = refitted(all_dropped(), prior, before)
    assert after.weights.dim == 12
    for t in range(5):
        far = np.linalg.norm(after.thetas[t] - before.thetas[t])
        assert far < 0.02 * np.linalg.norm(before.thetas[t])
    np.testing.assert_allclose(after.thetas[5], before.thetas[5], atol=1e-12)  # it had no rows
    assert (after.noises >= prior.noise).all()


def test_thetas_of_few_directions_stay_over_many_refits() -> None:
    """Under the same prior, and under two that take turns; nothing grows or gets more certain."""
    prior, (tasks, F) = wide_prior(18), rows_of(600, 18)
    other = replace(prior.plain, noise=0.3, offset=0.5, covariance=1.1 * prior.covariance)
    before = TaskPosteriors(n_tasks=6, prior=prior, directions=19)
    before.learn(tasks, F)
    first = refitted(all_dropped(), prior, before)
    for turns in ((prior, prior), (DecomposedPrior.of(other), prior)):
        now = first
        for each in turns * 20:
            now = refitted(all_dropped(), each, now)
        for t in range(5):
            far = np.linalg.norm(now.thetas[t] - before.thetas[t])
            assert far < 0.05 * np.linalg.norm(before.thetas[t])
            here, there = (np.trace(covariance(posteriors, t)) for posteriors in (now, first))
            assert here == pytest.approx(there, rel=0.1)
        np.testing.assert_allclose(now.noises, first.noises, rtol=1e-6)
