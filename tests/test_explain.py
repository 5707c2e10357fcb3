"""Explanations, against Monte Carlo over drawn arms and against tasks whose answer is known."""

from __future__ import annotations

import dataclasses
import re
import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.environments import Synthetic
from cobandits.errors import DataError
from cobandits.policies import Shared
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    Prior,
)
from cobandits.policies.shared.explain import Explanation, Explanations
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.simulate import simulate
from tests.multitask import SHARED, fitted
from tests.posteriors import explain, explain_all

Floats = NDArray[np.float64]

D, T = 4, 6
MEAN = np.array([0.3, -0.5, 0.0, 2.0])  # of the features


def typical(n: int, rng: np.random.Generator) -> Floats:
    """Draw arms whose features are correlated, scaled and not centred, with the 1, (n, d + 1)."""
    mixing = np.array([[1.0, 0.6, 0, 0], [0, 1, 0, 0.5], [0, 0, 2, 0], [0.3, 0, 0, 1]])
    return np.column_stack([rng.standard_normal((n, D)) @ mixing + MEAN, np.ones(n)])


def constructed(rank: int = 2, mean: float = 0.0) -> tuple[DecomposedPrior, Floats]:
    """Return a prior with so many wide directions, and the typical arms that it has seen."""
    rng = np.random.default_rng(0)
    arms = typical(200_000, rng)
    matrix = np.diag([1.0, 0.5, 0.7, 1.2, 1.0])
    matrix[-1, 3] = -1.2 * 2.0  # the last feature is centred
    vectors = np.linalg.qr(rng.standard_normal((D + 1, D + 1)))[0]
    variances = np.where(np.arange(D + 1) < rank, 2.0 - 0.5 * np.arange(D + 1), 0.02)
    Z = arms @ matrix
    prior = Prior(
        coordinates=Coordinates(matrix=matrix),
        covariance=vectors * variances @ vectors.T,
        mean=mean * np.array([0.3, -0.2, 0.1, 0.4, 0.0]),
        offset=0.7,
        noise=0.25,
        feature_second_moment=Z.T @ Z / len(Z),
    )
    decomposed = DecomposedPrior.of(prior)
    assert decomposed.rank == rank
    return decomposed, arms


def taught(prior: DecomposedPrior, counts: list[int]) -> tuple[TaskPosteriors, NDArray[np.int64]]:
    """Return posteriors after so many rewards of each task."""
    rng = np.random.default_rng(1)
    posteriors = TaskPosteriors(n_tasks=len(counts), prior=prior)
    tasks = np.repeat(np.arange(len(counts)), counts)
    rows = typical(len(tasks), rng)
    thetas = rng.standard_normal((len(counts), D + 1))
    rewards = np.einsum("md,md->m", rows, thetas[tasks]) + 0.5 * rng.standard_normal(len(tasks))
    posteriors.learn(tasks, np.column_stack([rows, rewards]))
    return posteriors, np.array(counts)


def split(prior: DecomposedPrior, theta: Floats) -> tuple[Floats, Floats]:
    """Split a theta of features and intercept into what is shared, with the mean, and the rest."""
    values, vectors = np.linalg.eigh(prior.covariance)
    wide = vectors[:, values > 10 * np.median(values)]
    inner = np.linalg.solve(prior.coordinates.matrix, theta - prior.theta)
    shared = prior.coordinates.matrix @ (wide @ wide.T @ inner + prior.mean)
    own = prior.coordinates.matrix @ (inner - wide @ wide.T @ inner)
    return shared, own


def teach(policy: Shared, rows: Floats, tasks: list[int], rewards: list[float]) -> None:
    """Teach a policy one reward for each of the tasks, of arms that were the only ones."""
    made = Decisions(chosen=[0] * len(tasks), probabilities=[1.0] * len(tasks), policy="x")
    policy.learn(tasks, rows[:, None], made, rewards)


def played(*, unrelated: bool, n_tasks: int = 60) -> Shared:
    world = Synthetic(dim=12, n_tasks=n_tasks, rank=2, noise_std=0.1, unrelated=unrelated)
    policy = Shared(dim=12, n_tasks=n_tasks)
    simulate(policy, world, 40, seed=3)
    return policy


