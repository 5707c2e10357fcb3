"""The shared policy over shards: as in one place, whatever the shards, and in real processes."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cobandits.decisions import Decisions
from cobandits.errors import ClusterError, ConfigurationError, DataError, ModelFileError
from cobandits.policies import Shared
from cobandits.policies.gaussian import COMPILED
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.fit import start_of
from cobandits.policies.shared.empirical_bayes.rows import BlockRows, busiest_slots
from cobandits.policies.shared.row_store import RowStore
from cobandits.ragged import RaggedArms
from cobandits.sharded import Head, Heads, LocalHeads, ProcessHeads, ShardedShared
from cobandits.sharded.hashing import shards_of
from cobandits.sharded.training import ShardRows, median_by_counting

D, T = 5, 24
Floats = NDArray[np.float64]
Batch = tuple[NDArray[np.int64], Floats, Floats]


def batches(n: int, *, seed: int = 0) -> list[Batch]:
    """Return tasks, arms and the noise-free reward of each arm; tasks are asked unequally often."""
    rng = np.random.default_rng(seed)
    Theta = rng.standard_normal((D, 2)) @ rng.standard_normal((2, T))
    found = []
    for _ in range(n):
        tasks = (T * rng.random(rng.integers(1, 9)) ** 2).astype(np.int64)
        arms = rng.standard_normal((len(tasks), 3, D))
        found.append((tasks, arms, np.einsum("mkd,dm->mk", arms, Theta[:, tasks])))
    return found


def play(policies: Sequence[Shared | ShardedShared], asked: Sequence[Batch]) -> None:
    """Have all policies learn the decisions of the first."""
    rng = np.random.default_rng(1)
    for tasks, arms, values in asked:
        decided = policies[0].decide(tasks, arms, rng)
        rewards = values[np.arange(len(tasks)), decided.chosen] + 0.1 * rng.standard_normal(
            len(tasks)
        )
        for policy in policies:
            policy.learn(tasks, arms, decided, rewards)


# ---- the likelihood over shards


def rows(*, outlier: bool) -> tuple[NDArray[np.int64], Floats]:
    """Return tasks and rows ``[phi, 1, y]``: from 1 to 9 per task, of which one is far off."""
    rng = np.random.default_rng(3)
    tasks = np.repeat(np.arange(T), 1 + np.arange(T) % 9)
    Phi = rng.standard_normal((len(tasks), D))
    y = Phi[:, 0] * (1 + tasks % 3) + 0.1 * rng.standard_normal(len(tasks))
    if outlier:
        y[tasks == 7] *= 1e4
    return tasks, np.column_stack([Phi, np.ones(len(y)), y])


def dealt(tasks: NDArray[np.int64], F: Floats, cuts: Sequence[int]) -> LocalHeads:
    """Return shards of tasks between cuts, with these rows staged."""
    heads = LocalHeads.start(len(cuts) - 1, {"dim": D})
    masks = [(tasks >= a) & (tasks < b) for a, b in itertools.pairwise(cuts)]
    heads.each("stage", [(tasks[m], F[m, :-2], F[m, -1]) for m in masks])
    heads.each("offer", [()] * len(masks))
    return heads


@pytest.mark.parametrize("outlier", [False, True])
@pytest.mark.parametrize("cuts", [(0, T), (0, 3, 4, T), (0, 12, 12, T)])
def test_sums_over_shards_are_those_of_one_place(outlier: bool, cuts: tuple[int, ...]) -> None:
    tasks, F = rows(outlier=outlier)
    store = RowStore.empty(n_tasks=T, dim=D).added(tasks, F).sorted()
    start = start_of(store, None)
    coordinates, center = start.shared.coordinates, np.linspace(-1, 1, D + 1)
    all_of = BlockRows.of(store, busiest_slots(store, D + 1), coordinates)
    here, scale = all_of.without_outliers(center)
    heads = dealt(tasks, F, cuts)
    heads.each("take", [(coordinates,)] * len(heads))
    there, scale_there = ShardRows(heads).without_outliers(center)
    assert scale_there == pytest.approx(scale, rel=1e-12)
    variance = scale.variance
    L, log_noise = np.random.default_rng(0).standard_normal((D + 1, 2)), np.log(0.3 * variance)
    noises = log_noise + np.arange(3)
    for ours, theirs in (
        (here.likelihood(0.6, center), there.likelihood(0.6, center)),
        (here.some().likelihood(0.6, center), there.some().likelihood(0.6, center)),
    ):
        assert theirs.n_rows == pytest.approx(ours.n_rows, rel=1e-12)
        assert theirs.squares() == pytest.approx(ours.squares(), rel=1e-12)
        every = zip(
            (
                *ours.value(L, log_noise),
                *ours.information(L, log_noise),
                ours.total(L, log_noise),
                ours.nested(L, noises),
            ),
            (
                *theirs.value(L, log_noise),
                *theirs.information(L, log_noise),
                theirs.total(L, log_noise),
                theirs.nested(L, noises),
            ),
            strict=True,
        )
        for one, other in every:
            expected, found = np.asarray(one), np.asarray(other)
            np.testing.assert_allclose(found, expected, 1e-12, 1e-12 * np.abs(expected).max())
    if outlier:  # the bound by the median is in force
        assert variance < 0.1 * all_of.squares(center).ratios.mean()


@given(
    st.lists(st.floats(0, allow_nan=False, allow_infinity=False), min_size=1, max_size=9),
)
def test_a_median_by_counting_is_exact(values: list[float]) -> None:
    held = np.sort(values)

    def below(cuts: Floats) -> NDArray[np.int64]:
        return np.asarray(np.searchsorted(held, cuts, side="left"))

    middle = held[[(len(held) - 1) // 2, len(held) // 2]]
    assert median_by_counting(below, len(held)) == 0.5 * middle[0] + 0.5 * middle[1]


class Spy:
    """Shards that note the largest message of each method, there and back."""

    def __init__(self, heads: Heads) -> None:
        self._heads, self.sizes = heads, {}

    sizes: dict[str, tuple[int, int]]

    lost = False

    def __len__(self) -> int:
        return len(self._heads)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        results = self._heads.each(method, arguments)
        there, back = self.sizes.get(method, (0, 0))
        there = max(there, *(len(pickle.dumps(one)) for one in arguments))
        back = max(back, *(len(pickle.dumps(one)) for one in results))
        self.sizes[method] = there, back
        return results

    each_beside = each

    def close(self) -> None:
        self._heads.close()


def test_an_evaluation_sends_directions_and_brings_sums_back() -> None:
    spy = Spy(LocalHeads.start(2, {"dim": D, "explore": "never"}))
    policy = ShardedShared(dim=D, shards=spy, explore="never")
    play([policy], batches(40))
    p, q, extra = D + 1, D, 700  # bytes of the pickles themselves
    assert max(spy.sizes["value"]) <= 8 * (p * q + 2) + extra
    assert spy.sizes["information"][1] <= 8 * (p * p + p + 2) + extra
    assert spy.sizes["total"][1] <= 8 * p * p + extra
    assert spy.sizes["nested"][0] <= 8 * (p * q + len(config.CLEAR_NOISES)) + extra
    assert spy.sizes["nested"][1] <= 8 * (q + 1) * len(config.CLEAR_NOISES) + extra


def test_what_leaves_a_shard_does_not_grow_with_its_tasks() -> None:
    sizes = []
    for n_tasks in (20, 200):
        rng = np.random.default_rng(0)
        spy = Spy(LocalHeads.start(2, {"dim": D}))
        policy = ShardedShared(dim=D, shards=spy)
        for _ in range(3):
            arms = rng.standard_normal((n_tasks, 3, D))
            decided = policy.decide(np.arange(n_tasks), arms, rng)
            policy.learn(np.arange(n_tasks), arms, decided, rng.standard_normal(n_tasks))
        asked = {"answer", "learn_rows"}  # by the caller's requests
        sizes.append({name: back for name, (_, back) in spy.sizes.items() if name not in asked})
    few, many = sizes
    assert few.keys() == many.keys()
    assert all(many[name] <= few[name] + 100 for name in few)  # counts have more digits


# ---- the policy


@pytest.mark.parametrize("shards", [1, 3])
def test_thetas_over_shards_are_those_of_one_place(shards: int) -> None:
    here = Shared(dim=D, explore="never", on_change="alert", rewards="gaussian")
    there = ShardedShared(dim=D, shards=shards, explore="never")
    play([here, there], batches(50))
    assert here.prior is not None
    assert there.prior is not None
    assert there.rewards == here.rewards
    size = np.abs(here.prior.covariance).max()
    assert np.abs(there.prior.covariance - here.prior.covariance).max() <= 1e-9 * size
    ours = [there.explain(task) for task in range(T)]
    theirs = [here.explain(task) for task in range(T)]
    assert [one.rewards for one in ours] == [one.rewards for one in theirs]
    tasks, arms, _ = batches(1, seed=9)[0]
    rng = np.random.default_rng(0)
    chosen = there.decide(tasks, arms, rng).chosen
    assert chosen.tolist() == here.decide(tasks, arms, rng).chosen.tolist()
    np.testing.assert_array_equal(there.probabilities(tasks, arms).argmax(axis=1), chosen)


def test_processes_decide_and_learn_as_shards_here_do(tmp_path: Path) -> None:
    setting: dict[str, Any] = {"dim": D, "labels": True, "floor": 0.1}
    asked = [
        ([f"task {t}" for t in tasks.tolist()], arms, values) for tasks, arms, values in batches(30)
    ]
    with ShardedShared.in_processes(2, **setting) as there:
        here = ShardedShared(shards=2, **setting)
        play([here, there], asked[:20])  # type: ignore[arg-type]
        there.save(tmp_path / "saved")
        labels = [f"task {t}" for t in range(T)]
        assert there.thetas(labels).tobytes() == here.thetas(labels).tobytes()
        with ShardedShared.load(tmp_path / "saved", processes=True) as again:
            play([here, there, again], asked[20:])  # type: ignore[arg-type]
            same = [policy.thetas(labels).tobytes() for policy in (here, there, again)]
            assert len(set(same)) == 1
            names, arms, _ = asked[0]
            both = [p.decide(names, arms, np.random.default_rng(5)) for p in (here, again)]
            assert both[0].chosen.tolist() == both[1].chosen.tolist()
            np.testing.assert_array_equal(both[0].probabilities, both[1].probabilities)
        assert isinstance(there.heads, ProcessHeads)
        lost = there.heads.pids[1]
        assert lost is not None
        os.kill(lost, signal.SIGKILL)
        alive = labels[shards_of(np.array(labels, object), 2).tolist().index(0)]
        for asked_for in (labels, [alive]):  # no answer is taken for another one
            with pytest.raises(ClusterError, match="the process of shard 1 has ended"):
                there.thetas(asked_for)


def test_what_is_refused_is_learned_by_no_shard() -> None:
    policy = ShardedShared(dim=D, shards=2)
    play([policy], batches(29))
    before = policy.thetas(range(T)).tobytes()
    tasks, arms = np.arange(4), np.ones((4, 2, D))
    decided = policy.decide(tasks, arms, np.random.default_rng(0))
    rewards = np.zeros(4)
    rewards[-1] = 9.9e74
    assert not policy.refit_due(len(tasks))
    with pytest.raises(DataError, match="too large to square"):
        policy.learn(tasks, arms, decided, rewards)
    assert policy.thetas(range(T)).tobytes() == before


def test_settings_that_cannot_be_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="shards must be at least 1, got 0"):
        ShardedShared(dim=D, shards=0)
    with pytest.raises(ConfigurationError, match="must be 'alert', got 'adapt'"):
        Head(dim=D, on_change="adapt")
    with pytest.raises(ConfigurationError, match="must be 'gaussian', got 'binary'"):
        Head(dim=D, rewards="binary")
    with pytest.raises(ConfigurationError, match="before the first reward"):
        ShardedShared(dim=D).thetas([0])
    with pytest.raises(ConfigurationError, match="floor must be"):
        ShardedShared.in_processes(2, dim=D, floor=2.0)
    with pytest.raises(ModelFileError, match="whole sharded policy"):
        ShardedShared.load(tmp_path)


def test_tasks_are_dealt_evenly_and_always_alike() -> None:
    owners = shards_of(np.arange(10_000), 8)
    assert np.bincount(owners).min() > 1100
    labels = np.fromiter([("Oslo", n) for n in range(4000)], object, 4000)
    assert np.bincount(shards_of(labels, 4)).min() > 900
    assert shards_of(labels[:6], 4).tolist() == shards_of(labels, 4)[:6].tolist()


def test_a_task_that_changes_alone_is_named_by_its_shard() -> None:
    rng, everyone = np.random.default_rng(0), np.arange(12)
    policy, thetas = ShardedShared(dim=6, shards=2), rng.standard_normal((12, 6))
    for n in range(90):
        if n == 60:
            thetas[0] *= -1
        arms = rng.standard_normal((12, 3, 6))
        made = policy.decide(everyone, arms, rng)
        paid = (made.features(arms) * thetas).sum(axis=1) + 0.1 * rng.standard_normal(12)
        policy.learn(everyone, arms, made, paid)
    assert [change.task for change in policy.task_changes] == [0]
    assert 60 * 12 < policy.task_changes[0].rewards <= policy.rewards
    assert policy.changes == ()


# ---- what an engine asks of it


def saved(policy: Shared | ShardedShared) -> bytes:
    buffer = io.BytesIO()
    policy.save(buffer)
    return buffer.getvalue()


def loaded(content: bytes) -> ShardedShared:
    return ShardedShared.load(io.BytesIO(content))


def one_by_one(policy: ShardedShared, n: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Learn single rewards; return what was learned."""
    rng, given = np.random.default_rng(seed), []
    for _ in range(n):
        tasks, arms = rng.integers(T, size=1), rng.standard_normal((1, 1, D))
        made = policy.decide(tasks, arms, rng)
        given.append((tasks, arms, made, rng.standard_normal(1)))
        policy.learn(*given[-1])
    return given


