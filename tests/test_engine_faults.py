"""Faults under the store: clear errors, nothing answered that is not kept, and it goes on after."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import psycopg
import pytest

from cobandits.engine import (
    DamagedLogError,
    Decision,
    DiskFullError,
    Engine,
    OverloadedError,
    OwnedError,
    Space,
    StoreAwayError,
    StoreError,
    inbox,
)
from cobandits.engine.core import Core
from cobandits.engine.fold import SpaceFold
from cobandits.engine.stores import Batch, SQLiteStore
from cobandits.engine.writer import Writer
from tests.engine_postgres import databases, needs_postgres

AWAY = float(os.environ.get("COBANDITS_AWAY", "1"))  # seconds without a database


def arms(rng: random.Random) -> list[dict[str, Any]]:
    return [{"features": [rng.gauss(0, 1), rng.gauss(0, 1)]} for _ in range(3)]


def ask_until_it_fails(space: Space, rng: random.Random) -> tuple[list[Decision], StoreError]:
    made: list[Decision] = []
    for _ in range(5000):
        try:
            made.append(space.decide("a", arms=arms(rng)))
        except StoreError as error:
            return made, error
    raise AssertionError("it never failed")


def check_kept(engine: Engine, space: Space, made: list[Decision]) -> None:
    """All that was answered is in the log, and the log leads to the state."""
    kept = {event.number for event in space.events()}
    assert {one.number for one in made} <= kept
    engine.settle()
    assert engine.verify().ok


# ---- A full disk


def test_a_full_disk_is_told_and_then_it_goes_on(tmp_path: Path) -> None:
    rng = random.Random(0)
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        connection = engine._store._writer  # type: ignore[attr-defined]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 2}")
        made, error = ask_until_it_fails(space, rng)
        assert isinstance(error, DiskFullError)
        assert "make room" in str(error)
        check_kept(engine, space, made)
        made.append(space.decide("a", arms=arms(rng)))  # it connects anew, without the limit
        check_kept(engine, space, made)


def test_a_file_that_cannot_grow(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits are those of Unix")
    rng = random.Random(0)
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        made = [space.decide("a", arms=arms(rng))]
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = max(path.stat().st_size for path in tmp_path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, hard))
        try:
            more, error = ask_until_it_fails(space, rng)
            with pytest.raises(StoreError):
                space.reward(made[0].id, 1.0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "nothing was kept" in str(error)
        assert space.reward(made[0].id, 1.0).status == "accepted"
        check_kept(engine, space, made + more)


# ---- Errors at any write


class Faulty(SQLiteStore):
    """A real store that fails now and then: before it writes, or after, so the answer is lost."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rng, self.share = random.Random(3), 0.0

    def append(self, batch: Batch) -> None:
        thrown = self.rng.random()
        if thrown < self.share / 2:
            raise StoreError("disk I/O error; nothing was kept; try again")
        super().append(batch)
        if thrown < self.share:
            raise StoreAwayError("the answer was lost; try again")

    def reconnect(self) -> None:
        if self.rng.random() < self.share:
            raise StoreAwayError("still away; try again")
        super().reconnect()


def test_errors_at_any_write(tmp_path: Path) -> None:
    store = Faulty(tmp_path / "a.db")
    store.acquire()
    core = Core(store)
    with Engine(store, core, Writer(core)) as engine:
        space = engine.space("s", dim=2)
        store.share = 0.3
        made: list[Decision] = []
        failed = [0]

        def client(seed: int) -> None:
            rng = random.Random(seed)
            for n in range(40):
                name, offer = f"{seed}-{n}", arms(rng)
                for _ in range(200):  # until it is answered, as a client would
                    try:
                        made.append(space.decide("a", arms=offer, id=name))
                        space.reward(name, float(n))
                        break
                    except StoreError:
                        failed[0] += 1

        threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.share = 0.0
        assert failed[0] > 20
        assert len({one.id for one in made}) == 160
        rewarded = [event.ref for event in space.events(kinds=["reward"])]
        assert len(rewarded) == len(set(rewarded)) == 160
        check_kept(engine, space, made)
        assert space.policy().rewards == 160


def test_a_second_owner_stops_the_first(tmp_path: Path) -> None:
    """Where the lock fails, as on some network file systems, numbers still protect the log."""
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        other = SQLiteStore(tmp_path / "a.db")
        other._writer = other._connected()  # without the lock
        (first,) = space.events()
        other.append(Batch(events=[first._replace(number=2, kind="tick")]))
        with pytest.raises(OwnedError, match="another process"):
            space.decide("a", arms=arms(random.Random(0)))
        with pytest.raises(OwnedError):
            space.decide("a", arms=arms(random.Random(0)))
        other.close()


def test_an_event_that_cannot_be_applied_stops_the_engine(tmp_path: Path) -> None:
    """The log is right then, and the state is not: it must not go on from there."""
    rng = random.Random(0)
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        defect = patch.object(SpaceFold, "apply", side_effect=RuntimeError("a defect"))
        with defect, pytest.raises(RuntimeError, match="a defect"):
            space.decide("a", arms=arms(rng))
        with pytest.raises(DamagedLogError, match="open the engine again"):
            space.decide("a", arms=arms(rng))
    with Engine.open(tmp_path / "a.db") as engine:
        assert len(list(engine.space("s").events())) == 2
        assert engine.verify().ok


def test_too_many_requests_are_refused(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        with patch.object(inbox, "_MOST", 0), pytest.raises(OverloadedError, match="try again"):
            space.decide("a", arms=arms(random.Random(0)))
        assert len(list(space.events())) == 1


# ---- A database that goes away


@needs_postgres
def test_a_database_that_goes_away_for_a_while() -> None:
    rng = random.Random(0)
    with databases() as made:
        address, admin = next(made), next(made)
        with Engine.open(address) as engine, psycopg.connect(admin, autocommit=True) as other:
            space = engine.space("s", dim=2)
            answered = [space.decide("a", arms=arms(rng)) for _ in range(5)]
            name = urlsplit(address).path.strip("/")
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            end = time.monotonic() + AWAY
            while time.monotonic() < end:
                with pytest.raises(StoreAwayError, match="cannot be reached"):
                    space.decide("a", arms=arms(rng))
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            answered.append(space.decide("a", arms=arms(rng)))
            assert space.reward(answered[0].id, 1.0).status == "accepted"
            check_kept(engine, space, answered)


# ---- A clock that jumps


def test_time_in_the_log_never_goes_back(tmp_path: Path) -> None:
    rng, now = random.Random(0), [2_000_000.0]
    with Engine.open(tmp_path / "a.db", clock=lambda: now[0]) as engine:
        space = engine.space("s", dim=2, window="1h")
        made = space.decide("a", arms=arms(rng))
        now[0] -= 1_000_000
        back = space.decide("a", arms=arms(rng))
        assert back.at == made.at
        assert space.reward(made.id, 1.0).status == "accepted"
        now[0] += 1_000_001
        assert space.decide("a", arms=arms(rng)).at > back.at
        check_kept(engine, space, [made, back])


# ---- Kills


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize(
    ("store", "kills"), [("sqlite", 5), pytest.param("postgres", 2, marks=needs_postgres)]
)
def test_nothing_is_lost_when_the_process_is_killed(store: str, kills: int) -> None:
    """A short version of ``make test-faults``."""
    command = [sys.executable, "-m", "tests.engine_kills", "--store", store, "--kills", str(kills)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
