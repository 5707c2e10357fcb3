"""Cumulative regret by round and by number of tasks, as in Figures 1 and 2c of the paper."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.lines import (
    Ends,
    draw_line,
    label_ends,
    mean_band,
    mean_line,
    over_lines,
    plain_numbers,
    thin,
)
from cobandits.plots.looks import nth_look
from cobandits.plots.style import head, ink, new_figure, new_row, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curves", "regret", "regret_and_tasks", "regret_by_tasks"]

Floats = NDArray[np.float64]
Finals = Mapping[str, Mapping[int, Floats]]  # by policy and number of tasks, (trial,)

_HIGH = 2.5  # a line that ends above this many times the median end may leave the picture
_BOUND = "bound of Theorem 5.4"
_FAR = 10.0  # a bound above this many times the largest value is not drawn


class Curves(NamedTuple):
    """Cumulative regret per task of several trials."""

    rounds: Floats  # (point,)
    trials: Floats  # (trial, point)


def regret(curves: Mapping[str, Sequence[Floats]], setting: str = "") -> Figure:
    """Draw the cumulative regret per task by round, as in Figure 1 of the paper.

    Parameters
    ----------
    curves
        For each policy, the cumulative regret by round of each trial, (N,). The line is
        the mean over trials, the band its 95 % t-interval. Lines that end far above the
        others leave the picture at the top; their last value is written there.
    setting
        A description of the environment, written above the picture.

    Examples
    --------
    >>> figure = regret({"ridge": [np.array([1.0, 2.0])], "random": [np.array([1.0, 3.0])]})
    >>> figure.axes[0].get_xlabel()
    'round'
    """
    with style():
        figure, axes = new_figure(6.4, 4.0)
        lines = {
            name: _draw_mean(axes, np.array(trials), i)
            for i, (name, trials) in enumerate(curves.items())
        }
        axes.set_ylim(0, _top(lines))
        axes.set_xlim(0, max(len(line.mean) for line in lines.values()))
        rows = _label(axes, lines)
        axes.locator_params(axis="x", integer=True)
        _name_round_axes(axes)
        said = over_lines({name: len(trials) for name, trials in curves.items()})
        above = f"{textwrap.fill(setting, 95)}\n{said}".strip()
        note(axes, above, pad=6 + 11 * rows)
    return figure


def regret_and_tasks(
    curves: Mapping[str, Curves],
    finals: Finals,
    bound: Mapping[int, float] | None = None,
    setting: str = "",
) -> Figure:
    """Draw the regret by round, and beside it the final regret by number of tasks.

    Parameters
    ----------
    curves
        For each policy, the cumulative regret per task by round, with the most tasks.
    finals
        For each policy and number of tasks, the final regret per task of each trial.
    bound
        The bound of Theorem 5.4 per task, by number of tasks; drawn if it is on the scale.
    setting
        A description of the environment, written above the picture.

    Examples
    --------
    >>> curves = {"ridge": Curves(np.arange(1.0, 4), np.array([[1.0, 2, 3]]))}
    >>> figure = regret_and_tasks(curves, {"ridge": {5: np.array([4.0]), 9: np.array([3.0])}})
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['round', 'number of tasks, T']
    """
    with style():
        figure, (left, right) = new_row(10.0, 3.9, 2)
        n_tasks = max(max(by_tasks) for by_tasks in finals.values())
        _draw_rounds(left, curves, n_tasks)
        said = _draw_tasks(right, finals, bound or {})
        note(right, f"after the last round, by number of tasks{said}")
        trials = over_lines({name: len(one.trials) for name, one in curves.items()})
        head(figure, f"{setting}\n{trials}".strip())
    return figure


def regret_by_tasks(
    finals: Finals, bound: Mapping[int, float] | None = None, setting: str = ""
) -> Figure:
    """Draw the final regret per task by number of tasks, as in Figure 2c of the paper.

    >>> regret_by_tasks({"ridge": {5: np.array([4.0, 5.0])}}).axes[0].get_ylabel()
    'cumulative regret per task'
    """
    with style():
        figure, (axes,) = new_row(6.4, 4.2, 1)
        if said := _draw_tasks(axes, finals, bound or {}):
            note(axes, said.removeprefix("; "))
        trials = {name: max(map(len, one.values())) for name, one in finals.items()}
        head(figure, f"{setting}\n{over_lines(trials)}".strip())
    return figure


class _Line(NamedTuple):
    mean: Floats  # (N,)
    highest: float  # the upper end of the band at the last round
    colour: str

    @property
    def end(self) -> float:
        return float(self.mean[-1])


def _draw_mean(axes: Axes, trials: Floats, index: int) -> _Line:
    """Draw the mean over trials, (trial, N), and its interval, in the look of the nth line."""
    mean, half = mean_band(trials)
    spacing = max(1, len(mean) // 6)
    _, colour = draw_line(
        axes,
        np.arange(1, len(mean) + 1, dtype=np.float64),
        (mean - half, mean, mean + half),
        nth_look(index),
        markers=(index * spacing // 7 % spacing, spacing),
    )
    return _Line(mean, float(mean[-1] + half[-1]), colour)


def _top(lines: Mapping[str, _Line]) -> float:
    """Return the upper limit, with room for all lines but those that end far above the others."""
    limit = _HIGH * float(np.median([line.end for line in lines.values()]))
    kept = [line.highest for line in lines.values() if line.end <= limit]
    room = 1.05 if len(kept) == len(lines) else 1.25
    return room * max(kept) or 1.0


def _label(axes: Axes, lines: Mapping[str, _Line]) -> int:
    """Name each line where it ends or leaves the picture; return the rows of names above."""
    top = axes.get_ylim()[1]
    inside = {name: line for name, line in lines.items() if line.end <= top}
    label_ends(axes, {name: (line.end, line.colour) for name, line in inside.items()})
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


def _name_round_axes(axes: Axes) -> None:
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret per task")


def _draw_rounds(axes: Axes, curves: Mapping[str, Curves], n_tasks: int) -> None:
    """Draw the regret by round on a scale that begins at zero."""
    ends: Ends = {}
    for name, (rounds, trials) in curves.items():
        ends[name] = mean_line(axes, *thin(rounds, trials), name)
    axes.set_xlim(0, max(one.rounds[-1] for one in curves.values()))
    _from_zero(axes, [value for value, _ in ends.values()])
    label_ends(axes, ends)
    _name_round_axes(axes)
    note(axes, f"regret by round, T = {n_tasks} tasks")


def _draw_tasks(axes: Axes, finals: Finals, bound: Mapping[int, float]) -> str:
    """Draw the final regret by number of tasks; return a note on a bound too high to draw."""
    ends: Ends = {}
    for name, by_tasks in finals.items():
        counts = sorted(by_tasks)
        trials = np.column_stack([by_tasks[count] for count in counts])  # (trial, T)
        ends[name] = mean_line(axes, np.array(counts, np.float64), trials, name)
    means = [float(one.mean()) for by_tasks in finals.values() for one in by_tasks.values()]
    near = bool(bound) and max(bound.values()) < _FAR * max(means)
    if near:
        ends[_BOUND] = _draw_bound(axes, bound)
    _value_scale(axes, [*means, *(bound.values() if near else ())])
    counts = sorted({count for by_tasks in finals.values() for count in by_tasks})
    axes.set_xlim(0, counts[-1])
    axes.set_xticks(counts)
    label_ends(axes, ends)
    axes.set_xlabel("number of tasks, T")
    axes.set_ylabel("cumulative regret per task")
    if near or not bound:
        return ""
    return f"; {_BOUND}: {min(bound.values()):,.0f} to {max(bound.values()):,.0f}"


def _draw_bound(axes: Axes, bound: Mapping[int, float]) -> tuple[float, str]:
    counts = sorted(bound)
    axes.plot(counts, [bound[count] for count in counts], color="black", linestyle=":")
    return bound[counts[-1]], "black"


def _value_scale(axes: Axes, values: list[float]) -> None:
    """Use a log scale for values that span more than a decade, else one that begins at zero."""
    low, high = min(values), max(values)
    if low > 0 and high > 10 * low:
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)
        axes.set_ylim(low / 1.4, high * 1.25)
    else:
        _from_zero(axes, values)


def _from_zero(axes: Axes, values: list[float]) -> None:
    """Begin the scale at zero; a band may leave the picture, a line may not."""
    axes.set_ylim(0, min(1.05 * axes.dataLim.y1, 1.3 * max(values)) or 1.0)
