"""One contract for all stores, over real ones."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.engine.errors import OwnedError, StoreError
from cobandits.engine.events import Event, Kind
from cobandits.engine.stores import (
    Batch,
    Query,
    Saved,
    SQLiteStore,
    Store,
    open_store,
    sqlite,
    tables,
)
from cobandits.engine.stores.base import Part
from cobandits.errors import ConfigurationError
from tests.engine_postgres import databases, needs_postgres

Make = Callable[[], Store]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Iterator[str]]:
    with databases() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return a function that opens the same store again and again."""
    if request.param == "sqlite":
        where = str(tmp_path / "log.db")
    else:
        where = next(request.getfixturevalue("postgres"))
    opened: list[Store] = []

    def made() -> Store:
        opened.append(open_store(where, create=True))
        return opened[-1]

    yield made
    for store in opened:
        store.close()


def event(number: int, **given: object) -> Event:
    return Event(**{"number": number, "at": number * 10, "space": 1, "kind": "tick", **given})  # type: ignore[arg-type]


def test_what_is_appended_is_read_back_whole(make: Make) -> None:
    store = make()
    store.acquire()
    whole = event(
        2,
        kind="decision",
        ref=1,
        until=2**60,
        value=0.1 + 0.2,
        task="Köln \U0001f375",
        body='{"a":"\\u0000"}',
    )
    store.append(Batch(events=[event(1), whole], keys=[(1, "d:x", 2)]))
    assert list(store.read()) == [event(1), whole]
    assert store.last() == (2, 20)
    assert store.event(2) == whole
    assert store.event(3) is None
    assert (store.find_key(1, "d:x"), store.find_key(2, "d:x"), store.key_of(2)) == (2, None, "d:x")


def test_pages_and_conditions(make: Make) -> None:
    store = make()
    store.acquire()
    events = [
        event(n, task=f"t{n % 2}", space=n % 3, kind=("tick", "reward")[n % 2])
        for n in range(1, 5001)
    ]
    store.append(Batch(events=events))
    assert list(store.read()) == events
    assert [e.number for e in store.read(Query(after=4990, limit=3))] == [4991, 4992, 4993]
    assert [e.number for e in store.read(Query(through=9, space=0))] == [3, 6, 9]
    assert list(store.read(Query(newest=True))) == events[::-1]
    newest = Query(after=4000, through=4990, space=0, newest=True, limit=2)
    assert [e.number for e in store.read(newest)] == [4989, 4986]
    assert [e.number for e in store.read(Query(since=30, before=60, task="t1"))] == [3, 5]
    assert len(list(store.read(Query(kinds=("reward",), limit=2100)))) == 2100


def test_a_batch_is_written_as_a_whole_or_not_at_all(make: Make) -> None:
    store = make()
    store.acquire()
    store.append(Batch(events=[event(1)]))
    with pytest.raises(OwnedError, match="another process writes"):
        store.append(Batch(events=[event(2), event(1)]))  # the second number is taken
    store.reconnect()
    assert store.last() == (1, 10)
    store.append(Batch(events=[event(2)]))
    assert [e.number for e in store.read()] == [1, 2]


@needs_postgres
def test_an_owner_waits_for_its_own_last_connection_to_be_gone(postgres: Iterator[str]) -> None:
    address = next(postgres)
    first, second = open_store(address, create=True), open_store(address, create=True)
    first.acquire()
    threading.Timer(0.3, first.close).start()
    second.reconnect()
    second.append(Batch(events=[event(1)]))
    assert second.last() == (1, 10)
    second.close()


def test_there_is_one_owner_at_a_time_and_readers_are_never_refused(make: Make) -> None:
    first, second, reader = make(), make(), make()
    first.acquire()
    with pytest.raises(OwnedError, match="readonly=True"):
        second.acquire()
    first.append(Batch(events=[event(1)]))
    reader.check()
    assert reader.last() == (1, 10)
    first.close()
    second.acquire()
    second.append(Batch(events=[event(2)]))
    assert reader.last() == (2, 20)


def test_readers_see_only_whole_batches(make: Make) -> None:
    store, reader = make(), make()
    store.acquire()
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(reader.last()[0])

    thread = threading.Thread(target=look)
    thread.start()
    for n in range(0, 200, 10):
        store.append(Batch(events=[event(n + k) for k in range(1, 11)]))
    done.set()
    thread.join()
    assert {number % 10 for number in seen} == {0}


def test_snapshots_come_in_parts_and_count_when_they_are_whole(make: Make) -> None:
    store = make()
    store.acquire()
    store.append(Batch(parts=[Part(1, 7, 0, b"ab")]))
    assert store.snapshots(1) == []
    store.append(Batch(parts=[Part(1, 7, 1, b"\x00c")]))
    store.append(Batch(saved=[Saved(1, 7, 2)]))
    assert store.snapshots(1) == [Saved(1, 7, 2)]
    assert store.snapshot(Saved(1, 7, 2)) == b"ab\x00c"
    store.forget_snapshot(Saved(1, 7, 2))
    assert store.snapshots(1) == []


