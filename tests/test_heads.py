"""Heads: every task's posterior under a shared prior, against its normal equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits import histories as histories_module
from cobandits.errors import DataError
from cobandits.histories import Histories
from cobandits.policies import heads as heads_module
from cobandits.policies.heads import Heads
from cobandits.priors import Coordinates, Prior, Settings, improved

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

T, D = 12, 4


def drawn(seed: int = 0, n: int = 60) -> tuple[Codes, Doubles]:
    """Draw tasks, of which some are rare and the last two never come, and rows [phi, 1, y]."""
    rng = np.random.default_rng(seed)
    tasks = np.floor((T - 2) * rng.random(n) ** 2).astype(np.int64)
    Theta = rng.standard_normal((T, D))
    Phi = rng.standard_normal((n, D)) + np.array([0.0, 3.0, 0.0, 0.0])
    y = 2 + np.einsum("nd,nd->n", Phi, Theta[tasks]) + 0.3 * rng.standard_normal(n)
    return tasks, np.column_stack([Phi, np.ones(n), y])


def remembered(tasks: Codes, F: Doubles, n_tasks: int = T) -> Histories:
    """Return histories of rows, without those that there is no room for."""
    histories = Histories(n_tasks=n_tasks, dim=F.shape[1] - 2)
    for i in np.flatnonzero(histories.kept(tasks)):
        histories.add(tasks[i : i + 1], F[i : i + 1])
    histories.compress(2 * histories.width)
    return histories


def some_prior(F: Doubles, seed: int = 3) -> Prior:
    """Return a prior that no learning would lead to, in the coordinates of some rows."""
    rng = np.random.default_rng(seed)
    coordinates = Coordinates.of(remembered(np.zeros(len(F), np.int64), F))
    Z, root = F[:, :-1] @ coordinates.matrix, rng.standard_normal((D + 1, D + 1))
    return Prior(
        coordinates=coordinates,
        covariance=root @ root.T,
        offset=0.7,
        noise=0.4,
        spread=Z.T @ Z / len(Z),
    )


def textbook(prior: Prior, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return a task's theta and its covariance, both with the intercept, by normal equations."""
    A = prior.coordinates.matrix
    Z, y = F[:, :-1] @ A, F[:, -1] - prior.offset
    P = np.linalg.inv(np.linalg.inv(prior.covariance) + Z.T @ Z / prior.noise)
    theta = A @ P @ Z.T @ y / prior.noise
    theta[-1] += prior.offset
    return np.asarray(theta, np.float64), np.asarray(A @ P @ A.T, np.float64)


def one_by_one(prior: Prior, tasks: Codes, F: Doubles) -> Heads:
    """Return heads that learned the rows in turn."""
    heads = Heads(n_tasks=T, prior=prior)
    for i in range(len(tasks)):
        heads.learn(tasks[i : i + 1], F[i : i + 1])
    return heads


def check_same(ours: Heads, theirs: Heads, rtol: float = 1e-7) -> None:
    tasks, arms = np.arange(T), np.random.default_rng(5).standard_normal((T, 3, D))
    np.testing.assert_allclose(ours.thetas(tasks), theirs.thetas(tasks), rtol=rtol, atol=1e-8)
    for here, there in zip(ours.beliefs(tasks, arms), theirs.beliefs(tasks, arms), strict=True):
        np.testing.assert_allclose(here, there, rtol=rtol, atol=1e-8)
    volumes = ours.posteriors.log_volumes, theirs.posteriors.log_volumes
    np.testing.assert_allclose(*volumes, rtol=rtol, atol=1e-8)


@pytest.mark.parametrize("n", [30, 300])
def test_heads_from_rows_agree_with_learning_row_by_row_and_the_textbook(n: int) -> None:
    """Of 300 rows most were compressed."""
    tasks, F = drawn(n=n)
    prior = some_prior(F)
    heads = Heads.of(remembered(tasks, F), prior, None)
    check_same(heads, one_by_one(prior, tasks, F))
    for t in range(T):
        theta, P = textbook(prior, F[tasks == t])
        np.testing.assert_allclose(heads.thetas(np.array([t]))[0], theta, rtol=1e-7, atol=1e-8)
        basis = heads.root @ heads.posteriors.unpacked(np.array([t]))[0]
        np.testing.assert_allclose(basis @ basis.T, P, rtol=1e-7, atol=1e-8)


