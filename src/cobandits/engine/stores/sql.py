"""What stores in SQL have in common: how the log is read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from cobandits.engine.events import Event
from cobandits.engine.stores.base import Query, Saved, Store
from cobandits.engine.stores.tables import COLUMNS

__all__ = ["SQLStore"]

_FOLDED = "folded"


class SQLStore(Store):
    """A store whose tables are those of :mod:`cobandits.engine.stores.tables`."""

    _sign: ClassVar[str]  # that stands for a value in a statement

    @abstractmethod
    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        """Read, with a connection of this thread."""

    @abstractmethod
    def _write(self, statement: str, values: Sequence[object]) -> None:
        """Write, with the owner's connection."""

    @abstractmethod
    def _write_all(self, statements: Sequence[tuple[str, Sequence[Sequence[object]]]]) -> None:
        """Write in one transaction, with the owner's connection: each statement for many rows."""

    def last(self) -> tuple[int, int]:
        """Return number and time of the last event, 0 and 0 if there is none."""
        found = self._rows("SELECT number, at FROM log ORDER BY number DESC LIMIT 1")
        return (int(found[0][0]), int(found[0][1])) if found else (0, 0)

    def page(self, query: Query) -> list[Event]:
        """Return events in order, at most ``query.limit``."""
        condition, values = query.conditions(self._sign)
        limit = "" if query.limit is None else f" LIMIT {int(query.limit)}"
        columns = COLUMNS
        if query.body is not None:
            columns = COLUMNS.replace("body", f"substr(body, 1, {int(query.body)})")
        order = "number DESC" if query.newest else "number"
        statement = f"SELECT {columns} FROM log WHERE {condition} ORDER BY {order}{limit}"
        return [Event(*row) for row in self._rows(statement, values)]

    def referring(self, number: int) -> list[Event]:
        """Return the rewards and activations of a decision, in order."""
        statement = f"""SELECT {COLUMNS} FROM log
            WHERE ref = {self._sign} AND kind IN ('reward', 'activate') ORDER BY number"""
        return [Event(*row) for row in self._rows(statement, (number,))]

    def find_key(self, space: int, key: str) -> int | None:
        """Return the number of the event that has a key."""
        statement = f"SELECT number FROM keys WHERE space = {self._sign} AND key = {self._sign}"
        found = self._rows(statement, (space, key))
        return int(found[0][0]) if found else None

    def key_of(self, number: int) -> str | None:
        """Return the key of an event."""
        found = self._rows(f"SELECT key FROM keys WHERE number = {self._sign}", (number,))
        return str(found[0][0]) if found else None

    def meta(self, name: str) -> bytes:
        """Return a value that was made with the tables: the secret of ids."""
        return bytes(self._rows(f"SELECT value FROM meta WHERE name = {self._sign}", (name,))[0][0])

    def snapshots(self, space: int) -> list[Saved]:
        """Return the snapshots that are whole, in order."""
        statement = f"""SELECT space, number, parts FROM snapshots
            WHERE space = {self._sign} ORDER BY number"""
        return [Saved(*row) for row in self._rows(statement, (space,))]

    def snapshot(self, saved: Saved) -> bytes:
        """Return a snapshot."""
        statement = f"""SELECT data FROM snapshot_parts
            WHERE space = {self._sign} AND number = {self._sign} ORDER BY part"""
        return b"".join(bytes(row[0]) for row in self._rows(statement, saved[:2]))

    def forget_snapshot(self, saved: Saved) -> None:
        """Remove a snapshot."""
        for table in ("snapshots", "snapshot_parts"):
            where = f"space = {self._sign} AND number = {self._sign}"
            self._write(f"DELETE FROM {table} WHERE {where}", saved[:2])

    def remove(self, numbers: Sequence[int], folded: int) -> None:
        """Remove events that a snapshot stands for, with their keys; note how far that goes."""
        rows = [(number,) for number in numbers]
        values = f"{self._sign}, {self._sign}"
        self._write_all(
            [
                (f"DELETE FROM log WHERE number = {self._sign}", rows),
                (f"DELETE FROM keys WHERE number = {self._sign}", rows),
                (f"DELETE FROM meta WHERE name = {self._sign}", [(_FOLDED,)]),
                (f"INSERT INTO meta VALUES ({values})", [(_FOLDED, str(folded).encode())]),
            ]
        )

    def erase(self, space: int, numbers: Sequence[int]) -> None:
        """Leave nothing of events but number and time; remove their keys, and the snapshots."""
        rows, mine = [(number,) for number in numbers], [(space,)]
        erased = "kind = 'gone', ref = NULL, until = NULL, value = NULL, task = NULL, body = NULL"
        self._write_all(
            [
                (f"UPDATE log SET {erased} WHERE number = {self._sign}", rows),
                (f"DELETE FROM keys WHERE number = {self._sign}", rows),
                (f"DELETE FROM snapshots WHERE space = {self._sign}", mine),
                (f"DELETE FROM snapshot_parts WHERE space = {self._sign}", mine),
            ]
        )

    def folded(self) -> int:
        """Return the number up to which events may have been removed, 0 if none were."""
        found = self._rows(f"SELECT value FROM meta WHERE name = {self._sign}", (_FOLDED,))
        return int(bytes(found[0][0])) if found else 0
