"""What both clients have in common: requests, answers, and when to try again."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from cobandits.client.errors import ServiceError
from cobandits.wire import ProblemDocument

__all__ = ["FILE", "Retries", "answer", "body_of", "new_id", "path", "plain"]

FILE = "application/octet-stream"

Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often and how long a client tries again.

    It tries again when the service could not be reached or was not able to answer (429, 502, 503,
    504, 507). Nothing happens twice: decisions have an id, and a reward counts once.

    Parameters
    ----------
    attempts
        In total; 1 tries once.
    first, longest
        Seconds of the first and the longest pause; they double in between. Each is shortened by
        chance, so that many clients do not come back at once.
    """

    attempts: int = 6
    first: float = 0.05
    longest: float = 5.0

    def pause(self, attempt: int, asked: str | None) -> float:
        """Return the seconds to wait after an attempt; ``asked`` is what Retry-After said."""
        wait = min(self.longest, self.first * 2.0 ** min(attempt, 30))
        if asked is not None and asked.isdigit():
            wait = max(wait, float(asked))
        return wait * random.uniform(0.5, 1.0)

    @staticmethod
    def again(status: int) -> bool:
        """Tell whether an answer is one that may be another next time."""
        return status in (429, 502, 503, 504, 507)


def path(*parts: str) -> str:
    """Return an address; a part may have any characters.

    >>> path("spaces", "teas", "decisions", "a/b")
    '/v1/spaces/teas/decisions/a%2Fb'
    """
    return "/".join(("/v1", *(quote(part, safe=":") for part in parts)))


def body_of(message: object) -> bytes:
    """Return a message as JSON, and bytes as they are."""
    return message if isinstance(message, bytes) else msgspec.json.encode(message)


def answer(status: int, content: bytes, kind: type[Answer]) -> Answer:
    """Return an answer as its message; raise what the service refused."""
    if status >= 400:
        raise ServiceError(_problem(status, content))
    if kind is bytes:
        return content  # type: ignore[return-value]
    return msgspec.json.decode(content, type=kind)


def _problem(status: int, content: bytes) -> ProblemDocument:
    try:
        return msgspec.json.decode(content, type=ProblemDocument)
    except msgspec.DecodeError:  # a proxy's answer, not the service's
        shown = content[:200].decode("utf-8", "replace")
        return ProblemDocument("/problems/unknown", f"Status {status}", status, shown)


def new_id() -> str:
    """Return an id for a decision that is asked for again if its answer is lost."""
    return uuid.uuid4().hex


def plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is not None."""
    return {name: value for name, value in given.items() if value is not None}
