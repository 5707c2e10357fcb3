"""A refit of the shared policy elsewhere: in a thread, while the policy decides."""

from __future__ import annotations

import copy
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies import Shared
from cobandits.policies.shared import Refit, config, refit
from tests.golden import SCENARIOS, Scenario
from tests.shared_states import assert_holds, assert_same, made, n_dropped, saved
from tests.shared_trajectory import ARMS, CHANGE, DIM, TASKS, asked, paid, play, played

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Batch = tuple[Codes, Floats, Decisions, Floats]


def batch(n: int, dim: int = DIM) -> Batch:
    """Return what is learned in round n: tasks, arms, decisions and rewards."""
    tasks, arms = asked(n, d=dim)
    chosen = made(np.random.default_rng([7, n]).integers(ARMS, size=len(tasks)))
    return tasks, arms, chosen, paid(n, tasks, chosen.features(arms))


def installed(policy: Shared, found: Refit) -> Shared:
    """Return a twin of a policy with the state of a refit."""
    twin = copy.deepcopy(policy)
    twin.restore(copy.deepcopy(found.state))
    return twin


# ---- when


def test_it_is_due_exactly_when_learning_refits() -> None:
    """Of one reward or of many; a change that is noticed in between comes on top."""
    policy, told = Shared(dim=DIM, n_tasks=TASKS), []
    for n in range(CHANGE):
        tasks, arms, decided, rewards = batch(n)
        due, before = policy.refit_due(len(tasks)), policy.estimate
        assert policy.refit_due() <= due  # more rewards make it sooner due
        policy.learn(tasks, arms, decided, rewards)
        assert (policy.estimate is not before) == due
        told.append(due)
    assert policy.changes == ()
    assert told[0]
    assert 5 < sum(told) < CHANGE - 20


def test_it_is_due_from_a_quarter_more_rewards_on() -> None:
    policy = Shared(dim=DIM, n_tasks=TASKS)
    assert policy.refit_due()
    assert not policy.refit_due(0)  # nothing to learn from
    tasks, arms = np.arange(100) % TASKS, np.random.default_rng(0).standard_normal((100, ARMS, DIM))
    policy.learn(tasks, arms, made(np.zeros(100, np.int64)), arms[:, 0, 0])
    assert not policy.refit_due(24)
    assert policy.refit_due(25)
    assert policy.refit_due(1000)


# ---- the same bits


def decided_meanwhile(policy: Shared, scenario: Scenario) -> Floats:
    arms = np.random.default_rng(0).standard_normal((scenario.world.n_tasks, 4, policy.dim))
    return policy.probabilities(np.arange(scenario.world.n_tasks), arms)


@pytest.mark.parametrize("name", ["drift", "late", "far-over-budget", "single-requests"])
def test_a_refit_in_a_thread_gives_the_same_bits_as_in_line(name: str) -> None:
    """Over a whole trajectory; until it is installed, the policy decides as before."""
    scenario, refits, rng = SCENARIOS[name], 0, np.random.default_rng(5)
    world = scenario.world
    with scenario.within(), ThreadPoolExecutor(1) as elsewhere:
        inline, handed = (Shared(dim=world.dim, n_tasks=world.n_tasks) for _ in range(2))
        for request in scenario.batches():
            decided = handed.decide(request.tasks, request.arms, rng)
            rewards = scenario.reward(request, decided.chosen)
            learned = request.tasks, request.arms, decided, rewards
            if handed.refit_due(len(request.tasks)):
                before, refits = decided_meanwhile(handed, scenario), refits + 1
                future = elsewhere.submit(refit, handed.snapshot(*learned))
                while not future.done():
                    np.testing.assert_array_equal(decided_meanwhile(handed, scenario), before)
                handed.install(future.result())
                inline.learn(*learned)
                assert_same(handed, inline)
            else:
                handed.learn(*learned)
                inline.learn(*learned)
        assert_same(handed, inline)
        assert refits >= 10
        assert handed.changes == inline.changes
        assert bool(handed.changes) == (name == "drift")
        assert (n_dropped(handed) > 0) == (name == "far-over-budget")


def test_a_change_that_a_refit_notices_is_reported_when_it_is_installed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy, tasks = played(40), np.arange(400) % TASKS
    arms, decided = np.random.default_rng(0).standard_normal((400, ARMS, DIM)), made([0] * 400)
    before = rewards, changes = policy.rewards, policy.changes
    assert policy.refit_due(400)
    with caplog.at_level("WARNING", "cobandits"):
        found = refit(policy.snapshot(tasks, arms, decided, np.full(400, 1e4)))
        assert not caplog.records
        assert (policy.rewards, policy.changes) == before
        policy.install(found)
    assert len(policy.changes) == len(changes) + 1 == 1
    assert rewards - 16 < policy.changes[0] <= rewards  # some were pending
    assert policy.rewards == rewards + 400
    assert f"after {policy.changes[0]} rewards" in caplog.text


# ---- a snapshot never changes


