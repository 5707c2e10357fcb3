"""The engine's benchmark: plain rows are those that the engine wrote, in the same groups."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import engine
from cobandits.engine import Decide, Engine


def test_plain_rows_are_written_in_the_groups_of_the_engine(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "engine.db") as opened:
        space = opened.space("bench", dim=2)
        asked = [Decide(task="a", arms=[{"features": [1.0, float(n)]}]) for n in range(7)]
        for some in (asked[:4], asked[4:6], asked[6:]):
            space.ask(some)
        rows = list(space.events(after=space.number))
    groups = engine.as_written(rows)
    assert [len(one) for one in groups] == [4, 2, 1]
    assert engine.seconds_of_rows(tmp_path / "plain.db", groups) > 0
    with closing(sqlite3.connect(tmp_path / "plain.db")) as plain:
        assert plain.execute("SELECT * FROM log ORDER BY number").fetchall() == rows


def test_pairs_are_timed_in_every_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, few in {"CLIENTS": 3, "PAIRS": 2, "REPETITIONS": 2, "LOAD_ROWS": 500}.items():
        monkeypatch.setattr(engine, name, few)
    pairs = engine.durable_pairs(tmp_path)
    assert list(pairs.found) == list(engine.WAYS)
    assert pairs.share(engine.PLAIN, engine.PLAIN) == 1.0
    assert pairs.row(engine.LARGE)[-1] == 3.0
    assert 1 <= pairs.row(engine.ENGINE)[-1] <= 3