@pytest.mark.parametrize("n", [0, 1, 2, 70])  # after one reward a shard has a prior and no task
def test_a_file_of_all_shards_goes_on_to_the_last_bit(n: int) -> None:
    policy = ShardedShared(dim=D, shards=3, explore="always", floor=0.05)
    one_by_one(policy, n)
    again = loaded(saved(policy))
    assert (again.rewards, again.floor) == (n, 0.05)
    for one in (policy, again):
        one_by_one(one, 40, seed=1)
    assert saved(again) == saved(policy)


def test_a_file_that_is_not_whole_is_refused() -> None:
    policy = ShardedShared(dim=D)
    one_by_one(policy, 5)
    content = saved(policy)
    for broken in (content[:-1], content[:30], content + b"x", content.replace(b"sizes", b"size_")):
        with pytest.raises(ModelFileError, match="truncated"):
            loaded(broken)
    with pytest.raises(ModelFileError, match="version 2, this release reads 1"):
        loaded(content.replace(b'"version": 1', b'"version": 2', 1))
    with pytest.raises(ModelFileError):
        loaded(content[:-4] + b"good")


def test_rewards_of_one_run_have_the_bits_of_one_at_a_time() -> None:
    policy = ShardedShared(dim=D, shards=3)
    one_by_one(policy, 90)
    again, lengths = loaded(saved(policy)), []
    given = one_by_one(policy, 200, seed=1)
    while given:
        if again.refit_due():
            count = 1
        else:
            lengths.append(count := min(again.run_length, len(given)))
        part, given = given[:count], given[count:]
        tasks, arms, made, rewards = zip(*part, strict=True)
        chosen = Decisions(
            chosen=np.zeros(count, np.int64), probabilities=np.ones(count), policy=made[0].policy
        )
        joined = [np.concatenate(one) for one in (tasks, arms, rewards)]
        again.learn(joined[0], joined[1], chosen, joined[2])
    assert saved(again) == saved(policy)
    if COMPILED:
        assert max(lengths) > 4


