"""Spaces whose tasks are dealt to processes: the log still leads to every bit, whatever ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cobandits.engine import Decide, Decision, Engine, Reward, Space, refits
from cobandits.engine.policies import policy_bytes
from cobandits.engine.settings import SHARDED, Settings
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies import Shared
from cobandits.sharded import ProcessHeads, ShardedShared

DIM, TASKS = 4, 12
TWO: dict[str, Any] = {"dim": DIM, "seed": 1, "shards": 2, **SHARDED}
THETAS = np.random.default_rng(9).standard_normal((TASKS, 2)) @ np.random.default_rng(
    8
).standard_normal((2, DIM))


def fill(space: Space, rounds: int, seed: int = 0) -> float:
    """Decide for all tasks, some with fewer arms; return what was earned."""
    rng, earned = np.random.default_rng(seed), list[float]()
    for n in range(rounds):
        phi = rng.standard_normal((TASKS, 3, DIM))
        arms = [[{"id": str(k), "features": x.tolist()} for k, x in enumerate(one)] for one in phi]
        asked = [
            Decide(task=f"{t}", arms=arms[t][: 2 + t % 2], exclude=("1",) * ((t + n) % 5 == 0))
            for t in range(TASKS)
        ]
        made = [one for one in space.ask(asked) if isinstance(one, Decision)]
        value = [float(phi[int(one.task), int(one.arm)] @ THETAS[int(one.task)]) for one in made]
        earned += value
        noisy = [one + 0.1 * rng.standard_normal() for one in value]
        space.ask([Reward(decision=m.id, value=y) for m, y in zip(made, noisy, strict=True)])
    return sum(earned)


def heads(space: Space) -> ProcessHeads:
    """Return the processes of a space."""
    policy = space._fold.learner.policy
    assert isinstance(policy, ShardedShared)
    assert isinstance(policy.heads, ProcessHeads)
    return policy.heads


def alive(pid: int | None) -> bool:
    """Tell whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def killed(pid: int | None) -> None:
    assert pid is not None
    with contextlib.suppress(ProcessLookupError):  # it was replaced a moment ago
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Return an engine with a space of two processes; each test leaves them whole."""
    with Engine.open(tmp_path_factory.mktemp("sharded") / "a.db") as made:
        fill(made.space("a", **TWO), 4)
        yield made


def made_anew(engine: Engine, space: Space) -> None:
    """Wait until a space answers again, which is tried once in a second, and check its log."""
    until = time.monotonic() + 30
    while fill(space, 1, seed=5) == 0:
        assert time.monotonic() < until
        time.sleep(0.05)
    engine.settle()
    found = engine.verify()
    assert found.ok, str(found)
    answered = sum(event.kind == "reward" for event in space.events())
    assert space.policy().rewards == answered


def test_a_space_in_processes_lives_as_others_do(tmp_path: Path) -> None:
    where = tmp_path / "a.db"
    with Engine.open(where) as engine:
        one = engine.space("one", dim=DIM, seed=1, **SHARDED)
        two = engine.space("two", **TWO)
        earned = {one: 0.0, two: 0.0}
        for seed in range(10):
            for space in (one, two):
                earned[space] += fill(space, 1, seed)
                engine.settle()  # else when rewards are learned is up to chance
        assert earned[two] > 0.75 * earned[one]  # in the same world
        installs = [version.name for version in two.versions() if version.kind == "install"]
        assert len(installs) > 2
        two.change(floor=0.1)
        fill(two, 2, seed=1)
        engine.settle()
        two.rollback(installs[1])
        assert two.policy().rewards == two.policy(installs[1]).rewards
        assert two.policy().floor == 0.1
        fill(two, 4, seed=2)
        engine.settle()
        found = engine.verify()
        assert found.ok, str(found)
        assert (two.report().tasks, len(two.policy().explain_all().tasks)) == (TASKS, TASKS)
        made = next(iter(two.decisions(after=found.events // 2))).decision
        again = two.recompute(made.id)
        assert (again.arm, again.probability) == (made.arm, made.probability)
        pids, state = heads(two).pids, policy_bytes(two.policy())
    assert not any(alive(pid) for pid in pids)
    with Engine.open(where, readonly=True) as reader:  # has no processes
        assert policy_bytes(reader.space("two").policy()) == state
    with Engine.open(where) as engine:
        two = engine.space("two")
        assert policy_bytes(two.policy()) == state
        pids = heads(two).pids
        engine.delete("two")
        assert not any(alive(pid) for pid in pids)


def test_a_space_that_outgrows_a_process_is_dealt_to_several(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, 6)
        made = space.relearn(shards=2)
        assert (made.kind, space.settings.shards) == ("relearn", 2)
        assert (space.settings.reward_kind, space.settings.on_change) == ("gaussian", "alert")
        engine.settle()
        assert space.policy().rewards == 6 * TASKS
        assert len(heads(space)) == 2
        with pytest.raises(DataError, match="another reward_kind and on_change and shards than"):
            space.rollback("v1")
        fill(space, 3, seed=1)
        engine.settle()
        assert engine.verify().ok
        content = policy_bytes(space.policy())
        space.upload("kept", content)
        with pytest.raises(DataError, match="has shards=1, this space needs 2"):
            space.upload("other", policy_bytes(Shared(dim=DIM, labels=True)))
        with pytest.raises(DataError, match="truncated"):
            space.upload("other", content[:-1])
        fill(space, 1, seed=2)
        engine.settle()
        space.rollback("kept")
        assert policy_bytes(space.policy()) == content
        pids = heads(space).pids
        space.relearn(shards=1)
        assert not any(alive(pid) for pid in pids)
        assert (space.settings.reward_kind, space.settings.on_change) == ("auto", "adapt")
        space.rollback("v1")
        fill(space, 1, seed=3)
        engine.settle()
        assert isinstance(space.policy(), Shared)
        assert engine.verify().ok


def test_a_killed_process_is_made_anew_from_the_log(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    space, other = engine.space("a"), engine.space("b", dim=DIM)
    killed(heads(space).pids[0])  # while it learns, decides or rests
    fill(space, 1, seed=1)  # what is not answered is not in the log
    fill(other, 1)
    made_anew(engine, space)
    assert "is learned again from the log" in caplog.text


def test_a_change_is_kept_though_its_process_ends_meanwhile(engine: Engine) -> None:
    space = engine.space("a")

    def change() -> None:  # in the engine's thread: nobody has noticed it before
        killed(heads(space).pids[0])
        time.sleep(0.1)
        space.change(floor=0.3)

    space._writer.call(change)
    assert space.settings.floor == 0.3
    made_anew(engine, space)
    assert space.policy().floor == 0.3


def test_a_process_that_ends_during_a_refit_takes_nothing_with_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, learn = threading.Event(), threading.Event(), refits._here

    def slow(task: refits.Task | refits.ShardedTask) -> Any:
        began.set()
        assert go_on.wait(30)
        return learn(task)

    space = engine.space("a")
    monkeypatch.setattr(refits, "_here", slow)
    for n in range(30):
        if began.wait(0.01):
            break
        fill(space, 1, seed=n)
    assert began.is_set()
    assert fill(space, 1, seed=1) != 0  # decisions go on
    killed(heads(space).pids[1])
    go_on.set()
    made_anew(engine, space)


PROGRAM = """
if __name__ == "__main__":
    import sys
    from cobandits.engine import Engine
    from tests.test_engine_sharded import TWO, fill, heads
    engine = Engine.open(sys.argv[1])
    space = engine.space("a", **TWO)
    fill(space, 2)
    print(*heads(space).pids, flush=True)
    while True:
        fill(space, 1)
