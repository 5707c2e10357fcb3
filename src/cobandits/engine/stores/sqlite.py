"""The log in a file, by the standard library's SQLite."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, cast

from cobandits.engine.errors import (
    DamagedLogError,
    DiskFullError,
    OwnedError,
    StoreAwayError,
    StoreError,
)
from cobandits.engine.events import Event
from cobandits.engine.stores.base import Batch
from cobandits.engine.stores.sql import SQLStore
from cobandits.engine.stores.tables import COLUMNS, VERSION, check_version, migrations

__all__ = ["SQLiteStore"]

_TYPES = {"int": "INTEGER", "float": "REAL", "bytes": "BLOB"}
_APPLICATION = 0x636F6261  # "coba": tells our files from others
_SIGNS = f"({', '.join('?' * 9)})"  # of an event
# Each statement lets other threads run, and costs a switch to them and back, so a group of requests
# is one statement. The connection keeps those of all sizes (it has room for 128): about 2 MB.
_MOST = 64  # events of a statement
_EVENTS = [
    f"INSERT INTO log ({COLUMNS}) VALUES {', '.join([_SIGNS] * n)}" for n in range(_MOST + 1)
]
# A decision of 5 arms with 20 features has 1.4 kB, of which a page of 4 kB holds two. Larger pages
# are filled better and are fewer writes: in groups of 32 a row costs 0.8 of the CPU time with 16
# kB, and more again with 32 kB. Files that are there keep their own.
_PAGE = 16_384  # bytes
_CHECKPOINT = 4_096_000  # bytes of the WAL after which it is copied to the file; SQLite's default
_KEY = "INSERT INTO keys (space, key, number) VALUES (?, ?, ?)"
_PART = "INSERT OR REPLACE INTO snapshot_parts (space, number, part, data) VALUES (?, ?, ?, ?)"
_SAVED = "INSERT OR REPLACE INTO snapshots (space, number, parts) VALUES (?, ?, ?)"


class SQLiteStore(SQLStore):
    """A log in WAL mode: one connection writes, with ``synchronous=FULL``; others read.

    The owner holds an exclusive lock on the file ``<path>-owner``, which the system releases when
    the process ends, however it ends.
    """

    _sign = "?"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._claim: sqlite3.Connection | None = None
        self._writer: sqlite3.Connection | None = None
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return str(self._path)

    # ---- Owning

    def acquire(self) -> None:
        """Become the owner, and bring the tables up to date; refuse where there is one."""
        self._claim = self._claimed()
        try:
            with _translated(self._path):
                self._writer = self._connected()
        except BaseException:
            self.close()
            raise

    def _claimed(self) -> sqlite3.Connection:
        path = self._path.with_name(f"{self._path.name}-owner")
        try:
            claim = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.OperationalError as error:
            raise StoreError(f"{path} cannot be made ({error}); check folder and rights") from error
        try:
            claim.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            claim.close()
            raise OwnedError(
                f"another process, or another engine in this one, decides on {self._path}; "
                "end it first, or only read it: Engine.open(..., readonly=True)"
            ) from error
        return claim

    def _connected(self) -> sqlite3.Connection:
        writer = sqlite3.connect(
            self._path, timeout=5, isolation_level=None, check_same_thread=False
        )
        try:
            found = _version(writer, self._path)
            writer.execute(f"PRAGMA page_size={_PAGE}")  # of a new file
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("PRAGMA synchronous=FULL")
            page = int(writer.execute("PRAGMA page_size").fetchone()[0])
            writer.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT // page}")
            writer.execute("PRAGMA secure_delete=ON")  # what is erased is overwritten
            if found < VERSION:
                _migrate(writer, found)
        except BaseException:
            writer.close()
            raise
        return writer

    def check(self) -> None:
        """Refuse tables that are not there or are of another release; for readers."""
        with _translated(self._path):
            found = _version(self._reader, self._path)
        check_version(found, str(self), lambda v: v == VERSION)

    def append(self, batch: Batch) -> None:
        """Write a batch, durably."""
        self._write_all(
            [
                *_in_statements(batch.events),
                (_KEY, batch.keys),
                (_PART, batch.parts),
                (_SAVED, batch.saved),
            ]
        )

    def _write_all(self, statements: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        writer = self._writer
        if writer is None:
            raise StoreAwayError(f"{self._path} is not connected; try again")
        needed = [one for one in statements if one[1]]
        with _translated(self._path):
            if len(needed) == 1 and len(needed[0][1]) == 1:  # is a transaction by itself
                writer.execute(needed[0][0], cast(Any, needed[0][1][0]))
                return
            writer.execute("BEGIN IMMEDIATE")
            try:
                for statement, rows in needed:
                    writer.executemany(statement, cast(Any, rows))
                writer.execute("COMMIT")
            except BaseException:
                _roll_back(writer)
                raise

    def reconnect(self) -> None:
        """Begin anew after an error: connect, and be the owner again, or raise."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with _translated(self._path):
            self._writer = self._connected()

    def close(self) -> None:
        """Give up the claim and every connection."""
        with self._lock:
            opened, self._opened = self._opened, []
        for connection in (*opened, self._writer, self._claim):
            if connection is not None:
                connection.close()
        self._writer = self._claim = None
        self._readers = threading.local()

    # ---- Reading

    @property
    def _reader(self) -> sqlite3.Connection:
        """The connection of this thread, which cannot write."""
        found: sqlite3.Connection | None = getattr(self._readers, "connection", None)
        if found is None:
            with _translated(self._path):
                address = f"{self._path.resolve().as_uri()}?mode=ro"
                found = sqlite3.connect(
                    address, uri=True, timeout=5, isolation_level=None, check_same_thread=False
                )
                found.execute("PRAGMA wal_autocheckpoint=0")
            self._readers.connection = found
            with self._lock:
                self._opened.append(found)
        return found

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with _translated(self._path):
            return self._reader.execute(statement, cast(Sequence[Any], values)).fetchall()

    def _write(self, statement: str, values: Sequence[object]) -> None:
        assert self._writer is not None
        with _translated(self._path):
            self._writer.execute(statement, cast(Sequence[Any], values))


