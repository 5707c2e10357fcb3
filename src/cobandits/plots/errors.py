"""Errors of theta by iteration and by epoch, as in Figures 2a, b, d and e of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.lines import Ends, label_ends, median_line, thin
from cobandits.plots.looks import look
from cobandits.plots.style import head, new_row, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Errors", "errors_by_epoch", "errors_by_iteration"]

Floats = NDArray[np.float64]

_SHOWN = 0.9  # the share of the fits whose last iteration is in sight
_FLOOR = "least squares"


@dataclass(frozen=True, kw_only=True, eq=False)
class Errors:
    """The relative errors of theta at one level of noise: one of the drawings side by side.

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
        The slowest fall that Theorem 5.2 allows, by iteration.
    """

    title: str
    curves: Mapping[str, Sequence[Floats]]
    levels: Mapping[str, Sequence[float]] = field(default_factory=dict)
    floor: Sequence[float]
    bound: Floats | None = None


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
            axes.set_xlabel("iteration (0 is the start)")
        _finish(all_axes, drawings)
    return figure


def errors_by_epoch(drawings: Sequence[Errors], setting: str = "") -> Figure:
    """Draw the median errors by epoch: 0 is the start, and NaN where an estimator has none.

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


def _failures(errors: Errors) -> str:
    """Say in how many trials an estimate was worse than zero, which a median does not show."""
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
        _draw_level(axes, values, name)
    _draw_floor(axes, errors.floor)
    if errors.bound is not None:
        _draw_bound(axes, errors.bound[:shown], float(np.median(errors.floor)))
    axes.set_xlim(-0.01 * shown, shown - 1)
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _held(errors: Floats, length: int) -> Floats:
    """Return the first errors, the last one repeated where there are fewer."""
    return np.pad(errors[:length], (0, max(0, length - len(errors))), mode="edge")


def _draw_level(axes: Axes, values: Sequence[float], name: str) -> None:
    colour, dashes, _ = look(name)
    axes.axhline(float(np.median(values)), color=colour, dashes=dashes)
    low, high = np.quantile(values, (0.1, 0.9))
    axes.axhspan(float(low), float(high), color=colour, alpha=0.15, linewidth=0)


def _draw_floor(axes: Axes, floor: Sequence[float]) -> None:
    axes.axhline(float(np.median(floor)), color="black", linestyle=":", linewidth=1.2, zorder=3)


def _draw_bound(axes: Axes, bound: Floats, floor: float) -> None:
    """Draw the slowest fall that is allowed, down to the floor, and name it at its end."""
    above = bound[bound > floor]
    axes.plot(np.arange(len(above)), above, color="black", linestyle="--", linewidth=1.0)
    reached, place = len(above) < len(bound), len(above) / len(bound)
    axes.annotate(
        "Theorem 5.2",
        (len(above) - 1, floor if reached else float(above[-1])),
        xytext=(0, -4 if reached else 4),
        textcoords="offset points",
        va="top" if reached else "bottom",  # below the floor no line is
        ha="left" if place < 0.25 else "right" if place > 0.75 else "center",
    )