"""


def test_no_process_is_left_behind_a_killed_engine(tmp_path: Path) -> None:
    where, script = tmp_path / "a.db", tmp_path / "play.py"
    script.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, script, where],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        process.kill()
    until = time.monotonic() + 10
    while any(map(alive, pids)):
        assert time.monotonic() < until
        time.sleep(0.01)
    with Engine.open(where) as engine:
        assert engine.verify().ok
        fill(engine.space("a"), 1)
        engine.settle()
        assert engine.verify().ok


def test_settings_that_shards_cannot_have_are_refused(tmp_path: Path) -> None:
    for wrong in (0, -1, 2.0, True, "2"):
        with pytest.raises(ConfigurationError, match="whole number from 1 on"):
            Settings.of(schema=None, dim=2, shards=wrong)
    with pytest.raises(ConfigurationError) as found:
        Settings.of(schema=None, dim=2, shards=2)
    assert str(found.value) == (
        "a space with several shards needs reward_kind='gaussian', got 'auto' and "
        "on_change='alert', got 'adapt'"
    )
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=2)
        with pytest.raises(ConfigurationError, match="shards cannot be changed; these can"):
            space.change(shards=2)
        with pytest.raises(ConfigurationError, match="whole number from 1 on"):
            space.relearn(shards=0)
        with pytest.raises(DataError, match="a schema, or shards, or all"):
            space.relearn()
