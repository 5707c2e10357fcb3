"""The tables, and how those of earlier releases become them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cobandits.engine.errors import StoreError

__all__ = ["COLUMNS", "RARE", "VERSION", "check_version", "is_rare", "migrations"]

COLUMNS = "number, at, space, kind, ref, until, value, task, body"

# Of a log of millions of events a few are of these kinds, and an index holds them. A database uses
# it for a statement that has the index's own condition, word for word.
_RARE_KINDS = ("space", "change", "install", "rollback", "relearn", "upload", "delete")
RARE = f"kind IN {_RARE_KINDS}"

# One entry per version of the tables, from the first on. An entry that was released never changes:
# what is to be different is a further one.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE log (
            number {int} PRIMARY KEY, at {int} NOT NULL, space {int} NOT NULL, kind TEXT NOT NULL,
            ref {int}, until {int}, value {float}, task TEXT, body TEXT)""",
        "CREATE INDEX log_ref ON log (ref) WHERE kind IN ('reward', 'activate')",
        """CREATE INDEX log_rare ON log (number) WHERE kind IN
            ('space', 'change', 'install', 'rollback', 'relearn')""",
        "CREATE TABLE keys (space {int}, key TEXT, number {int}, PRIMARY KEY (space, key))",
        "CREATE UNIQUE INDEX keys_number ON keys (number)",
        """CREATE TABLE snapshot_parts (
            space {int}, number {int}, part {int}, data {bytes} NOT NULL,
            PRIMARY KEY (space, number, part))""",
        """CREATE TABLE snapshots (
            space {int}, number {int}, parts {int} NOT NULL, PRIMARY KEY (space, number))""",
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value {bytes} NOT NULL)",
    ),
    (
        "DROP INDEX log_rare",
        """CREATE INDEX log_rare ON log (number) WHERE kind IN
            ('space', 'change', 'install', 'rollback', 'relearn', 'upload', 'delete')""",
    ),
)

VERSION = len(_MIGRATIONS)


def is_rare(kinds: Iterable[str]) -> bool:
    """Tell whether all kinds are in the index of rare ones."""
    return set(kinds) <= set(_RARE_KINDS)


def migrations(found: int, types: dict[str, str]) -> list[str]:
    """Return the statements that lead from a version of the tables, 0 for none, to the newest."""
    return [statement.format(**types) for step in _MIGRATIONS[found:] for statement in step]


def check_version(
    found: int, where: str, fits: Callable[[int], bool] = lambda v: v <= VERSION
) -> None:
    """Refuse tables that a later release made."""
    if not fits(found):
        raise StoreError(
            f"{where} has tables of version {found}, this release has {VERSION}; "
            + ("upgrade cobandits" if found > VERSION else "open it once to decide")
        )
