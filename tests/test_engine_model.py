"""Any interleaving of requests, restarts, refits and returns, against a simple model."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cobandits.engine import Engine, Reward, Rewarded, Space, memory
from tests.engine_model import Model

CASES: list[dict[str, Any]] = [
    {},
    {"window": 100},
    {"window": 100, "default_reward": 0.0},
    {"window": 100, "rewards": "sum"},
    {"window": 100, "rewards": "last", "default_reward": -1.0},
]
VALUES = st.sampled_from([0.0, 1.0, 2.5])


class Machine(RuleBasedStateMachine):
    """The engine on SQLite, beside the model."""

    @initialize(case=st.sampled_from(CASES), kept=st.sampled_from([2, 2**15]))
    def begin(self, case: dict[str, Any], kept: int) -> None:
        self.patch = patch.object(memory, "_KEPT", kept)  # others are read from the store
        self.patch.start()
        self.folder = Path(tempfile.mkdtemp())
        self.rng = np.random.default_rng(0)
        self.model = Model(
            window=case.get("window"),
            default=case.get("default_reward"),
            rewards=case.get("rewards", "first"),
        )
        self.case, self.time, self.rolled_back, self.count = case, 1000.0, False, 0
        self.engine = self.opened()

    def opened(self) -> Engine:
        engine = Engine.open(self.folder / "log.db", clock=lambda: self.time)
        self.space: Space = engine.space("s", dim=2, **self.case)
        return engine

    def arms(self) -> list[dict[str, Any]]:
        return [{"features": row.tolist()} for row in self.rng.standard_normal((3, 2))]

    def names(self) -> list[str]:
        return list(self.model.entries)

    # ---- What may happen

    @rule(task=st.sampled_from("abc"), held=st.booleans())
    def decide(self, task: str, held: bool) -> None:
        name, self.count = f"id {self.count}", self.count + 1
        arms = self.arms()
        made = self.space.decide(task, arms=arms, held=held, id=name)
        assert made.id == name
        assert not made.repeated
        self.model.decide(name, held=held)
        again = self.space.decide(task, arms=arms, held=held, id=name)
        assert again.repeated
        assert (again.arm, again.probability, again.number) == (
            made.arm,
            made.probability,
            made.number,
        )

    @rule(n=st.integers(1, 40))
    def many(self, n: int) -> None:
        """Decide and reward so often that priors are learned in the background."""
        for _ in range(n):
            made = self.space.decide("abc"[n % 3], arms=self.arms())
            self.model.decide(made.id, held=False)
            value = float(self.rng.normal())
            assert self.space.reward(made.id, value).status == self.model.reward(made.id, value)

    @precondition(lambda self: self.model.entries)
    @rule(data=st.data(), value=VALUES)
    def reward(self, data: st.DataObject, value: float) -> None:
        name = data.draw(st.sampled_from(self.names()[-12:]))
        assert self.answer(name, value) == self.model.reward(name, value)

    @rule(value=VALUES)
    def reward_unknown(self, value: float) -> None:
        name = f"id {self.count}"  # comes later, or never
        assert self.answer(name, value) == self.model.reward(name, value)

    def answer(self, name: str, value: float) -> str:
        """Return the status of a reward, or the name of the error."""
        (found,) = self.space.ask([Reward(decision=name, value=value)])
        return found.status if isinstance(found, Rewarded) else type(found).__name__

    @precondition(lambda self: self.model.entries)
    @rule(data=st.data())
    def activate(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.names()[-12:]))
        assert self.space.activate(name).status == self.model.activate(name)

    @rule(seconds=st.sampled_from([1, 30, 99, 100, 101]))
    def wait(self, seconds: int) -> None:
        self.time += seconds
        self.model.now += seconds

    @rule()
    def clock_jumps_back(self) -> None:
        """The log's time stands still until the clock has caught up."""
        self.time -= 50
        self.space.change(floor=self.space.settings.floor)
        self.time += 50

    @rule()
    def restart(self) -> None:
        self.engine.close()
        self.engine = self.opened()

    @rule()
    def roll_back(self) -> None:
        self.space.rollback(self.space.versions()[len(self.space.versions()) // 2].name)
        self.rolled_back = True

    @rule(start=st.integers(-300, 0), seconds=st.integers(0, 200))
    def relearn(self, start: int, seconds: int) -> None:
        since = datetime.fromtimestamp(self.time + start, UTC)
        self.space.relearn(since=since, before=since + timedelta(seconds=seconds))
        self.rolled_back = True

    @rule(floor=st.sampled_from([0.0, 0.2]))
    def change(self, floor: float) -> None:
        self.space.change(floor=floor)

    # ---- What must hold

    @rule()
    def verify(self) -> None:
        found = self.engine.verify()
        assert found.ok, found.differences

    @rule()
    def each_reward_is_learned_once(self) -> None:
        self.space.change()  # an event: windows that are over end with it
        self.model.close_windows()
        self.engine.settle()
        if not self.rolled_back:
            assert self.space.policy().rewards == self.model.learned

    @invariant()
    def numbers_have_no_gaps_and_time_never_goes_back(self) -> None:
        if hasattr(self, "space"):
            events = list(self.space.events())
            assert [event.number for event in events] == list(range(1, len(events) + 1))
            assert all(a.at <= b.at for a, b in itertools.pairwise(events))

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        try:
            self.verify()
            self.each_reward_is_learned_once()
        finally:
            self.patch.stop()
            self.engine.close()
            shutil.rmtree(self.folder)


# Without shrinking, which would take minutes here: the steps that failed are printed as they were.
Machine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=20, phases=[Phase.generate]
)
test_any_interleaving = Machine.TestCase
