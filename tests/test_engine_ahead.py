"""While a prior is learned for long, a stand-in decides and learns, and the log tells how."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cobandits.engine import Decide, Decision, Engine, Reward, Space, refits
from cobandits.engine.core import Core
from cobandits.engine.errors import OwnedError
from cobandits.engine.fold import SpaceFold
from cobandits.engine.learner import INLINE
from cobandits.engine.learning import Learning
from cobandits.engine.writer import Writer
from cobandits.errors import DataError
from cobandits.policies import Shared

DIM, TASKS = 3, 5


class Slow:
    """Priors that are learned when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        self._here = refits._here
        monkeypatch.setattr(refits, "LARGE", 1)
        monkeypatch.setattr(refits.Refitter, "_in_process", lambda *_: None)
        monkeypatch.setattr(refits, "_here", self._wait)

    def _wait(self, task: refits.Task) -> Any:
        self.began.set()
        assert self.go_on.wait(60)
        return self._here(task)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow(monkeypatch)
    yield made
    made.go_on.set()


def play(space: Space, rounds: int, seed: int = 0) -> list[Decision]:
    """Decide and tell rewards, a round of all tasks at a time; wait until they are learned."""
    rng = np.random.default_rng(seed)
    found: list[Decision] = []
    for _ in range(rounds):
        arms = rng.standard_normal((TASKS, 3, DIM))
        asked = [Decide(task=f"{t}", arms=[{"features": x} for x in arms[t]]) for t in range(TASKS)]
        made = [one for one in space.ask(asked) if isinstance(one, Decision)]
        space.ask([Reward(decision=one.id, value=float(rng.normal())) for one in made])
        found += made
    return found


def learned_by(decision: Decision) -> int:
    return int(decision.version.partition("+")[2])


def wait_for_learning(engine: Engine, space: str = "s") -> None:
    until = time.monotonic() + 30
    while engine.status().spaces[space].waiting:
        assert time.monotonic() < until
        time.sleep(0.005)