def test_a_refit_beside_decisions_has_the_bits_of_learning() -> None:
    here = ShardedShared(dim=D, shards=2)
    one_by_one(here, 40)
    while not here.refit_due():
        one_by_one(here, 1, seed=here.rewards)
    beside, stale = loaded(saved(here)), loaded(saved(here))
    ((tasks, arms, made, rewards),) = one_by_one(here, 1, seed=77)
    given = tasks, arms, made, rewards
    dropped = beside.snapshot(*given)
    staged = beside.snapshot(*given)
    before = beside.thetas(range(T)).tobytes()
    with pytest.raises(ClusterError, match="given up"):
        dropped.learned()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(staged.learned()))
    thread.start()
    while thread.is_alive():
        assert beside.thetas(range(T)).tobytes() == before  # decisions go on
    assert beside.saved_after(found[0]) == saved(here)
    beside.install(found[0])
    assert saved(beside) == saved(here)
    with pytest.raises(ConfigurationError, match="install it once"):
        beside.install(found[0])
    with pytest.raises(ConfigurationError, match="of another policy"):
        stale.install(found[0])
    none = Decisions(chosen=np.zeros(0, np.int64), probabilities=np.zeros(0), policy="shared")
    with pytest.raises(DataError, match="got none"):
        stale.snapshot(np.zeros(0, np.int64), np.zeros((0, 1, D)), none, np.zeros(0))


