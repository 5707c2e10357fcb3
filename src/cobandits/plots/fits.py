"""One fit: its spectrum, its held-out errors and its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.diagnostics import Sharing, Spectrum
from cobandits.diagnostics.held_out import LEAST_ROWS
from cobandits.estimate import Estimate
from cobandits.plots.labels import FIRST_FEW, label_points
from cobandits.plots.style import BLUE, GREY, VERMILLION, ink, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["held_out", "spectrum", "task_plane"]

Floats = NDArray[np.floating]

_TINY = 1e-300


def spectrum(result: Spectrum) -> Figure:
    """Draw the singular values of theta, fitted at a generous rank, and the chosen rank."""
    values, rank = np.asarray(result.singular_values, np.float64), result.rank
    order = np.arange(1, len(values) + 1)
    with style():
        from matplotlib.ticker import MaxNLocator

        figure, axes = new_figure(4.6, 3.2)
        axes.plot(order, values, color=GREY, linewidth=0.8, zorder=1)
        axes.scatter(order[:rank], values[:rank], s=28, color=BLUE)
        axes.scatter(order[rank:], values[rank:], s=28, facecolor="white", edgecolor=GREY)
        axes.axvline(rank + 0.5, color=GREY, linestyle=":", linewidth=1.0)
        axes.annotate(
            f"rank {rank}",
            (rank + 0.5, 1.0),
            xytext=(-4 if rank == len(values) else 4, -2),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            color=ink(BLUE),
            ha="right" if rank == len(values) else "left",
            va="top",
        )
        _value_axis(axes, values)
        axes.set_xlim(0.5, len(values) + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set(
            xlabel=f"direction (theta fitted with rank {len(values)})",
            ylabel="singular value of theta",
        )
        note(axes, f"standard deviation of the noise: {_noise(result.noise_std)}")
    return figure


def _noise(std: float) -> str:
    return f"{std:.3g} (units of reward)" if np.isfinite(std) else "unknown, too few rows"


def _value_axis(axes: Axes, values: Floats) -> None:
    """Use a log scale for values that span a factor of 50, else one that begins at zero."""
    if values[-1] < values[0] / 50:
        axes.set_yscale("log")
        axes.set_ylim(max(values[-1], 1e-6 * values[0]) / 2, 3 * values[0])
    else:
        axes.set_ylim(0, 1.15 * values[0] or 1.0)


def held_out(result: Sharing) -> Figure:
    """Draw each task's held-out error: of the shared fit against that of the task alone."""
    counts = np.maximum(np.asarray(result.counts), 1)
    alone = np.sqrt(np.asarray(result.squared_errors["independent"]) / counts)
    shared = np.sqrt(np.asarray(result.squared_errors["shared"]) / counts)
    gaining, losing = set(result.gaining), set(result.losing)
    gains = np.array([label in gaining for label in result.labels])
    loses = np.array([label in losing for label in result.labels])
    with style():
        figure, axes = new_figure(4.4, 4.3)
        _square(axes, np.concatenate([alone, shared]))
        unclear = ~gains & ~loses
        axes.scatter(alone[unclear], shared[unclear], s=22, facecolor="white", edgecolor=GREY)
        axes.scatter(alone[gains], shared[gains], s=22, color=BLUE)
        axes.scatter(alone[loses], shared[loses], s=22, color=VERMILLION, marker="^")
        axes.set_xlabel("held-out error of the task alone\n(root mean square, units of reward)")
        axes.set_ylabel("held-out error of the shared fit\n(root mean square, units of reward)")
        numbers = f"{_tasks(len(alone))}: {gains.sum()} gain, {loses.sum()} lose"
        note(
            axes, f"{numbers} (filled: by over 2 standard errors,\nwith {LEAST_ROWS} rows or more)"
        )
        ratios = np.maximum(shared, _TINY) / np.maximum(alone, _TINY)
        order = np.lexsort((-np.abs(np.log(ratios)), ~loses))  # those that lose first
        few = max(FIRST_FEW, int(loses.sum()))
        label_points(figure, axes, (alone, shared), result.labels, order, few)
    return figure


