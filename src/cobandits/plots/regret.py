"""Policies side by side: cumulative regret by round."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.plots.labels import label_beside
from cobandits.plots.style import COLOURS, DASHES, MARKERS, ink, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["regret"]

Floats = NDArray[np.float64]

_FAR = 2.5  # a line that ends so many times above the middle one may leave the picture


def regret(curves: Mapping[str, Sequence[Floats]], setting: str = "") -> Figure:
    """Draw the cumulative regret a task by round, as in Figure 1 of the paper.

    Parameters
    ----------
    curves
        For each policy, the cumulative regret by round of each trial, (N,). The line is
        the mean over trials, the band its 95 % t-interval. Lines that end far above the
        middle one leave the picture at the top; their last value stands there.
    setting
        What the rounds were like, written above the picture.

    Examples
    --------
    >>> figure = regret({"ridge": [np.array([1.0, 2.0])], "random": [np.array([1.0, 3.0])]})
    >>> figure.axes[0].get_xlabel()
    'round'
    """
    with style():
        figure, axes = new_figure(6.4, 4.0)
        lines = {
            name: _line(axes, np.array(trials), i)
            for i, (name, trials) in enumerate(curves.items())
        }
        axes.set_ylim(0, _top(lines))
        axes.set_xlim(0, max(len(line.mean) for line in lines.values()))
        rows = _label(axes, lines)
        axes.locator_params(axis="x", integer=True)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("round")
        axes.set_ylabel("cumulative regret a task")
        n = max(len(trials) for trials in curves.values())
        trials = f"mean and 95 % interval over {n} trials" if n > 1 else "one trial"
        above = textwrap.fill(setting, 95)
        note(axes, f"{above}\n{trials}" if setting else trials, pad=6 + 11 * rows)
    return figure


class _Line(NamedTuple):
    mean: Floats  # (N,)
    highest: float  # the upper end of the band at the last round
    colour: str

    @property
    def end(self) -> float:
        return float(self.mean[-1])


def _line(axes: Axes, trials: Floats, index: int) -> _Line:
    """Draw the mean and the interval over trials, (trial, N)."""
    mean, half = t_interval(trials)
    rounds = np.arange(1, len(mean) + 1)
    colour, spacing = COLOURS[index % len(COLOURS)], max(1, len(mean) // 6)
    axes.plot(
        rounds,
        mean,
        color=colour,
        marker=MARKERS[index % len(MARKERS)],
        markevery=(index * spacing // 7 % spacing, spacing),
        dashes=DASHES[index % len(DASHES)],
    )
    axes.fill_between(rounds, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
    return _Line(mean, float(mean[-1] + half[-1]), colour)


def _top(lines: Mapping[str, _Line]) -> float:
    """Return how high the picture is: not for a line that ends far above the middle one."""
    limit = _FAR * float(np.median([line.end for line in lines.values()]))
    kept = [line.highest for line in lines.values() if line.end <= limit]
    room = 1.05 if len(kept) == len(lines) else 1.25
    return room * max(kept) or 1.0


def _label(axes: Axes, lines: Mapping[str, _Line]) -> int:
    """Name each line where it ends or leaves the picture; return the rows of names above."""
    top = axes.get_ylim()[1]
    label_beside(
        axes,
        {name: (line.end / top, line.colour) for name, line in lines.items() if line.end <= top},
    )
    leaving = {name: line for name, line in lines.items() if line.end > top}
    order = sorted(leaving, key=lambda name: int(np.argmax(leaving[name].mean > top)))
    for row, name in enumerate(reversed(order)):
        line = leaving[name]
        axes.annotate(
            f"{name}, to {line.end:.3g}",
            (float(np.argmax(line.mean > top)) + 1, top),
            xytext=(-2, 2 + 11 * row),
            textcoords="offset points",
            color=ink(line.colour),
            va="bottom",
            annotation_clip=False,
        )
    return len(order)
