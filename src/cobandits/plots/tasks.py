"""Regret by round and by number of tasks, as in Figures 1 and 2c of the paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.lines import Ends, label_ends, mean_line, over, plain_numbers, thin
from cobandits.plots.style import head, new_row, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curves", "regret_and_tasks", "regret_by_tasks"]

Floats = NDArray[np.float64]
Finals = Mapping[str, Mapping[int, Floats]]  # by policy and number of tasks, (trial,)

_BOUND = "bound of Theorem 5.4"
_FAR = 10.0  # a bound that is so many times the largest value is not drawn


class Curves(NamedTuple):
    """Cumulative regret a task of several trials."""

    rounds: Floats  # (point,)
    trials: Floats  # (trial, point)


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
        For each policy, the cumulative regret a task by round, with the most tasks.
    finals
        For each policy and number of tasks, the final regret a task of each trial.
    bound
        Of Theorem 5.4, a task, by number of tasks; drawn if it is on the scale.
    setting
        What the rounds were like, written above the picture.

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
        n_trials = max(len(one.trials) for one in curves.values())
        head(figure, f"{setting}\n{over(n_trials)}".strip())
    return figure


def regret_by_tasks(
    finals: Finals, bound: Mapping[int, float] | None = None, setting: str = ""
) -> Figure:
    """Draw the final regret a task by number of tasks, as in Figure 2c of the paper.

    >>> regret_by_tasks({"ridge": {5: np.array([4.0, 5.0])}}).axes[0].get_ylabel()
    'cumulative regret a task'
    """
    with style():
        figure, (axes,) = new_row(6.4, 4.2, 1)
        if said := _draw_tasks(axes, finals, bound or {}):
            note(axes, said.removeprefix("; "))
        n_trials = max(len(trials) for one in finals.values() for trials in one.values())
        head(figure, f"{setting}\n{over(n_trials)}".strip())
    return figure


def _draw_rounds(axes: Axes, curves: Mapping[str, Curves], n_tasks: int) -> None:
    """Draw the regret by round, from zero on: where a line is flat, nothing is lost."""
    ends: Ends = {}
    for name, (rounds, trials) in curves.items():
        ends[name] = mean_line(axes, *thin(rounds, trials), name)
    axes.set_xlim(0, max(one.rounds[-1] for one in curves.values()))
    _from_zero(axes, [value for value, _ in ends.values()])
    label_ends(axes, ends)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("round")
    axes.set_ylabel("cumulative regret a task")
    note(axes, f"regret by round, T = {n_tasks} tasks")


def _draw_tasks(axes: Axes, finals: Finals, bound: Mapping[int, float]) -> str:
    """Draw the final regret by number of tasks; return what to say of a bound out of sight."""
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
    axes.set_ylabel("cumulative regret a task")
    if near or not bound:
        return ""
    return f"; {_BOUND}: {min(bound.values()):,.0f} to {max(bound.values()):,.0f}"


def _draw_bound(axes: Axes, bound: Mapping[int, float]) -> tuple[float, str]:
    counts = sorted(bound)
    axes.plot(counts, [bound[count] for count in counts], color="black", linestyle=":")
    return bound[counts[-1]], "black"


def _value_scale(axes: Axes, values: list[float]) -> None:
    """Use a log scale for values that span more than a decade, else one from zero on."""
    low, high = min(values), max(values)
    if low > 0 and high > 10 * low:
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)
        axes.set_ylim(low / 1.4, high * 1.25)
    else:
        _from_zero(axes, values)


def _from_zero(axes: Axes, values: list[float]) -> None:
    """Begin at zero; a band may leave the picture, a line may not."""
    axes.set_ylim(0, min(1.05 * axes.dataLim.y1, 1.3 * max(values)) or 1.0)
