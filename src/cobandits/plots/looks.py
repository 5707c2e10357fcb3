"""The look of each policy and estimator: the same in all pictures."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from cobandits.plots.style import COLOURS, DASHES, MARKERS

__all__ = ["Look", "look", "nth_look"]


class Look(NamedTuple):
    """The colour, dashes and marker of a line, which differ in grey too."""

    colour: str
    dashes: tuple[int, ...]
    marker: str


def nth_look(index: int) -> Look:
    """Return the look of a picture's nth line, for lines whose names are not known."""
    return Look(
        COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)]
    )


# An estimator looks like the policy that is known for it.
_LOOKS = {
    "lrrl": nth_look(0),
    "altgdmin": nth_look(0),
    "moments": nth_look(1),
    "thompson": nth_look(2),
    "thompson, by epoch": Look(COLOURS[2], (1, 1), ">"),
    "ridge": nth_look(3),
    "tracenorm": nth_look(4),
    "altgd": nth_look(5),
    "subspace oracle": nth_look(6),
    "shared": Look("#000000", (), "*"),  # apart from what the paper shows
}


def look(name: str) -> Look:
    """Return the look of the line with this name; an unknown name always gets the same one.

    >>> look("lrrl") == look("altgdmin"), look("lrrl") == look("ridge")
    (True, False)
    """
    return _LOOKS.get(name) or nth_look(zlib.crc32(name.encode()))