def test_requests_may_differ_in_their_arms() -> None:
    here = Shared(dim=D, explore="never", on_change="alert", rewards="gaussian")
    there = ShardedShared(dim=D, shards=3, explore="never")
    play([here, there], batches(40))
    rng = np.random.default_rng(2)
    arms = [rng.standard_normal((k, D)) for k in (2, 5, 3, 5, 1, 4)]
    usable = [np.arange(len(one)) != 1 for one in arms]
    offers = RaggedArms.of(arms, usable)
    ours, theirs = (one.decide(range(6), offers, np.random.default_rng(0)) for one in (there, here))
    assert ours.chosen.tolist() == theirs.chosen.tolist()
    assert 1 not in ours.chosen
    np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
    np.testing.assert_array_equal(
        there.probabilities(range(6), offers), here.probabilities(range(6), offers)
    )


def test_the_floor_is_that_of_all_shards() -> None:
    policy = ShardedShared(dim=D, shards=2, explore="never")
    play([policy], batches(20))
    arms = np.random.default_rng(0).standard_normal((T, 4, D))
    assert policy.probabilities(range(T), arms).min() == 0
    policy.floor = 0.2
    assert policy.probabilities(range(T), arms).min() == pytest.approx(0.05)
    assert loaded(saved(policy)).floor == 0.2