@pytest.mark.parametrize("mean", [0.0, 1.0])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_shares_are_those_of_variances_over_drawn_arms(rank: int, mean: float) -> None:
    prior, arms = constructed(rank, mean)
    posteriors, counts = taught(prior, [3, 8, 1, 5, 30, 2])
    for task in range(T):
        parts = [np.var(arms @ part) for part in split(prior, posteriors.thetas[task])]
        found = explain(posteriors, counts, task)
        assert found.shared == pytest.approx(parts[0] / sum(parts), abs=1e-9)
        assert found.shared + found.own == 1
        assert found.rank == rank


def test_likeness_is_the_correlation_of_predictions_over_drawn_arms() -> None:
    prior, arms = constructed()
    posteriors, counts = taught(prior, [3, 8, 1, 5, 30, 0])
    correlations = np.asarray(np.corrcoef((arms @ posteriors.thetas[:5].T).T))
    for task in range(5):
        others = [t for t in range(5) if t != task]
        nearest = sorted(others, key=lambda other: -correlations[task, other])[:3]
        found = explain(posteriors, counts, task).nearest
        assert [one.task for one in found] == nearest
        np.testing.assert_allclose(
            [one.likeness for one in found], correlations[task, nearest], atol=1e-9
        )


def test_uncertainty_is_the_standard_deviation_of_predictions_of_drawn_thetas() -> None:
    """Against thetas that are drawn from Gaussian posteriors, by the formula with the rows."""
    prior, arms = constructed()
    rng = np.random.default_rng(5)
    rows = typical(7, rng)
    posteriors = TaskPosteriors(n_tasks=1, prior=prior)
    posteriors.learn(np.zeros(7, np.int64), np.column_stack([rows, rng.standard_normal(7)]))
    A, C = prior.coordinates.matrix, prior.covariance
    Z = rows @ A
    after = C - C @ Z.T @ np.linalg.inv(Z @ C @ Z.T + prior.noise * np.eye(7)) @ Z @ C
    found = explain(posteriors, np.array([7]), 0)
    for covariance, expected in ((after, found.uncertainty), (C, found.uncertainty_before)):
        thetas = rng.multivariate_normal(np.zeros(D + 1), covariance, size=20_000)
        some = arms[rng.integers(len(arms), size=len(thetas))] @ A
        assert np.std(np.sum(some * thetas, axis=1)) == pytest.approx(expected, rel=0.03)
    assert found.left == found.uncertainty / found.uncertainty_before < 1


def test_what_is_outside_of_the_posteriors_directions_stays_uncertain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prior, _ = constructed(rank=1)
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 1)
    monkeypatch.setattr(config, "FEWEST_DIRECTIONS", 2)
    reduced = TaskPosteriors(n_tasks=1, prior=prior)
    assert reduced.weights.dim == 2
    before = np.sqrt(np.trace(prior.feature_second_moment @ prior.covariance))
    assert explain(reduced, np.array([0]), 0).uncertainty == pytest.approx(before)
    rows = typical(5000, np.random.default_rng(2))
    reduced.learn(np.zeros(5000, np.int64), np.column_stack([rows, np.ones(5000)]))
    found = explain(reduced, np.array([5000]), 0)
    assert found.uncertainty_before == pytest.approx(before)
    assert found.uncertainty == pytest.approx(np.sqrt(prior.residual_variance(2)), rel=0.01)


def fitted_posteriors() -> TaskPosteriors:
    """Return posteriors of 30 tasks that share two directions; rewards move them in 12 of 21."""
    rng = np.random.default_rng(3)
    Theta = rng.standard_normal((30, 2)) @ np.linalg.qr(rng.standard_normal((20, 2)))[0].T
    tasks, Phi = np.tile(np.arange(30), 24), rng.standard_normal((24 * 30, 20))
    rewards = np.einsum("nd,nd->n", Phi, Theta[tasks]) + 0.1 * rng.standard_normal(len(tasks))
    F = np.column_stack([Phi, np.ones(len(tasks)), rewards])
    store = RowStore.empty(n_tasks=30, dim=20).added(tasks[:-60], F[:-60])
    prior = DecomposedPrior.of(fitted(store, 3, least_noise=0.0).under(SHARED))
    posteriors = TaskPosteriors.of(store, prior)
    posteriors.learn(tasks[-60:], F[-60:])
    assert (prior.rank, posteriors.weights.dim) == (2, 12)
    return posteriors


