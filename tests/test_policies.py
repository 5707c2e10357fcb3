"""What every policy promises, and each against a slow answer of its own."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from cobandits import policies
from cobandits.decisions import Decisions, Round
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, Independent, LowRank
from cobandits.policies import (
    LRRL,
    MTLROFUL,
    GlobalOwnRidge,
    GlobalRidge,
    Informed,
    LinUCB,
    Policy,
    Ridge,
    Thompson,
    available,
    make,
)
from cobandits.policies.mtlr import _best_responses
from cobandits.policies.schedules import EqualEpochs
from cobandits.simulate import simulate
from cobandits.tasks import TaskRows

Floats = NDArray[np.floating]

NAMES = sorted(available())
SCHEDULED = [name for name in NAMES if "schedule" in signature(available()[name]).parameters]
WORLD = Synthetic(dim=6, n_tasks=5, rank=2, n_arms=4)
N = 24


def fresh(name: str, **parameters: object) -> Policy:
    """Return a policy for the small world."""
    return make(name, parameters, rounds=N, dim=6, n_tasks=5, rank=2, noise_std=1e-3)


def played(policy: Policy, n: int = N, seed: int = 0) -> Round:
    """Let a policy play some rounds and return the one after them, of which it is informed."""
    rng = np.random.default_rng(seed)
    *past, last = WORLD.rounds(n + 1, seed=seed)
    for asked in past:
        if isinstance(policy, Informed):
            policy.inform(asked)
        decisions = policy.decide(asked.tasks, asked.arms, rng)
        paid = asked.outcome(decisions)
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
    if isinstance(policy, Informed):
        policy.inform(last)
    return last


# ---- the contract


@pytest.mark.parametrize("name", NAMES)
def test_decisions_follow_the_probabilities_that_are_reported(name: str) -> None:
    """Frequencies over 2000 draws, each within 4.5 standard errors and the integration's 2 %."""
    policy = fresh(name)
    asked = played(policy, n=3)
    probabilities = policy.probabilities(asked.tasks, asked.arms)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    rng, draws = np.random.default_rng(1), 2000
    counts = np.zeros(probabilities.shape)
    for _ in range(draws):
        decided = policy.decide(asked.tasks, asked.arms, rng)
        counts[np.arange(5), decided.chosen] += 1
        reported = probabilities[np.arange(5), decided.chosen]
        np.testing.assert_allclose(decided.probabilities, reported, atol=0.03)
    error = 4.5 * np.sqrt(probabilities * (1 - probabilities) / draws) + 0.02
    assert (np.abs(counts / draws - probabilities) <= error).all()