def test_all_tasks_are_explained_as_in_one_place() -> None:
    here = Shared(dim=D, explore="never", on_change="alert", rewards="gaussian")
    there = ShardedShared(dim=D, shards=3, explore="never")
    with pytest.raises(DataError, match="before the first reward"):
        there.explain_all()
    play([here, there], batches(60))
    ours, theirs = there.explain_all(), here.explain_all()
    assert set(ours.tasks) == set(theirs.tasks)
    order = [ours.tasks.index(task) for task in theirs.tasks]
    np.testing.assert_array_equal(ours.rewards[order], theirs.rewards)
    np.testing.assert_allclose(ours.shared[order], theirs.shared, atol=1e-6)
    np.testing.assert_allclose(np.abs(ours.weights[order]), np.abs(theirs.weights), atol=1e-6)
    assert ours.rank == theirs.rank
    assert ours.uncertainty_before == pytest.approx(theirs.uncertainty_before, rel=0.3)


def test_processes_with_as_many_threads_have_the_bits_of_shards_here() -> None:
    """With two threads large products are cut differently than with one."""
    dim, labels = 100, [f"task {n}" for n in range(20)]
    setting: dict[str, Any] = {"dim": dim, "labels": True}
    rng = np.random.default_rng(0)
    with (
        threadpool_limits(limits=2, user_api="blas"),
        ShardedShared.in_processes(2, threads=None, **setting) as there,
    ):
        here = ShardedShared(shards=2, **setting)
        for _ in range(2):
            arms = rng.standard_normal((20, 2, dim))
            made = there.decide(labels, arms, np.random.default_rng(0))
            again = here.decide(labels, arms, np.random.default_rng(0))
            assert made.chosen.tolist() == again.chosen.tolist()
            rewards = rng.standard_normal(20)
            for policy in (there, here):
                policy.learn(labels, arms, made, rewards)
        assert saved(there) == saved(here)
