"""The policy to use: what it promises of its decisions, its state, and hard data."""

from __future__ import annotations

import copy
import logging
import tracemalloc
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.policies import Policy, Ridge, Shared, SubspaceOracle, make
from cobandits.policies.shared import config, exploration_config
from cobandits.policies.shared.beliefs import Beliefs
from cobandits.policies.shared.exploration import Experience, Explore, needed_beliefs
from cobandits.simulate import simulate
from tests.shared_states import assert_holds, assert_same, made, n_dropped, saved, state_of, thetas

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Change = Callable[[Floats], Floats]

D, T, K = 6, 5, 3
WORLD = Synthetic(dim=D, n_tasks=T, rank=2, n_arms=K, noise_std=0.1)
EXPLORES: tuple[Explore, ...] = get_args(Explore)


def fresh(**parameters: Any) -> Shared:
    """Return a policy for the small world."""
    return Shared(dim=D, n_tasks=T, **parameters)


def as_is(values: Floats) -> Floats:
    return values


def play(
    policy: Policy,
    world: Synthetic,
    rounds: int,
    seed: int = 0,
    *,
    seen: Change = as_is,
    paid: Change = as_is,
) -> float:
    """Let a policy play where it sees other features, or is paid otherwise; return its regret."""
    rng, regret = np.random.default_rng(seed), 0.0
    for asked in world.rounds(rounds, seed=seed):
        arms = seen(asked.arms)
        decided = policy.decide(asked.tasks, arms, rng)
        regret += float(asked.regrets(decided).sum())
        policy.learn(asked.tasks, arms, decided, paid(asked.outcome(decided).rewards))
    return regret / world.n_tasks


def play_singly(policy: Policy, world: Synthetic, rounds: int, seed: int = 0) -> float:
    """Let a policy play the same, but each request is decided and learned by itself."""
    rng, regret = np.random.default_rng(seed), 0.0
    for asked in world.rounds(rounds, seed=seed):
        for i in range(len(asked.tasks)):
            one = slice(i, i + 1)
            decided = policy.decide(asked.tasks[one], asked.arms[one], rng)
            k = int(decided.chosen[0])
            regret += float(asked.means[i].max() - asked.means[i, k])
            policy.learn(asked.tasks[one], asked.arms[one], decided, asked.rewards[i, [k]])
    return regret / world.n_tasks


def mean_regret(
    world: Synthetic, rounds: int, *, seeds: int = 5, seen: Change = as_is, paid: Change = as_is
) -> float:
    """Return the regret per task of fresh policies, mean over seeds."""
    regrets = [
        play(Shared(dim=world.dim, n_tasks=world.n_tasks), world, rounds, s, seen=seen, paid=paid)
        for s in range(seeds)
    ]
    return float(np.mean(regrets))


def regression(policy: Shared, rows: list[Floats]) -> Floats:
    """Return the theta that all rows [phi, 1, y] of a task lead to under the policy's prior."""
    prior, F = policy.prior, np.array(rows)
    assert prior is not None
    A = prior.coordinates.matrix
    C, X = A @ prior.covariance @ A.T, F[:, :-1]
    covariance = X @ C @ X.T + prior.noise * np.eye(len(X))
    found = C @ X.T @ np.linalg.solve(covariance, F[:, -1] - X @ prior.theta)
    return np.asarray(prior.theta + found)


# ---- decisions


def test_the_first_decision_is_uniform() -> None:
    policy, arms = fresh(), np.random.default_rng(0).standard_normal((2, K, D))
    np.testing.assert_allclose(policy.probabilities([0, 4], arms), 1 / K)
    decided = policy.decide([0, 4], arms, np.random.default_rng(1))
    np.testing.assert_allclose(decided.probabilities, 1 / K)
    assert policy.prior is None


@pytest.mark.parametrize("explore", EXPLORES)
@pytest.mark.parametrize("floor", [0.0, 0.3, 1.0])
def test_decisions_follow_their_probabilities(explore: Explore, floor: float) -> None:
    """20,000 draws, each within 4.5 standard errors and 1 % of the integration."""
    policy, draws, rng = fresh(explore=explore, floor=floor), 20_000, np.random.default_rng(3)
    arms = rng.standard_normal((T, K, D))
    for t in (0, 0, 1, 1, 1):  # tasks 2 to 4 have no rewards yet
        policy.learn([t], arms[:1], made([t]), [1.0 + t])
    shares = policy.probabilities(np.arange(T), arms)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares >= floor / K - 1e-12).all()
    assert explore != "always" or shares[4].max() < 0.9  # nothing is known of task 4 but a mean
    for t in (0, 4):
        decided = policy.decide(np.full(draws, t), np.tile(arms[t], (draws, 1, 1)), rng)
        found = np.bincount(decided.chosen, minlength=K) / draws
        error = 4.5 * np.sqrt(shares[t] * (1 - shares[t]) / draws) + 0.01
        assert (np.abs(found - shares[t]) <= error).all()
        reported = shares[t, decided.chosen]
        np.testing.assert_allclose(decided.probabilities, reported, rtol=0.03, atol=0.002)


@pytest.mark.parametrize("explore", EXPLORES)
def test_every_arm_has_at_least_its_share_of_the_floor(explore: Explore) -> None:
    policy = fresh(explore=explore, floor=0.2)
    play(policy, WORLD, 40)
    arms = np.random.default_rng(3).standard_normal((T, K, D))
    shares = policy.probabilities(np.arange(T), arms)
    assert shares.min() >= 0.2 / K - 1e-12
    assert shares.min() == pytest.approx(0.2 / K, rel=0.01)  # after 40 rounds, some arm is bad
    decided = policy.decide(np.arange(T), arms, np.random.default_rng(0))
    assert decided.probabilities.min() >= 0.2 / K - 1e-12