@pytest.mark.parametrize("name", NAMES)
def test_deciding_changes_nothing_that_was_learned(name: str) -> None:
    policy = fresh(name)
    asked = played(policy)
    before = policy.probabilities(asked.tasks, asked.arms)
    for seed in range(3):
        policy.decide(asked.tasks, asked.arms, np.random.default_rng(seed))
    np.testing.assert_array_equal(policy.probabilities(asked.tasks, asked.arms), before)


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"mtlr-oful", "oracle"}))
def test_a_task_is_decided_the_same_alone_and_among_others(name: str) -> None:
    policy = fresh(name)
    asked = played(policy)
    together = policy.probabilities(asked.tasks, asked.arms)
    alone = [
        policy.probabilities(asked.tasks[t : t + 1], asked.arms[t : t + 1])[0] for t in range(5)
    ]
    np.testing.assert_allclose(together, alone, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_arms_does_not_matter(name: str) -> None:
    policy = fresh(name)
    asked = played(policy)
    order = np.array([2, 0, 3, 1])
    here = policy.probabilities(asked.tasks, asked.arms)
    if isinstance(policy, Informed):
        moved = Round(
            tasks=asked.tasks,
            arms=asked.arms[:, order],
            means=asked.means[:, order],
            rewards=asked.rewards[:, order],
            truth=asked.truth,
        )
        policy.inform(moved)
    there = policy.probabilities(asked.tasks, asked.arms[:, order])
    np.testing.assert_allclose(there, here[:, order], atol=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_trace_and_regret_is_never_negative(name: str) -> None:
    first, second = (simulate(fresh(name), WORLD, N, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.regret, second.regret)
    assert first.fits == second.fits
    assert (first.regret >= 0).all()
    assert first.decisions == N * 5


@pytest.mark.parametrize("name", NAMES)
def test_refused_rewards_change_nothing(name: str) -> None:
    policy = fresh(name)
    asked = played(policy)
    decided = policy.decide(asked.tasks, asked.arms, np.random.default_rng(0))
    before = policy.probabilities(asked.tasks, asked.arms)
    rewards = asked.outcome(decided).rewards
    bad = rewards.copy()
    bad[2] = np.nan
    with pytest.raises(DataError, match="reward 2 is nan; leave out"):
        policy.learn(asked.tasks, asked.arms, decided, bad)
    with pytest.raises(DataError, match="a reward for each of 5 decisions"):
        policy.learn(asked.tasks, asked.arms, decided, rewards[:3])
    with pytest.raises(DataError, match="5 decisions for 3 sets of arms"):
        policy.learn(asked.tasks[:3], asked.arms[:3], decided, rewards[:3])
    elsewhere = Decisions(chosen=decided.chosen + 4, probabilities=np.ones(5), policy=name)
    with pytest.raises(DataError, match="was never offered: arms are numbered 0 to 3"):
        policy.learn(asked.tasks, asked.arms, elsewhere, rewards)
    np.testing.assert_array_equal(policy.probabilities(asked.tasks, asked.arms), before)


@pytest.mark.parametrize("name", NAMES)
def test_bad_requests_are_refused(name: str) -> None:
    policy, rng = fresh(name), np.random.default_rng(0)
    asked = played(policy)
    tasks, arms = asked.tasks, asked.arms
    with pytest.raises(DataError, match="expected arms of 6 features, got 5"):
        policy.decide(tasks, arms[:, :, :5], rng)
    with pytest.raises(DataError, match=r"expected arms \(m, K, d\) for m = 5"):
        policy.decide(tasks, arms[:4], rng)
    if policy.most_tasks is not None:
        with pytest.raises(DataError, match="task 5, but there are 5"):
            policy.decide(tasks + 1, arms, rng)
    with pytest.raises(DataError, match="task -1, but"):
        policy.decide(tasks - 1, arms, rng)
    with pytest.raises(DataError, match="whole numbers"):
        policy.decide(tasks / 2, arms, rng)
    holes = arms.copy()
    holes[3, 0, 0] = np.inf
    with pytest.raises(DataError, match="infinite value, first in request 3"):
        policy.decide(tasks, holes, rng)
    with pytest.raises(DataError, match="expected arms"):
        policy.decide(tasks, arms[:, :0], rng)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_of_any_layout_and_lists_are_taken(name: str) -> None:
    plain, turned = fresh(name), fresh(name)
    asked = played(plain)
    played(turned)
    tasks, arms = np.repeat(asked.tasks, 2)[::2], np.asfortranarray(asked.arms)
    expected = plain.probabilities(asked.tasks, asked.arms)
    np.testing.assert_allclose(turned.probabilities(tasks, arms), expected, atol=1e-9)
    chosen, rewards = expected.argmax(axis=1), np.linspace(0, 1, 10)[::2]
    for policy, given in ((plain, asked.tasks), (turned, tasks)):
        made = Decisions(chosen=chosen.tolist(), probabilities=[1.0] * 5, policy=name)
        policy.learn(given, asked.arms.tolist(), made, rewards)
    np.testing.assert_allclose(
        turned.probabilities(tasks, arms), plain.probabilities(tasks, arms), atol=1e-9
    )


@pytest.mark.parametrize(
    ("name", "schedule"),
    [(name, None) for name in NAMES]
    + [
        (name, "first-2") for name in NAMES if "schedule" in signature(available()[name]).parameters
    ],
)
def test_values_that_cannot_be_squared_are_refused_and_change_nothing(
    name: str, schedule: str | None
) -> None:
    policy = fresh(name, **({"schedule": schedule} if schedule else {}))
    asked = played(policy, n=N // 2 - 1)
    decided = policy.decide(asked.tasks, asked.arms, np.random.default_rng(0))
    before = policy.probabilities(asked.tasks, asked.arms)
    with pytest.raises(DataError, match="at most 1e\\+75 can be squared; scale"):
        policy.decide(asked.tasks, 1e80 * asked.arms, np.random.default_rng(0))
    with pytest.raises(DataError, match="at most 1e\\+75 can be squared; scale"):
        policy.learn(asked.tasks, asked.arms, decided, np.full(5, 1e80))
    np.testing.assert_array_equal(policy.probabilities(asked.tasks, asked.arms), before)
    policy.learn(asked.tasks, asked.arms, decided, asked.outcome(decided).rewards)


def test_decisions_of_probability_zero_were_never_made() -> None:
    with pytest.raises(DataError, match="never made"):
        Decisions(chosen=np.array([0]), probabilities=np.array([0.0]), policy="x")


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"oracle"}))
def test_nobody_asks(name: str) -> None:
    policy = fresh(name)
    played(policy)
    nobody, nothing = np.zeros(0, np.int64), np.zeros((0, 4, 6))
    decided = policy.decide(nobody, nothing, np.random.default_rng(0))
    policy.learn(nobody, nothing, decided, np.zeros(0))
    assert len(decided) == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "world",
    [
        Synthetic(dim=6, n_tasks=5, rank=2, n_arms=1),
        Synthetic(dim=6, n_tasks=5, rank=2, unequal=True),
        Synthetic(dim=6, n_tasks=5, rank=2, late=0.4),
        Synthetic(dim=6, n_tasks=5, rank=2, replaced=True),
        Synthetic(dim=6, n_tasks=5, rank=2, turn=0.02),
        Synthetic(dim=6, n_tasks=5, rank=2, unrelated=True),
        Synthetic(dim=6, n_tasks=5, rank=2, correlation=0.9, shift=2.0),
    ],
    ids=["one arm", "unequal", "late", "replaced", "turn", "unrelated", "correlated"],
)
def test_every_policy_plays_in_every_world(name: str, world: Synthetic) -> None:
    trace = simulate(fresh(name), world, N, seed=0)
    assert np.isfinite(trace.regret).all()


