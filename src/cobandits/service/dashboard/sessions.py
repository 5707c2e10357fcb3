"""Sessions of people: a cookie that scripts cannot read, and a token against forged forms."""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass, field

from cobandits.service.keys import Key, KeyStore

__all__ = ["COOKIE", "Session", "Sessions"]

COOKIE = "cobandits_session"
_HOURS = 12.0
_MOST = 1000  # sessions; the oldest ends first


@dataclass(frozen=True)
class Session:
    """Somebody who has shown an API key."""

    token: str = field(repr=False)  # the key, asked for again each time: a revoked one ends here
    until: float
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # in each form


class Sessions:
    """All sessions, in memory: they end with the process."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._sessions: dict[str, Session] = {}

    def begin(self, token: str) -> str | None:
        """Return the name of a new session; None if the key may not read."""
        key = self._keys.find(token)
        if key is None or not key.may("read"):
            return None
        if len(self._sessions) >= _MOST:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(token, time.monotonic() + _HOURS * 3600)
        return name

    def find(self, name: str | None) -> tuple[Session, Key] | None:
        """Return a session that has not ended, with its key."""
        session = self._sessions.get(name or "")
        if session is None or session.until < time.monotonic():
            return None
        key = self._keys.find(session.token)
        return None if key is None or not key.may("read") else (session, key)

    def end(self, name: str | None) -> None:
        """End a session."""
        self._sessions.pop(name or "", None)

    @staticmethod
    def check_form(session: Session, given: str) -> bool:
        """Tell whether a form came from a page of this session."""
        return hmac.compare_digest(session.form.encode(), given.encode())