def raised_by_integrals(beliefs: Beliefs, experience: Experience) -> tuple[Floats, Floats]:
    """Return how far values are raised, and the share of variances that is sampled, arm by arm."""
    shape, sure = beliefs.values.shape, experience.calibration
    raised, shares = np.zeros(shape), np.zeros(shape)
    for t, k in np.ndindex(*shape):
        n, values, best = float(experience.counts[t]), beliefs.values[t], beliefs.values[t].argmax()
        variances = (beliefs.factors[t] ** 2).sum(axis=1) + beliefs.residual_std[t] ** 2
        unseen = beliefs.unseen_variances[t]
        honest = unseen + sure * (variances - unseen)
        grid = np.linspace(values[best], max(values[best], experience.tops[t]), 20_001)
        # E max(v - a, 0) - E max(v - b, 0) is the integral of P(v > u) from a to b
        gain = np.trapezoid(norm.sf(grid, values[k], np.sqrt(honest[k])), grid)
        before, own = beliefs.prior_variances[t], n / experience.seen
        first = (1 - own) * before[best] + own * before.max()
        left = variances[best] / first / (variances[k] / before[k])
        if experience.noise is not None:  # rewards of these arms, as far as they are known by them
            n = min(n, float((experience.noise * (1 / variances - 1 / before)).sum()))
        tried = exploration_config.REPEAT_RATIO * left < 1 and k != best
        tried = tried and n * gain > values[best] - values[k]
        lead = max(0.0, np.sqrt(honest[k]) - np.sqrt(honest[best])) if tried else 0.0
        raised[t, k] = exploration_config.OPTIMISM * lead
        shares[t, k] = (exploration_config.SAMPLED * lead) ** 2 / variances[k]
        if n == 0:  # only if it is one of several that are equally good
            equal = values[k] == values[best] and np.sum(values == values[best]) > 1
            shares[t, k] = equal * honest[k] / variances[k]
    return raised, shares


def raised_and_sampled(beliefs: Beliefs, experience: Experience) -> tuple[Floats, Floats]:
    """Return how far the rule raises values, and the share of variances that it samples."""
    found = needed_beliefs(beliefs, experience)
    sampled = (found.factors**2).sum(axis=2) + found.residual_std**2
    return found.values - beliefs.values, sampled / beliefs.variances


@pytest.mark.parametrize("step", [0.0, 1.0, -4.0])
@pytest.mark.parametrize("reached", [False, True])
@pytest.mark.parametrize(("seen", "noise"), [(600, None), (600, 0.1), (150, 0.2)])
def test_arms_that_could_gain_are_raised_and_sampled(
    step: float, reached: bool, seen: int, noise: float | None
) -> None:
    """By integrals for each arm; tasks have means that only their intercepts explain."""
    rng, counts = np.random.default_rng(0), np.array([150, 150, 150, 150, 0])
    known = np.where((counts[:, None] > 0) & (np.arange(D) < 2), 0.05, 0.9)  # of arms 0 and 1 much
    factors = rng.standard_normal((T, D, 4))
    factors *= known[..., None] / np.linalg.norm(factors, axis=2, keepdims=True)
    values, intercepts = rng.standard_normal((T, D)), np.array([step * t for t in range(T)])
    variances = known**2 + (0.3 * known) ** 2
    unseen = rng.uniform(0, 1, (T, D)) * variances
    beliefs = Beliefs(values, factors, 0.3 * known, rng.uniform(1, 2, (T, D)), unseen)
    best = values[:4].max(axis=1) + intercepts[:4]
    highest = np.median(best) if reached else best.max() + 0.5  # by two tasks, others could gain
    experience = Experience(
        counts=counts,
        seen=seen,
        tops=highest - intercepts,
        rewards_differ=True,
        calibration=0.7,
        noise=noise,
    )
    raised, shares = raised_and_sampled(beliefs, experience)
    expected = raised_by_integrals(beliefs, experience)
    np.testing.assert_allclose((raised, shares), expected, atol=1e-9)
    assert not shares[4].any()  # the mean of all tasks says which arm is best
    values[4, 1:] = values[4].max()  # or that all but one are equally good
    values[4, 0] -= 1
    among = (unseen[4] + 0.7 * (variances[4] - unseen[4])) / variances[4] * (np.arange(D) > 0)
    np.testing.assert_allclose(raised_and_sampled(beliefs, experience)[1][4], among)
    assert (shares[:4, :2] == 0).all()
    assert (shares[:4, 2:] > 0).any()
    assert not reached or (shares[:4] == 0).all(axis=1).sum() >= 2
    alike = experience._replace(rewards_differ=False)
    np.testing.assert_allclose(raised_and_sampled(beliefs, alike)[1], 0.7)


