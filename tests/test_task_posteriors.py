"""Posteriors of all tasks under a shared prior, against their normal equations."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from math import erfc, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad

from cobandits.errors import DataError
from cobandits.policies import gaussian
from cobandits.policies.shared import config, exploration_config
from cobandits.policies.shared import posteriors as posteriors_module
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    Prior,
)
from cobandits.policies.shared.posteriors import TaskPosteriors
from tests.multitask import SHARED, fitted
from tests.posteriors import (
    DIM,
    N_TASKS,
    check_same,
    covariance,
    errors_of_thetas,
    explain,
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
Codes = NDArray[np.int64]
Floats = NDArray[np.floating]

WAYS = [pytest.param(True, id="compiled"), pytest.param(False, id="numpy")]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not gaussian.COMPILED:
        pytest.skip("the compiled posteriors are not built here")
    for module in (gaussian, posteriors_module):
        monkeypatch.setattr(module, "COMPILED", request.param)
    return bool(request.param)


def textbook(prior: Prior, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return a task's theta and its covariance, both with the intercept, by normal equations."""
    A, (mean, P) = prior.coordinates.matrix, posterior(prior, F)
    return np.asarray(A @ mean + prior.theta, np.float64), np.asarray(A @ P @ A.T, np.float64)


@pytest.mark.parametrize("n", [30, 300])
def test_posteriors_from_rows_agree_with_learning_in_turn_and_normal_equations(n: int) -> None:
    """Of 300 rows most were compressed."""
    tasks, F = late_tasks(n=n)
    prior = some_prior(F)
    posteriors = TaskPosteriors.of(stored(tasks, F), prior)
    check_same(posteriors, learned_in_turn(prior, tasks, F))
    for t in range(N_TASKS):
        theta, P = textbook(prior, F[tasks == t])
        np.testing.assert_allclose(posteriors.thetas[t], theta, rtol=1e-7, atol=1e-8)
        basis = posteriors.directions.T @ posteriors.weights.unpacked(np.array([t]))[0]
        np.testing.assert_allclose(basis @ basis.T, P, rtol=1e-7, atol=1e-8)


def test_a_batch_is_learned_as_one_row_after_the_other() -> None:
    tasks, F = late_tasks()
    prior = some_prior(F)
    together = TaskPosteriors(n_tasks=N_TASKS, prior=prior)
    together.learn(tasks[:1], F[:1])
    together.learn(tasks[1:], F[1:])
    check_same(together, learned_in_turn(prior, tasks, F))