def test_a_theta_is_explained_whole_though_rewards_move_it_in_few_directions() -> None:
    """Of 20 features 12 directions move: shares, likeness and uncertainty are of all of theta."""
    posteriors = fitted_posteriors()
    prior, found = posteriors.prior, explain_all(posteriors, np.full(30, 24))
    A, M = prior.coordinates.matrix, prior.feature_second_moment
    typical = np.random.default_rng(0).standard_normal((100_000, 21))
    arms = typical @ np.linalg.cholesky(M).T  # in the coordinates
    values, vectors = np.linalg.eigh(prior.covariance)
    inner = np.linalg.solve(A, (posteriors.thetas - prior.offset * np.eye(21)[-1]).T).T
    inside = posteriors.weights.means @ posteriors.directions + prior.offset * np.eye(21)[-1]
    assert np.abs(posteriors.thetas - inside).max() > 1e-4
    np.testing.assert_allclose(found.weights, inner @ vectors[:, :-3:-1], atol=1e-9)
    wide = vectors[:, -2:] @ vectors[:, -2:].T
    G = M - np.outer(M[-1], M[-1])
    own = (inner - prior.mean) @ (np.eye(21) - wide)  # the mean is shared, in all directions
    shared = inner - own
    parts = [np.einsum("tp,pq,tq->t", part, G, part) for part in (shared, own)]
    np.testing.assert_allclose(found.shared, parts[0] / (parts[0] + parts[1]), atol=1e-6)
    before = np.sqrt(np.mean((arms @ vectors) ** 2, axis=0) @ values)
    assert found.uncertainty_before == pytest.approx(before, rel=0.02)
    fresh = TaskPosteriors(n_tasks=30, prior=prior)
    np.testing.assert_allclose(
        explain_all(fresh, np.zeros(30, np.int64)).uncertainty, found.uncertainty_before
    )
    S = posteriors.weights.unpacked(np.arange(30))
    within = np.einsum("np,tpq->tnq", arms[:2000] @ prior.whitening(12), S)
    drawn = (within**2).sum(axis=2).mean(axis=1) + posteriors.noises - prior.noise
    np.testing.assert_allclose(found.uncertainty, np.sqrt(drawn), rtol=0.05)


def test_a_theta_within_the_shared_directions_is_all_shared_and_one_outside_all_own() -> None:
    prior, _ = constructed()
    posteriors = TaskPosteriors(n_tasks=2, prior=prior)
    posteriors.weights.means[0, -2:] = 1.0, -2.0  # the widest directions come last
    posteriors.weights.means[1, :-2] = 1.0
    posteriors.thetas += posteriors.weights.means @ posteriors.directions
    counts = np.array([1, 1])
    assert [explain(posteriors, counts, task).shared for task in (0, 1)] == pytest.approx([1, 0])


def test_related_tasks_share_nearly_all_and_unrelated_ones_hardly_anything() -> None:
    """The mean counts as shared: of 60 unrelated thetas, its square is 1/60 of theirs by chance."""
    related, unrelated = (played(unrelated=flag).explain_all() for flag in (False, True))
    assert related.rank == 2
    assert related.shared.min() > 0.9
    assert unrelated.rank == 0
    assert unrelated.shared.max() < 1 / 60


def test_a_task_with_the_same_theta_is_the_nearest() -> None:
    rng, policy = np.random.default_rng(0), Shared(dim=5, n_tasks=8)
    Theta = rng.standard_normal((8, 5))
    Theta[6] = 2 * Theta[2]  # twice as large: the same choices
    for _ in range(30):
        rows = rng.standard_normal((8, 5))
        teach(policy, rows, list(range(8)), np.sum(rows * Theta, axis=1).tolist())
    assert policy.explain(2).nearest[0].task == 6
    assert policy.explain(6).nearest[0].task == 2
    assert policy.explain(6).nearest[0].likeness > 0.99