@pytest.mark.parametrize("step", [0.0, 1.0, -4.0])
def test_probabilities_are_those_of_the_best_of_sampled_values(step: float) -> None:
    """Beliefs from the saved file, shares by integrals, and 40,000 draws per task."""
    rng, policy, draws = np.random.default_rng(0), fresh(), 40_000
    Theta, arms = rng.standard_normal((T, D)), np.tile(np.eye(D), (T, 1, 1))
    for n in range(600):  # of arms 0 and 1, so that the others stay unknown; of task 4 nothing
        t, k = n % 4, n // 4 % 2
        reward = Theta[t, k] + step * t + 0.3 * rng.standard_normal()
        policy.learn([t], arms[:1], made([k]), [reward])
    assert policy.prior is not None
    header, arrays = saved(policy)
    directions = arrays["posteriors.directions"]
    found = np.vstack([arrays["posteriors.thetas"], policy.prior.theta])
    Z = directions[:, :-1].T + directions[:, -1]
    roots = np.tile(np.eye(len(directions)), (T, 1, 1))  # as of a task without rewards
    roots[(slice(4), *np.tril_indices(len(directions)))] = arrays["posteriors.roots"]
    assert len(directions) == D + 1  # nothing is unknown outside of them
    beliefs = Beliefs(
        values=found[:, :-1],
        factors=Z @ roots.transpose(0, 2, 1),
        residual_std=np.zeros((T, D)),
        prior_variances=np.tile((Z**2).sum(axis=1), (T, 1)),
        unseen_variances=((Z @ roots.transpose(0, 2, 1) @ roots) ** 2).sum(axis=2),
    )
    experience = Experience(
        counts=np.array([150, 150, 150, 150, 0]),
        seen=600,
        tops=header["state"]["range"][1] - found[:, -1],
        rewards_differ=True,
        calibration=min(1.0, arrays["drift.baseline"][1]),
        noise=policy.prior.noise,
    )
    raised, shares = raised_by_integrals(beliefs, experience)
    factors = np.sqrt(shares)[..., None] * beliefs.factors
    told = policy.probabilities(np.arange(T), arms)
    for t in range(T):
        drawn = beliefs.values[t] + raised[t] + rng.standard_normal((draws, D + 1)) @ factors[t].T
        won = np.bincount(drawn.argmax(axis=1), minlength=D) / draws
        assert (np.abs(won - told[t]) <= 4.5 * np.sqrt(won * (1 - won) / draws) + 0.01).all()
    assert told[4].max() > 0.99  # by the mean of the others
    assert (told[:4].max(axis=1) < 0.99).any()


def test_never_is_greedy_and_always_is_not() -> None:
    arms = 0.1 * np.random.default_rng(3).standard_normal((T, K, D))
    greedy, sampling = fresh(explore="never"), fresh(explore="always")
    for policy in (greedy, sampling):
        play(policy, WORLD, 3)
    best = np.einsum("tkd,td->tk", arms, thetas(greedy)[:, :-1]).argmax(axis=1)
    np.testing.assert_array_equal(greedy.probabilities(np.arange(T), arms), np.eye(K)[best])
    assert sampling.probabilities(np.arange(T), arms).max() < 0.99


