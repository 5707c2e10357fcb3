"""Heads of requests that were read before: a client sends the same ones again and again.

A head is all of a request before its body. What it means depends on its bytes alone, so that the
same bytes need not be parsed again: the address, a dozen headers and the call that they lead to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cobandits.service.calls import Call

__all__ = ["Head", "Heads"]

_END = b"\r\n\r\n"
_LONGEST = 2048  # bytes
_REMEMBERED = 1024  # heads
_UNIQUE = (b"x-request-id", b"idempotency-key")  # headers that never come twice


class Head(NamedTuple):
    """A head that was read: of a plain request that is answered directly."""

    call: Call
    places: list[str]  # what stands in the braces of the address
    url: bytes
    fields: Mapping[bytes, bytes]
    size: int  # of the body
    token: str  # of the key


class Heads:
    """What is known of heads, by their bytes, for all connections."""

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}

    def __len__(self) -> int:
        return len(self._known)

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return the head and the body of one whole request, if its head is known."""
        end = data.find(_END, 0, _LONGEST) + len(_END)
        head = self._known.get(data[:end])
        if head is None or len(data) - end != head.size:
            return None
        return head, data[end:]

    def keep(self, data: bytes, head: Head) -> None:
        """Remember the head of a request that was parsed, if ``data`` is all of it, and no more.

        ``data`` must begin where the request does.
        """
        end = data.find(_END, 0, _LONGEST) + len(_END)
        plain = data.startswith(b"POST ") and len(data) - end == head.size
        if not plain or any(name in head.fields for name in _UNIQUE):
            return
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[data[:end]] = head