def _in_statements(events: list[Event]) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Yield statements that write events, each with its values."""
    for start in range(0, len(events), _MOST):
        some = events[start : start + _MOST]
        yield _EVENTS[len(some)], [tuple(chain.from_iterable(some))]


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables, 0 for a new file; refuse a file of another program."""
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    if application != _APPLICATION and tables:
        raise StoreError(f"{path} is a database of another program; name another path")
    check_version(found, str(path))
    return found


def _migrate(connection: sqlite3.Connection, found: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for statement in migrations(found, _TYPES):
        connection.execute(statement)
    if found == 0:
        connection.execute("INSERT INTO meta VALUES ('secret', ?)", (secrets.token_bytes(16),))
        connection.execute(f"PRAGMA application_id={_APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.execute("COMMIT")


def _roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that failed, if the error has not done so."""
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        pass  # the next connection starts from what is on disk


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Give errors of SQLite the engine's names."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise OwnedError(
            f"another process writes to {path} ({error}): one of them must stop; nothing was kept"
        ) from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        kind, advice = _ADVICE.get(code, (StoreError, "nothing was kept; try again"))
        raise kind(f"{path}: {error}; {advice}") from error


_ADVICE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (DiskFullError, "nothing was kept; make room and try again"),
    sqlite3.SQLITE_BUSY: (StoreAwayError, "another program locks it; try again"),
    sqlite3.SQLITE_LOCKED: (StoreAwayError, "another program locks it; try again"),
    sqlite3.SQLITE_CANTOPEN: (StoreAwayError, "check that the folder is there"),
    sqlite3.SQLITE_CORRUPT: (DamagedLogError, "restore a copy of it"),
    sqlite3.SQLITE_NOTADB: (DamagedLogError, "it is no database, or was overwritten"),
}