@pytest.mark.parametrize("explore", EXPLORES)
def test_deciding_changes_nothing(explore: Explore) -> None:
    policy = fresh(explore=explore)
    play(policy, WORLD, 8)
    before = saved(policy)
    arms = np.random.default_rng(0).standard_normal((T, K, D))
    for seed in range(3):
        assert policy.decide(np.arange(T), arms, np.random.default_rng(seed)).probabilities.all()
        policy.probabilities(np.arange(T), arms)
        policy.explain_all()
    assert_holds(policy, before)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"explore": "sometimes"}, "explore must be one of needed, always, never, ucb"),
        ({"floor": -0.1}, "floor must be a share from 0 to 1, got -0.1"),
        ({"floor": 1.5}, "floor must be a share"),
        ({"floor": np.nan}, "floor must be a share"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        fresh(**parameters)


# ---- learning


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_batches_in_any_split_give_the_same_sums(seed: int, sizes: list[int]) -> None:
    """Tasks may be in a batch more than once."""
    rng, m = np.random.default_rng(seed), sum(sizes)
    tasks, arms = rng.integers(0, T, m), rng.standard_normal((m, K, D))
    chosen, rewards = rng.integers(0, K, m), rng.standard_normal(m)
    policy = fresh()
    for some in np.split(np.arange(m), np.cumsum(sizes)[:-1]):
        policy.learn(tasks[some], arms[some], made(chosen[some]), rewards[some])
    F = np.column_stack([arms[np.arange(m), chosen], np.ones(m), rewards])
    header, arrays = saved(policy)
    pending, stored = arrays["pending.rows"], arrays["store.rows"]
    np.testing.assert_array_equal(pending, F[m - len(pending) :])  # the last ones, in their order
    products = stored.T @ stored + pending.T @ pending
    np.testing.assert_allclose(products, F.T @ F, atol=1e-10)
    assert policy.rewards == header["state"]["seen"] == m
    assert (stored[:, -2] ** 2).sum() == pytest.approx(m - len(pending))
    counts = np.bincount(tasks, minlength=T)[arrays["state.tasks"]]
    np.testing.assert_array_equal(policy.explain_all().rewards, counts)
    assert header["state"]["range"] == [rewards.min(), rewards.max()]


def test_between_refits_a_batch_is_learned_as_row_after_row() -> None:
    together = fresh()
    play(together, WORLD, 30)
    alone, rng = copy.deepcopy(together), np.random.default_rng(1)
    tasks, arms = np.array([2, 0, 2, 2, 4]), rng.standard_normal((5, K, D))
    rewards, prior = rng.standard_normal(5), together.prior
    together.learn(tasks, arms, made([0, 1, 2, 0, 1]), rewards)
    for i, k in enumerate([0, 1, 2, 0, 1]):
        alone.learn(tasks[i : i + 1], arms[i : i + 1], made([k]), rewards[i : i + 1])
    assert together.prior is prior  # nothing was learned again
    np.testing.assert_allclose(thetas(together), thetas(alone), atol=1e-12)
    np.testing.assert_array_equal(together.explain_all().rewards, alone.explain_all().rewards)


@pytest.mark.parametrize("room", [2**30, 1])
def test_a_task_is_its_gaussian_regression_under_the_prior(
    monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """After every reward; also if its rows were dropped, or were never stored.

    With the least room, 48 rows are kept of all tasks, or six that say the same of a task.
    """
    monkeypatch.setattr(config, "ROW_BYTES", room)
    n_tasks, rng = 20, np.random.default_rng(0)
    policy = Shared(dim=4, n_tasks=n_tasks)
    Theta = rng.standard_normal((n_tasks, 4))
    rows: list[list[Floats]] = [[] for _ in range(n_tasks)]
    for n in range(120):
        tasks = rng.integers(0, min(n_tasks, 1 + n // 4), 4)
        arms = rng.standard_normal((4, K, 4))
        decided = policy.decide(tasks, arms, rng)
        phi = decided.features(arms)
        rewards = np.einsum("md,md->m", phi, Theta[tasks]) + 0.3 * rng.standard_normal(4)
        policy.learn(tasks, arms, decided, rewards)
        for t, x, y in zip(tasks, phi, rewards, strict=True):
            rows[t].append(np.r_[x, 1, y])
        found = thetas(policy)
        for t in tasks:
            np.testing.assert_allclose(found[t], regression(policy, rows[t]), atol=1e-4)
    if room == 1:
        assert n_dropped(policy) > 5


def test_where_few_directions_move_thetas_are_whole_at_every_refit() -> None:
    """In between they are near: what is unknown outside of the directions is small."""
    world, n_tasks, far = Synthetic(dim=24, n_tasks=12, rank=2, noise_std=0.1), 12, []
    policy, rng = Shared(dim=24, n_tasks=n_tasks), np.random.default_rng(0)
    rows: list[list[Floats]] = [[] for _ in range(n_tasks)]
    for asked in world.rounds(40, seed=0):
        before = policy.prior
        decided = policy.decide(asked.tasks, asked.arms, rng)
        outcome = asked.outcome(decided)
        policy.learn(asked.tasks, asked.arms, decided, outcome.rewards)
        phi = decided.features(asked.arms)
        for t, x, y in zip(asked.tasks, phi, outcome.rewards, strict=True):
            rows[t].append(np.r_[x, 1, y])
        found = thetas(policy)
        told = np.array([regression(policy, rows[t]) for t in range(n_tasks)])
        if policy.prior is not before:
            np.testing.assert_allclose(found, told, atol=1e-6)
        elif len(saved(policy).arrays["posteriors.directions"]) < 25:
            far.append(np.linalg.norm(found - told) / np.linalg.norm(told))
    assert len(far) > 10
    assert 0 < max(far) < 0.2


def test_rewards_that_posteriors_have_learned_are_stored_in_groups() -> None:
    """Of 20 tasks 20 at a time, of 64 or more 128; a refit stores what is left."""
    for n_tasks, group in ((3, 8), (20, 20), (63, 63), (500, 128)):
        policy, rng = Shared(dim=3, n_tasks=n_tasks), np.random.default_rng(0)
        arms, largest, before = rng.standard_normal((800, K, 3)), 0, state_of(policy)
        for n in range(800):
            prior, used, waiting = policy.prior, before.store.used, before.n_pending
            policy.learn([n % n_tasks], arms[n : n + 1], made([n % K]), [float(n % 7)])
            now = state_of(policy)
            largest = max(largest, now.n_pending)
            if policy.prior is not prior:
                assert now.n_pending == 0
            elif now.n_pending <= waiting:
                assert (waiting, now.n_pending) == (group, 1)
                assert now.store.used == used + group
            assert now.detector.rows + now.n_pending <= n + 1
            before = now
        assert largest == group


def test_the_caller_may_reuse_its_arrays() -> None:
    """What is pending is the policy's own."""
    policy, twin = fresh(), fresh()
    rng = np.random.default_rng(0)
    tasks, arms, rewards = np.zeros(1, np.int64), np.zeros((1, K, D)), np.zeros(1)
    for _ in range(60):
        tasks[:], rewards[:] = rng.integers(T), rng.random()
        arms[:] = rng.standard_normal((1, K, D))
        chosen = np.array([1])
        policy.learn(tasks, arms, made(chosen), rewards)
        twin.learn(tasks.copy(), arms.copy(), made(chosen.copy()), rewards.copy())
        tasks[:], arms[:], rewards[:], chosen[:] = 0, 9.0, 9.0, 0
    assert_same(policy, twin)


def test_no_rewards_teach_nothing_and_no_requests_get_no_decisions() -> None:
    policy = fresh()
    for played in (0, 8):
        play(policy, WORLD, played)
        before, rng = saved(policy), np.random.default_rng(0)
        empty = policy.decide([], np.zeros((0, K, D)), rng)
        assert len(empty) == 0
        assert empty.probabilities.shape == (0,)
        policy.learn([], np.zeros((0, K, D)), empty, [])
        assert policy.probabilities([], np.zeros((0, K, D))).shape == (0, K)
        assert_holds(policy, before)


def test_the_prior_is_learned_whenever_rewards_have_grown_by_a_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "SETTLED_SHARE", 0)
    policy, rng, learned = fresh(), np.random.default_rng(0), []
    for n in range(1, 31):
        arms, before = rng.standard_normal((1, K, D)), policy.prior
        policy.learn([n % T], arms, made([0]), arms[0, 0, :1])
        if policy.prior is not before:
            learned.append(n)
    assert learned == [1, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30]


def refits_of(world: Synthetic) -> list[int]:
    """Return after how many rewards the prior was learned, in 200 rounds of a world."""
    policy, counts = Shared(dim=world.dim, n_tasks=world.n_tasks), []
    for now in world.rounds(200, seed=0):
        before = policy.prior
        decisions = policy.decide(now.tasks, now.arms, np.random.default_rng(0))
        y = now.rewards[now.tasks, decisions.chosen]
        policy.learn(now.tasks, now.arms, decisions, y)
        if policy.prior is not before:
            counts.append(policy.rewards)
    return counts


def test_once_it_is_settled_the_prior_is_learned_whenever_rewards_have_doubled() -> None:
    counts = refits_of(RELATED)
    growth = np.divide(counts[1:], counts[:-1])
    assert growth.max() == pytest.approx(2, abs=0.05)
    assert max(np.diff(counts)) <= 20 * 60  # or by three rewards of a task per feature
    assert len(counts) < 20
    assert growth[5:8].max() < 1.4  # while it is being found


def test_rows_that_wait_to_be_compressed_are_bounded_however_many_rewards_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "NEW_ROW_BYTES", 2 * T * (D + 2) * (D + 2) * 8)
    policy, used = fresh(), []
    for now in WORLD.rounds(300, seed=0):
        decisions = policy.decide(now.tasks, now.arms, np.random.default_rng(0))
        y = now.rewards[now.tasks, decisions.chosen]
        policy.learn(now.tasks, now.arms, decisions, y)
        used.append(state_of(policy).store.used)
    compressed = config.COMPRESSION * T * (D + 2)
    assert max(used) <= 5 * compressed  # of 1,500: a task that may have changed keeps its rows
    assert max(used) > 2 * compressed  # it is not compressed with every round


def test_the_estimate_holds_the_thetas_of_the_last_refit() -> None:
    policy, rng = fresh(), np.random.default_rng(0)
    arms = rng.standard_normal((T, K, D))
    for _ in range(2):
        policy.learn(np.arange(T), arms, made([0, 1, 2, 0, 1]), rng.standard_normal(T))
    assert policy.estimate is not None
    assert policy.estimate.rank == D
    np.testing.assert_allclose(policy.estimate.theta.T, thetas(policy)[:, :-1], atol=1e-9)


def test_rows_that_there_is_no_room_for_are_still_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of some of 40 tasks are kept, and posteriors have 4 of 21 directions."""
    world = Synthetic(dim=20, n_tasks=40, rank=2, noise_std=0.1)
    plenty = mean_regret(world, 60, seeds=2)
    alone = np.mean([play(Ridge(dim=20, n_tasks=40, ridge=0.1), world, 60, s) for s in range(2)])
    monkeypatch.setattr(config, "ROW_BYTES", 15 * 22**2 * 8)
    monkeypatch.setattr(config, "POSTERIOR_BYTES", 1)
    short = Shared(dim=20, n_tasks=40)
    regret = play(short, world, 60)
    assert 5 < n_dropped(short) < 40
    assert len(saved(short).arrays["posteriors.directions"]) == 4
    assert regret < 0.75 * alone
    assert plenty < 0.6 * alone


# ---- hard data


@pytest.mark.parametrize("reward", [0.0, 1.0, 27.276877584472174, -15.488553043334205, 1e-9, 1e6])
@pytest.mark.parametrize("n_tasks", [1, 3, 7, 8])
def test_rewards_that_are_all_equal(reward: float, n_tasks: int) -> None:
    policy, rng = Shared(dim=3, n_tasks=n_tasks), np.random.default_rng(0)
    arms = rng.standard_normal((n_tasks, K, 3))
    for _ in range(8):
        arms = rng.standard_normal((n_tasks, K, 3))
        decided = policy.decide(np.arange(n_tasks), arms, rng)
        policy.learn(np.arange(n_tasks), arms, decided, np.full(n_tasks, reward))
    assert np.isfinite(policy.probabilities(np.arange(n_tasks), arms)).all()
    predicted = np.r_[rng.standard_normal(3), 1] @ thetas(policy)[0]
    assert predicted == pytest.approx(reward, rel=0.2)
    assert policy.changes == ()


def test_equal_rewards_are_learned_for_as_long_as_they_come() -> None:
    n_tasks, dim = 6, 20
    policy, rng = Shared(dim=dim, n_tasks=n_tasks), np.random.default_rng(0)
    for _ in range(20 * dim):
        arms = rng.standard_normal((n_tasks, K, dim))
        decided = policy.decide(np.arange(n_tasks), arms, rng)
        policy.learn(np.arange(n_tasks), arms, decided, np.ones(n_tasks))
    assert np.r_[np.zeros(dim), 1] @ thetas(policy)[0] == pytest.approx(1, abs=1e-3)


def test_any_first_reward_can_be_learned() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        policy, arms = fresh(), np.tile(np.eye(D), (1, 1, 1))
        policy.learn([0], arms, made([seed % D]), rng.standard_normal(1))
        assert policy.prior is not None
        assert policy.prior.noise > 0


SHAPES = {
    "one task": Synthetic(dim=6, n_tasks=1, rank=1, noise_std=0.1),
    "one feature": Synthetic(dim=1, n_tasks=6, rank=1, noise_std=0.1),
    "one of each": Synthetic(dim=1, n_tasks=1, rank=1, noise_std=0.1),
    "two arms": Synthetic(dim=6, n_tasks=6, rank=2, noise_std=0.1, n_arms=2),
}


@pytest.mark.parametrize("name", SHAPES)
def test_one_of_anything_is_enough_to_learn(name: str) -> None:
    world = SHAPES[name]
    at_random = np.mean(
        [
            play(make("random", rounds=60, dim=world.dim, n_tasks=world.n_tasks), world, 60, s)
            for s in range(3)
        ]
    )
    assert mean_regret(world, 60, seeds=3) < 0.3 * at_random


def test_one_arm_is_always_chosen_and_learned_from() -> None:
    policy = fresh()
    play(policy, Synthetic(dim=D, n_tasks=T, rank=2, n_arms=1), 10)
    arms = np.ones((T, 1, D))
    np.testing.assert_array_equal(policy.probabilities(np.arange(T), arms), 1)
    assert policy.rewards == 10 * T


CONSTANT = {
    "1": lambda arms: np.concatenate([arms, np.ones_like(arms[..., :1])], axis=2),
    "0": lambda arms: np.concatenate([arms, np.zeros_like(arms[..., :1])], axis=2),
    "-1e5": lambda arms: np.concatenate([arms, np.full_like(arms[..., :1], -1e5)], axis=2),
    "twice": lambda arms: np.concatenate([arms, arms[..., :1]], axis=2),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_feature_that_says_nothing_new_does_no_harm(name: str) -> None:
    policies = [Shared(dim=D, n_tasks=T) for _ in range(5)]
    plain = np.mean([play(policy, WORLD, 40, s) for s, policy in enumerate(policies)])
    policies = [Shared(dim=D + 1, n_tasks=T) for _ in range(5)]
    regrets = [play(policy, WORLD, 40, s, seen=CONSTANT[name]) for s, policy in enumerate(policies)]
    assert np.mean(regrets) < 1.25 * plain


RELATED = Synthetic(dim=20, n_tasks=20, rank=2, noise_std=0.1)
SCALES = np.geomspace(1e-3, 1e4, 20)
FEATURES: dict[str, Change] = {
    "scaled": lambda arms: SCALES * arms,
    "shifted": lambda arms: arms + 100,
    "both": lambda arms: SCALES * (arms + 100),
}


@pytest.fixture(scope="module")
def usual() -> float:
    """Return the regret where features have variance 1, and rewards mean 0."""
    return mean_regret(RELATED, 50)


@pytest.mark.parametrize("name", FEATURES)
def test_units_and_means_of_features_hardly_matter(usual: float, name: str) -> None:
    assert mean_regret(RELATED, 50, seen=FEATURES[name]) < 1.25 * usual


@pytest.mark.parametrize("mean", [10.0, -1000.0])
def test_the_mean_of_the_rewards_hardly_matters(usual: float, mean: float) -> None:
    assert mean_regret(RELATED, 50, paid=lambda rewards: rewards + mean) < 1.3 * usual


def test_the_unit_of_the_rewards_does_not_matter(usual: float) -> None:
    assert mean_regret(RELATED, 50, paid=lambda y: 1e6 * y) == pytest.approx(usual, rel=0.1)


def test_arms_of_half_the_precision_are_as_good(usual: float) -> None:
    halved = mean_regret(RELATED, 50, seen=lambda arms: arms.astype(np.float32))
    assert halved == pytest.approx(usual, rel=0.1)
    policy, arms = fresh(), np.random.default_rng(0).standard_normal((T, K, D))
    play(policy, WORLD, 10)
    np.testing.assert_allclose(
        policy.probabilities(np.arange(T), arms.astype(np.float32)),
        policy.probabilities(np.arange(T), arms),
        atol=1e-3,
    )


@pytest.mark.parametrize(
    ("n_tasks", "explore", "rounds", "seeds", "least", "most"),
    [
        pytest.param(1, "always", 60, 200, 0.95, 1.0, marks=pytest.mark.statistical),
        pytest.param(1, "needed", 200, 200, 0.8, 1.0, marks=pytest.mark.statistical),
        (5, "always", 60, 20, 0.9, 1.0),
        (5, "needed", 200, 20, 0.75, 1.0),
        (5, "never", 60, 20, 0.0, 0.7),
    ],
)
def test_arms_that_never_change_are_tried_until_the_best_is_found(
    n_tasks: int,
    explore: Literal["needed", "always", "never"],
    rounds: int,
    seeds: int,
    least: float,
    most: float,
) -> None:
    """Greedy stays with the first good arm: what it does teaches nothing of the others.

    The best arm is found in 0.98, 0.99, 0.98, 0.97 and 0.46 of the tasks: every bound is more than
    three standard errors away, so that other random numbers break it once in a thousand times.
    """
    found, arms = 0, np.tile(np.eye(5), (n_tasks, 1, 1))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        Theta = rng.permuted(np.tile([0.0, 0.5, 1.0, 1.5, 2.0], (n_tasks, 1)), axis=1)
        policy = Shared(dim=5, n_tasks=n_tasks, explore=explore)
        tasks = np.arange(n_tasks)
        for _ in range(rounds):
            decided = policy.decide(tasks, arms, rng)
            means = Theta[tasks, decided.chosen]
            policy.learn(tasks, arms, decided, means + 0.1 * rng.standard_normal(n_tasks))
        shares = policy.probabilities(tasks, arms)
        found += int((shares.argmax(axis=1) == Theta.argmax(axis=1)).sum())
    assert least <= found / (seeds * n_tasks) <= most


# ---- sharing


def test_related_tasks_are_learned_far_faster_than_alone(usual: float) -> None:
    alone = np.mean([play(Ridge(dim=20, n_tasks=20, ridge=0.1), RELATED, 50, s) for s in range(5)])
    assert usual < 0.65 * alone


def test_one_request_at_a_time_is_learned_from_as_well_as_rounds() -> None:
    regrets = [play_singly(Shared(dim=20, n_tasks=20), RELATED, 50, seed) for seed in range(12)]
    assert np.mean(regrets) < 1.2 * mean_regret(RELATED, 50, seeds=12)


def test_unrelated_tasks_cost_little() -> None:
    """In a small world: 1.1 of ridge regression with the best of a few ridges is usual."""
    world = Synthetic(dim=20, n_tasks=20, rank=2, noise_std=0.1, unrelated=True)
    alone = np.mean([play(Ridge(dim=20, n_tasks=20, ridge=0.1), world, 50, s) for s in range(5)])
    assert mean_regret(world, 50) < 1.2 * alone


def test_tasks_that_ask_at_unequal_rates_are_learned_too() -> None:
    world = Synthetic(dim=20, n_tasks=20, rank=2, noise_std=0.1, unequal=True)
    alone = np.mean([play(Ridge(dim=20, n_tasks=20, ridge=0.1), world, 60, s) for s in range(3)])
    assert mean_regret(world, 60, seeds=3) < 0.75 * alone


def test_a_late_task_is_learned_as_fast_as_its_weights() -> None:
    """At most twice the regret of one that knows the basis; alone it would be far more."""
    world = Synthetic(dim=30, n_tasks=20, rank=2, noise_std=0.1, late=0.1)
    shared, oracle, alone = (
        np.mean(
            [
                simulate(kind(dim=30, n_tasks=20), world, 80, seed).regret[40:, -2:].sum()
                for seed in range(4)
            ]
        )
        for kind in (Shared, SubspaceOracle, Ridge)
    )
    assert shared < 2 * oracle
    assert shared < 0.3 * alone


def regret_of_one(
    policy: Policy, seed: int, *, own: float, unrelated: bool, rewards: int = 600
) -> tuple[list[float], Policy]:
    """Return the regrets of task 0 of 60, which comes after the others have had 100 rounds each.

    Thetas are in two directions and have parts of their own, as a share of those.
    """
    d, n_tasks, rank = 20, 60, 2
    rng, others, regrets = np.random.default_rng(seed), np.arange(1, 60), []
    basis, alone = np.linalg.qr(rng.standard_normal((d, rank)))[0], np.sqrt(rank / d)
    Theta = rng.standard_normal((n_tasks, rank)) @ basis.T
    Theta += own * alone * rng.standard_normal((n_tasks, d))
    if unrelated:
        Theta[0] = alone * rng.standard_normal(d)
    for n in range(100 + rewards):
        tasks = others if n < 100 else np.array([0])
        arms = rng.standard_normal((len(tasks), 5, d))
        means = np.einsum("mkd,md->mk", arms, Theta[tasks])
        decided = policy.decide(tasks, arms, rng)
        chosen = means[np.arange(len(tasks)), decided.chosen]
        policy.learn(tasks, arms, decided, chosen + 0.1 * rng.standard_normal(len(tasks)))
        if n >= 100:
            regrets.append(float(means[0].max() - chosen[0]))
    return regrets, policy


def test_a_late_task_that_is_unrelated_is_learned_though_the_prior_is_not() -> None:
    """After its first 100 rewards, by far the most of it is known; at random it is 1.6."""
    later, last = [], []
    for seed in range(4):
        regrets, policy = regret_of_one(Shared(dim=20, n_tasks=60), seed, own=0.0, unrelated=True)
        assert isinstance(policy, Shared)
        now = saved(policy)
        assert now.header["state"]["seen"] >= 5900 + 600
        assert not policy.refit_due()  # the prior is from before it came
        assert len(now.arrays["posteriors.directions"]) < 21
        assert now.arrays["state.full_counts"][now.arrays["state.tasks"] == 0] > 400
        later.append(np.mean(regrets[100:]))
        last.append(np.mean(regrets[400:]))
    assert np.mean(later) < 0.04
    assert np.mean(last) < 0.006


@pytest.mark.parametrize("own", [0.1, 0.3])
def test_the_own_part_of_a_late_task_is_learned_though_the_prior_is_not(own: float) -> None:
    """In all it has less regret than alone, and after 100 rewards next to none."""
    shared, alone = (
        np.array([regret_of_one(kind(), s, own=own, unrelated=False)[0] for s in range(6)])
        for kind in (
            lambda: Shared(dim=20, n_tasks=60),
            lambda: Ridge(dim=20, n_tasks=60, ridge=0.1),
        )
    )
    assert shared.sum() < 0.7 * alone.sum()  # 0.54 over 64 seeds with the larger part
    assert shared[:, 100:].mean() < 0.0015


def test_many_arms_are_sampled_in_little_memory() -> None:
    """A matrix of the arms would be 32 MB; their features are 0.32 MB."""
    n_arms = 2000
    policy = Shared(dim=20, n_tasks=20, explore="always")
    play(policy, RELATED, 20)
    assert len(saved(policy).arrays["posteriors.directions"]) < 21  # arms have parts of their own
    arms, rng = np.random.default_rng(0).standard_normal((1, n_arms, 20)), np.random.default_rng(1)
    tracemalloc.start()
    chosen = [int(policy.decide([3], arms, rng).chosen[0]) for _ in range(20)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(set(chosen)) > 1
    assert peak < 8 * n_arms**2 / 10


# ---- drift


@pytest.mark.parametrize("noise", [1e-3, 0.1])
def test_a_basis_that_is_replaced_is_noticed_soon(
    noise: float, caplog: pytest.LogCaptureFixture
) -> None:
    world = Synthetic(dim=15, n_tasks=20, rank=2, noise_std=noise, replaced=True)
    halves = np.zeros(2)
    for seed in range(3):
        policy = Shared(dim=15, n_tasks=20)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "cobandits"):
            trace = simulate(policy, world, 80, seed)
        assert len(policy.changes) == 1
        assert 800 <= policy.changes[0] <= 900  # half time is after 800 rewards
        assert policy.rewards == 1600
        assert f"after {policy.changes[0]} rewards" in caplog.text
        halves += trace.regret[:40].sum(), trace.regret[40:].sum()
    assert halves[1] < 2 * halves[0]


@pytest.mark.parametrize("noise", [1e-3, 0.1])
def test_a_change_is_noticed_as_soon_one_request_at_a_time(
    noise: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Half time is after 800 rewards; it takes at most a group of rewards longer."""
    world = Synthetic(dim=15, n_tasks=20, rank=2, noise_std=noise, replaced=True)
    for seed in range(2):
        policy = Shared(dim=15, n_tasks=20)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "cobandits"):
            play_singly(policy, world, 80, seed)
        assert len(policy.changes) == 1
        assert 780 <= policy.changes[0] <= 920
        assert policy.rewards == 1600
        assert policy.explain_all().rewards.sum() == 1600 - policy.changes[0]
        assert f"after {policy.changes[0]} rewards" in caplog.text


def test_no_change_is_reported_one_request_at_a_time() -> None:
    world = Synthetic(dim=10, n_tasks=10, rank=2, noise_std=0.1, late=0.2)
    for seed in range(2):
        policy = Shared(dim=10, n_tasks=10)
        play_singly(policy, world, 60, seed)
        assert policy.changes == ()


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0])
def test_no_change_is_reported_where_none_is(noise: float) -> None:
    world = Synthetic(dim=10, n_tasks=10, rank=2, noise_std=noise, late=0.2)
    for seed in range(4):
        policy = Shared(dim=10, n_tasks=10)
        simulate(policy, world, 80, seed)
        assert policy.changes == ()


