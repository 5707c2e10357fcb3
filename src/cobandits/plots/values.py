"""Values of policies from a log, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cobandits.plots.looks import nth_look
from cobandits.plots.style import ink, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Interval", "intervals"]

_ROW = 0.26  # inches


class Interval(NamedTuple):
    """A value and the ends of its confidence interval."""

    value: float
    low: float
    high: float


def intervals(
    groups: Mapping[str, Mapping[str, Interval]], setting: str = "", label: str = "mean reward"
) -> Figure:
    """Draw values with their intervals, one row for each, in groups; the first group is on top.

    Values that are not finite are left out, and ends that are not are cut off.

    >>> figure = intervals({"all": {"dr": Interval(1.0, 0.5, 1.5)}})
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['dr']
    """
    rows = [
        (g, name, one) for g, named in enumerate(groups.values()) for name, one in named.items()
    ]
    finite = [x for *_, one in rows for x in one if math.isfinite(x)]
    with style():
        figure, axes = new_figure(6.4, 0.9 + _ROW * (len(rows) + len(groups)))
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        room = 0.04 * (high - low) or 1.0
        axes.set_xlim(low - room, high + room)
        places = _places(groups)
        for y, (g, _, one) in zip(places, rows, strict=True):
            look = nth_look(g)
            ends = max(one.low, low - 2 * room), min(one.high, high + 2 * room)
            if math.isfinite(one.value):
                axes.plot(ends, (y, y), color=look.colour)
                axes.plot(one.value, y, color=look.colour, marker=look.marker)
        axes.set_yticks(places, [name for _, name, _ in rows])
        axes.set_ylim(max(places) + 0.7, -1.5 if len(groups) > 1 else -0.7)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel(label)
        if len(groups) > 1:
            _name_groups(figure, places, groups)
        note(axes, setting)
    return figure


def _places(groups: Mapping[str, Mapping[str, Interval]]) -> Sequence[float]:
    """Return the height of each row, with room for a name above each group."""
    step = 1 if len(groups) > 1 else 0
    return [
        float(k + g * step)
        for k, g in enumerate(g for g, named in enumerate(groups.values()) for _ in named)
    ]


def _name_groups(
    figure: Figure, places: Sequence[float], groups: Mapping[str, Mapping[str, Interval]]
) -> None:
    """Write the name of each group above its first row."""
    (axes,) = figure.axes
    first = 0
    for g, (name, named) in enumerate(groups.items()):
        axes.annotate(
            name,
            (0.0, places[first] - 1),
            xytext=(5, 0),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            color=ink(nth_look(g).colour),
            va="center",
            fontweight="bold",
        )
        first += len(named)
