"""All shards of a policy in one file: a header as JSON, and the file of each shard. No pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cobandits.errors import ModelFileError

__all__ = ["VERSION", "is_sharded", "packed", "unpacked"]

VERSION = 1
_MARK = b"cobandits-sharded\n"
_LENGTH = 8  # bytes of the length of the header
_ADVICE = "it may be truncated or of another program: save it again"


def is_sharded(content: bytes) -> bool:
    """Tell whether a file begins as :func:`packed` writes it."""
    return content.startswith(_MARK)


def packed(header: Mapping[str, Any], parts: Sequence[bytes]) -> bytes:
    """Return a file.

    >>> unpacked(packed({"rewards": 3}, [b"one", b"two"]))
    ({'rewards': 3}, [b'one', b'two'])
    """
    known = {"version": VERSION, "sizes": [len(part) for part in parts]}
    text = json.dumps({**known, "header": header}).encode()
    return b"".join((_MARK, len(text).to_bytes(_LENGTH, "big"), text, *parts))


def unpacked(content: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the header and the parts of a file; refuse one that is not whole."""
    start = len(_MARK) + _LENGTH
    end = start + int.from_bytes(content[len(_MARK) : start], "big")
    try:
        found = json.loads(content[start:end])
        version, sizes = found["version"], [int(size) for size in found["sizes"]]
        header = dict(found["header"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"this is not a whole sharded policy ({error}); {_ADVICE}") from None
    if version != VERSION:
        raise ModelFileError(f"the file has version {version}, this release reads {VERSION}")
    if min(sizes, default=-1) < 0 or end + sum(sizes) != len(content):
        raise ModelFileError(
            f"the file of a sharded policy has {len(content)} bytes, expected "
            f"{end + sum(sizes)}; {_ADVICE}"
        )
    parts = []
    for size in sizes:
        parts.append(content[end : end + size])
        end += size
    return header, parts
