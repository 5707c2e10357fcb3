"""Tasks of any number that come at any time, labels, threads, and what newcomers are told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.errors import ConfigurationError, DataError, ModelFileError
from cobandits.evaluation import relearn
from cobandits.logs import Log
from cobandits.policies import GlobalOwnRidge, LinUCB, Policy, Ridge, Shared, Thompson
from tests.shared_states import assert_same, made, saved

Floats = NDArray[np.floating]

D, K = 4, 3
GROWING: list[type[Policy]] = [Ridge, Thompson, LinUCB, GlobalOwnRidge, Shared]


def requests(n: int, n_tasks: int, seed: int = 0) -> list[tuple[int, Floats, float]]:
    """Draw tasks, arms and rewards of the first arms; task t comes t rounds late."""
    rng = np.random.default_rng(seed)
    tasks = [int(rng.integers(1 + min(i // 3, n_tasks - 1))) for i in range(n)]
    return [(t, rng.standard_normal((1, K, D)), float(rng.standard_normal())) for t in tasks]


def teach(policy: Policy, tasks: list[Any], seen: list[tuple[int, Floats, float]]) -> None:
    """Let a policy learn requests one at a time; ``tasks`` has what it calls each task."""
    for t, arms, reward in seen:
        policy.learn([tasks[t]], arms, made([0]), [reward])


# ---- any number of tasks


@pytest.mark.parametrize("kind", GROWING)
def test_tasks_need_not_be_announced(kind: type[Policy]) -> None:
    """Numbers of any size, in any order: all is as if tasks had been numbered from 0."""
    numbers = [10**15, 7, 3, 10**6, 0, 99, 12, 5]
    seen, arms = requests(60, 8), np.random.default_rng(1).standard_normal((9, K, D))
    open_ended, announced = kind(dim=D), kind(dim=D, n_tasks=9)
    teach(open_ended, [*numbers], seen)
    teach(announced, [*range(8)], seen)
    np.testing.assert_array_equal(
        open_ended.probabilities([*numbers, 10**17], arms),
        announced.probabilities(range(9), arms),
    )


def test_room_follows_the_tasks_that_had_rewards_not_the_largest_number() -> None:
    seen = requests(60, 8)
    few, many = Shared(dim=D, n_tasks=8), Shared(dim=D, n_tasks=10**12)
    teach(few, [*range(8)], seen)
    teach(many, [10**9 * t for t in range(8)], seen)
    small, large = saved(few).arrays, saved(many).arrays
    assert {name: a.shape for name, a in small.items()} == {n: a.shape for n, a in large.items()}
    assert many.estimate is not None
    assert many.estimate.labels[1] == 10**9


def test_a_task_without_rewards_is_decided_by_the_mean_of_the_others() -> None:
    rng = np.random.default_rng(0)
    theta, policy = np.array([2.0, -1.0, 0.5, 1.0]), Shared(dim=D, explore="never")
    for _ in range(30):
        arms = rng.standard_normal((20, K, D))
        rewards = arms[:, 0] @ theta + 0.01 * rng.standard_normal(20)
        policy.learn(range(20), arms, made([0] * 20), rewards)
    arms = rng.standard_normal((200, K, D))
    decided = policy.decide(range(1000, 1200), arms, rng)
    assert (decided.chosen == (arms @ theta).argmax(axis=1)).mean() > 0.95
    assert policy.explain(1000).rewards == 0


def test_a_policy_goes_on_growing_after_it_was_saved(tmp_path: Path) -> None:
    seen, numbers = requests(120, 30), [31 * t + 5 for t in range(30)]
    policy = Shared(dim=D)
    for n in range(0, 120, 17):
        policy.save(tmp_path / "policy")
        resumed = Shared.load(tmp_path / "policy")
        for each in (policy, resumed):
            teach(each, [*numbers], seen[n : n + 17])
        assert_same(policy, resumed)


def test_a_refused_reward_of_a_new_task_leaves_no_trace() -> None:
    policy, seen = Shared(dim=D), requests(40, 5)
    teach(policy, [*range(5)], seen)
    assert not policy.refit_due()
    before = saved(policy).arrays["state.tasks"].tolist()
    with pytest.raises(DataError, match="too large"):
        policy.learn([77], np.full((1, K, D), 9e74), made([0]), [1.0])
    assert saved(policy).arrays["state.tasks"].tolist() == before


# ---- labels


def test_tasks_may_have_labels(tmp_path: Path) -> None:
    labels: list[Any] = ["oslo", ("rome", 7), 12, "", ("a", ("b", 1))]
    seen, arms = requests(50, 5), np.random.default_rng(1).standard_normal((6, K, D))
    named, numbered = Shared(dim=D, labels=True), Shared(dim=D)
    teach(named, [*labels], seen)
    teach(numbered, [*range(5)], seen)
    expected = numbered.probabilities(range(6), arms)
    np.testing.assert_array_equal(named.probabilities([*labels, "new"], arms), expected)
    named.save(tmp_path / "policy")
    resumed = Shared.load(tmp_path / "policy")
    np.testing.assert_array_equal(resumed.probabilities([*labels, "new"], arms), expected)
    assert resumed.estimate is not None
    assert set(resumed.estimate.labels) <= set(labels)
    assert resumed.explain("oslo").task == "oslo"
    assert set(resumed.explain_all().tasks) == set(labels)


def test_a_log_with_labels_is_relearned_by_label() -> None:
    rng = np.random.default_rng(0)
    log = Log(
        tasks=np.array(["b", "a", "b", "c"]),
        arms=rng.standard_normal((4, K, D)),
        chosen=np.array([0, 1, 2, 0]),
        probabilities=np.full(4, 0.5),
        rewards=np.arange(4.0),
    )
    policy = Shared(dim=D, labels=True)
    relearn(policy, log)
    assert policy.explain_all().tasks == ("b", "a", "c")


@pytest.mark.parametrize("wrong", [[[1, 2]], [float("nan")], "oslo", 7])
def test_what_is_no_label_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError, match="label"):
        Shared(dim=D, labels=True).decide(wrong, np.ones((1, K, D)), np.random.default_rng(0))


def test_a_label_that_no_file_can_hold_is_refused_at_once() -> None:
    policy = Shared(dim=D, labels=True)
    wrong: Any = [frozenset({1})]
    with pytest.raises(DataError, match="frozenset cannot be saved"):
        policy.learn(wrong, np.ones((1, K, D)), made([0]), [1.0])


# ---- threads


@pytest.mark.parametrize("kind", [Ridge, Shared])
def test_threads_may_share_a_policy(kind: type[Policy]) -> None:
    """Six threads teach tasks of their own; every reward counts once, and none is lost."""
    policy, failed = kind(dim=D), []
    theta = np.array([1.0, -2.0, 0.5, 3.0])

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        try:
            for n in range(150):
                arms = rng.standard_normal((2, K, D))
                tasks = [6 * (n % 7) + number, 0]
                decided = policy.decide(tasks, arms, rng)
                policy.learn(tasks, arms, decided, decided.features(arms) @ theta)
        except Exception as error:  # told below: a thread swallows it
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    if isinstance(policy, Shared):
        assert policy.rewards == 6 * 150 * 2
        assert policy.changes == ()
        assert policy.explain_all().rewards.sum() == policy.rewards
    arms = np.random.default_rng(9).standard_normal((42, K, D))
    best = policy.probabilities(range(42), arms).argmax(axis=1)
    assert (best == (arms @ theta).argmax(axis=1)).mean() > 0.9


# ---- what newcomers are told


def test_a_seed_for_rng_is_refused() -> None:
    seed: Any = 7
    with pytest.raises(ConfigurationError, match=r"rng must be .* got 7; make one"):
        Ridge(dim=D).decide([0], np.ones((1, K, D)), seed)


@pytest.mark.parametrize("kind", [Ridge, Shared])
def test_chosen_arms_alone_are_no_decisions(kind: type[Policy]) -> None:
    chosen: Any = np.array([0])
    with pytest.raises(DataError, match="what decide returned, got ndarray"):
        kind(dim=D).learn([0], np.ones((1, K, D)), chosen, [1.0])


def test_text_rewards_string_tasks_and_percentages_are_named() -> None:
    policy, arms = Shared(dim=D), np.ones((1, K, D))
    with pytest.raises(DataError, match=r"rewards must be numbers.*'good'"):
        policy.learn([0], arms, made([0]), ["good"])
    with pytest.raises(DataError, match=r"number them, or take Shared\(labels=True\)"):
        policy.decide(["oslo"], arms, np.random.default_rng(0))
    with pytest.raises(DataError, match="got 50 in decision 0; divide percentages by 100"):
        Decisions(chosen=[0], probabilities=[50.0], policy="")


def test_an_estimate_is_no_policy_and_a_folder_must_exist(tmp_path: Path) -> None:
    policy = Shared(dim=D)
    policy.learn([0], np.ones((1, K, D)), made([0]), [1.0])
    assert policy.estimate is not None
    policy.estimate.save(tmp_path / "estimate")
    with pytest.raises(ModelFileError, match=r"holds a cobandits estimate.* Estimate\.load"):
        Shared.load(tmp_path / "estimate")
    with pytest.raises(ModelFileError, match=r"there is no folder .*missing; make it first"):
        policy.save(tmp_path / "missing" / "policy")
