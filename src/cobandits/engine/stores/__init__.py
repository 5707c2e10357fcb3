"""Where the log lives: SQLite by the standard library, or PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from cobandits.engine.stores.base import Batch, Query, Saved, Store
from cobandits.engine.stores.sqlite import SQLiteStore
from cobandits.errors import ConfigurationError

__all__ = ["Batch", "Query", "SQLiteStore", "Saved", "Store", "open_store"]


def open_store(where: str | Path, *, create: bool) -> Store:
    """Return the store that a path or an address names; it is not connected yet."""
    text = str(where)
    if text.startswith(("postgresql://", "postgres://")):
        from cobandits.engine.stores.postgres import PostgresStore

        return PostgresStore(text)
    if "://" in text:
        raise ConfigurationError(
            f"expected a path or postgresql://..., got {text!r}; SQLite is named by its path"
        )
    path = Path(where)
    if not create and not path.is_file():
        raise ConfigurationError(f"there is no database {path}; check the path")
    return SQLiteStore(path)
