"""Ids of decisions that cannot be guessed, and random numbers that belong to an event."""

from __future__ import annotations

import functools
import hashlib
import hmac
import re
import threading

import numpy as np
from numpy.typing import NDArray

__all__ = ["is_made", "made_id", "number_of", "stream_at", "uniforms"]

_MADE = re.compile(r"([0-9a-f]{12})\.([0-9a-f]{10})")  # 48 bits of number, 40 of hash
_WORDS = 4  # 64-bit numbers that Philox gives per count
_KEY, _COUNTER = 16, 32  # bytes of Philox's numbers


def made_id(number: int, secret: bytes) -> str:
    """Return the id of an event: its number, so that ids sort by time, and a keyed hash.

    >>> made_id(26, b"secret")
    '00000000001a.463b2c82f8'
    """
    return f"{number:012x}.{_hash(number, secret)}"


def is_made(text: str) -> bool:
    """Tell whether an id has the form of those that are made."""
    return _MADE.fullmatch(text) is not None


def number_of(text: str, secret: bytes) -> int | None:
    """Return the number in an id that :func:`made_id` made with this secret, None for others.

    >>> number_of("00000000001a.463b2c82f8", b"secret"), number_of("00000000001a.0000000000", b"")
    (26, None)
    """
    match = _MADE.fullmatch(text)
    if match is None:
        return None
    number = int(match[1], 16)
    return number if hmac.compare_digest(match[2], _hash(number, secret)) else None


@functools.lru_cache(2**14)  # of the latest decisions, whose rewards come next
def _hash(number: int, secret: bytes) -> str:
    started = _keyed(secret).copy()  # half of the time of a new one
    started.update(number.to_bytes(8, "big"))
    return started.hexdigest()


@functools.lru_cache(64)  # one per engine
def _keyed(secret: bytes) -> hashlib.blake2b:
    return hashlib.blake2b(key=secret, digest_size=5)


class _Stream(threading.local):
    """A generator of each thread; a new one would ask the system for randomness, and forget it."""

    def __init__(self) -> None:
        self.bits = np.random.Philox(key=0)
        self.rng = np.random.Generator(self.bits)
        self.start = self.bits.state


_stream = _Stream()


def stream_at(seed: int, counter: int) -> np.random.Generator:
    """Return the random numbers of Philox from a count on; they end with the thread's next call.

    >>> fresh = np.random.Generator(np.random.Philox(key=7, counter=2**64 + 3))
    >>> bool(stream_at(7, 2**64 + 3).random() == fresh.random())
    True
    """
    start = _stream.start
    start["state"]["key"] = np.frombuffer(seed.to_bytes(_KEY, "little"), "<u8")
    start["state"]["counter"] = np.frombuffer(counter.to_bytes(_COUNTER, "little"), "<u8")
    _stream.bits.state = start
    return _stream.rng


def uniforms(seed: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a random number from 0 to 1 for each event, which depends on nothing else.

    ``numbers`` rise. They are the counters of a Philox stream, so all are drawn in one call.

    >>> some = uniforms(7, np.array([3, 5]))
    >>> bool(some[1] == uniforms(7, np.array([5]))[0])
    True
    """
    first, last = int(numbers[0]), int(numbers[-1])
    words = np.random.Philox(key=seed, counter=first).random_raw(_WORDS * (last - first + 1))
    own = words[::_WORDS][numbers - first] >> np.uint64(11)
    return own.astype(np.float64) * 2.0**-53