# ---- each against a slow answer


class Textbook:
    """One task's Bayesian linear regression, from all its rows each time."""

    def __init__(self, d: int, ridge: float) -> None:
        self.V, self.b = ridge * np.eye(d), np.zeros(d)

    def add(self, x: Floats, y: float) -> None:
        self.V += np.outer(x, x)
        self.b += y * x

    @property
    def mean(self) -> Floats:
        return np.asarray(np.linalg.solve(self.V, self.b))


@pytest.mark.parametrize("world", [WORLD, Synthetic(dim=6, n_tasks=5, rank=2, unequal=True)])
def test_thompson_agrees_with_the_textbook_decision_by_decision(world: Synthetic) -> None:
    policy = Thompson(dim=6, n_tasks=5, scale=0.3, ridge=0.5)
    books = [Textbook(6, 0.5) for _ in range(5)]
    ours, theirs = (np.random.default_rng(9) for _ in range(2))
    for asked in world.rounds(150, seed=2):
        decided = policy.decide(asked.tasks, asked.arms, ours)
        for i, t in enumerate(asked.tasks):
            L = np.linalg.cholesky(books[t].V)
            z = theirs.standard_normal(6)
            theta = books[t].mean + 0.3 * solve_triangular(L.T, z)  # ~ N(mean, 0.3^2 V^-1)
            k = int(np.argmax(asked.arms[i] @ theta))
            assert decided.chosen[i] == k
            books[t].add(asked.arms[i, k], asked.rewards[i, k])
        paid = asked.outcome(decided)
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)


@pytest.mark.parametrize("radius", [0.2, "oful"])
def test_linucb_agrees_with_the_textbook_decision_by_decision(radius: float | str) -> None:
    options = {"radius": radius, "ridge": 0.5, "delta": 0.1, "noise_std": 0.01, "bound": 2.0}
    policy = make("linucb", options, rounds=N, dim=6, n_tasks=5)
    books = [Textbook(6, 0.5) for _ in range(5)]
    rng = np.random.default_rng(0)
    for asked in WORLD.rounds(150, seed=3):
        decided = policy.decide(asked.tasks, asked.arms, rng)
        for i, book in enumerate(books):
            volume = np.log(np.linalg.det(book.V) / 0.5**6)
            oful = 0.01 * np.sqrt(2 * np.log(1 / 0.1) + volume) + np.sqrt(0.5) * 2.0
            beta = oful if isinstance(radius, str) else radius
            P = np.linalg.inv(book.V)
            arms = asked.arms[i]
            scores = arms @ book.mean + beta * np.sqrt(np.einsum("kd,de,ke->k", arms, P, arms))
            k = int(np.argmax(scores))
            assert decided.chosen[i] == k
            book.add(arms[k], asked.rewards[i, k])
        paid = asked.outcome(decided)
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)


