"""Old events are removed, and nothing that they led to is lost; callers are always answered."""

from __future__ import annotations

import datetime
import threading
import time
from pathlib import Path

import pytest

from cobandits.engine import Decide, Engine, Number, Schema, Space, UnknownVersionError
from cobandits.engine.policies import policy_bytes
from cobandits.errors import ConfigurationError

ARMS = [{"features": [1, 0]}, {"features": [0, 1]}]


class Clock:
    """A clock that the test sets."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def before(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def rewarded(space: Space, clock: Clock, n: int, seconds: float = 60.0) -> None:
    for i in range(n):
        clock.now += seconds
        space.reward(space.decide(f"task {i % 3}", arms=ARMS).id, float(i % 2))


def test_a_space_that_is_idle_does_not_hinder_opening(tmp_path: Path, clock: Clock) -> None:
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        engine.space("idle", dim=2)
        rewarded(engine.space("busy", dim=2), clock, 20)
        engine.settle()
        assert engine.forget(before(clock.now - 300)) > 10
        assert engine.verify().ok
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        assert engine.verify().ok
        assert engine.space("busy").policy().rewards == 20


def test_rewards_that_were_learned_without_an_event_stay(tmp_path: Path, clock: Clock) -> None:
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        space = engine.space("shops", dim=2, window="1h", default_reward=0.0)
        rewarded(space, clock, 60, seconds=0.0)
        clock.now += 3601
        engine.settle()
        time.sleep(0.3)  # snapshots are written while nobody asks
        engine.forget(before(clock.now + 1))
        assert engine.verify().ok
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        assert engine.space("shops").policy().rewards == 60


def test_settings_stay_and_what_was_removed_is_not_learned_anew(
    tmp_path: Path, clock: Clock
) -> None:
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        space = engine.space("shops", dim=2)
        space.change(window="1m", default_reward=0.0)
        for _ in range(20):
            space.decide("x", arms=ARMS)
            clock.now += 120
        engine.settle()
        engine.forget(before(clock.now - 1300))
        assert 5 < len(space.log()) < 20
        with pytest.raises(UnknownVersionError, match="removed"):
            space.relearn(since=before(1), before=before(2))


def test_a_request_that_is_given_up_leaves_nobody_waiting(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space, gate = engine.space("shops", dim=2), threading.Event()
        busy = threading.Thread(target=lambda: engine._writer.call(lambda: gate.wait(5)))
        busy.start()  # so that both requests are of one group
        given_up, waiting = (space.submit([Decide(task=t, arms=ARMS)]) for t in "ab")
        given_up.cancel()
        gate.set()
        (answer,) = waiting.result(timeout=10)
        assert not isinstance(answer, Exception)
        busy.join()


def test_a_reward_that_is_refused_where_a_prior_is_due_stops_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    """Each part of a sum is within the limit, and their sum is not."""
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        space = engine.space("shops", dim=2, window="1m", rewards="sum")
        refused = False
        for i in range(120):
            decision = space.decide("x", arms=ARMS)
            policy = space.policy()
            if policy.rewards >= 8 and policy.refit_due():
                refused = True
                space.reward(decision.id, 9e74)
                space.reward(decision.id, 9e74)
            else:
                space.reward(decision.id, float(i % 2))
            clock.now += 120
            engine.settle(10)
            if refused:
                break
        assert refused
        rewarded(space, clock, 3, seconds=120)
        clock.now += 120
        engine.settle(10)
        assert engine.verify().ok


def test_a_correction_to_zero_is_answered_as_zero(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("shops", dim=2, window="1h", rewards="last")
        decision = space.decide("x", arms=ARMS)
        space.reward(decision.id, 5.0, key="first")
        assert space.reward(decision.id, 0.0, key="second").value == 0.0
        with pytest.raises(UnknownVersionError, match="no version"):
            space.rollback("v" + "9" * 30)
        with pytest.raises(UnknownVersionError, match="a state within version v1"):
            space.rollback("v1+0")
        with pytest.raises(ConfigurationError, match="window"):
            space.change(window="9999999d")


def test_schemas_and_files_outlast_the_events_of_their_time(tmp_path: Path, clock: Clock) -> None:
    one, two = Schema(arm={"p": Number()}), Schema(arm={"p": Number(), "q": Number()})
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        space = engine.space("s", one)
        made = [space.decide("t", arms=[{"p": 1.0}, {"p": 2.0}]) for _ in range(5)]
        for decision in made:
            space.reward(decision.id, 1.0)
        engine.settle()
        second = space.relearn(schema=two).name
        content = policy_bytes(space.policy())
        space.upload("kept", content)
        clock.now += 1000
        space.reward(space.decide("t", arms=[{"p": 1.0, "q": 0.0}]).id, 0.0)
        engine.settle()
        assert engine.forget(before(clock.now - 500)) >= 10
        assert [found.schema.dim for found in space.schemas()] == [one.dim, two.dim]
        assert policy_bytes(space.policy("kept")) == content
        assert space.report().version == space.version
        for version in ("kept", second):
            space.rollback(version)
            space.reward(space.decide("t", arms=[{"p": 1.0, "q": 0.0}]).id, 0.0)
            engine.settle()
            assert engine.verify().ok
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        assert engine.verify().ok
