"""Tasks that change alone: noticed, mended for these tasks, and nothing else is touched."""

from __future__ import annotations

import copy
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.errors import ModelFileError
from cobandits.policies import Shared
from cobandits.policies.shared import change_config, config
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.likelihoods import LIKELIHOODS
from cobandits.policies.shared.mending import Restart, before_new
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.refitting import sorted_rows
from cobandits.policies.shared.state import State
from cobandits.policies.shared.task_drift import TaskDrift
from cobandits.policies.shared.transitions import absorb, refit, stored
from cobandits.policies.shared.working_rows import learn_rewards
from tests.shared_states import content, made, state_of, write

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

T, D, HALF = 12, 8, 60
WORLD = Synthetic(dim=D, n_tasks=T, rank=2, noise_std=0.1, changed=1)
USUAL = np.ones(2)


def play(policy: Shared, world: Synthetic, rounds: slice, seed: int = 0) -> Doubles:
    """Play some of 120 rounds and return regrets, (round, task)."""
    regrets, everyone = [], np.arange(world.n_tasks)
    for n, now in enumerate(world.rounds(2 * HALF, seed=seed)):
        if not rounds.start <= n < rounds.stop:
            continue
        made = policy.decide(now.tasks, now.arms, np.random.default_rng([seed, n]))
        policy.learn(now.tasks, now.arms, made, now.rewards[everyone, made.chosen])
        regrets.append(now.means.max(axis=1) - now.means[everyone, made.chosen])
    return np.array(regrets)


FIRST, SECOND, WHOLE = slice(0, HALF), slice(HALF, 2 * HALF), slice(0, 2 * HALF)


