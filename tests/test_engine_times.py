"""What the engine's thread was busy with, as histograms."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from benchmarks.service.soak import busy
from cobandits.engine import Engine, Space, StoreError
from cobandits.engine.learning import Learning
from cobandits.engine.status import Status
from cobandits.engine.stores import Batch, SQLiteStore
from cobandits.engine.times import Times
from cobandits.service.metrics import Metrics

SLOW = 0.06  # seconds


@pytest.mark.parametrize(
    ("seconds", "edges"),
    [(0.0, 12), (0.001, 12), (0.0011, 11), (1.0, 3), (10.0, 1), (11.0, 0)],
)
def test_a_time_is_within_all_edges_from_its_own_on(seconds: float, edges: int) -> None:
    times = Times()
    times.add(seconds)
    within, total = times.histogram
    assert total == seconds
    assert sum(count for edge, count in within if edge != "+Inf") == edges
    assert within[-1] == ("+Inf", 1.0)


def slow_append(store: SQLiteStore, batch: Batch) -> None:
    time.sleep(SLOW)
    _append(store, batch)


def slow_step(learning: Learning) -> None:
    time.sleep(SLOW)
    _step(learning)
    raise StoreError("away")


_append, _step = SQLiteStore.append, Learning.step


def decided(space: Space) -> None:
    made = space.decide("a", arms=[{"features": [1.0]}, {"features": [0.0]}])
    space.reward(made.id, 1.0)


def grown(before: Status, after: Status) -> set[str]:
    """Return what took at least as long as is slow."""
    return {
        work
        for work, histogram in after.times.items()
        if histogram.total - before.times[work].total >= SLOW
    }


@pytest.mark.parametrize(
    ("where", "name", "slow", "work"),
    [(SQLiteStore, "append", slow_append, "disk"), (Learning, "step", slow_step, "learning")],
)
def test_what_takes_long_counts_once_also_where_it_fails(
    tmp_path: Path, where: type, name: str, slow: Callable[..., None], work: str
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=1)
        engine.settle()
        before = engine.status()
        with patch.object(where, name, slow):
            decided(space)
            engine.settle()
        assert grown(before, engine.status()) == {work}


def test_a_command_is_neither(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        engine.space("s", dim=1)
        before = engine.status()
        engine._writer.call(lambda: time.sleep(SLOW))
        assert grown(before, engine.status()) == {"commands"}
        found = busy(Metrics(waiting=lambda: 0.0).text(engine.status(), {}))
    assert found.keys() == {"answers", "learning", "commands", "disk"}
    assert found["commands"] == 0.1
    assert found["disk"] < 10


def test_a_service_that_does_not_say_is_no_service_without_pauses() -> None:
    with pytest.raises(ValueError, match="does not say"):
        busy(b"cobandits_log_events 5.0\n")