def test_the_units_and_the_means_of_features_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    Theta = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 6))
    scales, shifts = np.geomspace(1e-3, 1e3, 6), 50 * rng.standard_normal(6)
    policies = [Shared(dim=6, n_tasks=9) for _ in range(2)]
    for _ in range(25):
        rows = rng.standard_normal((9, 6))
        rewards = (np.sum(rows * Theta, axis=1) + 0.1 * rng.standard_normal(9)).tolist()
        teach(policies[0], rows, list(range(9)), rewards)
        teach(policies[1], (rows + shifts) * scales, list(range(9)), rewards)
    plain, moved = (policy.explain_all() for policy in policies)
    np.testing.assert_allclose(moved.shared, plain.shared, atol=0.05)
    np.testing.assert_allclose(moved.uncertainty, plain.uncertainty, rtol=0.2)


def test_all_tasks_are_explained_as_each_is() -> None:
    policy = played(unrelated=False)
    together = policy.explain_all()
    for place, task in enumerate(together.tasks):
        one = policy.explain(int(str(task)))
        for name in ("rewards", "shared", "own", "uncertainty", "left"):
            assert getattr(together, name)[place] == pytest.approx(getattr(one, name)), name
        assert one.rank == together.rank
        assert one.uncertainty_before == together.uncertainty_before


def test_weights_are_theta_in_the_two_widest_directions() -> None:
    prior, _ = constructed()
    posteriors, counts = taught(prior, [3, 8, 1, 5, 30, 2])
    found = explain_all(posteriors, counts)
    vectors = np.linalg.eigh(prior.covariance)[1][:, :-3:-1]
    thetas = posteriors.thetas - prior.offset * np.eye(D + 1)[-1]
    inner = np.linalg.solve(prior.coordinates.matrix, thetas.T)
    np.testing.assert_allclose(np.abs(found.weights), np.abs(inner.T @ vectors), atol=1e-9)
    np.testing.assert_allclose(found.spectrum, np.linalg.eigvalsh(prior.covariance)[::-1])


def test_directions_that_no_arm_has_are_no_part_of_the_picture() -> None:
    """Seven features vary; nine, such as words that nobody has used yet, are always 0."""
    rng, policy = np.random.default_rng(2), Shared(dim=16, n_tasks=8)
    tastes = rng.standard_normal((8, 7))
    for _ in range(30):
        rows = np.zeros((8, 16))
        rows[:, :7] = rng.standard_normal((8, 7))
        rewards = np.sum(rows[:, :7] * tastes, axis=1) + 0.1 * rng.standard_normal(8)
        teach(policy, rows, list(range(8)), rewards.tolist())
    found = policy.explain_all()
    assert 1 <= len(found.spectrum) <= 8
    assert found.rank <= len(found.spectrum)
    assert policy.explain(3).rank == found.rank
    assert (np.ptp(found.weights, axis=0) > 0.1).all()


def test_explanations_are_of_now_and_stay() -> None:
    """Learning goes on after every reward, and what was said before does not change."""
    policy = played(unrelated=False)
    before, one = policy.explain_all(), policy.explain(5)
    copied = {f.name: np.copy(getattr(before, f.name)) for f in dataclasses.fields(Explanations)}
    teach(policy, np.full((1, 12), 3.0), [5], [100.0])
    assert policy.explain(5).rewards == one.rewards + 1
    assert policy.explain(5).uncertainty < one.uncertainty
    for name, values in copied.items():
        np.testing.assert_array_equal(getattr(before, name), values)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.rank = 3  # type: ignore[misc]


def test_a_task_without_rewards_is_as_the_prior_expects() -> None:
    prior, _ = constructed()
    posteriors, counts = taught(prior, [3, 8, 0])
    found = explain(posteriors, counts, 2)
    values, vectors = np.linalg.eigh(prior.covariance)
    arms = np.cov((typical(200_000, np.random.default_rng(9)) @ prior.coordinates.matrix).T)
    variances = values * np.einsum("pj,pq,qj->j", vectors, arms, vectors)
    assert found.shared == pytest.approx(variances[-2:].sum() / variances.sum(), abs=0.01)
    assert (found.rewards, found.nearest) == (0, ())
    assert found.left == pytest.approx(1)
    assert "as other tasks suggest" in str(found)
    assert "none yet" in str(found)
    assert all(one.task != 2 for one in explain(posteriors, counts, 0).nearest)


