"""What passes between the server and a node, and its form as bytes."""

from __future__ import annotations

import io
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError

__all__ = ["Answer", "Ask", "Kind", "decoded_answer", "decoded_ask", "encoded"]

Floats = NDArray[np.floating]
Kind = Literal["start", "step"]
_KINDS: tuple[Kind, ...] = ("start", "step")


class Ask(NamedTuple):
    """What the server sends."""

    kind: Kind  # a product of the spectral start, or a step of the descent
    basis: Floats  # (d, r)


class Answer(NamedTuple):
    """What a node sends back: sums over its tasks."""

    gradient: Floats  # (d, r)
    weighted: Floats  # (r, r), W diag(n) W'; 0 for the start


def encoded(message: Ask | Answer) -> bytes:
    """Return a message as bytes: its arrays, one after the other, without pickle.

    >>> decoded_ask(encoded(Ask("step", np.eye(3)[:, :1]))).basis.tolist()
    [[1.0], [0.0], [0.0]]
    """
    to = io.BytesIO()
    if isinstance(message, Ask):
        np.save(to, np.int64(_KINDS.index(message.kind)), allow_pickle=False)
        np.save(to, message.basis, allow_pickle=False)
    else:
        for values in message:
            np.save(to, values, allow_pickle=False)
    return to.getvalue()


def decoded_ask(content: bytes) -> Ask:
    """Return the ask of these bytes, or refuse them."""
    number, basis = _arrays(content)
    if number.shape or not 0 <= int(number) < len(_KINDS) or basis.ndim != 2:
        raise DataError(f"an ask has a kind and a basis (d, r), got {number} and {basis.shape}")
    return Ask(_KINDS[int(number)], cast("Floats", basis))


def decoded_answer(content: bytes) -> Answer:
    """Return the answer of these bytes, or refuse them."""
    gradient, weighted = _arrays(content)
    if gradient.ndim != 2 or weighted.shape != (gradient.shape[1],) * 2:
        raise DataError(
            f"an answer has a gradient (d, r) and a matrix (r, r), got {gradient.shape} "
            f"and {weighted.shape}"
        )
    return Answer(cast("Floats", gradient), cast("Floats", weighted))


def _arrays(content: bytes) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Return two arrays of numbers."""
    source = io.BytesIO(content)
    try:
        first, second = (np.load(source, allow_pickle=False) for _ in range(2))
    except (EOFError, OSError, ValueError) as error:
        raise DataError(f"these {len(content)} bytes are no message ({error})") from error
    if first.dtype.kind not in "if" or second.dtype.kind != "f":
        raise DataError(f"a message has numbers, got {first.dtype} and {second.dtype}")
    return first, second
