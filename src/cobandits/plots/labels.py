"""Names beside lines and points, moved apart or left out where they would overlap."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.style import ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import BboxBase

__all__ = ["FIRST_FEW", "apart", "label_beside", "label_points"]

Floats = NDArray[np.floating]

Box = tuple[float, float, float, float]  # left, low, right, high, in points

FIRST_FEW = 10  # points that are named where there are too many to name all
_MOST_NAMED = 30  # points that are all named
_LONGEST = 20  # letters of a line, and of the name of a point


def label_beside(axes: Axes, places: Mapping[str, tuple[float, str]]) -> None:
    """Write names at the right of the axes, each at a height from 0 to 1 and in a colour."""
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
    """Return the nearest places, in the same rising order, that are at least ``gap`` apart.

    The gap may be an array, with one gap per pair of neighbours.

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


def label_points(
    figure: Figure,
    axes: Axes,
    places: tuple[Floats, Floats],
    labels: Sequence[Hashable],
    order: NDArray[np.int64],
    few: int = FIRST_FEW,
) -> None:
    """Write labels beside their points, the first in ``order`` first, where there is room.

    Of many points only the first ``few`` are named.
    """
    figure.draw_without_rendering()  # fixes the scale, which tells what is near
    points = axes.transData.transform(np.column_stack(places)) * 72 / figure.dpi
    taken = [(px - 3, py - 3, px + 3, py + 3) for px, py in points.tolist()]
    taken += [_box(text.get_window_extent(), figure.dpi) for text in axes.texts]
    inside = _box(axes.bbox, figure.dpi)
    most = len(labels) if len(labels) <= _MOST_NAMED else few
    for i in order[:most].tolist():
        text = str(labels[i])[:_LONGEST]
        for right, up in ((5.0, 1.0), (-5.0, 1.0), (5.0, -8.0), (-5.0, -8.0)):
            box = _label_box(points[i] + (right, up), text, to_left=right < 0)
            if _within(box, inside) and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                axes.annotate(
                    text,
                    (float(places[0][i]), float(places[1][i])),
                    xytext=(right, up + 1.5),
                    textcoords="offset points",
                    ha="left" if right > 0 else "right",
                    fontsize=7,
                    color="0.25",
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3},
                )
                break


def _box(area: BboxBase, dpi: float) -> Box:
    """Return an area as (left, low, right, high) in points."""
    left, low, right, high = (float(edge) * 72 / dpi for edge in area.extents)
    return left, low, right, high


def _label_box(corner: Floats, text: str, *, to_left: bool) -> Box:
    """Return the box of a small text that starts, or ends, at its lower corner."""
    x, y = corner.tolist()
    width, height = 4.2 * len(text), 8.0
    return (x - width, y, x, y + height) if to_left else (x, y, x + width, y + height)


def _within(a: Box, b: Box) -> bool:
    """Tell whether box ``a`` is inside ``b``, and off its left and lower edge."""
    return a[0] > b[0] + 3 and a[2] < b[2] and a[1] > b[1] + 2 and a[3] < b[3]


def _overlap(a: Box, b: Box) -> bool:
    """Tell whether two boxes have points in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
