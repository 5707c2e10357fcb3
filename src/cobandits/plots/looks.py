"""How each policy and estimator looks: the same in all pictures."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from cobandits.plots.style import COLOURS, DASHES, MARKERS

__all__ = ["Look", "look"]


class Look(NamedTuple):
    """What tells a line from others, in colour and in grey."""

    colour: str
    dashes: tuple[int, ...]
    marker: str


def _nth(index: int) -> Look:
    return Look(COLOURS[index], DASHES[index], MARKERS[index])


# An estimator looks like the policy that is known for it.
_LOOKS = {
    "lrrl": _nth(0),
    "altgdmin": _nth(0),
    "moments": _nth(1),
    "thompson": _nth(2),
    "thompson, by epoch": Look(COLOURS[2], (1, 1), ">"),
    "ridge": _nth(3),
    "tracenorm": _nth(4),
    "altgd": _nth(5),
    "subspace oracle": _nth(6),
}


def look(name: str) -> Look:
    """Return how a line of this name looks; one that is not known always gets the same.

    >>> look("lrrl") == look("altgdmin"), look("lrrl") == look("ridge")
    (True, False)
    """
    return _LOOKS.get(name) or _nth(zlib.crc32(name.encode()) % len(COLOURS))
