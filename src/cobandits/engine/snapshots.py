"""Snapshots as bytes: a JSON header, and the file of a policy."""

from __future__ import annotations

from typing import Any

from cobandits.engine.codec import decoded, encoded
from cobandits.engine.errors import DamagedLogError

__all__ = ["PART_BYTES", "packed", "parts_of", "unpacked"]

_FORMAT = b"cobandits-snapshot-1\n"
PART_BYTES = 2**18  # of one transaction: a few milliseconds


def packed(header: dict[str, Any], policy: bytes) -> bytes:
    """Return a snapshot.

    >>> unpacked(packed({"n": 1}, b"policy"))
    ({'n': 1}, b'policy')
    """
    text = encoded(header)
    return b"".join((_FORMAT, len(text).to_bytes(8, "big"), text, policy))


def unpacked(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return header and policy of a snapshot."""
    if not content.startswith(_FORMAT):
        raise DamagedLogError("a snapshot is damaged, or of a later release; remove it")
    start = len(_FORMAT) + 8
    end = start + int.from_bytes(content[len(_FORMAT) : start], "big")
    header: dict[str, Any] = decoded(content[start:end])
    return header, content[end:]


def parts_of(content: bytes) -> list[bytes]:
    """Return a snapshot in pieces."""
    return [content[n : n + PART_BYTES] for n in range(0, len(content), PART_BYTES)]
