"""Names beside what they name, moved apart where they are close."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.style import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["apart", "label_beside"]

Floats = NDArray[np.floating]

_LONGEST = 20  # letters in a line


def label_beside(axes: Axes, places: Mapping[str, tuple[float, str]]) -> None:
    """Write names at the right, each for a height from 0 to 1 and in a colour."""
    order = sorted(places, key=lambda name: places[name][0])
    heights = np.array([places[name][0] for name in order])
    texts = [_in_lines(name) for name in order]
    sizes = 0.05 * np.array([1 + text.count("\n") for text in texts])
    moved = apart(heights, (sizes[1:] + sizes[:-1]) / 2)
    for name, text, at, label_at in zip(order, texts, heights, moved, strict=True):
        axes.annotate(
            text,
            (1.0, at),
            xytext=(1.035, label_at),
            xycoords=axes.transAxes,
            textcoords=axes.transAxes,
            color=ink(places[name][1]),
            va="center",
            arrowprops={
                "arrowstyle": "-",
                "color": places[name][1],
                "relpos": (0, 0.5),  # to where the name begins, so that no line crosses it
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def apart(places: Floats, gap: float | Floats) -> Floats:
    """Return the nearest places in the same rising order with at least ``gap`` between them.

    Gaps may differ: one for each two neighbours.

    >>> apart(np.array([0.0, 0.5, 0.5]), 0.2).round(2).tolist()
    [0.0, 0.4, 0.6]
    """
    steps = np.zeros(len(places))
    steps[1:] = np.cumsum(np.broadcast_to(gap, max(0, len(places) - 1)))
    blocks: list[list[float]] = []  # isotonic regression of what is left without the gaps
    for value in (places - steps).tolist():
        blocks.append([value])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    means = np.repeat([np.mean(block) for block in blocks], [len(block) for block in blocks])
    return np.asarray(means + steps)


def _in_lines(name: str) -> str:
    """Break a long name after colons, commas and spaces.

    >>> _in_lines("lrrl:memory=all,estimator=fast").splitlines()
    ['lrrl:memory=all,', 'estimator=fast']
    """
    lines = [""]
    for part in re.findall(r"[^:, ]*[:, ]|[^:, ]+", name):
        if lines[-1] and len(lines[-1] + part) > _LONGEST:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