def _tasks(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"


def _square(axes: Axes, values: Floats) -> None:
    """Give both axes the same range, draw the diagonal and label its two sides."""
    low, high = float(values.min()), float(values.max())
    if low > 0 and high > 5 * low:
        _log_scales(axes)
        low, high = low / 1.3, high * 1.3
    else:
        pad = max(0.1 * (high - low), 0.1 * high) or 1.0  # also where all errors are alike
        low, high = max(low - pad, 0.0), high + pad
        axes.locator_params(nbins=5)
    axes.set(xlim=(low, high), ylim=(low, high), box_aspect=1)
    axes.plot([low, high], [low, high], color=GREY, linewidth=0.8, zorder=0)
    for text, colour, x, y in (("hurts", VERMILLION, 0.02, 0.98), ("helps", BLUE, 0.98, 0.02)):
        axes.text(
            x,
            y,
            f"sharing {text}",
            transform=axes.transAxes,
            ha="left" if x < 0.5 else "right",
            va="top" if y > 0.5 else "bottom",
            color=ink(colour),
        )


def _log_scales(axes: Axes) -> None:
    """Make both scales logarithmic, with plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def task_plane(estimate: Estimate, units: Floats | None = None) -> Figure:
    """Draw the tasks in the plane of the first two basis directions.

    With rank 1 there is one direction, and the tasks stand in the order of their weights.
    With ``units``, the features' root mean squares (d,), directions and weights are those of
    theta for features divided by them, so that the choice of units does not matter.
    """
    loads, weights = _in_units(estimate, units)
    first, rank = weights[0], estimate.rank
    with style():
        figure, axes = new_figure(5.2, 4.4)
        axes.set_xlabel(_direction(estimate, loads, 0))
        if rank > 1:
            second = weights[1]
            axes.set_ylabel(_direction(estimate, loads, 1))
        else:
            second = np.argsort(np.argsort(first)).astype(np.float64)
            axes.set(ylabel="tasks, in order", yticks=[])
        axes.margins(x=0.15, y=0.08)
        axes.scatter(first, second, s=18, color=BLUE)
        axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # zeros only where they are in sight
        axes.axvline(0, color="0.85", linewidth=0.8, zorder=0)
        if rank > 1:
            axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
        scaled = "" if units is None else ", features in units of their root mean square"
        note(axes, f"{_tasks(len(first))}, rank {rank}{scaled}")
        order = np.argsort(-_remoteness(weights[:2]))
        label_points(figure, axes, (first, second), estimate.labels, order)
    return figure


def _in_units(estimate: Estimate, units: Floats | None) -> tuple[Floats, Floats]:
    """Return basis and weights, those of ``diag(units) Theta`` if there are units."""
    if units is None:
        return estimate.basis, estimate.weights
    Q, R = np.linalg.qr(units[:, None] * estimate.basis)
    U, s, Vh = np.linalg.svd(R @ estimate.weights, full_matrices=False)
    loads = Q @ U
    largest = loads[np.abs(loads).argmax(axis=0), np.arange(loads.shape[1])]
    signs = np.where(largest < 0, -1.0, 1.0)
    return loads * signs, (signs * s)[:, None] * Vh


def _remoteness(weights: Floats) -> Floats:
    """Return the distances of tasks from the median, in median absolute deviations, (T,)."""
    away = np.abs(weights - np.median(weights, axis=1, keepdims=True))
    typical = np.median(away, axis=1, keepdims=True)
    return np.asarray(np.linalg.norm(away / np.where(typical > 0, typical, 1.0), axis=0))


def _direction(estimate: Estimate, loads: Floats, index: int) -> str:
    """Return the label of an axis: the number of the direction and its largest entries."""
    entries = loads[:, index]
    names = estimate.feature_names or [f"feature {j}" for j in range(estimate.dim)]
    largest = np.argsort(-np.abs(entries))[:3]
    parts = "  ".join(f"{entries[j]:+.2f} {names[j]}" for j in largest)
    return f"weight in direction {index + 1}\n{parts}{' ...' if estimate.dim > 3 else ''}"