@pytest.mark.parametrize("changed", [1, 3])
def test_tasks_that_change_alone_start_again_and_no_other(
    changed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Regret of the changed tasks is a quarter of what it is if nothing is noticed."""
    ours, deaf = [], []
    for seed in range(4):
        world, policy = replace(WORLD, changed=changed), Shared(dim=D)
        ours.append(play(policy, world, WHOLE, seed)[HALF:, :changed].sum())
        assert policy.changes == ()
        assert {change.task for change in policy.task_changes} <= set(range(changed))
        assert all(HALF * T < change.rewards < 80 * T for change in policy.task_changes)
        found = policy.task_changes[0]
        expected = f"after {found.rewards} rewards task {found.task} is no longer what it was"
        assert expected in caplog.text
        alert = Shared(dim=D, on_change="alert")
        deaf.append(play(alert, world, WHOLE, seed)[HALF:, :changed].sum())
    assert np.sum(ours) < 0.25 * np.sum(deaf)


def test_a_task_is_learned_from_its_rewards_since_the_change_alone() -> None:
    """The theta is that of a ridge regression under the prior, on the latest rows."""
    policy = Shared(dim=D)
    play(policy, WORLD, FIRST)
    before = policy.explain(0).rewards
    last = None
    for n in range(HALF, 2 * HALF):
        play(policy, WORLD, slice(n, n + 1))
        if policy.task_changes:
            last = n
            break
    assert last is not None
    assert before == HALF
    left = policy.explain(0).rewards
    assert 3 <= left <= last - HALF + 3  # and perhaps a few from before
    assert [policy.explain(t).rewards for t in range(1, T)] == [last + 1] * (T - 1)
    play(policy, WORLD, slice(last + 1, 2 * HALF))
    truth = list(WORLD.rounds(2 * HALF, seed=0))[-1].truth
    assert policy.estimate is not None
    assert truth is not None
    theta, right = policy.estimate.theta[:, 0], truth.theta[:, 0]
    assert np.linalg.norm(theta - right) < 0.2 * np.linalg.norm(right)


def test_an_alert_notes_the_task_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    policy = Shared(dim=D, on_change="alert")
    play(policy, WORLD, WHOLE)
    assert policy.task_changes[0].task == 0
    assert "learning goes on" in caplog.text
    assert policy.explain(0).rewards == 2 * HALF


def test_labels_name_the_task() -> None:
    policy = Shared(dim=D, labels=True)
    for n, now in enumerate(WORLD.rounds(2 * HALF, seed=0)):
        names = [f"shop {t}" for t in now.tasks]
        made = policy.decide(names, now.arms, np.random.default_rng(n))
        policy.learn(names, now.arms, made, now.rewards[np.arange(T), made.chosen])
    assert [change.task for change in policy.task_changes] == ["shop 0"]


def test_one_request_at_a_time_too() -> None:
    policy, world = Shared(dim=D), replace(WORLD, n_tasks=4)
    for n, now in enumerate(world.rounds(2 * HALF, seed=1)):
        for i in range(4):
            some = slice(i, i + 1)
            made = policy.decide(now.tasks[some], now.arms[some], np.random.default_rng([n, i]))
            paid = now.rewards[i, made.chosen]
            policy.learn(now.tasks[some], now.arms[some], made, paid)
    assert {change.task for change in policy.task_changes} == {0}


@pytest.mark.parametrize("more", [1, 2, 3, 4, 6, 9])
def test_saved_and_resumed_at_any_time_it_goes_on_to_the_last_bit(
    tmp_path: Path, more: int
) -> None:
    policy = Shared(dim=D)
    play(policy, WORLD, slice(0, HALF + more))
    policy.save(tmp_path / "policy")
    twin = Shared.load(tmp_path / "policy")
    assert twin.task_changes == policy.task_changes
    rest = slice(HALF + more, 2 * HALF)
    np.testing.assert_array_equal(play(twin, WORLD, rest), play(policy, WORLD, rest))
    assert twin.task_changes == policy.task_changes


def test_a_refit_elsewhere_that_mends_a_task_is_the_one_in_line() -> None:
    """A snapshot is not changed by what is learned later, and a refit is a pure function."""
    policy = Shared(dim=D)
    play(policy, WORLD, FIRST)
    rounds = list(WORLD.rounds(2 * HALF, seed=0))[HALF:]
    arms, tasks = np.concatenate([r.arms for r in rounds[:8]]), np.tile(np.arange(T), 8)
    made = policy.decide(tasks, arms, np.random.default_rng(0))
    means = np.concatenate([r.rewards for r in rounds[:8]])
    paid = means[np.arange(8 * T), made.chosen]
    snapshot = policy.snapshot(tasks, arms, made, paid)
    twin = copy.deepcopy(policy)
    first = refit(snapshot)
    play(twin, WORLD, SECOND)
    again = refit(snapshot)
    assert first.state.task_changes == again.state.task_changes
    assert [place for _, place in first.state.task_changes] == [0]
    a, b = first.state.posteriors, again.state.posteriors
    assert a is not None
    assert b is not None
    np.testing.assert_array_equal(a.thetas, b.thetas)
    policy.install(first)
    assert policy.explain(0).rewards < 20
    assert policy.rewards == (HALF + 8) * T


def test_changes_of_places_that_are_none_are_refused(tmp_path: Path) -> None:
    policy = Shared(dim=D)
    play(policy, WORLD, slice(0, 5))
    policy.save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    header["state"]["task_changes"] = [[3, T]]
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match=r"task_changes of places beyond 12"):
        Shared.load(tmp_path / "bad")


def test_a_file_from_before_this_test_loads(tmp_path: Path) -> None:
    policy = Shared(dim=D)
    play(policy, WORLD, slice(0, 20))
    policy.save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    del header["task_drift"], header["state"]["task_changes"]
    old = {name: values for name, values in arrays.items() if not name.startswith("task_drift")}
    header["arrays"] = list(old)
    write(tmp_path / "old", header, old)
    twin = Shared.load(tmp_path / "old")
    rest = slice(20, HALF)
    np.testing.assert_array_equal(play(twin, WORLD, rest), play(policy, WORLD, rest))


NULLS = {
    "gaussian": lambda rng, n: rng.standard_normal(n),
    "t with 2 degrees": lambda rng, n: rng.standard_t(2, n),
    "a click in 20": lambda rng, n: (rng.random(n) < 0.05) - 0.05,
    "1 % outliers": lambda rng, n: rng.standard_normal(n) * np.where(rng.random(n) < 0.01, 100, 1),
}


@pytest.mark.parametrize("name", NULLS)
def test_a_task_is_seldom_looked_at_without_a_change(name: str) -> None:
    """Of 100,000 errors of 50 tasks with noise of their own, one in 1,000 may lead to a look."""
    rng, looks = np.random.default_rng(5), 0
    scales = np.tile(rng.uniform(0.3, 3, 50), 40)
    test, everyone = TaskDrift.none(50), np.tile(np.arange(50), 40)
    for _ in range(50):
        squares = (scales * NULLS[name](rng, 2000)) ** 2
        for start in range(0, 2000, 50):
            some = slice(start, start + 50)
            test = test.after(everyone[some], squares[some], np.ones(50), usual=USUAL)
            looks += len(test.raised)
            if len(test.raised):
                test = test.reset(test.raised)
            test = test.write()
    assert looks <= 100


def test_one_task_whose_errors_grow_is_looked_at_within_a_few_rewards() -> None:
    """By the sums of log-likelihood ratios, which are capped."""
    rng, test = np.random.default_rng(0), TaskDrift.none(10)
    everyone, ones = np.arange(10), np.ones(10)
    for _ in range(60):
        squares = rng.standard_normal(10) ** 2
        test = test.after(everyone, squares, ones, usual=USUAL).write()
    looked = []
    for n in range(1, 6):
        squares = 0.5 * ones
        squares[4] = 1e6
        test = test.after(everyone, squares, ones, usual=USUAL)
        gain = 0.5 * (
            change_config.DRIFT_CAP * (1 - 1 / change_config.DRIFT_RATIO)
            - np.log(change_config.DRIFT_RATIO)
        )
        most = min(1.0, test.scale)
        assert test.evidence(np.array([4]))[0] >= 0.99 * most * n * gain
        enough = most * n * gain > change_config.TASK_THRESHOLD
        assert test.raised.tolist() == ([4] if enough else [])
        looked.append(len(test.raised))
        test = test.write()
    assert test.since(np.array([4]))[0] >= 5
    assert looked[0] == 0
    assert looked[-1] == 1


def test_changes_that_many_tasks_have_are_remembered_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    monkeypatch.setattr(change_config, "TASK_CHANGES_KEPT", 2)
    policy = Shared(dim=D)
    play(policy, replace(WORLD, changed=4), WHOLE)
    assert len(policy.task_changes) == 2


def learn(policy: Shared, tasks: Codes, X: Doubles, y: Doubles) -> None:
    """Learn rewards of features, (m, d)."""
    policy.learn(tasks, X[:, None], made(np.zeros(len(tasks), np.int64)), y)


def settled(seed: int) -> tuple[Shared, np.random.Generator, Doubles]:
    """Return a policy that knows 20 tasks, and their thetas, (20, 6)."""
    rng = np.random.default_rng(seed)
    thetas, policy = rng.standard_normal((20, 6)), Shared(dim=6, rewards="gaussian")
    for _ in range(40):
        X = rng.standard_normal((20, 6))
        learn(policy, np.arange(20), X, (X * thetas).sum(axis=1) + 0.3 * rng.standard_normal(20))
    return policy, rng, thetas


def test_noise_in_a_long_batch_of_one_task_is_no_change() -> None:
    """The rewards that errors are summed over are those that a new task predicts."""
    for seed in range(6):
        policy, rng, thetas = settled(seed)
        X, stds = rng.standard_normal((100, 6)), np.full(100, 0.3)
        stds[30:40] = 6.0
        learn(policy, np.full(100, 3), X, X @ thetas[3] + stds * rng.standard_normal(100))
        X = rng.standard_normal((20, 6))
        learn(policy, np.arange(20), X, (X * thetas).sum(axis=1) + 0.3 * rng.standard_normal(20))
        assert not policy.task_changes


def test_rewards_after_the_patience_count_since_the_onset() -> None:
    test = TaskDrift.none(2)
    for _ in range(60):
        test = test.after(np.arange(2), np.ones(2) * 0.5, np.ones(2), usual=USUAL).write()
    long = change_config.TASK_PATIENCE + 25
    squares = np.concatenate([np.full(long, 9.0), np.full(long, 0.01)])
    test = test.after(np.repeat([0, 1], long), squares, np.ones(2 * long), usual=USUAL)
    assert test.since(np.arange(2)).tolist() == [long, 0]
    assert test.squares(np.arange(2)).tolist() == [9.0 * long, 0.0]


def raised_state() -> State:
    """Return a state in which the last errors raised task 0, with rewards pending."""
    policy = Shared(dim=D)
    play(policy, WORLD, slice(0, 50))
    state = state_of(policy)
    for _ in range(5):
        test = state.task_drift.after(np.array([0]), np.array([1e6]), np.ones(1), usual=USUAL)
        state = replace(state, task_drift=test)
    assert state.task_drift.raised.tolist() == [0]
    rows = np.column_stack([np.eye(D)[:2], np.ones(2), np.zeros(2)])
    return replace(state, pending=[Pending(np.array([1, 2]), rows, np.ones(2), np.ones(2))])


def test_errors_that_are_not_tested_raise_nothing() -> None:
    """Right after all tasks have changed there is nothing to compare with."""
    found = absorb(replace(raised_state(), detector=DriftDetector()))
    assert not len(found.task_drift.raised)
    assert found.task_drift.evidence(np.array([0]))[0] > change_config.TASK_THRESHOLD


def test_a_refit_leaves_new_rewards_of_a_dropped_task_to_be_learned() -> None:
    """All rows since the onset are new, so it starts from the prior."""
    policy = Shared(dim=D)
    play(policy, WORLD, FIRST)
    rounds = list(WORLD.rounds(2 * HALF, seed=0))[HALF : HALF + 8]
    arms, tasks = np.concatenate([r.arms for r in rounds]), np.tile(np.arange(T), 8)
    decided = policy.decide(tasks, arms, np.random.default_rng(0))
    paid = np.concatenate([r.rewards for r in rounds])[np.arange(8 * T), decided.chosen]
    snapshot = policy.snapshot(tasks, arms, decided, paid)
    state = replace(snapshot.state, store=snapshot.state.store.drop(np.array([0])))
    found = stored(replace(snapshot, state=state))
    assert [place for _, place in found.task_changes] == [0]
    assert found.posteriors is not None
    np.testing.assert_array_equal(found.posteriors.thetas[0], found.posteriors.prior.theta)


def test_a_dropped_task_that_starts_again_learns_new_rewards_once() -> None:
    """A refit teaches them: before it, the posterior is that of the other rows."""
    state, rng = raised_state(), np.random.default_rng(0)
    state = replace(state, store=state.store.drop(np.array([0])))
    assert state.posteriors is not None
    rows = np.column_stack([rng.standard_normal((10, D)), np.ones(10), rng.standard_normal(10)])
    one = [Restart(0, rows, state.posteriors)]
    (found,) = before_new(state, one, np.array([0, 1, 0, 0]))
    (first,) = before_new(state, [Restart(0, rows[:8], state.posteriors)], np.array([0]))
    assert len(found.rows) == 10  # which are counted
    np.testing.assert_array_equal(found.posterior.thetas, first.posterior.thetas)
    learn_rewards(state.likelihood, found.posterior, np.zeros(3, np.int64), rows[7:])
    whole = [Restart(0, np.concatenate([rows, rows[:1]]), state.posteriors)]
    (all_ten,) = before_new(state, whole, np.array([0]))
    np.testing.assert_allclose(found.posterior.thetas, all_ten.posterior.thetas, rtol=1e-9)


def test_rows_of_a_task_that_seems_to_have_changed_stay_single_in_a_refit() -> None:
    """Else it could not start again from the last of them."""
    state = raised_state()
    longest = int(config.COMPRESSION * state.store.width)
    rows = np.column_stack([np.ones((2 * longest, D + 1)), np.arange(2.0 * longest)])
    for place in (0, 1):
        state = replace(state, store=state.store.added(np.full(len(rows), place), rows))
    state = replace(state, kind="gaussian", likelihood=LIKELIHOODS["gaussian"])
    store = sorted_rows(state).store
    sizes = store.sizes[store.slots[[0, 1]]]
    assert sizes[0] > 2 * longest
    assert sizes[1] == store.width