def resting(engine: Engine, slow: Slow) -> Space:
    """Return a space whose prior is being learned."""
    space = engine.space("s", dim=DIM, seed=1)
    play(space, 2 * INLINE // TASKS + 1)  # a prior is due when rewards have doubled
    assert slow.began.wait(60)
    return space


def test_rewards_are_learned_while_a_prior_is(tmp_path: Path, slow: Slow) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = resting(engine, slow)
        wait_for_learning(engine)  # nothing waits, though the policy itself rests
        before = play(space, 1, seed=1)
        wait_for_learning(engine)
        after = play(space, 1, seed=2)
        assert learned_by(after[-1]) == learned_by(before[-1]) + TASKS
        assert engine.verify().ok  # in the midst of it
        recomputed = space.recompute(after[-1].id)
        assert (recomputed.arm, recomputed.probability) == (after[-1].arm, after[-1].probability)
        slow.go_on.set()
        engine.settle()
        installed = play(space, 1, seed=3)[-1]
        assert installed.version.partition("+")[0] != after[-1].version.partition("+")[0]
        found = engine.verify()
        assert found.ok, str(found)
        engine.settle()
        assert space.policy().rewards == engine.status().spaces["s"].rewards


def test_an_engine_that_is_closed_meanwhile_goes_on_where_its_stand_in_was(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = resting(engine, slow)
        play(space, 2, seed=1)
        wait_for_learning(engine)
        last = play(space, 1, seed=2)[-1]
        threading.Timer(0.2, slow.go_on.set).start()  # closing waits for a thread
    slow.go_on.clear()
    with Engine.open(tmp_path / "a.db") as engine:
        first = play(engine.space("s"), 1, seed=3)[-1]
        same_base = first.version.partition("+")[0] == last.version.partition("+")[0]
        assert not same_base or learned_by(first) >= learned_by(last)
        found = engine.verify()
        assert found.ok, str(found)
        slow.go_on.set()
        engine.settle()
        assert engine.verify().ok


@pytest.mark.parametrize("what", ["freeze", "roll back", "floor", "relearn"])
def test_what_comes_meanwhile_is_replayed(tmp_path: Path, slow: Slow, what: str) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = resting(engine, slow)
        play(space, 2, seed=1)
        wait_for_learning(engine)
        if what == "freeze":
            space.change(frozen=True)
        elif what == "floor":
            space.change(floor=0.5)
        elif what == "relearn":
            space.relearn(schema=space.settings.schema)
        else:
            space.rollback(space.versions()[0].name)
        made = play(space, 2, seed=2)
        if what == "floor":
            assert min(one.probability for one in made) < 0.3
        found = engine.verify()
        assert found.ok, str(found)
        if what == "freeze":
            space.change(frozen=False)
        slow.go_on.set()
        engine.settle()
        play(space, 2, seed=4)
        engine.settle()
        assert engine.verify().ok


def test_a_prior_is_installed_though_rewards_come_faster_than_they_are_learned(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, install = Learning.step, Learning._install
    rests, left = threading.Event(), list[int]()

    def stepped(self: Learning) -> None:
        if not rests.is_set():
            step(self)

    def installed(self: Learning, fold: SpaceFold, *given: Any) -> None:
        left.append(fold.learner.n_unlearned)
        install(self, fold, *given)

    monkeypatch.setattr(Learning, "step", stepped)
    monkeypatch.setattr(Learning, "_install", installed)
    with Engine.open(tmp_path / "a.db") as engine:
        space = resting(engine, slow)
        play(space, 2, seed=1)
        wait_for_learning(engine)
        rests.set()
        play(space, 20, seed=3)
        slow.go_on.set()
        assert isinstance(engine._writer, Writer)
        refit = engine._writer._learning._refits[space._fold.number]
        until = time.monotonic() + 30
        while refit.found is None:
            assert time.monotonic() < until
            time.sleep(0.005)
        rests.clear()
        engine.settle()
        assert left[0] >= 20 * TASKS  # it does not wait for those, which are learned after it
        assert engine.verify().ok


@pytest.mark.parametrize("large", [1, 10**9])
def test_rewards_of_a_space_do_not_wait_for_the_prior_of_another(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        resting(engine, slow)
        monkeypatch.setattr(refits, "LARGE", large)
        other = engine.space("other", dim=DIM, seed=2)
        play(other, 30)
        wait_for_learning(engine, "other")
        assert engine.status().spaces["other"].refitting
        assert engine.verify().ok
        slow.go_on.set()
        engine.settle()
        assert other.policy().rewards == 30 * TASKS
        assert engine.verify().ok


def test_a_prior_is_learned_beside_the_engine_where_there_is_no_memory_for_a_stand_in(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(self: Shared) -> Shared:
        raise MemoryError

    monkeypatch.setattr(Shared, "stand_in", none)
    with Engine.open(tmp_path / "a.db") as engine:
        space = resting(engine, slow)  # else it would be learned in line, and decisions wait
        assert engine.status().spaces["s"].refitting
        slow.go_on.set()
        engine.settle()
        monkeypatch.undo()
        assert space.policy().rewards == engine.status().spaces["s"].rewards
        assert engine.verify().ok


def test_an_engine_that_no_longer_owns_its_log_says_so_to_callers_and_not_in_a_loop(
    tmp_path: Path, slow: Slow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(*_: Any) -> None:
        raise OwnedError("another process wrote to it")

    with Engine.open(tmp_path / "a.db") as engine:
        resting(engine, slow)
        with monkeypatch.context() as patch:
            patch.setattr(Core, "next_number", lost)
            slow.go_on.set()
            time.sleep(0.5)
        assert not [one for one in caplog.records if "after an error" in one.message]
        engine.settle()
        assert engine.verify().ok


def test_a_stand_in_goes_its_own_way_and_has_no_refits() -> None:
    rng = np.random.default_rng(0)
    policy, twin = (Shared(dim=DIM) for _ in range(2))

    def learn(n: int, *policies: Shared) -> None:
        for _ in range(n):
            arms = rng.standard_normal((TASKS, 2, DIM))
            made = policy.decide(range(TASKS), arms, np.random.default_rng(1))
            rewards = rng.normal(size=TASKS)
            for one in policies:
                one.learn(range(TASKS), arms, made, rewards)

    with pytest.raises(DataError, match="learn a reward first"):
        policy.stand_in()
    learn(9, policy, twin)
    stand_in = policy.stand_in()
    prior = stand_in.prior
    learn(40, stand_in)
    assert stand_in.prior is prior
    assert stand_in.rewards == policy.rewards + 40 * TASKS
    assert not stand_in.refit_due(10**6)
    learn(20, policy, twin)  # as if there had been none
    arms = rng.standard_normal((TASKS, 4, DIM))
    both = [one.expected_rewards(range(TASKS), arms) for one in (policy, twin)]
    assert (both[0] == both[1]).all()