def test_beliefs_and_predicted_errors_agree_with_normal_equations() -> None:
    tasks, F = late_tasks()
    prior = some_prior(F)
    posteriors = TaskPosteriors.of(stored(tasks, F), prior)
    asked, rng = np.array([0, 11, 0, 4]), np.random.default_rng(1)
    arms = rng.standard_normal((4, 3, DIM))
    values, (also, factors, own, before, _) = (
        posteriors.values(asked, arms),
        posteriors.beliefs(asked, arms),
    )
    A = prior.coordinates.matrix
    C = A @ prior.covariance @ A.T
    for i, t in enumerate(asked):
        theta, P = textbook(prior, F[tasks == t])
        X = np.column_stack([arms[i], np.ones(3)])
        np.testing.assert_allclose(values[i] + theta[-1], X @ theta, rtol=1e-7)
        np.testing.assert_array_equal(also[i], values[i])
        assert factors[i].shape == (3, DIM + 1)
        np.testing.assert_array_equal(own[i], [0, 0, 0])  # nothing is outside of all directions
        np.testing.assert_allclose(factors[i] @ factors[i].T, X @ P @ X.T, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(before[i], np.diag(X @ C @ X.T), rtol=1e-7)
        row = np.r_[X[2], 5.0]
        squares, variances = posteriors.predict_errors(asked[i : i + 1], row[None])
        assert squares[0] == pytest.approx((5 - X[2] @ theta) ** 2)
        assert variances[0] == pytest.approx(X[2] @ P @ X[2] + prior.noise)


def test_a_task_without_rewards_has_the_prior() -> None:
    tasks, F = late_tasks()
    prior = some_prior(F)
    posteriors = TaskPosteriors.of(stored(tasks, F), prior)
    np.testing.assert_array_equal(posteriors.thetas[N_TASKS - 1], prior.theta)
    assert (posteriors.thetas[0] != prior.theta).all()


def test_rows_that_are_refused_change_nothing(way: bool) -> None:
    tasks, F = late_tasks()
    posteriors = TaskPosteriors.of(stored(tasks, F), some_prior(F))
    theirs = learned_in_turn(posteriors.prior, tasks, F)
    bad = np.ones((2, DIM + 2))
    bad[1, 0] = 1e200
    with pytest.raises(DataError, match="too large"):
        posteriors.learn(np.array([0, 1]), bad)
    check_same(posteriors, theirs)


@pytest.mark.parametrize("numbers", [1, 5, 14, 100, 5149, 5150, 1e9])
def test_posteriors_have_as_many_directions_as_memory_suffices_for(
    monkeypatch: pytest.MonkeyPatch, numbers: float
) -> None:
    """But four at least, and no more than there are: 100 and the intercept."""
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 3 * 8 * numbers)
    prior = Prior(
        coordinates=Coordinates(matrix=np.eye(101)),
        covariance=np.eye(101),
        mean=np.zeros(101),
        offset=0.0,
        noise=1.0,
        feature_second_moment=np.eye(101),
    )
    posteriors = TaskPosteriors(n_tasks=3, prior=DecomposedPrior.of(prior))
    q = posteriors.weights.dim
    needed = [k * (k + 1) // 2 + k for k in range(1, 102)]  # numbers, of k = 1 to 101
    assert q == max(4, sum(each <= numbers for each in needed))
    np.testing.assert_allclose(posteriors.noises, 1 + 101 - q)


def test_few_directions_are_enough_where_tasks_share_a_basis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four of 21 directions hold the two that tasks share."""
    tasks, F, Theta = related_tasks()
    store = stored(tasks, F, 60)
    prior = DecomposedPrior.of(fitted(store, 3, least_noise=0.0).under(SHARED))
    full = TaskPosteriors.of(store, prior)
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 1)
    few = TaskPosteriors.of(store, prior)
    assert few.weights.dim == 4
    assert errors_of_thetas(few, Theta) < 0.1
    assert errors_of_thetas(few, Theta) < 1.5 * errors_of_thetas(full, Theta)
    rows = related_tasks(seed=1)[1]  # other features, and what these thetas would pay
    rows[:, -1] = np.einsum("nd,nd->n", rows[:, :-2], Theta[tasks])
    squares, variances = few.predict_errors(tasks, rows)
    assert squares.mean() < variances.mean()  # not overconfident


# ---- few of many directions: what moves between two refits


WIDTHS = [13, 16, 18, 23]  # features


def split_features(prior: Prior, q: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Split features into their part in the q widest directions, and what is uncorrelated with it.

    Returned are the directions, (p, q) and (p, p - q); what turns thetas into the weights of the
    first part, (q, p); and the second moment of the second, (p - q, p - q).
    """
    vectors, M = np.linalg.eigh(prior.covariance)[1], prior.feature_second_moment
    inner, outer = vectors[:, -q:], vectors[:, : len(vectors) - q]
    B = np.linalg.solve(inner.T @ M @ inner, inner.T @ M @ outer)
    e = outer - inner @ B  # e'x is not correlated with inner'x
    return inner, outer, inner.T + B @ outer.T, e.T @ M @ e


@pytest.mark.parametrize(("rank", "q"), [(0, 31), (1, 10), (2, 12), (7, 22), (12, 31)])
def test_the_basis_has_twice_as_many_directions_as_tasks_share_and_eight(rank: int, q: int) -> None:
    """Twice as many and eight; or all, where tasks share none or that many are more."""
    posteriors = TaskPosteriors(n_tasks=2, prior=wide_prior(30, rank))
    assert posteriors.directions.shape == (q, 31)
    assert posteriors.weights.means.shape == (2, q)
    _, outer, _, M = split_features(posteriors.prior, q)
    unknown = np.trace(M @ outer.T @ posteriors.prior.covariance @ outer)
    np.testing.assert_allclose(posteriors.noises, 0.25 + unknown, rtol=1e-9)
    assert posteriors.residual_variance == pytest.approx(unknown, rel=1e-9)
    assert (q == 31) == (unknown == 0) == (not posteriors.is_reduced)


@pytest.mark.parametrize("n", [0, 12, 120, 900])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_thetas_from_rows_have_all_directions_though_rewards_move_few(n: int, rank: int) -> None:
    """And noises have what is unknown of a typical arm besides that within the directions."""
    posteriors, tasks, F = reduced(n=max(n, 1), rank=rank) if n else (None, *rows_of(0, 18))
    prior = wide_prior(18, rank)
    posteriors = posteriors or TaskPosteriors(n_tasks=6, prior=prior)
    q, A = 2 * rank + 8, prior.coordinates.matrix
    inner, outer, H, M = split_features(prior, q)
    for t in range(6):
        mean, P = posterior(prior, F[tasks == t])
        theta = A @ mean + prior.theta
        np.testing.assert_allclose(posteriors.thetas[t], theta, rtol=1e-7, atol=1e-8)
        unknown = np.trace(M @ outer.T @ P @ outer)
        assert posteriors.noises[t] == pytest.approx(prior.noise + unknown, rel=1e-8)
        R, moves = posteriors.directions, A @ inner @ H
        np.testing.assert_allclose(
            R.T @ covariance(posteriors, t) @ R, moves @ P @ moves.T, rtol=1e-6, atol=1e-8
        )
        np.testing.assert_allclose(
            residual_parts(posteriors)[t], A @ mean - moves @ mean, atol=1e-8
        )
    assert (n == 0) == (np.ptp(posteriors.noises) == 0)
    assert (n == 0) == np.allclose(residual_parts(posteriors), 0)


def autoregressive(
    rho: float, own: float, n: int, d: int = 30, n_tasks: int = 40
) -> tuple[DecomposedPrior, Codes, Doubles]:
    """Draw rows of features that follow each other, and return the prior that they lead to.

    Thetas share two directions and have parts of their own, of such a size.
    """
    rng, steps = np.random.default_rng(1), np.arange(d)
    root = np.linalg.cholesky(rho ** np.abs(steps[:, None] - steps))
    Theta = rng.standard_normal((n_tasks, 2)) @ np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    Theta += own * rng.standard_normal((n_tasks, d))
    tasks = np.tile(np.arange(n_tasks), n)
    Phi = rng.standard_normal((len(tasks), d)) @ root.T
    y = np.einsum("nd,nd->n", Phi, Theta[tasks]) + 0.1 * rng.standard_normal(len(tasks))
    F = np.column_stack([Phi, np.ones(len(tasks)), y])
    fit = fitted(stored(tasks, F, n_tasks), 3, least_noise=0.0)
    return DecomposedPrior.of(fit.under(SHARED)), tasks, F


@pytest.mark.parametrize("n", [12, 60])
@pytest.mark.parametrize("own", [0.02, 0.2])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_variance_of_a_typical_arm_is_right_for_correlated_features(
    rho: float, own: float, n: int
) -> None:
    """Within 1 % of ``trace(M P)`` with the dense posterior of each task, as explained too."""
    prior, tasks, F = autoregressive(rho, own, n)
    posteriors = TaskPosteriors.of(stored(tasks, F, 40), prior)
    assert posteriors.is_reduced
    M = posteriors.basis.second_moment
    explained = np.array([explain(posteriors, np.full(40, n), t).uncertainty for t in range(40)])
    for t in range(40):
        P = posterior(prior, F[tasks == t])[1]
        within = np.trace(M @ covariance(posteriors, t))
        variance = np.trace(prior.feature_second_moment @ P)
        assert within + posteriors.noises[t] - prior.noise == pytest.approx(variance, rel=0.01)
        assert explained[t] == pytest.approx(np.sqrt(variance), rel=0.005)


def test_relearning_some_slots_gives_what_all_rows_give_and_the_others_stay() -> None:
    """Whatever they had learned in between, in any order; also with rows that came since."""
    posteriors, tasks, F = reduced()
    more = rows_of(60, 18, seed=9)
    store = stored(tasks, F, 6)
    posteriors.learn(*more)
    before = copy.deepcopy(posteriors)
    store = store.added(*more)
    posteriors.relearn(store, store.slots[[3, 1]])
    full = TaskPosteriors.of(store, posteriors.prior)
    for t in range(6):
        expected = full if t in (1, 3) else before
        np.testing.assert_allclose(posteriors.thetas[t], expected.thetas[t], rtol=1e-9, atol=1e-11)
        assert posteriors.noises[t] == pytest.approx(expected.noises[t], rel=1e-9)
        np.testing.assert_allclose(covariance(posteriors, t), covariance(expected, t), atol=1e-11)
        mean = expected.weights.means[t]
        np.testing.assert_allclose(posteriors.weights.means[t], mean, rtol=1e-9, atol=1e-11)
        volume = expected.weights.log_volumes[t]
        assert posteriors.weights.log_volumes[t] == pytest.approx(volume, rel=1e-9)
    assert np.abs(full.thetas[1] - before.thetas[1]).max() > 1e-3
    posteriors.relearn(store, np.zeros(0, np.int64))
    posteriors.relearn(store, np.arange(len(store.tasks)))
    np.testing.assert_allclose(posteriors.thetas, full.thetas, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("d", WIDTHS)
def test_between_refits_thetas_move_in_the_basis_by_normal_equations(way: bool, d: int) -> None:
    """With what is unknown outside of the directions as noise; a task may come more than once."""
    posteriors, _, _ = reduced(d)
    before, (tasks, F) = copy.deepcopy(posteriors), rows_of(17, d, seed=5)
    assert np.bincount(tasks).max() > 2
    squares, expected = posteriors.learn(tasks, F)
    R = before.directions
    for t in range(6):
        mine = np.flatnonzero(tasks == t)
        X, y, noise = F[mine, :-1], F[mine, -1], before.noises[t]
        Z, errors, P = X @ R.T, y - X @ before.thetas[t], covariance(before, t)
        now = np.linalg.inv(np.linalg.inv(P) + Z.T @ Z / noise)
        step = now @ Z.T @ errors / noise
        np.testing.assert_allclose(posteriors.thetas[t], before.thetas[t] + step @ R, atol=1e-9)
        np.testing.assert_allclose(posteriors.weights.means[t], before.weights.means[t] + step)
        np.testing.assert_allclose(covariance(posteriors, t), now, rtol=1e-8, atol=1e-10)
        for k, i in enumerate(mine):  # what the rows before it led to
            gains = P @ Z[:k].T @ np.linalg.inv(Z[:k] @ P @ Z[:k].T + noise * np.eye(k))
            left = errors[k] - Z[k] @ gains @ errors[:k]
            variance = Z[k] @ (P - gains @ Z[:k] @ P) @ Z[k]
            assert squares[i] == pytest.approx(left**2, rel=1e-7, abs=1e-12)
            assert expected[i] == pytest.approx(variance + noise, rel=1e-9)
    np.testing.assert_allclose(residual_parts(posteriors), residual_parts(before), atol=1e-9)
    np.testing.assert_array_equal(posteriors.noises, before.noises)
    np.testing.assert_array_equal(posteriors.thetas[5], before.thetas[5])  # it had no rows


def test_one_request_at_a_time_gives_the_posteriors_of_a_batch(way: bool) -> None:
    together, _, _ = reduced()
    alone, (tasks, F) = copy.deepcopy(together), rows_of(40, 18, seed=6)
    in_batch = together.learn(tasks, F)
    each = []
    for i in range(40):
        predicted = alone.predict_errors(tasks[i : i + 1], F[i : i + 1])
        each.append(alone.learn(tasks[i : i + 1], F[i : i + 1]))
        np.testing.assert_allclose(each[-1], predicted, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(in_batch, np.concatenate(each, axis=1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(together.thetas, alone.thetas, rtol=1e-9, atol=1e-10)
    for name in ("means", "roots", "log_volumes"):
        here, there = (getattr(posteriors.weights, name) for posteriors in (together, alone))
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-10)


def test_no_rows_teach_nothing(way: bool) -> None:
    posteriors, _, _ = reduced()
    before = copy.deepcopy(posteriors)
    for method in (posteriors.learn, posteriors.predict_errors):
        squares, expected = method(np.zeros(0, np.int64), np.zeros((0, 20)))
        assert squares.shape == expected.shape == (0,)
    np.testing.assert_array_equal(posteriors.thetas, before.thetas)
    np.testing.assert_array_equal(posteriors.weights.roots, before.weights.roots)


def largest_row(posteriors: TaskPosteriors) -> Doubles:
    """Return the largest row, (1, 20), of equal numbers that is not refused."""
    for exponent in np.arange(75, 0, -0.01):
        row = np.full((1, 20), 10**exponent)
        with contextlib.suppress(DataError):
            posteriors.check(row)
            return row
    raise AssertionError("all rows are refused")


def test_rows_that_are_refused_change_nothing_in_few_directions(way: bool) -> None:
    posteriors, tasks, F = reduced()
    before, bad = copy.deepcopy(posteriors), F[:5].copy()
    for place, wrong in ((0, 1e75), (-1, -1e75), (3, np.nan), (-1, np.inf)):
        bad[4, place] = wrong
        with pytest.raises(DataError, match="too large"):
            posteriors.learn(tasks[:5], bad)
    np.testing.assert_array_equal(posteriors.thetas, before.thetas)
    for name in ("means", "roots", "log_volumes"):
        here, there = (getattr(each.weights, name) for each in (posteriors, before))
        np.testing.assert_array_equal(here, there)
    row = largest_row(posteriors)  # what is not refused can be computed with
    assert row.max() > 1e70
    posteriors.learn(tasks[:1], row)
    assert np.isfinite(posteriors.thetas).all()
    assert np.isfinite(posteriors.weights.roots).all()


@pytest.mark.parametrize("K", [1, 2, 5, 7])
def test_beliefs_are_the_posterior_in_the_basis_and_the_residual_variance(
    way: bool, K: int
) -> None:
    posteriors, _, _ = reduced()
    prior, R = posteriors.prior, posteriors.directions
    asked, rng = np.array([3, 0, 5, 3]), np.random.default_rng(1)
    arms = rng.standard_normal((4, K, 18))
    values, factors, own, before, unseen = posteriors.beliefs(asked, arms)
    assert factors.shape == (4, K, 12)
    for i, t in enumerate(asked):
        X = np.column_stack([arms[i], np.ones(K)])
        np.testing.assert_allclose(values[i], arms[i] @ posteriors.thetas[t, :-1], rtol=1e-9)
        P = covariance(posteriors, t)
        within, left = X @ R.T @ P @ R @ X.T, X @ R.T @ P @ P @ R @ X.T
        np.testing.assert_allclose(unseen[i], np.diag(left) + own[i] ** 2, rtol=1e-8)
        np.testing.assert_allclose(factors[i] @ factors[i].T, within, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(own[i] ** 2, np.full(K, posteriors.noises[t] - prior.noise))
        expected = np.diag(X @ R.T @ R @ X.T) + posteriors.residual_variance
        np.testing.assert_allclose(before[i], expected, rtol=1e-9)
    assert own[2].min() > 0
    np.testing.assert_allclose(unseen[2], before[2], rtol=1e-9)  # nothing is known without rewards


# ---- the greedy arm, or -1


def strided(arms: Doubles) -> Floats:
    return np.repeat(arms, 2, axis=1)[:, ::2]


LAYOUTS: dict[str, Callable[[Doubles], Floats]] = {
    "plain": lambda arms: arms,
    "strided": strided,
    "turned": np.asfortranarray,
    "float32": lambda arms: arms.astype(np.float32),
}


def normal_tail(u: float, mean: float, std: float) -> float:
    """Return the probability of a Gaussian value above u."""
    return 0.5 * erfc((u - mean) / (std * sqrt(2)))


def greedy_by_loops(
    posteriors: TaskPosteriors, asked: Codes, arms: Floats, counts: Codes, seen: int, highest: float
) -> tuple[Codes, Doubles]:
    """Return the greedy arms by loops over beliefs, and how far each arm is from being sampled."""
    beliefs = posteriors.beliefs(asked, arms)
    chosen, margins = [], []
    for i, t in enumerate(asked):
        values, variances = beliefs.values[i], beliefs.variances[i]
        before, best = beliefs.prior_variances[i], int(np.argmax(values))
        own = counts[t] / seen  # of this share of the prior's rewards the greedy arm has more
        first = (1 - own) * before[best] + own * before.max()
        top = max(values[best], highest - posteriors.thetas[t, -1])
        gains = [
            # E max(v - a, 0) - E max(v - b, 0) is the integral of P(v > u) from a to b
            quad(normal_tail, values[best], top, args=(value, std), epsabs=1e-12)[0]
            for value, std in zip(values, np.sqrt(variances), strict=True)
        ]
        ratio = exploration_config.REPEAT_RATIO
        neglected = variances / before / (ratio * variances[best] / first) - 1
        neglected[best] = -1
        worth = counts[t] * np.array(gains) - (values[best] - values)
        margins.append(np.minimum(neglected, worth))
        sampled = counts[t] == 0 or bool((margins[-1] > 0).any())
        chosen.append(-1 if sampled else best)
    return np.array(chosen, np.int64), np.array(margins)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("d", WIDTHS)
def test_a_request_is_sampled_exactly_where_an_arm_is_neglected_and_worth_trying(
    way: bool, d: int, K: int, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # which arms of one request often exceed
    monkeypatch.setattr(exploration_config, "REPEAT_RATIO", 1.2)
    posteriors, _, _ = reduced(d, n=200)
    rng = np.random.default_rng(0)
    asked = rng.integers(0, 6, 60)
    arms = LAYOUTS[layout](0.3 * rng.standard_normal((60, K, d)))
    counts, highest = np.array([0, 1, 40, 900, 90, 300]), float(posteriors.thetas[:, -1].max() + 3)
    seen = int(counts.sum())
    expected, margins = greedy_by_loops(posteriors, asked, arms, counts, seen, highest)
    assert np.abs(margins[counts[asked] > 0]).min() > 1e-9  # no arm is at the limit
    chosen, others = posteriors.greedy(asked, arms, counts, seen, highest)
    np.testing.assert_array_equal(chosen, expected)
    assert chosen.dtype == np.int64
    assert others is True
    assert (chosen[asked == 0] == -1).all()  # no rewards
    assert K == 1 or 0.05 < (chosen[asked > 0] < 0).mean() < 0.95
    assert K > 1 or (chosen[asked > 0] == 0).all()
    surely = chosen >= 0
    again, others = posteriors.greedy(asked[surely], arms[surely], counts, seen, highest)
    np.testing.assert_array_equal(again, chosen[surely])
    assert others is False


def test_the_greedy_arm_in_a_full_basis(way: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tasks that share none."""
    tasks, F = late_tasks(n=200)
    posteriors = TaskPosteriors.of(stored(tasks, F), some_prior(F))
    counts = np.bincount(tasks, minlength=N_TASKS)
    asked, arms = (
        np.repeat(np.arange(N_TASKS), 9),
        np.random.default_rng(3).standard_normal((9 * N_TASKS, 4, DIM)),
    )
    for ratio in (1.01, 1.5, 1e9):
        monkeypatch.setattr(exploration_config, "REPEAT_RATIO", ratio)
        expected, margins = greedy_by_loops(posteriors, asked, arms, counts, len(tasks), 9.0)
        assert np.abs(margins).min() > 1e-9
        chosen, others = posteriors.greedy(asked, arms, counts, len(tasks), 9.0)
        np.testing.assert_array_equal(chosen, expected)
        assert others == (chosen < 0).any()
        assert ((chosen < 0) == (counts[asked] == 0)).all() or ratio < 1e9


def test_of_arms_as_good_the_first_is_chosen(way: bool) -> None:
    posteriors, _, _ = reduced()
    arm = np.random.default_rng(0).standard_normal(18)
    better = arm + 0.1 * posteriors.thetas[0, :-1]
    arms = np.stack([[arm, better, better, arm], [arm, arm, arm, arm]])
    chosen, _ = posteriors.greedy(np.array([0, 0]), arms, np.ones(6, np.int64), 6, 1e9)
    assert chosen.tolist() == [1, 0]


def test_no_requests_have_no_arms(way: bool) -> None:
    posteriors, _, _ = reduced()
    chosen, others = posteriors.greedy(
        np.zeros(0, np.int64), np.zeros((0, 3, 18)), np.zeros(6, np.int64), 0, 9.0
    )
    assert (chosen.shape, others) == ((0,), False)
    assert chosen.dtype == np.int64


@pytest.mark.skipif(not gaussian.COMPILED, reason="the compiled posteriors are not built here")
def test_the_extension_checks_the_shapes_of_its_arrays() -> None:
    posteriors, tasks, F = reduced()
    arms, counts = np.ones((1, 2, 18)), np.ones(6, np.int64)
    for t in (-1, 6):
        with pytest.raises(ValueError, match=f"task {t} of 6"):
            posteriors.greedy(np.array([t]), arms, counts, 6, 9.0)
        with pytest.raises(ValueError, match=f"task {t} of 6"):
            posteriors.learn(np.array([t]), F[:1])
    with pytest.raises(ValueError, match="counts holds"):
        posteriors.greedy(np.array([0]), arms, counts[:5], 6, 9.0)
    with pytest.raises(ValueError, match="arms holds"):
        posteriors.greedy(np.array([0]), np.ones((1, 1, 17)), counts, 6, 9.0)
    with pytest.raises(ValueError, match="rows holds"):
        posteriors.learn(tasks[:1], F[:1, 1:].copy())
    posteriors.noises = posteriors.noises[:5]
    with pytest.raises(ValueError, match=r"noises holds|thetas holds|roots holds"):
        posteriors.learn(tasks[:1], F[:1])