def test_ridge_is_the_independent_estimator_after_every_round() -> None:
    policy, rows, rng = Ridge(dim=6, n_tasks=5, ridge=0.7), TaskRows(6), np.random.default_rng(0)
    for asked in WORLD.rounds(12, seed=5):
        decided = policy.decide(asked.tasks, asked.arms, rng)
        paid = asked.outcome(decided)
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
        rows.add(paid.decisions.features(paid.arms), paid.rewards, paid.tasks)
        expected = Independent(ridge=0.7).fit(rows).theta
        np.testing.assert_allclose(policy.posteriors.means.T, expected, atol=1e-9)


class Pooled:
    """A ridge regression for all tasks and one per task on its residuals, in plain NumPy."""

    def __init__(self, n_tasks: int, ridge: float, own: float | None) -> None:
        self.ridge, self.own, self.n_tasks = ridge, own, n_tasks
        self.rows: list[tuple[int, Floats, float, float]] = []  # task, features, reward, residual

    def add(self, task: int, x: Floats, y: float) -> None:
        self.rows.append((task, np.append(x, 1.0), y, 0.0))
        *before, (t, z, y, _) = self.rows
        self.rows = [*before, (t, z, y, y - float(z @ self.common))]

    @property
    def common(self) -> Floats:
        return self._fit([(z, y) for _, z, y, _ in self.rows], self.ridge)

    @property
    def each(self) -> Floats:
        if self.own is None:
            return np.zeros((self.n_tasks, 7))
        rests = [[(z, e) for t, z, _, e in self.rows if t == task] for task in range(self.n_tasks)]
        return np.stack([self._fit(rest, self.own) for rest in rests])

    @staticmethod
    def _fit(rows: list[tuple[Floats, float]], ridge: float) -> Floats:
        X, y = np.reshape([z for z, _ in rows], (-1, 7)), np.array([value for _, value in rows])
        return np.asarray(np.linalg.solve(ridge * np.eye(7) + X.T @ X, X.T @ y))


@pytest.mark.parametrize("own", [None, 3.0])
def test_pooled_ridge_agrees_with_plain_numpy_decision_by_decision(own: float | None) -> None:
    policy = (
        GlobalRidge(dim=6, n_tasks=5, ridge=0.7)
        if own is None
        else GlobalOwnRidge(dim=6, n_tasks=5, ridge=0.7, own=own)
    )
    plain, rng = Pooled(5, 0.7, own), np.random.default_rng(0)
    tasks = np.array([0, 1, 1, 4, 0])  # a task may ask more than once in a batch
    for n, asked in enumerate(WORLD.rounds(20, seed=5)):
        thetas = plain.common + plain.each
        decided = policy.decide(tasks, asked.arms, rng)
        for i, t in enumerate(tasks.tolist()):
            scores = asked.arms[i] @ thetas[t, :6]  # the intercept is the same for all arms
            assert n == 0 or decided.chosen[i] == scores.argmax()
        rewards = asked.rewards[np.arange(5), decided.chosen]
        policy.learn(tasks, asked.arms, decided, rewards)
        for t, x, y in zip(tasks.tolist(), decided.features(asked.arms), rewards, strict=True):
            plain.add(t, x, float(y))
        np.testing.assert_allclose(policy.coefficients, plain.common, atol=1e-9)
        if isinstance(policy, GlobalOwnRidge):
            np.testing.assert_allclose(policy.own_coefficients, plain.each, atol=1e-9)