def test_rare_clicks_are_no_change() -> None:
    """Rewards of 0 or 1, of which 5 in 100 are 1: the first ones may well all be 0."""
    for seed in range(3):
        rng, policy = np.random.default_rng(seed), fresh()
        for _ in range(150):
            arms = rng.standard_normal((T, K, D))
            decided = policy.decide(np.arange(T), arms, rng)
            chances = np.where(decided.features(arms)[:, 0] > 0, 0.09, 0.01)
            policy.learn(np.arange(T), arms, decided, (rng.random(T) < chances) * 1.0)
        assert policy.changes == ()


# ---- the claims


def trials(policy: str, world: Synthetic, n: int, rounds: int = 200) -> float:
    """Return the regret per task, mean over trials that all policies meet the same arms in."""
    setting = {"dim": world.dim, "n_tasks": world.n_tasks, "rank": world.rank}
    parameters = {"ridge": 1e-2} if policy == "ridge" else {}
    regrets = [
        simulate(
            make(policy, parameters, rounds=rounds, **setting), world, rounds, 7, trial=trial
        ).regret_per_task
        for trial in range(n)
    ]
    return float(np.mean(regrets))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n_tasks", "rank", "most"), [(10, 2, 0.5), (10, 8, 1.0), (25, 4, 0.5), (50, 2, 0.3)]
)
def test_shared_against_greedy_ridge(n_tasks: int, rank: int, most: float) -> None:
    world = Synthetic(dim=100, n_tasks=n_tasks, rank=rank)
    assert trials("shared", world, 10) < most * trials("ridge", world, 10)


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "most"), [(0.1, 0.6), (1.0, 0.8)])
def test_shared_against_greedy_ridge_with_noise(noise: float, most: float) -> None:
    world = Synthetic(dim=100, n_tasks=25, rank=2, noise_std=noise)
    assert trials("shared", world, 10) < most * trials("ridge", world, 10)