def test_batches_are_learned_as_row_after_row() -> None:
    tasks, F = drawn()
    prior = some_prior(F)
    together = Heads(n_tasks=T, prior=prior)
    together.learn(tasks[:1], F[:1])
    together.learn(tasks[1:], F[1:])
    check_same(together, one_by_one(prior, tasks, F))


def test_values_factors_and_what_is_foreseen() -> None:
    tasks, F = drawn()
    prior = some_prior(F)
    heads = Heads.of(remembered(tasks, F), prior, None)
    asked, rng = np.array([0, 11, 0, 4]), np.random.default_rng(1)
    arms = rng.standard_normal((4, 3, D))
    values, (also, factors, before) = heads.values(asked, arms), heads.beliefs(asked, arms)
    A = prior.coordinates.matrix
    C = A @ prior.covariance @ A.T
    for i, t in enumerate(asked):
        theta, P = textbook(prior, F[tasks == t])
        X = np.column_stack([arms[i], np.ones(3)])
        np.testing.assert_allclose(values[i] + theta[-1], X @ theta, rtol=1e-7)
        np.testing.assert_allclose(also[i] + prior.offset, X @ theta, rtol=1e-7)
        np.testing.assert_allclose(factors[i] @ factors[i].T, X @ P @ X.T, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(before[i], np.diag(X @ C @ X.T), rtol=1e-7)
        row = np.r_[X[2], 5.0]
        squares, variances = heads.foresee(asked[i : i + 1], row[None])
        assert squares[0] == pytest.approx((5 - X[2] @ theta) ** 2)
        assert variances[0] == pytest.approx(X[2] @ P @ X[2])


def test_a_task_without_rewards_has_the_prior() -> None:
    tasks, F = drawn()
    heads = Heads.of(remembered(tasks, F), some_prior(F), None)
    thetas = heads.thetas(np.array([0, T - 1]))
    np.testing.assert_array_equal(thetas[1], [0, 0, 0, 0, 0.7])
    assert (thetas[0] != 0).all()


def test_refused_rows_change_nothing() -> None:
    tasks, F = drawn()
    heads = Heads.of(remembered(tasks, F), some_prior(F), None)
    theirs = one_by_one(heads.prior, tasks, F)
    bad = np.ones((2, D + 2))
    bad[1, 0] = 1e200
    with pytest.raises(DataError, match="too large"):
        heads.learn(np.array([0, 1]), bad)
    check_same(heads, theirs)


def changed(prior: Prior, F: Doubles, what: str) -> Prior:
    """Return another prior."""
    if what == "offset":
        return replace(prior, offset=-1.2)
    if what == "noise":
        return replace(prior, noise=1.1)
    if what == "covariance":
        return replace(prior, covariance=some_prior(F, seed=4).covariance)
    if what == "coordinates":
        return replace(some_prior(F[:8] * [1, 1, 9, 1, 1, 1]), offset=0.7)
    assert what == "nothing"
    return prior


@pytest.mark.parametrize("what", ["nothing", "offset", "noise", "covariance", "coordinates"])
def test_posteriors_of_tasks_whose_rows_are_given_up_are_carried_over(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """With all directions it is exact: as if all rows had been learned under the new prior."""
    monkeypatch.setattr(histories_module, "_MOST_BYTES", 1)
    tasks, F = drawn(n=200)
    histories = remembered(tasks, F)
    assert 1 < (histories.slots < 0).sum() - 2 < T - 2  # two tasks never came
    before = one_by_one(some_prior(F), tasks, F)
    prior = changed(before.prior, F, what)
    after = Heads.of(histories, prior, before)
    check_same(after, one_by_one(prior, tasks, F), rtol=1e-5)
    never = after.thetas(np.array([T - 1]))[0]
    np.testing.assert_array_equal(never, [0, 0, 0, 0, prior.offset])


def test_what_was_carried_over_goes_on_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories_module, "_MOST_BYTES", 1)
    tasks, F = drawn(n=200)
    before = one_by_one(some_prior(F), tasks[:150], F[:150])
    prior = changed(before.prior, F, "covariance")
    after = Heads.of(remembered(tasks[:150], F[:150]), prior, before)
    after.learn(tasks[150:], F[150:])
    check_same(after, one_by_one(prior, tasks, F), rtol=1e-5)


def test_carrying_over_a_few_tasks_at_a_time_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories_module, "_MOST_BYTES", 1)
    tasks, F = drawn(n=200)
    before = one_by_one(some_prior(F), tasks, F)
    together = Heads.of(remembered(tasks, F), before.prior, before)
    monkeypatch.setattr(heads_module, "_CARRIED", 1)
    check_same(Heads.of(remembered(tasks, F), before.prior, before), together, rtol=1e-12)