@pytest.mark.parametrize("budget", [2**30, 1])
def test_what_is_learned_later_does_not_change_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    """Neither does a refit; also where rows are dropped in it, or were before."""
    monkeypatch.setattr(config, "ROW_BYTES", budget)
    rng, first_drops, moved = np.random.default_rng(0), 0, 0
    policy, chosen = Shared(dim=4, n_tasks=20), made([0] * 4)
    for _ in range(40):
        tasks, arms = rng.integers(20, size=4), rng.standard_normal((4, ARMS, 4))
        later, twin, rewards = copy.deepcopy(policy), copy.deepcopy(policy), rng.random(4)
        snapshot = later.snapshot(tasks, arms, chosen, rewards)
        told = installed(twin, refit(snapshot))
        assert_same(installed(twin, refit(snapshot)), told)
        first_drops += n_dropped(policy) == 0 < n_dropped(told)
        moved += not later.refit_due(4)
        later.learn(tasks, 2 * arms, made([1] * 4), rewards + 1)
        assert_same(installed(twin, refit(snapshot)), told)
        policy.learn(tasks, arms, chosen, rewards)
    assert moved > 10  # posteriors in place
    assert (first_drops > 0) == (budget == 1)


def test_what_was_given_may_be_reused() -> None:
    policy = played(30)
    tasks, arms, decided, rewards = batch(30)
    snapshot = policy.snapshot(tasks, arms, decided, rewards)
    told = installed(policy, refit(snapshot))
    tasks[:], arms[:], rewards[:], decided.chosen[:] = 0, 9.0, 9.0, 0
    assert_same(installed(policy, refit(snapshot)), told)


def test_taking_a_snapshot_changes_nothing() -> None:
    policy = played(30)
    before = saved(policy)
    refit(policy.snapshot(*batch(30)))
    assert_holds(policy, before)


# ---- its cost


def test_a_snapshot_copies_no_rows() -> None:
    """Two of them share all rows, and take as little memory after ten times as many rewards."""
    policy, rng, peaks = Shared(dim=20, n_tasks=50), np.random.default_rng(0), []
    for n_rows in (1000, 10_000):
        arms = rng.standard_normal((n_rows, 2, 20))
        policy.learn(rng.integers(50, size=n_rows), arms, made([0] * n_rows), arms[:, 0, 0])
        one = [0], arms[:1], made([0]), [1.0]
        policy.learn(*one)
        policy.snapshot(*one)  # what is computed once
        tracemalloc.start()
        first = policy.snapshot(*one)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        second = policy.snapshot(*one)
        rows = first.state.store.row_buffer
        assert np.shares_memory(rows, second.state.store.row_buffer)
        assert peaks[-1] < rows.nbytes / 5
        assert len(first.news.tasks) == 2
    assert peaks[1] < 1.5 * peaks[0]


# ---- refused


def test_a_refit_that_follows_on_other_rewards_is_refused() -> None:
    policy = played(30)
    found = refit(policy.snapshot(*batch(30)))
    then = policy.rewards
    play(policy, 30)
    before = saved(policy)
    message = f"follows on {then} rewards .* after {policy.rewards}; learn nothing between"
    with pytest.raises(ConfigurationError, match=message):
        policy.install(found)
    assert_holds(policy, before)
    assert_same(policy, played(31))


def test_a_refit_of_another_policy_is_refused() -> None:
    """Even of one that has learned the same, whose state it would share."""
    policy, twin = played(30), played(30)
    found = refit(policy.snapshot(*batch(30)))
    with pytest.raises(ConfigurationError, match="of another policy, or was installed before"):
        twin.install(found)
    assert_same(twin, policy)
    policy.install(found)
    assert policy.rewards > twin.rewards


def test_what_is_no_refit_is_refused_with_advice() -> None:
    policy = played(3)
    snapshot: Any = policy.snapshot(*batch(3))
    with pytest.raises(ConfigurationError, match=r"install takes what refit\(snapshot\) returned"):
        policy.install(snapshot)


def test_a_state_of_other_features_is_not_restored() -> None:
    policy, other = played(3), Shared(dim=DIM + 1)
    found = refit(policy.snapshot(*batch(3)))
    with pytest.raises(ConfigurationError, match=f"restored by a policy for {DIM + 1}"):
        other.restore(found.state)


def test_a_refit_is_installed_once() -> None:
    policy = played(30)
    found = refit(policy.snapshot(*batch(30)))
    policy.install(found)
    before = saved(policy)
    with pytest.raises(ConfigurationError, match="learn nothing between snapshot and install"):
        policy.install(found)
    assert_holds(policy, before)


def test_bad_rewards_are_refused_by_a_snapshot_as_by_learning() -> None:
    policy = played(30)
    tasks, arms, decided, rewards = batch(30)
    before = saved(policy)
    for bad in (np.full_like(rewards, np.nan), np.full_like(rewards, 1e80), rewards[1:]):
        with pytest.raises(DataError) as told:
            policy.snapshot(tasks, arms, decided, bad)
        with pytest.raises(DataError) as learned:
            policy.learn(tasks, arms, decided, bad)
        assert str(told.value) == str(learned.value)
    with pytest.raises(DataError, match="got none; give at least one"):
        policy.snapshot([], arms[:0], made(np.zeros(0, np.int64)), [])
    assert_holds(policy, before)
