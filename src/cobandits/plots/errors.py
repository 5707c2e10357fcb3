"""Relative errors of theta by iteration and by epoch, as in Figure 2 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.lines import MIDDLE, Ends, draw_line, label_ends, median_line, thin
from cobandits.plots.looks import Look, look, nth_look
from cobandits.plots.style import head, ink, new_figure, new_row, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Errors", "convergence", "errors_by_epoch", "errors_by_iteration"]

Floats = NDArray[np.float64]

_SHOWN = 0.9  # the quantile of the fits' lengths up to which iterations are drawn
_FLOOR = "least squares"


@dataclass(frozen=True, kw_only=True, eq=False)
class Errors:
    """The relative errors of theta at one level of noise: one of several drawings.

    Parameters
    ----------
    title
        The level of noise.
    curves
        For each estimator, the errors of each trial by iteration or epoch.
    levels
        For each estimator without iterations, its error in each trial.
    floor
        The error of the least-squares optimum in each trial.
    bound
        The errors that Theorem 5.2 allows at most, by iteration.
    """

    title: str
    curves: Mapping[str, Sequence[Floats]]
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    floor: Sequence[float]
    bound: Floats | None = None


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
        A description of the rows, written above the picture.

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
        ends = {name: _draw_range(axes, one, i) for i, (name, one) in enumerate(curves.items())}
        beside = _draw_levels(axes, levels, first=len(curves)) | {"floor": _draw_floor(axes, floor)}
        _leave_room(axes, ends)
        _label_below(axes, ends)
        label_ends(axes, beside)
        _name_iteration_axes(axes)
        trials = f"median and range over {len(floor)} trials" if len(floor) > 1 else "one trial"
        note(axes, f"{setting}\n{trials}".strip())
    return figure


def errors_by_iteration(drawings: Sequence[Errors], setting: str = "") -> Figure:
    """Draw the median errors by iteration; a fit that stopped keeps its last error.

    >>> one = Errors(title="noise", curves={"altgd": [np.array([0.5, 0.1])]}, floor=[0.1])
    >>> errors_by_iteration([one]).axes[0].get_yscale()
    'log'
    """
    with style():
        figure, all_axes = _new(drawings, setting)
        for axes, errors in zip(all_axes, drawings, strict=True):
            _draw_iterations(axes, errors)
        _finish(all_axes, drawings)
    return figure


def errors_by_epoch(drawings: Sequence[Errors], setting: str = "") -> Figure:
    """Draw the median errors by epoch; 0 is the start, NaN where an estimator has none.

    >>> one = Errors(title="noise", curves={"moments": [np.array([np.nan, 0.9])]}, floor=[0.1])
    >>> errors_by_epoch([one]).axes[0].get_xlabel()
    'epoch (0 is the start)'
    """
    with style():
        figure, all_axes = _new(drawings, setting)
        for axes, errors in zip(all_axes, drawings, strict=True):
            for name, trials in errors.curves.items():
                table = np.array(trials)  # (trial, epoch)
                known = np.isfinite(table).all(axis=0)
                median_line(axes, np.flatnonzero(known).astype(np.float64), table[:, known], name)
            _draw_floor(axes, errors.floor)
            note(axes, errors.title + _failures(errors))
            epochs = max(len(trials[0]) for trials in errors.curves.values())
            axes.set_xlim(-0.15, epochs - 0.9)
            axes.set_xticks(range(epochs))
            axes.set_xlabel("epoch (0 is the start)")
        _finish(all_axes, drawings)
    return figure


def _draw_range(axes: Axes, trials: Sequence[Floats], index: int) -> tuple[float, float, str]:
    """Draw the median and the range over trials; return where the line ends, and its colour."""
    length = max(len(errors) for errors in trials)
    table = np.array([_held(errors, length) for errors in trials])  # (trial, iteration)
    last, colour = draw_line(
        axes,
        np.arange(length, dtype=np.float64),
        (table.min(axis=0), np.median(table, axis=0), table.max(axis=0)),
        nth_look(index),
        markers=np.unique(np.geomspace(1, length, 7).round().astype(int) - 1).tolist(),
    )
    return length - 1.0, last, colour


def _draw_levels(axes: Axes, levels: Mapping[str, Sequence[float]], *, first: int) -> Ends:
    """Draw the median and the range over trials across the picture; return where they are."""
    ends: Ends = {}
    for i, (name, errors) in enumerate(levels.items(), first):
        band = min(errors), float(np.median(errors)), max(errors)
        ends[name] = _draw_level(axes, band, nth_look(i), linewidth=1.2)
    return ends


def _leave_room(axes: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
    """Leave room below for the names at the lines' ends, and at the left for markers."""
    axes.set_xlim(-0.12, 1.5 * max([1.0, *(x for x, _, _ in ends.values())]))
    low, high = axes.get_ylim()
    axes.set_ylim(low / (high / low) ** 0.12, high)