def test_a_task_that_never_asked_is_decided_by_the_others() -> None:
    theta, rng = np.arange(1.0, 7.0), np.random.default_rng(0)
    for name in ("global", "global-own"):
        policy = fresh(name)
        for _ in range(40):
            arms = rng.standard_normal((4, 3, 6))
            decided = policy.decide([0, 1, 2, 3], arms, rng)
            policy.learn([0, 1, 2, 3], arms, decided, decided.features(arms) @ theta)
        arms = rng.standard_normal((50, 3, 6))
        chosen = policy.decide(np.full(50, 4), arms, rng).chosen
        assert np.mean(chosen == (arms @ theta).argmax(axis=1)) > 0.9


@pytest.mark.parametrize("name", ["global", "global-own"])
def test_pooled_ridge_takes_any_arm_before_it_learned(name: str) -> None:
    asked = next(WORLD.rounds(1, seed=0))
    np.testing.assert_allclose(fresh(name).probabilities(asked.tasks, asked.arms), 0.25)


@pytest.mark.parametrize("name", ["ridge", "thompson", "linucb"])
def test_in_epochs_it_only_learns_when_one_ends(name: str) -> None:
    policy, eager = fresh(name, schedule="equal-3"), fresh(name)
    assert isinstance(policy, policies.PerTask)
    assert isinstance(eager, policies.PerTask)
    seen: list[Floats] = []
    rng = np.random.default_rng(0)
    for n, asked in enumerate(WORLD.rounds(N, seed=6), 1):
        decided = policy.decide(asked.tasks, asked.arms, rng)
        paid = asked.outcome(decided)
        for learner in (policy, eager):
            learner.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
        seen.append(policy.posteriors.means.copy())
        if n in (8, 16, 24):
            np.testing.assert_allclose(seen[-1], eager.posteriors.means)
        elif n > 1:
            np.testing.assert_array_equal(seen[-1], seen[-2])


def test_lrrl_plays_algorithm_1() -> None:
    """Random until the first epoch ends, then greedy by a fit of the last epoch's rows alone."""
    policy = LRRL(dim=6, n_tasks=5, rank=2, schedule=EqualEpochs(epochs=3, rounds=N))
    rng, rows, start = np.random.default_rng(0), TaskRows(6), None
    theta: Floats = np.zeros((6, 5))
    for n, asked in enumerate(WORLD.rounds(N, seed=7), 1):
        shares = policy.probabilities(asked.tasks, asked.arms)
        scores = np.einsum("mkd,dm->mk", asked.arms, theta)
        if n <= 8:
            np.testing.assert_allclose(shares, 0.25)
        else:
            np.testing.assert_array_equal(shares.argmax(axis=1), scores.argmax(axis=1))
        decided = policy.decide(asked.tasks, asked.arms, rng)
        paid = asked.outcome(decided)
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
        rows.add(paid.decisions.features(paid.arms), paid.rewards, paid.tasks)
        if n % 8 == 0:
            start = policy.estimator.fit(rows, start=start)
            theta, rows = start.theta, TaskRows(6)
            np.testing.assert_array_equal(policy.theta, theta)


def test_lrrl_with_all_data_fits_them_all() -> None:
    fitted = LRRL(
        dim=6,
        n_tasks=5,
        schedule=EqualEpochs(epochs=2, rounds=N),
        estimator=LowRank(rank=2),
        rank=2,
        memory="all",
    )
    played(fitted)
    assert fitted._rows.n_rows == N * 5
    assert fitted.estimate is not None
    np.testing.assert_allclose(
        fitted.estimate.theta, LowRank(rank=2).fit(fitted._rows).theta, atol=1e-5
    )


def test_lrrl_with_a_fixed_basis_fits_weights_alone_after_the_first_epoch() -> None:
    """Each task by least squares in the first basis, to its rows of the last epoch."""
    policy = LRRL(dim=6, n_tasks=5, rank=2, schedule=EqualEpochs(epochs=3, rounds=N), basis="fixed")
    rng, rows = np.random.default_rng(0), TaskRows(6)
    bases = []
    for n, asked in enumerate(WORLD.rounds(N, seed=7), 1):
        decided = policy.decide(asked.tasks, asked.arms, rng)
        paid = asked.outcome(decided)
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
        rows.add(paid.decisions.features(paid.arms), paid.rewards, paid.tasks)
        if n % 8 == 0:
            assert policy.estimate is not None
            bases.append(B := policy.estimate.basis)
            for t in range(5):
                mine = rows.owners == t
                w = np.linalg.lstsq(rows.rows[mine] @ B, rows.rewards[mine])[0]
                np.testing.assert_allclose(policy.theta[:, t], B @ w, atol=1e-9)
            rows = TaskRows(6)
    for later in bases[1:]:
        np.testing.assert_array_equal(later, bases[0])


