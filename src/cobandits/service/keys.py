"""API keys: shown once, kept as salted hashes, each with its roles, revocable."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from cobandits.errors import CobanditsError, ConfigurationError

__all__ = ["ROLES", "Key", "KeyStore", "Role", "hashed"]

Role = Literal["decide", "reward", "read", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)

_TOKEN = re.compile(r"cb_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
_COLUMNS = "id, salt, hash, roles, note, rate, made, revoked"
_TABLE = """CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, salt BLOB NOT NULL, hash BLOB NOT NULL, roles TEXT NOT NULL,
    note TEXT NOT NULL, rate REAL, made TEXT NOT NULL, revoked TEXT)"""
_FRESH = 1.0  # seconds for which the file is not asked again whether another process changed it
_REMEMBERED = 4096  # tokens that were looked up


@dataclass(frozen=True, kw_only=True)
class Key:
    """What is known of a key, but for its secret."""

    id: str
    roles: tuple[Role, ...]
    note: str = ""
    rate: float | None = None  # requests per second; the service's own limit if None
    made: str = ""  # ISO 8601
    revoked: str | None = None

    def may(self, role: Role) -> bool:
        """Tell whether the key has a role; an admin has all."""
        return role in self.roles or "admin" in self.roles


def hashed(secret: str, salt: bytes) -> bytes:
    """Return the salted hash of a secret.

    A secret has 256 random bits, so that one fast hash is enough: no list of them can be tried.
    """
    return hashlib.blake2b(secret.encode(), salt=salt, person=b"cobandits-key").digest()


class KeyStore:
    """The keys of a service, in a small SQLite file of their own that only its owner may read.

    Parameters
    ----------
    path
        The file, made if missing.
    admin
        A further key that may do everything and is not in the file, as from an environment
        variable; at least 32 characters.
    """

    def __init__(self, path: Path, *, admin: str | None = None) -> None:
        if admin is not None and len(admin) < 32:
            raise ConfigurationError(
                f"the admin key must have at least 32 characters, got {len(admin)}; "
                "make one with: openssl rand -hex 32"
            )
        self._salt = secrets.token_bytes(16)
        self._admin = None if admin is None else hashed(admin, self._salt)
        self._known: dict[str, Key | None] = {}
        self._version, self._asked = -1, -_FRESH
        if not path.parent.is_dir():
            raise CobanditsError(
                f"there is no folder {path.parent}, where {path.name} would be; make it first, or "
                "name another file with --keys"
            )
        try:
            path.touch(mode=0o600)
            self._file = sqlite3.connect(path, timeout=5, isolation_level=None)
            self._file.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise CobanditsError(
                f"the keys cannot be kept in {path} ({error}); check folder and rights, or name "
                "another file with --keys"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(
        self, roles: Sequence[Role], *, note: str = "", rate: float | None = None
    ) -> tuple[Key, str]:
        """Make a key; return it, and the token, which cannot be read again."""
        unknown = [role for role in roles if role not in ROLES]
        if unknown or not roles:
            raise ConfigurationError(
                f"roles must be some of {', '.join(ROLES)}, got {', '.join(unknown) or 'none'}"
            )
        if rate is not None and not 0 < rate < 1e9:
            raise ConfigurationError(f"rate must be above 0 requests per second, got {rate}")
        key = Key(
            id=secrets.token_hex(4),
            roles=tuple(role for role in ROLES if role in roles),
            note=note,
            rate=rate,
            made=_now(),
        )
        secret, salt = secrets.token_urlsafe(32), secrets.token_bytes(16)
        self._file.execute(
            f"INSERT INTO keys ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (key.id, salt, hashed(secret, salt), " ".join(key.roles), note, rate, key.made),
        )
        return key, f"cb_{key.id}_{secret}"

    def revoke(self, id: str) -> Key | None:  # noqa: A002
        """Revoke a key, at once for this store; return it, or None if there is none."""
        statement = "UPDATE keys SET revoked = coalesce(revoked, ?) WHERE id = ?"
        self._file.execute(statement, (_now(), id))
        self._known.clear()
        return next((key for key in self.all() if key.id == id), None)

    def all(self) -> list[Key]:
        """Return all keys, the revoked too, in the order in which they were made."""
        statement = "SELECT id, roles, note, rate, made, revoked FROM keys ORDER BY rowid"
        return [_key(*row) for row in self._file.execute(statement)]

    def any_valid(self) -> bool:
        """Tell whether somebody could use the service."""
        return self._admin is not None or any(key.revoked is None for key in self.all())

    def find(self, token: str) -> Key | None:
        """Return the key of a token, None if it is not valid (any more)."""
        self._refresh()
        if token not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[token] = self._look_up(token)
        return self._known[token]

    def _refresh(self) -> None:
        """Forget what was looked up if another process has changed the file."""
        now = time.monotonic()
        if now - self._asked < _FRESH:
            return
        self._asked = now
        version = int(self._file.execute("PRAGMA data_version").fetchone()[0])
        if version != self._version:
            self._version = version
            self._known.clear()

    def _look_up(self, token: str) -> Key | None:
        if self._admin is not None and hmac.compare_digest(hashed(token, self._salt), self._admin):
            return Key(id="admin", roles=("admin",), note="given at the start")
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        statement = f"SELECT {_COLUMNS} FROM keys WHERE id = ? AND revoked IS NULL"
        row = self._file.execute(statement, (match[1],)).fetchone()
        if row is None or not hmac.compare_digest(hashed(match[2], row[1]), row[2]):
            return None
        return _key(row[0], *row[3:])


def _key(
    name: str,
    roles: str,
    note: str,
    rate: float | None,
    made: str,
    revoked: str | None,
) -> Key:
    known = tuple(role for role in ROLES if role in roles.split())
    return replace(Key(id=name, roles=known), note=note, rate=rate, made=made, revoked=revoked)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
