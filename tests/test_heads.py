"""Heads: every task's posterior under a shared prior, against its normal equations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits import histories as histories_module
from cobandits import posteriors as posteriors_module
from cobandits.errors import DataError
from cobandits.histories import Histories
from cobandits.policies import heads as heads_module
from cobandits.policies import wholes as wholes_module
from cobandits.policies.explained import explain
from cobandits.policies.heads import Heads
from cobandits.priors import Coordinates, Prior, Settings, improved

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Floats = NDArray[np.floating]

WAYS = [pytest.param(True, id="compiled"), pytest.param(False, id="numpy")]

T, D = 12, 4


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not heads_module.COMPILED:
        pytest.skip("the compiled posteriors are not built here")
    for module in (heads_module, posteriors_module):
        monkeypatch.setattr(module, "COMPILED", request.param)
    return bool(request.param)


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


def posterior(prior: Prior, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return a task's mean and covariance in the prior's coordinates, by normal equations."""
    Z, y = F[:, :-1] @ prior.coordinates.matrix, F[:, -1] - prior.offset
    P = np.linalg.inv(np.linalg.inv(prior.covariance) + Z.T @ Z / prior.noise)
    return np.asarray(P @ Z.T @ y / prior.noise), np.asarray(P)


def textbook(prior: Prior, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return a task's theta and its covariance, both with the intercept, by normal equations."""
    A, (mean, P) = prior.coordinates.matrix, posterior(prior, F)
    theta = A @ mean
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
    np.testing.assert_allclose(ours.thetas, theirs.thetas, rtol=rtol, atol=1e-8)
    np.testing.assert_allclose(ours.noises, theirs.noises, rtol=rtol)
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
        np.testing.assert_allclose(heads.thetas[t], theta, rtol=1e-7, atol=1e-8)
        basis = heads.directions.T @ heads.posteriors.unpacked(np.array([t]))[0]
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
    values, (also, factors, own, before) = heads.values(asked, arms), heads.beliefs(asked, arms)
    A = prior.coordinates.matrix
    C = A @ prior.covariance @ A.T
    for i, t in enumerate(asked):
        theta, P = textbook(prior, F[tasks == t])
        X = np.column_stack([arms[i], np.ones(3)])
        np.testing.assert_allclose(values[i] + theta[-1], X @ theta, rtol=1e-7)
        np.testing.assert_array_equal(also[i], values[i])
        assert factors[i].shape == (3, D + 1)
        np.testing.assert_array_equal(own[i], [0, 0, 0])  # nothing is outside of all directions
        np.testing.assert_allclose(factors[i] @ factors[i].T, X @ P @ X.T, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(before[i], np.diag(X @ C @ X.T), rtol=1e-7)
        row = np.r_[X[2], 5.0]
        squares, variances = heads.foresee(asked[i : i + 1], row[None])
        assert squares[0] == pytest.approx((5 - X[2] @ theta) ** 2)
        assert variances[0] == pytest.approx(X[2] @ P @ X[2] + prior.noise)


def test_a_task_without_rewards_has_the_prior() -> None:
    tasks, F = drawn()
    heads = Heads.of(remembered(tasks, F), some_prior(F), None)
    np.testing.assert_array_equal(heads.thetas[T - 1], [0, 0, 0, 0, 0.7])
    assert (heads.thetas[0] != 0).all()


def test_refused_rows_change_nothing(way: bool) -> None:
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
    np.testing.assert_array_equal(after.thetas[T - 1], [0, 0, 0, 0, prior.offset])


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
    monkeypatch.setattr(wholes_module, "_MOST_BYTES", 3 * 8 * numbers)
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
    np.testing.assert_allclose(heads.noises, 1 + 101 - q)


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
    return float(((heads.thetas[:, :-1] - Theta) ** 2).sum() / (Theta**2).sum())


def test_a_few_directions_are_enough_where_tasks_share_a_basis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four of 21 directions hold the two that tasks share."""
    tasks, F, Theta = related()
    histories = remembered(tasks, F, 60)
    prior = improved(histories, None, Settings()).prior
    whole = Heads.of(histories, prior, None)
    monkeypatch.setattr(wholes_module, "_MOST_BYTES", 1)
    few = Heads.of(histories, prior, None)
    assert few.posteriors.dim == 4
    assert error(few, Theta) < 0.1
    assert error(few, Theta) < 1.5 * error(whole, Theta)
    rows = related(seed=1)[1]  # other features, and what these thetas would pay
    rows[:, -1] = np.einsum("nd,nd->n", rows[:, :-2], Theta[tasks])
    squares, variances = few.foresee(tasks, rows)
    assert squares.mean() < variances.mean()  # not too sure of itself


def test_a_few_directions_are_carried_over_to_a_better_prior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was learned in directions that are left moves no more, and is kept."""
    tasks, F, Theta = related()
    prior = improved(remembered(tasks, F, 60), None, Settings()).prior
    early = improved(remembered(tasks[:300], F[:300], 60), None, Settings()).prior
    monkeypatch.setattr(wholes_module, "_MOST_BYTES", 1)
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
    np.testing.assert_allclose(again.thetas, after.thetas, rtol=1e-5, atol=1e-6)


# ---- few of many directions: what moves between two priors


WIDTHS = [13, 16, 18, 23]  # features


def lopsided(d: int = 18, rank: int = 2, seed: int = 2) -> Prior:
    """Return a prior with so many wide directions, for features that are not alike."""
    rng = np.random.default_rng(seed)
    p = d + 1
    matrix = np.diag(np.append(np.geomspace(0.3, 3, d), 1.0))
    matrix[-1, 0] = -0.6  # the first feature is centred
    vectors = np.linalg.qr(rng.standard_normal((p, p)))[0]
    variances = np.linspace(0.04, 0.1, p)
    variances[:rank] = np.linspace(3, 2, rank)
    Z = typical(5000, d, rng) @ matrix
    prior = Prior(
        coordinates=Coordinates(matrix=matrix),
        covariance=vectors * variances @ vectors.T,
        offset=0.7,
        noise=0.25,
        spread=Z.T @ Z / len(Z),
    )
    assert prior.rank == rank
    return prior


def typical(n: int, d: int, rng: np.random.Generator) -> Doubles:
    """Draw features that are correlated, with the 1, (n, d + 1)."""
    mixing = np.random.default_rng(7).standard_normal((d, d)) / np.sqrt(d) + np.eye(d)
    return np.column_stack([rng.standard_normal((n, d)) @ mixing + 0.2, np.ones(n)])


def rows_of(n: int, d: int, n_tasks: int = 6, seed: int = 0) -> tuple[Codes, Doubles]:
    """Draw tasks, of which the last one never comes, and rows ``[phi, 1, y]``."""
    rng = np.random.default_rng(seed)
    tasks, X = rng.integers(0, n_tasks - 1, n), typical(n, d, rng)
    thetas = np.random.default_rng(1).standard_normal((n_tasks, d + 1))
    y = np.einsum("nd,nd->n", X, thetas[tasks]) + 0.5 * rng.standard_normal(n)
    return tasks, np.column_stack([X, y])


def met(d: int = 18, n: int = 120, rank: int = 2) -> tuple[Heads, Codes, Doubles]:
    """Return heads of some rows that move in fewer directions than there are, and these rows."""
    tasks, F = rows_of(n, d)
    prior = lopsided(d, rank)
    heads = Heads.of(remembered(tasks, F, 6), prior, None)
    assert heads.posteriors.dim == 2 * rank + 8 < d + 1
    return heads, tasks, F


def outside(heads: Heads) -> Doubles:
    """Return the parts of all thetas that rewards do not move, (T, d + 1)."""
    parts = heads.thetas - heads.posteriors.means @ heads.directions
    parts[:, -1] -= heads.prior.offset
    return np.asarray(parts)


def covariance(heads: Heads, task: int) -> Doubles:
    """Return that of a task's weights, (q, q)."""
    S = heads.posteriors.unpacked(np.array([task]))[0]
    return np.asarray(S @ S.T)


def apart(prior: Prior, q: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Split features into their part in the q widest directions, and what is uncorrelated with it.

    Returned are the directions, (p, q) and (p, p - q); what turns thetas into the weights of the
    first part, (q, p); and the second moment of the second, (p - q, p - q).
    """
    vectors, M = np.linalg.eigh(prior.covariance)[1], prior.spread
    inner, outer = vectors[:, -q:], vectors[:, : len(vectors) - q]
    B = np.linalg.solve(inner.T @ M @ inner, inner.T @ M @ outer)
    e = outer - inner @ B  # e'x is not correlated with inner'x
    return inner, outer, inner.T + B @ outer.T, e.T @ M @ e


@pytest.mark.parametrize(("rank", "q"), [(0, 31), (1, 10), (2, 12), (7, 22), (12, 31)])
def test_as_many_directions_move_as_tasks_share(rank: int, q: int) -> None:
    """Twice as many and eight; or all, where tasks share none or that many are more."""
    heads = Heads(n_tasks=2, prior=lopsided(30, rank))
    assert heads.directions.shape == (q, 31)
    assert heads.posteriors.means.shape == (2, q)
    _, outer, _, M = apart(heads.prior, q)
    unknown = np.trace(M @ outer.T @ heads.prior.covariance @ outer)
    np.testing.assert_allclose(heads.noises, 0.25 + unknown, rtol=1e-9)
    assert heads.elsewhere == pytest.approx(unknown, rel=1e-9)
    assert (q == 31) == (unknown == 0) == (not heads.are_narrow)


@pytest.mark.parametrize("n", [0, 12, 120, 900])
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_from_rows_thetas_are_whole_though_they_move_in_few_directions(n: int, rank: int) -> None:
    """And noises have what is unknown of a typical arm besides that within the directions."""
    heads, tasks, F = met(n=max(n, 1), rank=rank) if n else (None, *rows_of(0, 18))
    prior = lopsided(18, rank)
    heads = heads or Heads(n_tasks=6, prior=prior)
    q, A = 2 * rank + 8, prior.coordinates.matrix
    inner, outer, H, M = apart(prior, q)
    for t in range(6):
        mean, P = posterior(prior, F[tasks == t])
        theta = A @ mean + prior.offset * np.eye(19)[-1]
        np.testing.assert_allclose(heads.thetas[t], theta, rtol=1e-7, atol=1e-8)
        unknown = np.trace(M @ outer.T @ P @ outer)
        assert heads.noises[t] == pytest.approx(prior.noise + unknown, rel=1e-8)
        R, moves = heads.directions, A @ inner @ H
        np.testing.assert_allclose(
            R.T @ covariance(heads, t) @ R, moves @ P @ moves.T, rtol=1e-6, atol=1e-8
        )
        np.testing.assert_allclose(outside(heads)[t], A @ mean - moves @ mean, atol=1e-8)
    assert (n == 0) == (np.ptp(heads.noises) == 0)
    assert (n == 0) == np.allclose(outside(heads), 0)


def autoregressive(
    rho: float, own: float, n: int, d: int = 30, n_tasks: int = 40
) -> tuple[Prior, Codes, Doubles]:
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
    prior = None
    for _ in range(3):
        prior = improved(remembered(tasks, F, n_tasks), prior, Settings()).prior
    assert prior is not None
    return prior, tasks, F


@pytest.mark.parametrize("n", [12, 60])
@pytest.mark.parametrize("own", [0.02, 0.2])
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_variance_of_a_typical_arm_is_right_for_correlated_features(
    rho: float, own: float, n: int
) -> None:
    """Within 1 % of ``trace(M P)`` with the dense posterior of each task; also as it is told."""
    prior, tasks, F = autoregressive(rho, own, n)
    heads = Heads.of(remembered(tasks, F, 40), prior, None)
    assert heads.are_narrow
    M = heads.second_moment
    told = np.array([explain(heads, np.full(40, n), t).uncertainty for t in range(40)])
    for t in range(40):
        P = posterior(prior, F[tasks == t])[1]
        within = np.trace(M @ covariance(heads, t))
        variance = np.trace(prior.spread @ P)
        assert within + heads.noises[t] - prior.noise == pytest.approx(variance, rel=0.01)
        assert told[t] == pytest.approx(np.sqrt(variance), rel=0.005)


def test_some_slots_are_renewed_as_all_are_and_the_others_stay() -> None:
    """Whatever they had learned in between, in any order; also with rows that came since."""
    heads, tasks, F = met()
    more = rows_of(60, 18, seed=9)
    histories = remembered(tasks, F, 6)
    heads.learn(*more)
    before = copy.deepcopy(heads)
    histories.add(*more)
    heads.renew(histories, histories.slots[[3, 1]])
    whole = Heads.of(histories, heads.prior, None)
    for t in range(6):
        expected = whole if t in (1, 3) else before
        np.testing.assert_allclose(heads.thetas[t], expected.thetas[t], rtol=1e-9, atol=1e-11)
        assert heads.noises[t] == pytest.approx(expected.noises[t], rel=1e-9)
        np.testing.assert_allclose(covariance(heads, t), covariance(expected, t), atol=1e-11)
        mean = expected.posteriors.means[t]
        np.testing.assert_allclose(heads.posteriors.means[t], mean, rtol=1e-9, atol=1e-11)
        volume = expected.posteriors.log_volumes[t]
        assert heads.posteriors.log_volumes[t] == pytest.approx(volume, rel=1e-9)
    assert np.abs(whole.thetas[1] - before.thetas[1]).max() > 1e-3
    heads.renew(histories, np.zeros(0, np.int64))
    heads.renew(histories, np.arange(len(histories.tasks)))
    np.testing.assert_allclose(heads.thetas, whole.thetas, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("d", WIDTHS)
def test_between_priors_thetas_move_in_their_directions_by_normal_equations(
    way: bool, d: int
) -> None:
    """With what is unknown outside of the directions as noise; a task may come more than once."""
    heads, _, _ = met(d)
    before, (tasks, F) = copy.deepcopy(heads), rows_of(17, d, seed=5)
    assert np.bincount(tasks).max() > 2
    squares, expected = heads.learn(tasks, F)
    R = before.directions
    for t in range(6):
        mine = np.flatnonzero(tasks == t)
        X, y, noise = F[mine, :-1], F[mine, -1], before.noises[t]
        Z, errors, P = X @ R.T, y - X @ before.thetas[t], covariance(before, t)
        now = np.linalg.inv(np.linalg.inv(P) + Z.T @ Z / noise)
        step = now @ Z.T @ errors / noise
        np.testing.assert_allclose(heads.thetas[t], before.thetas[t] + step @ R, atol=1e-9)
        np.testing.assert_allclose(heads.posteriors.means[t], before.posteriors.means[t] + step)
        np.testing.assert_allclose(covariance(heads, t), now, rtol=1e-8, atol=1e-10)
        for k, i in enumerate(mine):  # what the rows before it led to
            gains = P @ Z[:k].T @ np.linalg.inv(Z[:k] @ P @ Z[:k].T + noise * np.eye(k))
            left = errors[k] - Z[k] @ gains @ errors[:k]
            variance = Z[k] @ (P - gains @ Z[:k] @ P) @ Z[k]
            assert squares[i] == pytest.approx(left**2, rel=1e-7, abs=1e-12)
            assert expected[i] == pytest.approx(variance + noise, rel=1e-9)
    np.testing.assert_allclose(outside(heads), outside(before), atol=1e-9)
    np.testing.assert_array_equal(heads.noises, before.noises)
    np.testing.assert_array_equal(heads.thetas[5], before.thetas[5])  # it had no rows


def test_one_request_at_a_time_gives_the_heads_of_a_batch(way: bool) -> None:
    together, _, _ = met()
    alone, (tasks, F) = copy.deepcopy(together), rows_of(40, 18, seed=6)
    foreseen = together.learn(tasks, F)
    each = []
    for i in range(40):
        told = alone.foresee(tasks[i : i + 1], F[i : i + 1])
        each.append(alone.learn(tasks[i : i + 1], F[i : i + 1]))
        np.testing.assert_allclose(each[-1], told, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(foreseen, np.concatenate(each, axis=1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(together.thetas, alone.thetas, rtol=1e-9, atol=1e-10)
    for name in ("means", "roots", "log_volumes"):
        here, there = (getattr(heads.posteriors, name) for heads in (together, alone))
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-10)


def test_no_rows_teach_nothing(way: bool) -> None:
    heads, _, _ = met()
    before = copy.deepcopy(heads)
    for told in (heads.learn, heads.foresee):
        squares, expected = told(np.zeros(0, np.int64), np.zeros((0, 20)))
        assert squares.shape == expected.shape == (0,)
    np.testing.assert_array_equal(heads.thetas, before.thetas)
    np.testing.assert_array_equal(heads.posteriors.roots, before.posteriors.roots)


def test_refused_rows_leave_no_part_moved(way: bool) -> None:
    heads, tasks, F = met()
    before, bad = copy.deepcopy(heads), F[:5].copy()
    for place, wrong in ((0, 1e75), (-1, -1e75), (3, np.nan), (-1, np.inf)):
        bad[4, place] = wrong
        with pytest.raises(DataError, match="too large"):
            heads.learn(tasks[:5], bad)
    np.testing.assert_array_equal(heads.thetas, before.thetas)
    for name in ("means", "roots", "log_volumes"):
        here, there = (getattr(each.posteriors, name) for each in (heads, before))
        np.testing.assert_array_equal(here, there)
    arms = np.full((1, 2, 18), heads._largest)  # what is not refused can be computed with
    heads.learn(tasks[:1], np.r_[arms[0, 0], 1, heads._largest][None])
    assert np.isfinite(heads.thetas).all()
    assert np.isfinite(heads.posteriors.roots).all()


@pytest.mark.parametrize("K", [1, 2, 5, 7])
def test_beliefs_are_the_directions_posterior_and_what_is_unknown_outside(
    way: bool, K: int
) -> None:
    heads, _, _ = met()
    prior, R = heads.prior, heads.directions
    asked, rng = np.array([3, 0, 5, 3]), np.random.default_rng(1)
    arms = rng.standard_normal((4, K, 18))
    values, factors, own, before = heads.beliefs(asked, arms)
    assert factors.shape == (4, K, 12)
    for i, t in enumerate(asked):
        X = np.column_stack([arms[i], np.ones(K)])
        np.testing.assert_allclose(values[i], arms[i] @ heads.thetas[t, :-1], rtol=1e-9)
        within = X @ R.T @ covariance(heads, t) @ R @ X.T
        np.testing.assert_allclose(factors[i] @ factors[i].T, within, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(own[i] ** 2, np.full(K, heads.noises[t] - prior.noise))
        expected = np.diag(X @ R.T @ R @ X.T) + heads.elsewhere
        np.testing.assert_allclose(before[i], expected, rtol=1e-9)
    assert own[2].min() > 0
    unseen = (factors[2] ** 2).sum(axis=1) + own[2] ** 2  # nothing is known without rewards
    np.testing.assert_allclose(unseen, before[2], rtol=1e-9)


# ---- the greedy arm, or -1


def strided(arms: Doubles) -> Floats:
    return np.repeat(arms, 2, axis=1)[:, ::2]


LAYOUTS: dict[str, Callable[[Doubles], Floats]] = {
    "plain": lambda arms: arms,
    "strided": strided,
    "turned": np.asfortranarray,
    "float32": lambda arms: arms.astype(np.float32),
}


def told(
    heads: Heads, asked: Codes, arms: Floats, counts: Codes, known: float
) -> tuple[Codes, Doubles]:
    """Return the greedy arms by loops over beliefs, and how far each arm is from the limit."""
    values, factors, own, before = heads.beliefs(asked, arms)
    chosen, ratios = [], []
    for i, t in enumerate(asked):
        parts = zip(factors[i], own[i], before[i], strict=True)
        shares = [(f @ f + rest**2) / prior for f, rest, prior in parts]
        ratios.append([counts[t] * share / known for share in shares])
        unknown = counts[t] == 0 or max(ratios[-1]) > 1
        chosen.append(-1 if unknown else int(np.argmax(values[i])))
    return np.array(chosen, np.int64), np.array(ratios)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("d", WIDTHS)
def test_an_arm_is_unknown_exactly_where_its_variance_exceeds_what_is_known(
    way: bool, d: int, K: int, layout: str
) -> None:
    heads, _, _ = met(d, n=200)
    rng, known = np.random.default_rng(0), 9.0
    asked = rng.integers(0, 6, 80)
    arms = LAYOUTS[layout](rng.standard_normal((80, K, d)))
    counts = np.array([0, 8, 0, 0, 0, 5])
    _, factors, own, before = heads.beliefs(asked, arms)
    shares = (((factors**2).sum(axis=2) + own**2) / before).max(axis=1)
    for t in (2, 3, 4):  # such that half of the requests exceed the limit
        counts[t] = known / np.median(shares[asked == t])
    expected, ratios = told(heads, asked, arms, counts, known)
    assert np.abs(ratios - 1).min() > 1e-7  # no arm is at the limit
    chosen, others = heads.greedy(asked, arms, counts, known)
    np.testing.assert_array_equal(chosen, expected)
    assert chosen.dtype == np.int64
    assert others is True
    assert (chosen[asked == 0] == -1).all()  # no rewards
    assert (chosen[asked == 1] >= 0).all()  # so few that they need not have taught anything
    assert (chosen[asked == 5] >= 0).all()
    for t in (2, 3, 4):
        assert 0.2 < (chosen[asked == t] < 0).mean() < 0.8
    surely = chosen >= 0
    again, others = heads.greedy(asked[surely], arms[surely], counts, known)
    np.testing.assert_array_equal(again, chosen[surely])
    assert others is False


def test_both_ways_of_being_greedy_agree_where_all_directions_move(way: bool) -> None:
    """Of tasks that share none; the arms of one request are known, or one is not."""
    tasks, F = drawn(n=200)
    heads = Heads.of(remembered(tasks, F), some_prior(F), None)
    counts = np.bincount(tasks, minlength=T)
    asked, arms = (
        np.repeat(np.arange(T), 9),
        np.random.default_rng(3).standard_normal((9 * T, 4, D)),
    )
    for known in (0.5, 3.0, 15.0, 1e9):
        expected, ratios = told(heads, asked, arms, counts, known)
        assert np.abs(ratios - 1).min() > 1e-9
        chosen, others = heads.greedy(asked, arms, counts, known)
        np.testing.assert_array_equal(chosen, expected)
        assert others == (chosen < 0).any()
        assert ((chosen < 0) == (counts[asked] == 0)).all() or known < 1e9


def test_of_arms_as_good_the_first_is_chosen(way: bool) -> None:
    heads, _, _ = met()
    arm = np.random.default_rng(0).standard_normal(18)
    better = arm + 0.1 * heads.thetas[0, :-1]
    arms = np.stack([[arm, better, better, arm], [arm, arm, arm, arm]])
    chosen, _ = heads.greedy(np.array([0, 0]), arms, np.ones(6, np.int64), 1e9)
    assert chosen.tolist() == [1, 0]


def test_nobody_asks(way: bool) -> None:
    heads, _, _ = met()
    chosen, others = heads.greedy(
        np.zeros(0, np.int64), np.zeros((0, 3, 18)), np.zeros(6, np.int64), 9.0
    )
    assert (chosen.shape, others) == ((0,), False)
    assert chosen.dtype == np.int64


@pytest.mark.skipif(not heads_module.COMPILED, reason="the compiled posteriors are not built here")
def test_the_extension_checks_what_heads_are_made_of() -> None:
    heads, tasks, F = met()
    arms, counts = np.ones((1, 2, 18)), np.ones(6, np.int64)
    for t in (-1, 6):
        with pytest.raises(ValueError, match=f"task {t} of 6"):
            heads.greedy(np.array([t]), arms, counts, 9.0)
        with pytest.raises(ValueError, match=f"task {t} of 6"):
            heads.learn(np.array([t]), F[:1])
    with pytest.raises(ValueError, match="counts holds"):
        heads.greedy(np.array([0]), arms, counts[:5], 9.0)
    with pytest.raises(ValueError, match="arms holds"):
        heads.greedy(np.array([0]), np.ones((1, 1, 17)), counts, 9.0)
    with pytest.raises(ValueError, match="rows holds"):
        heads.learn(tasks[:1], F[:1, 1:].copy())
    heads.noises = heads.noises[:5]
    with pytest.raises(ValueError, match=r"noises holds|thetas holds|roots holds"):
        heads.learn(tasks[:1], F[:1])


# ---- tasks whose rows are given up, where few directions move


def given_up(n: int = 120) -> tuple[Heads, Histories]:
    """Return heads of tasks, and histories in which the rows of tasks 0 to 2 are not kept."""
    heads, tasks, F = met(n=n)
    kept = tasks > 2
    histories = remembered(tasks[kept], F[kept], 6)
    histories.give_up(np.array([0, 1, 2]))
    more = rows_of(20, 18, seed=8)
    heads.learn(*more)
    return heads, histories


def test_what_is_outside_of_the_directions_stays_of_tasks_whose_rows_are_given_up() -> None:
    """Whatever else a new prior does to a theta, its part outside is added to it as it was."""
    before, histories = given_up()
    unkept, parts = np.arange(3), outside(before)
    assert np.abs(parts[unkept]).max() > 0.1
    without = copy.deepcopy(before)
    without.thetas -= parts
    np.testing.assert_allclose(outside(without), 0, atol=1e-12)
    prior = replace(lopsided(18, seed=4), offset=-0.3, noise=0.4)
    for now in (before.prior, prior):
        after, twin = (Heads.of(histories, now, each) for each in (before, without))
        moved = after.thetas - twin.thetas
        np.testing.assert_allclose(moved[unkept], parts[unkept], atol=1e-12)
        np.testing.assert_array_equal(moved[3:], 0)  # these follow from rows that are kept
        np.testing.assert_array_equal(after.noises, twin.noises)
        np.testing.assert_array_equal(after.posteriors.roots, twin.posteriors.roots)


def test_carried_over_again_and_again_tasks_do_not_become_surer_of_themselves() -> None:
    """Where nothing is learned and the prior stays, neither do thetas go away."""
    before, histories = given_up()
    now = before
    for _ in range(12):
        now = Heads.of(histories, before.prior, now)
    for t in range(3):
        here, there = (np.trace(covariance(heads, t)) for heads in (now, before))
        assert here == pytest.approx(there, rel=0.05)
        far = np.linalg.norm(now.thetas[t] - before.thetas[t])
        assert far < 0.05 * np.linalg.norm(before.thetas[t])


def forgotten(n_tasks: int = 6) -> Histories:
    """Return histories that keep the rows of no task."""
    histories = Histories(n_tasks=n_tasks, dim=18)
    histories.give_up(np.arange(n_tasks))
    return histories


@pytest.mark.parametrize("q", [12, 15, 19])
def test_thetas_are_kept_where_fewer_directions_move_than_before(q: int) -> None:
    """Under the same prior; what is in directions that move no more is not lost."""
    prior, (tasks, F) = lopsided(18), rows_of(600, 18)
    before = Heads(n_tasks=6, prior=prior, directions=q)
    before.learn(tasks, F)
    after = Heads.of(forgotten(), prior, before)
    assert after.posteriors.dim == 12
    for t in range(5):
        far = np.linalg.norm(after.thetas[t] - before.thetas[t])
        assert far < 0.02 * np.linalg.norm(before.thetas[t])
    np.testing.assert_allclose(after.thetas[5], before.thetas[5], atol=1e-12)  # it had no rows
    assert (after.noises >= prior.noise).all()


def test_thetas_of_few_directions_stay_over_many_refits() -> None:
    """Under the same prior, and under two that take turns; nothing grows or becomes surer."""
    prior, (tasks, F) = lopsided(18), rows_of(600, 18)
    other = replace(prior, noise=0.3, offset=0.5, covariance=1.1 * prior.covariance)
    before = Heads(n_tasks=6, prior=prior, directions=19)
    before.learn(tasks, F)
    first = Heads.of(forgotten(), prior, before)
    for turns in ((prior, prior), (other, prior)):
        now = first
        for each in turns * 20:
            now = Heads.of(forgotten(), each, now)
        for t in range(5):
            far = np.linalg.norm(now.thetas[t] - before.thetas[t])
            assert far < 0.05 * np.linalg.norm(before.thetas[t])
            here, there = (np.trace(covariance(heads, t)) for heads in (now, first))
            assert here == pytest.approx(there, rel=0.1)
        np.testing.assert_allclose(now.noises, first.noises, rtol=1e-6)