def test_lrrl_keeps_the_theta_of_tasks_without_rows() -> None:
    policy = LRRL(dim=6, n_tasks=5, rank=2, schedule=EqualEpochs(epochs=4, rounds=40))
    asked = played(policy, n=10)
    before = policy.theta.copy()
    for _ in range(10):
        decided = policy.decide(asked.tasks[:3], asked.arms[:3], np.random.default_rng(0))
        rewards = asked.rewards[np.arange(3), decided.chosen]
        policy.learn(asked.tasks[:3], asked.arms[:3], decided, rewards)
    np.testing.assert_array_equal(policy.theta[:, 3:], before[:, 3:])


class Refusing(AltGDMin):
    """An estimator that cannot fit."""

    def fit(self, *_: object, **__: object) -> Estimate:
        raise DataError("not today")


@pytest.mark.parametrize("name", ["lrrl", "mtlr-oful"])
def test_a_fit_that_raises_leaves_all_as_it_was(name: str) -> None:
    policy = fresh(name, schedule="equal-2", estimator=Refusing(rank=2))
    assert isinstance(policy, policies.Refitted)
    asked = played(policy, n=N // 2 - 1)
    decided = policy.decide(asked.tasks, asked.arms, np.random.default_rng(0))
    before = policy.probabilities(asked.tasks, asked.arms)
    for _ in range(2):
        with pytest.raises(DataError, match="not today"):
            policy.learn(asked.tasks, asked.arms, decided, np.ones(5))
    assert policy._rows.n_rows == policy._clock.rewards == 5 * (N // 2 - 1)
    np.testing.assert_array_equal(policy.probabilities(asked.tasks, asked.arms), before)
    policy.estimator = AltGDMin(rank=2)
    policy.learn(asked.tasks, asked.arms, decided, np.ones(5))
    assert policy.estimate is not None


def test_mtlr_oful_learns_all_or_nothing_of_rewards_beyond_float32() -> None:
    policy = MTLROFUL(dim=6, n_tasks=5, rank=2)
    arms = np.ones((1, 2, 6), np.float32)
    decided = policy.decide([0], arms, np.random.default_rng(0))
    with pytest.raises(DataError, match="infinite"):
        policy.learn([0], arms, decided, [1e39])
    assert not policy._posteriors.means.any()


@pytest.mark.parametrize("name", ["lrrl", "moments", "tracenorm", "ridge"])
def test_nothing_is_kept_when_no_epoch_ends_any_more(name: str) -> None:
    policy = fresh(name, schedule="first-4")
    played(policy, n=N)
    held = len(policy._waiting) if isinstance(policy, Ridge) else vars(policy)["_rows"].n_rows
    assert held == 0


def test_tasks_that_are_too_few_for_a_fit_wait() -> None:
    schedule = EqualEpochs(epochs=3, rounds=N)
    policy = LRRL(dim=6, n_tasks=5, schedule=schedule, estimator=LowRank(rank=2))
    asked = played(policy, n=0)
    for t in [0] * 8 + [1] * 16:
        decided = policy.decide([t], asked.arms[:1], np.random.default_rng(t))
        policy.learn([t], asked.arms[:1], decided, [1.0])
        assert (policy.estimate is None) == (policy._clock.rewards < 24)


def test_equal_arms_have_the_probability_with_which_they_are_chosen() -> None:
    """Two arms that are one: Thompson sampling takes the first of them, and says so."""
    policy, rng = Thompson(dim=6, n_tasks=5), np.random.default_rng(0)
    asked = played(policy)
    for scale, K in ((0.0, 3), (0.5, 2), (0.5, 5), (0.5, 7)):
        policy.scale = scale
        arms = np.concatenate([np.repeat(asked.arms[:, :1], K, axis=1), asked.arms[:, 1:]], axis=1)
        shares = policy.probabilities(asked.tasks, arms)
        assert (shares[:, 1:K] < 1e-11).all()
        for _ in range(50):
            decided = policy.decide(asked.tasks, arms, rng)
            assert not ((decided.chosen > 0) & (decided.chosen < K)).any()
            reported = shares[np.arange(5), decided.chosen]
            np.testing.assert_allclose(decided.probabilities, reported, rtol=0.05)


def test_an_oracle_is_asked_what_it_was_told() -> None:
    oracle, rng = fresh("oracle"), np.random.default_rng(0)
    asked = played(oracle)
    with pytest.raises(ConfigurationError, match="call inform first"):
        oracle.decide(asked.tasks[:2], asked.arms[:2], rng)
    with pytest.raises(ConfigurationError, match="call inform first"):
        fresh("oracle").decide(asked.tasks, asked.arms, rng)


def test_moments_commits_after_the_first_epoch() -> None:
    trace = simulate(fresh("moments"), WORLD, N, seed=0)
    assert [fit.round for fit in trace.fits] == [N // 4]
    assert [fit.round for fit in simulate(fresh("lrrl"), WORLD, N, seed=0).fits] == [6, 12, 18, 24]


def test_mtlr_oful_maximises_the_joint_bound() -> None:
    """Against all choices of all tasks, on problems that are small enough."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        values, variances = rng.standard_normal((4, 3)), rng.uniform(0, 2, (4, 3))
        radius = rng.uniform(0, 3)
        choices = np.array(np.meshgrid(*[range(3)] * 4)).reshape(4, -1)  # (4, 81)
        rows = np.arange(4)[:, None]
        bounds = values[rows, choices].sum(0) + radius * np.sqrt(variances[rows, choices].sum(0))
        best = _best_responses(values, variances, radius).argmax(axis=1)
        found = values[rows[:, 0], best].sum() + radius * np.sqrt(variances[rows[:, 0], best].sum())
        assert found >= bounds.max() - 0.01 * abs(bounds.max())


def test_mtlr_oful_is_linucb_for_a_task_that_asks_alone() -> None:
    """Its best arm may lie below the line between two others, where no price reaches it."""
    rng = np.random.default_rng(1)
    for _ in range(500):
        values, variances = rng.standard_normal((1, 5)), rng.uniform(0, 2, (1, 5))
        radius = rng.uniform(0, 3)
        expected = (values + radius * np.sqrt(variances)).argmax()
        assert _best_responses(values, variances, radius).argmax() == expected


def test_mtlr_oful_without_a_radius_is_greedy() -> None:
    policy = MTLROFUL(dim=6, n_tasks=5, rank=2, radius=0.0)
    asked = played(policy)
    scores = np.einsum("mkd,dm->mk", asked.arms, policy.theta[:, asked.tasks])
    found = policy.probabilities(asked.tasks, asked.arms).argmax(axis=1)
    np.testing.assert_array_equal(found, scores.argmax(axis=1))


def test_oracles_know() -> None:
    assert simulate(fresh("oracle"), WORLD, N, seed=0).regret_per_task == 0
    subspace = simulate(fresh("subspace-oracle"), WORLD, 60, seed=0)
    assert (
        subspace.regret[10:].sum()
        < 1e-2 * simulate(fresh("random"), WORLD, 60, seed=0).regret.sum()
    )


def test_late_rewards_are_learned_as_if_they_had_come_at_once() -> None:
    prompt, late, rng = fresh("ridge"), fresh("ridge"), np.random.default_rng(0)
    made: list[tuple[Round, Decisions]] = []
    for asked in WORLD.rounds(6, seed=0):
        decided = prompt.decide(asked.tasks, asked.arms, rng)
        made.append((asked, decided))
        prompt.learn(asked.tasks, asked.arms, decided, asked.outcome(decided).rewards)
    tasks, arms, rewards = (
        np.concatenate(parts)
        for parts in zip(*((a.tasks, a.arms, a.outcome(d).rewards) for a, d in made), strict=True)
    )
    late.learn(tasks, arms, Decisions.concatenate([d for _, d in made]), rewards)
    np.testing.assert_array_equal(
        late.probabilities(asked.tasks, asked.arms), prompt.probabilities(asked.tasks, asked.arms)
    )
    with pytest.raises(DataError, match="give at least one"):
        Decisions.concatenate([])


def test_thompsons_probabilities_are_those_of_when_it_decided() -> None:
    policy = fresh("thompson", scale=1.0)
    asked = played(policy, n=2)
    expected = policy.probabilities(asked.tasks, asked.arms)
    decided = policy.decide(asked.tasks, asked.arms, np.random.default_rng(0))
    policy.learn(asked.tasks, asked.arms, decided, asked.outcome(decided).rewards)
    found = decided.probabilities  # first read now, after it learned
    np.testing.assert_allclose(found, expected[np.arange(5), decided.chosen], rtol=0.02)
    assert not np.allclose(policy.probabilities(asked.tasks, asked.arms), expected, rtol=0.02)


def test_the_oracle_needs_to_know() -> None:
    unknown = Round(
        tasks=np.array([0]),
        arms=np.ones((1, 2, 6)),
        means=np.full((1, 2), np.nan),
        rewards=np.ones((1, 2)),
    )
    with pytest.raises(ConfigurationError, match="nobody knows the best arm"):
        policies.Oracle(dim=6, n_tasks=5).inform(unknown)


def test_posteriors_that_no_machine_can_hold_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="2000 tasks with 20000 features need 2,98"):
        Ridge(dim=20_000, n_tasks=2000)


def test_parameters_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="no policy 'ucb'; choose from global"):
        fresh("ucb")
    with pytest.raises(ConfigurationError, match="thompson has no parameter scala; it has: scale"):
        fresh("thompson", scala=1)
    with pytest.raises(ConfigurationError, match="cannot be made"):
        make("lrrl", rounds=10)
    with pytest.raises(ConfigurationError, match=r"from 1 to min\(d, T\) = 5, got 9"):
        fresh("lrrl", rank=9)
    with pytest.raises(ConfigurationError, match=r"from 1 to min\(d, T\) = 5, got 9"):
        fresh("mtlr-oful", rank=9)
    with pytest.raises(ConfigurationError, match="radius must be at least 0"):
        fresh("mtlr-oful", radius=-1.0)
    with pytest.raises(ConfigurationError, match=r"policy lrrl must be a whole number, got 2\.5"):
        fresh("lrrl", rank=2.5)
    with pytest.raises(
        ConfigurationError, match="scale of the policy thompson must be a number, got"
    ):
        fresh("thompson", scale="big")
    with pytest.raises(ConfigurationError, match="schedule of the policy lrrl must be a Schedule"):
        fresh("lrrl", schedule=4)
    with pytest.raises(ConfigurationError, match="ridge has no parameter dim; it has: ridge"):
        fresh("ridge", dim=9)
    with pytest.raises(ConfigurationError, match="'epoch' or 'all'"):
        fresh("lrrl", memory="some")
    with pytest.raises(ConfigurationError, match="'refitted' or 'fixed', got 'old'"):
        fresh("lrrl", basis="old")
    with pytest.raises(ConfigurationError, match="number or 'oful'"):
        fresh("linucb", radius="ucb")
    with pytest.raises(ConfigurationError, match="delta must be between"):
        fresh("linucb", delta=1.0)
    with pytest.raises(ConfigurationError, match="own must be a finite number above 0"):
        fresh("global-own", own=0.0)
    with pytest.raises(ConfigurationError, match="scale must be at least 0"):
        fresh("thompson", scale=-1.0)
    with pytest.raises(ConfigurationError, match="number or 'theory'"):
        fresh("mtlr-oful", radius="big")
    with pytest.raises(ConfigurationError, match="n_tasks must be a whole number from 1 on"):
        LinUCB(dim=3, n_tasks=0)
    assert vars(fresh("lrrl", rank=np.int64(1)))["rank"] == 1


@pytest.mark.parametrize("name", ["dim", "n_tasks"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True])
@pytest.mark.parametrize("policy", [policies.Shared, policies.Ridge])
def test_numbers_of_features_and_tasks_are_whole(policy: Any, name: str, value: Any) -> None:
    sizes: dict[str, Any] = {"dim": 3, "n_tasks": 2, name: value}
    with pytest.raises(ConfigurationError, match=f"{name} must be a whole number from 1 on"):
        policy(**sizes)
    sizes[name] = np.int64(3)
    assert getattr(policy(**sizes), name) == 3