@pytest.mark.parametrize("value", [0.3, 1 / 7, 1e6 / 3])
def test_a_feature_that_is_the_same_for_all_arms_predicts_nothing(value: float) -> None:
    """Its variance is 0 but for rounding: a theta of it alone is as one without rewards."""
    arms = typical(999, np.random.default_rng(0))
    arms[:, 1] = value
    prior = Prior(
        coordinates=Coordinates(matrix=np.eye(D + 1)),
        covariance=np.diag([5.0, 3.0, 0.1, 0.1, 0.1]),
        mean=np.zeros(D + 1),
        offset=0.7,
        noise=0.25,
        feature_second_moment=arms.T @ arms / len(arms),
    )
    posteriors = TaskPosteriors(n_tasks=2, prior=DecomposedPrior.of(prior))
    posteriors.thetas[:, 1] = 2.0
    found = explain(posteriors, np.array([5, 5]), 0)
    assert found.nearest == ()
    variances = np.array([5.0, 3.0, 0.1, 0.1, 0.1]) * np.var(arms, axis=0)
    assert found.shared == pytest.approx(variances[0] / variances.sum(), abs=1e-9)


def test_one_reward_and_rewards_that_are_all_alike_can_be_explained() -> None:
    policy = Shared(dim=3, n_tasks=2)
    teach(policy, np.ones((1, 3)), [1], [2.0])
    first = policy.explain(1)
    assert (first.rewards, first.shared + first.own) == (1, 1)
    for _ in range(5):
        teach(policy, np.random.default_rng(0).standard_normal((2, 3)), [0, 1], [0.0, 0.0])
    numbers = policy.explain_all()
    for values in (numbers.shared, numbers.uncertainty, numbers.left, numbers.weights):
        assert np.isfinite(values).all()
    assert (numbers.left <= 1 + 1e-12).all()


def test_before_any_reward_it_says_what_to_do() -> None:
    policy = Shared(dim=3, n_tasks=2)
    for call in (lambda: policy.explain(0), policy.explain_all):
        with pytest.raises(DataError, match="before the first reward; call learn"):
            call()


@pytest.mark.parametrize("task", [-1, 1.0, True, "a", [0, 1]])
def test_wrong_tasks_are_refused(task: object) -> None:
    with pytest.raises(DataError, match=r"task -1, but tasks are numbered|tasks must be whole"):
        played_once().explain(task)  # type: ignore[arg-type]


def played_once() -> Shared:
    policy = Shared(dim=3, n_tasks=60)
    teach(policy, np.ones((1, 3)), [1], [2.0])
    return policy


def test_an_explanation_reads_well() -> None:
    lines = str(played(unrelated=False).explain(7)).splitlines()
    assert lines[0] == "task 7, after 40 rewards"
    assert re.fullmatch(
        r"  shared with other tasks: (over 99|9\d) % of what it predicts \(2 directions\); "
        r"its own: (under 1|\d) %",
        lines[1],
    )
    assert re.fullmatch(
        r"  nearest tasks, by correlation of predictions: \d+ \(\S+\), \d+ \(\S+\), \d+ \(\S+\)",
        lines[2],
    )
    assert lines[3].startswith("  uncertainty of an expected reward: ")
    assert len(lines) == 4


def test_explaining_makes_no_matrix_per_task() -> None:
    """One task of 3,000 is explained in far less memory than their posteriors take."""
    rng = np.random.default_rng(0)
    F = np.column_stack([rng.standard_normal((3000, 61)), np.ones(3000)])
    store = RowStore.empty(n_tasks=3000, dim=60).added(np.arange(3000), F)
    prior = DecomposedPrior.of(Prior.vague(store))
    posteriors = TaskPosteriors(n_tasks=3000, prior=prior)
    posteriors.learn(np.arange(3000), F)
    counts = np.ones(3000, np.int64)
    tracemalloc.start()
    found: list[Explanation | Explanations] = [
        explain(posteriors, counts, 0),
        explain_all(posteriors, counts),
    ]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 2
    assert peak < 0.4 * posteriors.weights.nbytes