def _label_below(axes: Axes, ends: Mapping[str, tuple[float, float, str]]) -> None:
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


def _name_iteration_axes(axes: Axes) -> None:
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("iteration (0 is the start)")
    axes.set_ylabel("relative error of theta")


def _failures(errors: Errors) -> str:
    """Return in how many trials theta = 0 was better than an estimate; a median hides these."""
    worse = {
        name: sum(bool((one[1:] > 1).any()) for one in trials)
        for name, trials in errors.curves.items()
    }
    told = ", ".join(f"{name} in {count}" for name, count in worse.items() if count)
    n_trials = len(errors.floor)
    return f"\nabove 1 in some of {n_trials} trials: {told}" if told else ""


def _new(drawings: Sequence[Errors], setting: str) -> tuple[Figure, list[Axes]]:
    figure, all_axes = new_row(10.0 if len(drawings) > 1 else 6.4, 3.9, len(drawings))
    for axes, errors in zip(all_axes, drawings, strict=True):
        axes.set_yscale("log")
        note(axes, errors.title)
    n_trials = max(len(errors.floor) for errors in drawings)
    spread = f"median and middle 80 % of {n_trials} trials" if n_trials > 1 else "one trial"
    head(figure, f"{setting}\n{spread}".strip())
    return figure, all_axes


def _finish(all_axes: Sequence[Axes], drawings: Sequence[Errors]) -> None:
    """Give all drawings one scale of errors, and name their lines."""
    limits = [axes.get_ylim() for axes in all_axes]
    for axes, errors in zip(all_axes, drawings, strict=True):
        axes.set_ylim(min(low for low, _ in limits) / 2, max(high for _, high in limits))
        axes.set_ylabel("relative error of theta")
        label_ends(axes, _ends(errors))


def _ends(errors: Errors) -> Ends:
    """Return where each line ends, and its colour."""
    ends: Ends = {
        name: (float(np.median([one[-1] for one in trials])), look(name).colour)
        for name, trials in errors.curves.items()
    }
    for name, values in errors.levels.items():
        ends[name] = float(np.median(values)), look(name).colour
    ends[_FLOOR] = float(np.median(errors.floor)), "black"
    return ends


def _draw_iterations(axes: Axes, errors: Errors) -> None:
    lengths = [len(one) for trials in errors.curves.values() for one in trials]
    shown = max(2, int(np.quantile(lengths, _SHOWN)))
    for name, trials in errors.curves.items():
        table = np.array([_held(one, shown) for one in trials])  # (trial, iteration)
        median_line(axes, *thin(np.arange(shown, dtype=np.float64), table), name)
    for name, values in errors.levels.items():
        low, middle, high = np.quantile(values, MIDDLE).tolist()
        _draw_level(axes, (low, middle, high), look(name))
    _draw_floor(axes, errors.floor)
    if errors.bound is not None:
        _draw_bound(axes, errors.bound[:shown], float(np.median(errors.floor)))
    axes.set_xlim(-0.01 * shown, shown - 1)
    _name_iteration_axes(axes)


def _held(errors: Floats, length: int) -> Floats:
    """Return the first ``length`` errors; where there are fewer, the last one is repeated."""
    return np.pad(errors[:length], (0, max(0, length - len(errors))), mode="edge")


def _draw_level(
    axes: Axes, band: tuple[float, float, float], look: Look, *, linewidth: float | None = None
) -> tuple[float, str]:
    """Draw a line and a band across the picture; return the height of the line, and its colour."""
    low, middle, high = band
    axes.axhline(middle, color=look.colour, dashes=look.dashes, linewidth=linewidth)
    axes.axhspan(low, high, color=look.colour, alpha=0.15, linewidth=0)
    return middle, look.colour


def _draw_floor(axes: Axes, floor: Sequence[float]) -> tuple[float, str]:
    middle = float(np.median(floor))
    axes.axhline(middle, color="black", linestyle=":", linewidth=1.2, zorder=3)
    return middle, "black"


def _draw_bound(axes: Axes, bound: Floats, floor: float) -> None:
    """Draw the bound of Theorem 5.2 down to the floor, and name it at its end."""
    above = bound[bound > floor]
    axes.plot(np.arange(len(above)), above, color="black", linestyle="--", linewidth=1.0)
    reached, place = len(above) < len(bound), len(above) / len(bound)
    axes.annotate(
        "Theorem 5.2",
        (len(above) - 1, floor if reached else float(above[-1])),
        xytext=(0, -4 if reached else 4),
        textcoords="offset points",
        va="top" if reached else "bottom",  # no line is below the floor
        ha="left" if place < 0.25 else "right" if place > 0.75 else "center",
    )