@pytest.mark.statistical
def test_shared_against_the_papers_policy_and_the_degrees_of_freedom() -> None:
    """Random play for ceil(r (d + T - r) / T) rounds and perfect play then is the limit."""
    world = Synthetic(dim=100, n_tasks=50, rank=2)
    regret = trials("shared", world, 10)
    assert regret < 0.3 * trials("lrrl", world, 10)
    unknown = int(np.ceil(2 * (100 + 50 - 2) / 50))
    limit = trials("random", world, 10) * unknown / 200
    assert regret < 1.5 * limit


@pytest.mark.statistical
def test_unrelated_tasks_cost_next_to_nothing() -> None:
    world = Synthetic(dim=100, n_tasks=50, rank=4, unrelated=True)
    assert trials("shared", world, 10) < 1.05 * trials("ridge", world, 10)


@pytest.mark.statistical
def test_a_late_task_plays_near_the_subspace_oracle() -> None:
    world = Synthetic(dim=100, n_tasks=25, rank=4, late=0.08)
    shared, oracle = (
        np.mean(
            [
                simulate(kind(dim=100, n_tasks=25), world, 100, 7, trial=n).regret[50:, -2:].sum()
                for n in range(10)
            ]
        )
        for kind in (Shared, SubspaceOracle)
    )
    assert shared < 2 * oracle


