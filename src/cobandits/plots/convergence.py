"""The estimators side by side: error by iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.labels import label_beside
from cobandits.plots.style import COLOURS, DASHES, MARKERS, ink, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["convergence"]

Floats = NDArray[np.floating]


def convergence(
    curves: Mapping[str, Sequence[Floats]],
    levels: Mapping[str, Sequence[float]],
    floor: Sequence[float],
    setting: str = "",
) -> Figure:
    """Draw the relative error of theta by iteration, as in Figure 2a of the paper.

    Parameters
    ----------
    curves
        For each iterative estimator, the errors by iteration of each trial; entry 0 is
        the start. The line is the median over trials, the band their range; a trial that
        stopped keeps its last error.
    levels
        For each estimator without iterations, its error in each trial: a horizontal line.
    floor
        The error of the least-squares optimum in each trial: a dotted line.
    setting
        What the rows were like, written above the picture.

    Examples
    --------
    >>> figure = convergence({"fast": [np.array([0.5, 1e-3])]}, {"pooled": [0.9]}, [1e-3])
    >>> figure.axes[0].get_yscale()
    'log'
    """
    with style():
        figure, axes = new_figure(6.4, 4.0)
        axes.set_xscale("symlog", linthresh=1, linscale=0.3)
        axes.set_yscale("log")
        ends = {name: _curve(axes, trials, i) for i, (name, trials) in enumerate(curves.items())}
        beside = {
            name: _level(axes, errors, i)
            for i, (name, errors) in enumerate(levels.items(), len(curves))
        }
        beside["floor"] = _floor(axes, floor)
        _limits(axes, ends)
        _label_ends(axes, ends)
        label_beside(axes, _heights(axes, beside))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("iteration (0 is the start)")
        axes.set_ylabel("relative error of theta")
        trials = f"median and range over {len(floor)} trials" if len(floor) > 1 else "one trial"
        note(axes, f"{setting}\n{trials}" if setting else trials)
    return figure


def _curve(axes: Axes, trials: Sequence[Floats], index: int) -> tuple[float, float, str]:
    """Draw the median and the range over trials; return where the line ends, and its colour."""
    length = max(len(errors) for errors in trials)
    table = np.array([np.pad(errors, (0, length - len(errors)), mode="edge") for errors in trials])
    steps, middle = np.arange(length), np.median(table, axis=0)
    colour = COLOURS[index % len(COLOURS)]
    axes.plot(
        steps,
        middle,
        color=colour,
        marker=MARKERS[index % len(MARKERS)],
        markevery=np.unique(np.geomspace(1, length, 7).round().astype(int) - 1).tolist(),
        dashes=DASHES[index % len(DASHES)],
    )
    axes.fill_between(steps, table.min(0), table.max(0), color=colour, alpha=0.15, linewidth=0)
    return float(steps[-1]), float(middle[-1]), colour


def _level(axes: Axes, errors: Sequence[float], index: int) -> tuple[float, str]:
    """Draw the median and the range over trials across the picture."""
    colour, middle = COLOURS[index % len(COLOURS)], float(np.median(errors))
    axes.axhline(middle, color=colour, dashes=DASHES[index % len(DASHES)], linewidth=1.2)
    axes.axhspan(min(errors), max(errors), color=colour, alpha=0.15, linewidth=0)
    return middle, colour


def _floor(axes: Axes, errors: Sequence[float]) -> tuple[float, str]:
    middle = float(np.median(errors))
    axes.axhline(middle, color="black", linestyle=":", linewidth=1.2, zorder=3)
    return middle, "black"


def _limits(axes: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Leave room below for the names at the lines' ends, and at the left for markers."""
    axes.set_xlim(-0.12, 1.5 * max([1.0, *(x for x, _, _ in ends.values())]))
    low, high = axes.get_ylim()
    axes.set_ylim(low / (high / low) ** 0.12, high)


def _label_ends(axes: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Name each line below its end, where lines seldom are; a row lower if two are close."""
    edges: list[float] = []  # where the last name ends, by row
    to_axes = axes.transData + axes.transAxes.inverted()
    for name, (x, y, colour) in sorted(ends.items(), key=lambda item: item[1][0]):
        centre, half = float(to_axes.transform((x, y))[0]), 0.009 * len(name)
        row = next((k for k, edge in enumerate(edges) if edge < centre - half), len(edges))
        edges[row : row + 1] = [centre + half]
        axes.annotate(
            name,
            (x, y),
            xytext=(0, -7 - 10 * row),
            textcoords="offset points",
            color=ink(colour),
            ha="center",
            va="top",
        )


def _heights(axes: Axes, places: Mapping[str, tuple[float, str]]) -> dict[str, tuple[float, str]]:
    """Return how high errors are in the picture, from 0 to 1."""
    low, high = np.log(axes.get_ylim())
    return {
        name: (float((np.log(error) - low) / (high - low)), colour)
        for name, (error, colour) in places.items()
    }