@pytest.mark.parametrize("numbers", [1, 5, 14, 100, 5149, 5150, 1e9])
def test_posteriors_have_as_many_directions_as_memory_suffices_for(
    monkeypatch: pytest.MonkeyPatch, numbers: float
) -> None:
    """But four at least, and no more than there are: 100 and the intercept."""
    monkeypatch.setattr(heads_module, "_MOST_BYTES", 3 * 8 * numbers)
    prior = Prior(
        coordinates=Coordinates(matrix=np.eye(101)),
        covariance=np.eye(101),
        offset=0.0,
        noise=1.0,
        spread=np.eye(101),
    )
    heads = Heads(n_tasks=3, prior=prior)
    q = heads.posteriors.dim
    needed = [k * (k + 1) // 2 + k for k in range(1, 102)]  # numbers, of k = 1 to 101
    assert q == max(4, sum(each <= numbers for each in needed))
    assert heads.noise == pytest.approx(1 + 101 - q)


def related(
    seed: int = 0, n_tasks: int = 60, d: int = 20, n: int = 8
) -> tuple[Codes, Doubles, Doubles]:
    """Draw rows of tasks with a common basis of rank 2, one task after the other, and thetas."""
    rng = np.random.default_rng(seed)
    Theta = rng.standard_normal((n_tasks, 2)) @ np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    tasks, Phi = np.tile(np.arange(n_tasks), n), rng.standard_normal((n * n_tasks, d))
    y = np.einsum("nd,nd->n", Phi, Theta[tasks]) + 0.1 * rng.standard_normal(len(Phi))
    return tasks, np.column_stack([Phi, np.ones(len(Phi)), y]), Theta


def error(heads: Heads, Theta: Doubles) -> float:
    """Return the relative error of the thetas, squared."""
    thetas = heads.thetas(np.arange(len(Theta)))[:, :-1]
    return float(((thetas - Theta) ** 2).sum() / (Theta**2).sum())


def test_a_few_directions_are_enough_where_tasks_share_a_basis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four of 21 directions hold the two that tasks share."""
    tasks, F, Theta = related()
    histories = remembered(tasks, F, 60)
    prior = improved(histories, None, Settings()).prior
    whole = Heads.of(histories, prior, None)
    monkeypatch.setattr(heads_module, "_MOST_BYTES", 1)
    few = Heads.of(histories, prior, None)
    assert few.posteriors.dim == 4
    assert error(few, Theta) < 0.1
    assert error(few, Theta) < 1.5 * error(whole, Theta)
    rows = related(seed=1)[1]  # other features, and what these thetas would pay
    rows[:, -1] = np.einsum("nd,nd->n", rows[:, :-2], Theta[tasks])
    squares, variances = few.foresee(tasks, rows)
    assert squares.mean() < variances.mean() + few.noise  # not too sure of itself


def test_a_few_directions_are_carried_over_to_a_better_prior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was learned in directions that are left is lost, and what is in others is kept."""
    tasks, F, Theta = related()
    prior = improved(remembered(tasks, F, 60), None, Settings()).prior
    early = improved(remembered(tasks[:300], F[:300], 60), None, Settings()).prior
    monkeypatch.setattr(heads_module, "_MOST_BYTES", 1)
    monkeypatch.setattr(histories_module, "_MOST_BYTES", 1)
    histories = remembered(tasks, F, 60)
    assert 30 < (histories.slots < 0).sum() < 60
    before = Heads(n_tasks=60, prior=early)
    before.learn(tasks, F)
    after = Heads.of(histories, prior, before)
    fresh = Heads(n_tasks=60, prior=prior)
    fresh.learn(tasks, F)
    assert error(fresh, Theta) < 0.1
    assert error(after, Theta) < 0.7 * error(before, Theta)
    assert error(after, Theta) < 1.5 * error(fresh, Theta)
    again = Heads.of(histories, prior, after)  # the same prior: nothing is lost any more
    thetas = after.thetas(np.arange(60))
    np.testing.assert_allclose(again.thetas(np.arange(60)), thetas, rtol=1e-5, atol=1e-6)