@pytest.mark.statistical
def test_after_a_change_it_is_nearly_as_good_as_a_fresh_start() -> None:
    """The second half of 200 rounds against 100 rounds of other tasks of the same kind."""
    world = Synthetic(dim=100, n_tasks=25, rank=4, replaced=True)
    drifted = np.mean(
        [
            simulate(Shared(dim=100, n_tasks=25), world, 200, 7, trial=trial).regret[100:].sum()
            for trial in range(10)
        ]
    )
    start = 25 * trials("shared", Synthetic(dim=100, n_tasks=25, rank=4), 10, rounds=100)
    assert drifted < 1.5 * start


def test_rewards_that_are_always_the_same_are_learned_for_ever() -> None:
    policy, rng = Shared(dim=5, n_tasks=1), np.random.default_rng(0)
    arms = np.eye(5)[None]
    for _ in range(150):
        decided = policy.decide([0], arms, rng)
        policy.learn([0], arms, decided, [0.5])
    assert np.isfinite(policy.probabilities([0], arms)).all()


def test_the_one_arm_that_pays_is_found() -> None:
    """While all rewards are equal, all arms are worth a try."""
    found, arms = 0, np.eye(5)[None]
    for seed in range(8):
        policy, rng = Shared(dim=5, n_tasks=1), np.random.default_rng(seed)
        for _ in range(100):
            decided = policy.decide([0], arms, rng)
            policy.learn([0], arms, decided, [float(decided.chosen[0] == 3)])
        found += int(policy.probabilities([0], arms)[0].argmax() == 3)
    assert found == 8


def test_one_wrong_reward_does_not_ruin_the_other_tasks() -> None:
    rng = np.random.default_rng(0)
    Theta = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 10))
    policy, tasks, regrets = Shared(dim=10, n_tasks=20), np.arange(20), []
    for n in range(100):
        arms = rng.standard_normal((20, 5, 10))
        means = np.einsum("tkd,td->tk", arms, Theta)
        decided = policy.decide(tasks, arms, rng)
        chosen = means[tasks, decided.chosen]
        regrets.append((means.max(axis=1) - chosen)[1:].mean())
        rewards = chosen + 0.1 * rng.standard_normal(20)
        rewards[0] += 1000 * (n == 50)
        policy.learn(tasks, arms, decided, rewards)
    assert np.mean(regrets[51:]) < 0.05
