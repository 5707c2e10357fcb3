"""What fails in a shard, or does not start: nothing is learned twice, and nobody waits for ever."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cobandits.engine import Engine
from cobandits.engine.policies import policy_bytes
from cobandits.engine.settings import SHARDED
from cobandits.errors import ClusterError, ConfigurationError, DataError, ModelFileError
from cobandits.policies.shared import Snapshot
from cobandits.policies.shared.state import State
from cobandits.policies.shared.transitions import stored
from cobandits.sharded import Head, LocalHeads, ProcessHeads, ShardedShared, dealt, head, policy
from cobandits.sharded.container import packed, unpacked
from cobandits.sharded.hashing import shards_of
from cobandits.sharded.heads import Source

ARMS = [{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]
TWO: dict[str, Any] = {"dim": 2, "seed": 1, "shards": 2, **SHARDED}


def taught(n: int = 40, dim: int = 2) -> ShardedShared:
    """Return a policy of two shards that have both had rewards."""
    found, rng = ShardedShared(dim=dim, shards=2, labels=True), np.random.default_rng(0)
    for _ in range(n // 10):
        tasks, arms = [f"{t}" for t in range(10)], rng.standard_normal((10, 2, dim))
        found.learn(tasks, arms, found.decide(tasks, arms, rng), rng.standard_normal(10))
    return found


def test_no_reward_is_learned_twice_where_one_shard_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found, learn, calls = taught(), Head.learn_rows, list[Head]()

    def failing(self: Head, *rows: Any) -> Any:
        calls.append(self)
        if len(calls) == 2:
            raise MemoryError("no room")
        return learn(self, *rows)

    monkeypatch.setattr(Head, "learn_rows", failing)
    arms = np.ones((2, 2, 2))
    tasks = [next(t for t in map(str, range(10)) if _owner(t) == shard) for shard in range(2)]
    made = found.decide(tasks, arms, np.random.default_rng(0))
    assert not found.refit_due(2)
    for _ in range(2):
        with pytest.raises(ClusterError, match="load what was saved last"):
            found.learn(tasks, arms, made, [1.0, 2.0])
    assert found.lost
    assert len(calls) == 2  # the first shard is not asked again


def _owner(task: str) -> int:
    return int(shards_of(np.array([task], object), 2)[0])


@pytest.mark.parametrize("change", ["dim", "labels", "explore", "rewards", "due", "prior"])
def test_a_file_whose_shards_do_not_belong_together_is_refused(change: str) -> None:
    header, parts = unpacked(policy_bytes(taught()))
    other: dict[str, Any] = {"dim": 3, "labels": False, "explore": "never"}
    if change == "prior":
        parts[1] = Head(dim=2, labels=True).saved()
        header["rewards"] = Head.load(io.BytesIO(parts[0])).rewards
    elif change in other:
        header["setting"][change] = other[change]
    else:
        header[change] = 1e999 if change == "due" else 1
    content = packed(header, parts)
    with pytest.raises(ModelFileError, match="does not hold a whole sharded policy"):
        ShardedShared.load(io.BytesIO(content))


def test_a_file_of_endless_shards_is_refused() -> None:
    forged = b'{"version": 1, "sizes": [1e999], "header": {}}'
    with pytest.raises(ModelFileError, match="not a whole sharded policy"):
        unpacked(b"cobandits-sharded\n" + len(forged).to_bytes(8, "big") + forged)


def test_what_takes_long_is_left_to_the_thread_of_a_refit(monkeypatch: pytest.MonkeyPatch) -> None:
    found, calls = taught(), list[Snapshot]()

    def counted(snapshot: Snapshot) -> State:
        calls.append(snapshot)
        return stored(snapshot)

    monkeypatch.setattr(head, "stored", counted)
    arms = np.ones((1, 2, 2))
    made = found.decide(["1"], arms, np.random.default_rng(0))
    staged = found.snapshot(["1"], arms, made, [1.0])
    assert not calls  # the engine's thread stages, and others wait for it
    found.install(staged.learned())
    assert (len(calls), found.rewards) == (2, 41)
    with pytest.raises(ClusterError, match="given up"):
        staged.learned()


def test_shards_take_over_from_as_many() -> None:
    found, other = taught(), ShardedShared(dim=2, shards=3, labels=True)
    before = policy_bytes(found)
    with pytest.raises(ConfigurationError, match="of 2 shards cannot take over 3"):
        found.restore(policy_bytes(other))
    assert policy_bytes(found) == before


def test_a_call_beside_whose_answer_cannot_be_sent_is_not_waited_for() -> None:
    heads = ProcessHeads.start(1, {"dim": 2})
    try:
        with pytest.raises(ClusterError, match="shard 0 has ended"):
            heads.each_beside("__getattribute__", [("_lock",)])  # no lock can be sent
        assert heads.lost
    finally:
        heads.close()


# ---- The engine; shards live in this process, where they can be made to fail


class Startable:
    """Starts shards here, while that is possible; knows the threads that did."""

    def __init__(self) -> None:
        self.fails, self.threads = False, list[str]()

    def start(self, n: int, setting: Mapping[str, Any], *, threads: int | None) -> LocalHeads:
        self._check()
        return LocalHeads.start(n, setting)

    def load(self, sources: Sequence[Source], *, threads: int | None) -> LocalHeads:
        self._check()
        return LocalHeads.load(sources)

    def _check(self) -> None:
        self.threads.append(threading.current_thread().name)
        if self.fails:
            raise OSError("no process can be started")


@pytest.fixture
def startable(monkeypatch: pytest.MonkeyPatch) -> Startable:
    made = Startable()
    monkeypatch.setattr(dealt, "ProcessHeads", made)
    monkeypatch.setattr(policy, "ProcessHeads", made)
    return made


def test_a_space_whose_processes_do_not_start_is_not_made(
    tmp_path: Path, startable: Startable
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        one = engine.space("one", dim=2)
        startable.fails = True
        with pytest.raises(OSError, match="no process"):
            engine.space("two", **TWO)
        assert [space.name for space in engine.spaces()] == ["one"]
        assert one.decide("t", arms=ARMS).arm in "ab"  # the engine goes on
        startable.fails = False
        assert engine.space("two", **TWO).decide("t", arms=ARMS).arm in "ab"
        assert "cobandits-engine" not in startable.threads  # which would hold up other spaces
        assert engine.verify().ok


def test_a_file_that_no_shard_could_take_over_is_not_kept(
    tmp_path: Path, startable: Startable
) -> None:
    header, parts = unpacked(policy_bytes(taught(dim=3)))
    header["setting"]["dim"] = 2
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", **TWO)
        with pytest.raises(DataError, match="a shard has dim=3, all have 2"):
            space.upload("forged", packed(header, parts))


def test_others_are_answered_and_learn_while_a_space_cannot_be_made_anew(
    tmp_path: Path, startable: Startable, caplog: pytest.LogCaptureFixture
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        two, one = engine.space("two", **TWO), engine.space("one", dim=2)
        for n in range(4):
            two.reward(two.decide("t", arms=ARMS).id, float(n))
        startable.fails = True
        waiting = [two.decide("t", arms=ARMS).id for _ in range(3)]
        lost = two._fold.learner.policy
        assert isinstance(lost, ShardedShared)
        two._writer.call(lost.close)
        answered = threading.Event()

        def ask() -> None:
            for n in range(3):
                one.reward(one.decide("t", arms=ARMS).id, float(n))
                two.reward(waiting[n], 1.0)
            answered.set()

        threading.Thread(target=ask, daemon=True).start()
        assert answered.wait(20)
        until = time.monotonic() + 20
        while one.policy().rewards < 3:
            assert time.monotonic() < until
            time.sleep(0.01)
        with pytest.raises(ClusterError):
            two.decide("t", arms=ARMS)
        assert "could not be learned again: no process" in caplog.text
        startable.fails = False
        engine.settle()
        assert two.policy().rewards == 7
        assert engine.verify().ok


def test_a_shard_that_fails_is_learned_again_from_the_log(
    tmp_path: Path, startable: Startable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space, learn, fails = engine.space("a", **TWO), Head.learn_rows, [False, True]

        def failing(self: Head, *rows: Any) -> Any:
            if fails and fails.pop(0):
                raise MemoryError("no room")
            return learn(self, *rows)

        def reward(n: int) -> None:
            space.reward(space.decide(f"{n % 6}", arms=ARMS).id, float(n % 5))

        for n in range(40):
            reward(n)
        engine.settle()
        space.change(frozen=True)
        for n in range(6):
            reward(n)
        monkeypatch.setattr(Head, "learn_rows", failing)
        space.change(frozen=False)  # six rewards are learned at once, by both shards
        engine.settle()
        assert not fails
        assert space.policy().rewards == 46
        assert engine.verify().ok