def test_events_that_a_snapshot_stands_for_are_removed_with_their_keys(make: Make) -> None:
    store = make()
    store.acquire()
    events = [event(n) for n in range(1, 6)]
    store.append(Batch(events=events, keys=[(1, "d:x", 2), (1, "d:y", 4)]))
    assert store.folded() == 0
    store.remove([1, 2], 2)
    store.remove([3], 3)
    assert list(store.read()) == events[3:]
    assert (store.find_key(1, "d:x"), store.find_key(1, "d:y"), store.folded()) == (None, 4, 3)


def test_the_secret_stays(make: Make) -> None:
    store = make()
    store.acquire()
    secret = store.meta("secret")
    store.close()
    again = make()
    again.acquire()
    assert again.meta("secret") == secret
    assert len(secret) == 16


def test_rewards_and_activations_of_a_decision(make: Make) -> None:
    store = make()
    store.acquire()
    later = [event(3, kind="activate", ref=2), event(5, kind="reward", ref=2, value=1.0)]
    store.append(
        Batch(events=[event(1), event(2), later[0], event(4, kind="rollback", ref=2), later[1]])
    )
    assert store.referring(2) == later


def test_a_file_of_another_program_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE log (a)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="of another program"):
        open_store(tmp_path / "other.db", create=True).acquire()
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(StoreError, match="no database"):
        open_store(tmp_path / "text.db", create=True).acquire()


def test_tables_of_a_later_release_are_refused(tmp_path: Path) -> None:
    store = open_store(tmp_path / "log.db", create=True)
    store.acquire()
    store.close()
    later = sqlite3.connect(tmp_path / "log.db")
    later.execute("PRAGMA user_version=99")
    later.close()
    with pytest.raises(StoreError, match=r"version 99.*upgrade"):
        open_store(tmp_path / "log.db", create=True).acquire()


def test_tables_of_an_earlier_release_are_brought_up_to_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    kept = [event(1, kind="space"), event(2, kind="upload"), event(3, kind="reward", ref=2)]
    with monkeypatch.context() as earlier:
        earlier.setattr(tables, "_MIGRATIONS", tables._MIGRATIONS[:1])
        earlier.setattr(sqlite, "VERSION", 1)
        with closing(open_store(path, create=True)) as store:
            store.acquire()
            store.append(Batch(events=kept))
    with closing(open_store(path, create=False)) as store:
        store.acquire()
        assert list(store.read()) == kept
        assert list(store.read(Query(kinds=("upload",)))) == kept[1:2]
    assert indexes(path) == indexes(new_file(tmp_path / "new.db"))


@given(kinds=st.sets(st.sampled_from(get_args(Kind)), min_size=1))
def test_events_of_rare_kinds_are_found_without_reading_the_log(kinds: set[Kind]) -> None:
    asked = Query(space=1, kinds=tuple(kinds), limit=5)
    condition, values = asked.conditions("?")
    with closing(sqlite3.connect(":memory:")) as file:
        for statement in tables.migrations(0, sqlite._TYPES):
            file.execute(statement)
        plan = f"EXPLAIN QUERY PLAN SELECT * FROM log WHERE {condition} ORDER BY number LIMIT 5"
        uses_index = "log_rare" in str(file.execute(plan, values).fetchall())
    often = {"decision", "held", "activate", "reward", "import", "tick", "gone"}
    assert uses_index == kinds.isdisjoint(often)


def new_file(path: Path) -> Path:
    with closing(open_store(path, create=True)) as store:
        store.acquire()
    return path


def indexes(path: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as file:
        return set(file.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def test_addresses(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://"):
        open_store("mysql://x", create=True)
    with pytest.raises(ConfigurationError, match="no database"):
        open_store(tmp_path / "none.db", create=False)


def test_a_new_file_has_large_pages_and_an_old_one_keeps_its_own(tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    with closing(sqlite3.connect(old)) as file:  # as a release with SQLite's own size made it
        file.execute("PRAGMA journal_mode=WAL")
    sizes = {}
    for path in (old, tmp_path / "new.db"):
        store = open_store(str(path), create=True)
        store.acquire()
        store.append(Batch(events=[event(1)]))
        assert isinstance(store, SQLiteStore)
        assert store._writer is not None
        pages = store._writer.execute("PRAGMA wal_autocheckpoint").fetchone()[0]
        store.close()
        with closing(sqlite3.connect(path)) as file:
            page = file.execute("PRAGMA page_size").fetchone()[0]
            assert file.execute("SELECT count(*) FROM log").fetchone()[0] == 1
        assert pages * page == 4_096_000
        sizes[path.name] = page
    assert sizes == {"old.db": 4096, "new.db": 16384}
