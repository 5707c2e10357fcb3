"""A prior that another process learns: the same bits, and a thread where there is no process."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cobandits.engine import Decide, Decision, Engine, Reward, Space, refits
from cobandits.engine.turns import giving_way

DIM, TASKS = 4, 20
ENOUGH = 4  # rounds: a prior is due at twice INLINE rewards at the latest


@pytest.fixture(autouse=True)
def _every_refit_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refits, "LARGE", 1)


def fill(space: Space, rounds: int, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        asked = [
            Decide(task=f"{t}", arms=[{"features": x} for x in rng.standard_normal((3, DIM))])
            for t in range(TASKS)
        ]
        made = [one for one in space.ask(asked) if isinstance(one, Decision)]
        space.ask([Reward(decision=one.id, value=float(rng.normal())) for one in made])


def test_a_process_learns_the_same_bits(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, 8)  # 160 rewards: a prior is due when they have doubled, twice from 32 on
        engine.settle()
        assert sum(one.kind == "install" for one in space.versions()) > 1  # of one process
        found = engine.verify()  # learns all priors in its own thread
        assert found.ok, str(found)
    assert "a thread learns the prior" not in caplog.text
    with Engine.open(tmp_path / "a.db") as engine:
        assert engine.verify().ok  # from the snapshot that came with the prior


def test_a_thread_learns_it_where_no_process_can_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, ENOUGH)
        engine.settle()
        assert "a thread learns the prior" in caplog.text
        assert any(one.kind == "install" for one in space.versions())
        assert engine.verify().ok


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(3)",
        "import sys; sys.stdin.buffer.read(99); sys.stdout.write('half'); sys.exit()",
        "import sys; sys.stdout.buffer.write(bytes(7) + b'\\5wrong'); sys.stdin.buffer.read()",
    ],
)
def test_a_process_that_fails_leaves_it_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(refits, "_PROGRAM", program)
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, ENOUGH)
        engine.settle()
        assert any(one.kind == "install" for one in space.versions())
        assert engine.verify().ok


def test_what_a_process_prints_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A library in C may write to file descriptor 1 at any time."""
    program = """
import os
from cobandits.engine import refits
answer = refits._answer
refits._answer = lambda request: (os.write(1, b"a warning of a library"), answer(request))[1]
refits.main()
"""
    monkeypatch.setattr(refits, "_PROGRAM", program)
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, ENOUGH)
        engine.settle()
        assert any(one.kind == "install" for one in space.versions())
        assert engine.verify().ok
    assert not caplog.messages  # neither a thread learned it nor the engine itself


def test_a_process_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(refits, "_PATIENCE", 0.1)
    monkeypatch.setattr(refits, "_PROGRAM", "import time; time.sleep(3600)")
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, ENOUGH)
        engine.settle(30)
        assert any(one.kind == "install" for one in space.versions())
        assert engine.verify().ok
    assert "a thread learns the prior" in caplog.text


def test_close_does_not_wait_for_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refits, "_PROGRAM", "import time; time.sleep(3600)")
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=DIM, seed=1)
        fill(space, ENOUGH)
        while not engine.status().refitting:
            time.sleep(0.01)
        made = space.decide("new", arms=[{"features": [0.0] * DIM}, {"features": [1.0] * DIM}])
        space.reward(made.id, 1.0)
    monkeypatch.undo()
    with Engine.open(tmp_path / "a.db") as engine:  # what waited is learned now
        engine.settle()
        assert engine.status().spaces["a"].waiting == 0
        assert engine.verify().ok


def test_turns_are_short_while_any_thread_works_for_long_and_then_as_before() -> None:
    before = sys.getswitchinterval()
    first, second = giving_way(), giving_way()  # of two engines, say: neither ends inside the other
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < before / 5
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before
    with pytest.raises(ValueError, match="failed"), giving_way():
        raise ValueError("failed")
    assert sys.getswitchinterval() == before


def test_the_engine_gives_way_while_it_sends_a_state_and_reads_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sys.getswitchinterval()
    seen: set[tuple[str, bool]] = set()

    def note(name: str) -> None:
        action = getattr(refits, name)

        def noted(given: object) -> object:
            seen.add((name, sys.getswitchinterval() < before))
            return action(given)

        monkeypatch.setattr(refits, name, noted)

    note("_request")
    note("_state_of")
    with Engine.open(tmp_path / "a.db") as engine:
        fill(engine.space("a", dim=DIM, seed=1), ENOUGH)
        engine.settle()
    assert seen == {("_request", True), ("_state_of", True)}
    assert sys.getswitchinterval() == before
