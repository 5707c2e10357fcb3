"""What comes while something else is under way: the log still leads to the state."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cobandits.engine import (
    ConflictError,
    Decide,
    Decision,
    Engine,
    Number,
    Schema,
    Space,
    refits,
)
from cobandits.engine import space as space_module
from cobandits.engine.encoding import prepared
from cobandits.engine.jobs import Job
from cobandits.engine.learner import INLINE
from cobandits.engine.learning import Learning
from cobandits.engine.policies import policy_bytes
from cobandits.engine.uploads import uploaded_policy
from cobandits.engine.versions import version_number
from cobandits.errors import DataError

ONE = Schema(arm={"p": Number()})
TWO = Schema(arm={"p": Number(), "q": Number()})
ARMS = [{"id": "a", "p": 1.0}, {"id": "b", "p": 2.0}]


def played(space: Space, rounds: int, seed: int = 0) -> None:
    rng = random.Random(seed)
    for n in range(rounds):
        arms = [{"features": [rng.gauss(0, 1), 1.0]} for _ in range(3)]
        space.reward(space.decide(f"task {n % 4}", arms=arms).id, rng.random())


def test_a_space_may_explore_by_confidence_sets(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2, explore="ucb", floor=0.1)
        played(space, 50)
        engine.settle()
        assert space.policy().explore == "ucb"
        assert engine.verify().ok


def test_a_prior_of_a_space_that_was_deleted_comes_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, installed = threading.Event(), threading.Event(), list[object]()
    here = refits._here

    def slow(task: refits.Task) -> Any:
        began.set()
        assert go_on.wait(60)
        return here(task)

    monkeypatch.setattr(refits, "_here", slow)
    monkeypatch.setattr(Learning, "_install", lambda *given: installed.append(given))
    with Engine.open(tmp_path / "a.db") as engine:
        played(engine.space("s", dim=2), 2 * INLINE)  # a prior is due when they have doubled
        assert began.wait(60)
        engine.delete("s")
        go_on.set()
        time.sleep(0.3)  # a hundred times as long as it takes to install one
        assert not installed
        assert not engine.status().refitting
        assert engine.verify().ok


def test_a_request_that_was_encoded_by_an_earlier_schema_is_learned_by_the_present_one(
    tmp_path: Path,
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", ONE)
        space.reward(space.decide("t", arms=ARMS).id, 1.0)
        engine.settle()
        late = prepared(Decide(task="t", arms=ARMS), space.settings.schema)
        space.relearn(schema=TWO)
        job = Job(space._fold.number, [late])
        space._writer.put(job)
        (made,) = job.wait()
        assert isinstance(made, Decision)
        space.reward(made.id, 1.0)
        space.reward(space.decide("t", arms=ARMS).id, 0.0)
        engine.settle(20)
        assert space.policy().rewards == 3
        assert engine.verify().ok


def test_a_schema_that_comes_while_a_file_is_checked_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", ONE)

        def late_check(*given: Any) -> Any:
            found = uploaded_policy(*given)
            space.relearn(schema=TWO)
            return found

        content = policy_bytes(space.policy())
        space.upload("first", content)
        monkeypatch.setattr(space_module, "uploaded_policy", late_check)
        with pytest.raises(ConflictError, match="another schema meanwhile"):
            space.upload("late", content)
        monkeypatch.undo()
        space.relearn(schema=ONE)

        def late_number(*given: Any) -> int:
            found = version_number(*given)
            monkeypatch.undo()
            space.relearn(schema=TWO)
            return found

        monkeypatch.setattr(space_module, "version_number", late_number)
        with pytest.raises(DataError, match="another schema than now"):
            space.rollback("first")
        assert engine.verify().ok
