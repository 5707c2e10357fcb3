"""The log in PostgreSQL, by psycopg 3."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from cobandits.engine.errors import (
    DiskFullError,
    OwnedError,
    StoreAwayError,
    StoreError,
)
from cobandits.engine.stores.base import Batch
from cobandits.engine.stores.sql import SQLStore
from cobandits.engine.stores.tables import COLUMNS, VERSION, check_version, migrations
from cobandits.errors import MissingExtraError

try:
    import psycopg
    from psycopg import errors
except ImportError as error:  # pragma: no cover - tests have every extra
    raise MissingExtraError("psycopg", "postgres") from error

__all__ = ["PostgresStore"]

_TYPES = {"int": "BIGINT", "float": "DOUBLE PRECISION", "bytes": "BYTEA"}
_COLUMN_TYPES = ("int8", "int8", "int8", "text", "int8", "int8", "float8", "text", "text")
_SCHEMA = "cobandits"
_LOCK = 0x636F6261  # "coba": the owner's advisory lock, one per database
_PATIENCE = 5.0  # seconds for the server to notice that an earlier owner was killed
_OWN_PATIENCE = 1.0  # seconds for our own last connection to be gone
_PAUSE = 0.05  # seconds between two attempts
_KEY = "INSERT INTO keys (space, key, number) VALUES (%s, %s, %s)"
_PART = """INSERT INTO snapshot_parts (space, number, part, data) VALUES (%s, %s, %s, %s)
    ON CONFLICT (space, number, part) DO UPDATE SET data = excluded.data"""
_SAVED = """INSERT INTO snapshots (space, number, parts) VALUES (%s, %s, %s)
    ON CONFLICT (space, number) DO UPDATE SET parts = excluded.parts"""

Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresStore(SQLStore):
    """A log in the schema ``cobandits`` of a database.

    The owner holds an advisory lock, which the server releases when its connection ends. After a
    lost connection it is taken again, before anything is written; numbers tell whether another
    process wrote in between.
    """

    _sign = "%s"

    def __init__(self, address: str) -> None:
        self._address = address
        self._writer: Connection | None = None
        self._readers = threading.local()
        self._opened: list[Connection] = []
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return self._address.rpartition("@")[2]  # without a password

    # ---- Owning

    def acquire(self) -> None:
        """Become the owner, and bring the tables up to date; refuse where there is one."""
        with self._translated():
            writer = self._connected()
            try:
                self._claim(writer, patience=_PATIENCE)
                _migrate(writer, str(self))
            except BaseException:
                writer.close()
                raise
            self._writer = writer

    def _claim(self, writer: Connection, patience: float) -> None:
        """Take the owner's lock; a server notices late that the process which held it is gone."""
        end = time.monotonic() + patience
        while not _has_lock(writer):
            if time.monotonic() >= end:
                raise OwnedError(
                    f"another process decides on {self}; end it first, or only read it: "
                    "Engine.open(..., readonly=True)"
                )
            time.sleep(_PAUSE)

    def _connected(self) -> Connection:
        connection = psycopg.connect(
            self._address,
            autocommit=True,
            connect_timeout=5,
            keepalives_idle=5,
            tcp_user_timeout=10_000,
            options=f"-c search_path={_SCHEMA} -c synchronous_commit=on",
        )
        connection.prepare_threshold = 1
        return connection

    def check(self) -> None:
        """Refuse tables that are not there or are of another release; for readers."""
        with self._translated():
            found = _version(self._reader)
        check_version(found, str(self), lambda v: v == VERSION)

    def append(self, batch: Batch) -> None:
        """Write a batch, durably."""
        writer = self._writer
        if writer is None:
            raise StoreAwayError(f"{self} is not connected; try again")
        with self._translated(), writer.transaction(), writer.cursor() as cursor:
            if batch.events:
                with cursor.copy(f"COPY log ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
                    copy.set_types(_COLUMN_TYPES)
                    for event in batch.events:
                        copy.write_row(event)
            for statement, rows in (
                (_KEY, batch.keys),
                (_PART, batch.parts),
                (_SAVED, batch.saved),
            ):
                if rows:
                    cursor.executemany(statement, cast(Sequence[Any], rows))

    def reconnect(self) -> None:
        """Begin anew after an error: connect, and be the owner again, or raise."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        with self._translated():
            writer = self._connected()
            try:
                self._claim(writer, patience=_OWN_PATIENCE)
            except BaseException:
                writer.close()
                raise
            self._writer = writer

    def close(self) -> None:
        """Give up the claim and every connection."""
        with self._lock:
            opened, self._opened = self._opened, []
        for connection in (*opened, self._writer):
            if connection is not None:
                connection.close()
        self._writer = None
        self._readers = threading.local()

    # ---- Reading

    @property
    def _reader(self) -> Connection:
        """The connection of this thread."""
        found: Connection | None = getattr(self._readers, "connection", None)
        if found is None or found.closed:
            found = self._connected()
            found.read_only = True
            self._readers.connection = found
            with self._lock:
                self._opened = [one for one in self._opened if not one.closed] + [found]
        return found

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self._translated():
            try:
                return self._reader.execute(statement, values).fetchall()
            except psycopg.OperationalError:
                self._reader.close()  # it may have been lost long ago: once more
                return self._reader.execute(statement, values).fetchall()

    def _write(self, statement: str, values: Sequence[object]) -> None:
        assert self._writer is not None
        with self._translated():
            self._writer.execute(statement, values)

    def _write_all(self, statements: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        assert self._writer is not None
        with self._translated(), self._writer.transaction(), self._writer.cursor() as cursor:
            for statement, rows in statements:
                if rows:
                    cursor.executemany(statement, rows)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Give errors of PostgreSQL the engine's names."""
        try:
            yield
        except errors.UniqueViolation as error:
            raise OwnedError(
                f"another process writes to {self} ({_first(error)}): one of them must stop; "
                "nothing was kept"
            ) from error
        except (errors.DiskFull, errors.OutOfMemory) as error:
            raise DiskFullError(
                f"{self}: {_first(error)}; nothing was kept; make room and try again"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise StoreAwayError(
                f"{self} cannot be reached ({_first(error)}); try again"
            ) from error
        except psycopg.Error as error:
            raise StoreError(f"{self}: {_first(error)}; nothing was kept; try again") from error


def _has_lock(writer: Connection) -> bool:
    found = writer.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone()
    return found is not None and bool(found[0])


def _first(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _version(connection: Connection) -> int:
    """Return the version of the tables, 0 if there are none."""
    (there,) = connection.execute("SELECT to_regclass('meta')").fetchone() or (None,)
    if there is None:
        return 0
    found = connection.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
    return int(bytes(found[0])) if found else 0


def _migrate(connection: Connection, where: str) -> None:
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
    found = _version(connection)
    check_version(found, where)
    if found == VERSION:
        return
    with connection.transaction():
        for statement in migrations(found, _TYPES):
            connection.execute(statement)
        if found == 0:
            insert = "INSERT INTO meta VALUES ('secret', %s)"
            connection.execute(insert, (secrets.token_bytes(16),))
        connection.execute("DELETE FROM meta WHERE name = 'version'")
        connection.execute("INSERT INTO meta VALUES ('version', %s)", (str(VERSION).encode(),))
