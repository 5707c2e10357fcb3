"""Two pictures: regret by workload, and regret against time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers.found import SHARED, Found
from benchmarks.peers.install import OURS
from cobandits.plots.style import BLUE, COLOURS, GREY, ink, new_figure, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["by_time", "by_workload"]

MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "p")
_OTHERS = (*COLOURS[1:], "#000000", "#8C6D31")  # the first is kept for shared


def by_workload(found: Found) -> Figure:
    """Draw the regret on each workload relative to the best peer's, of the best of each library."""
    with style():
        workloads = [name for name in found.workloads if found.to_best(name)]
        figure, axes = new_figure(7.2, 1.3 + 0.55 * max(1, len(workloads)))
        axes.set_xscale("log")
        axes.axvline(1, color=GREY, linewidth=0.8, zorder=0)
        leaders = [name for name in found.leaders.values() if name != SHARED]
        _mark_shared(axes, found, workloads)
        for name, shift in zip(leaders, np.linspace(-0.16, 0.36, len(leaders)), strict=True):
            _mark(axes, found, name, workloads, float(shift))
        for row in range(1, len(workloads)):
            axes.axhline(row - 0.5, color="0.9", linewidth=0.8, zorder=-1)
        axes.set_yticks(range(len(workloads)), [found.workloads[name].title for name in workloads])
        axes.set_ylim(max(1, len(workloads)) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        _plain_numbers(axes.xaxis, axes.get_xlim())
        axes.set_xlabel("regret relative to the best peer of another library")
        handles, names = axes.get_legend_handles_labels()
        order = sorted(range(len(names)), key=lambda k: names[k] != SHARED)  # it is first
        axes.legend(
            [handles[k] for k in order],
            [names[k] for k in order],
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            fontsize=8,
        )
        note(axes, "Best mode of each library; left is better. Bars: 95 % intervals of shared")
    return figure


def by_time(found: Found) -> Figure:
    """Draw the regret relative to ``shared`` against the time of a decision with its update.

    Every mode has a point; the best of each library has a name.
    """
    single = found.measures["single"].values
    places = {
        name: (single[name], found.overall(name, SHARED))
        for name in found.ranked
        if name in single and np.isfinite(found.overall(name, SHARED))
    }
    looks = _looks(found)
    with style():
        figure, axes = new_figure(7.2, 4.4)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for name, (time, regret) in places.items():
            colour, marker = looks[found.peers[name].library]
            best = name in found.leaders.values()
            axes.plot(
                time,
                regret,
                marker,
                color=colour,
                markersize=10 if name == SHARED else 6.5 if best else 4,
                markerfacecolor=colour if best else "white",
                zorder=3 if best else 2,
            )
        axes.margins(x=0.12, y=0.1)
        _label(axes, found, places)
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            _plain_numbers(axis, limits)
        axes.set_xlabel("µs of one decision with its update (100 tasks, 100 features, 5 arms)")
        axes.set_ylabel("regret relative to shared")
        note(axes, "Geometric means over workloads; lower left is better. Hollow: other modes")
    return figure


def _looks(found: Found) -> dict[str, tuple[str, str]]:
    """Return the colour and the marker of each library, the same in both pictures."""
    libraries = sorted({peer.library for peer in found.peers.values()} - {OURS})
    others = {
        library: (_OTHERS[k % len(_OTHERS)], MARKERS[k % len(MARKERS)])
        for k, library in enumerate(libraries)
    }
    return {OURS: (BLUE, "o"), **others}


def _mark(axes: Axes, found: Found, name: str, workloads: list[str], shift: float) -> None:
    """Draw one peer, a little above or below the middle of each row: many are the same method."""
    colour, marker = _looks(found)[found.peers[name].library]
    rows = [row for row, workload in enumerate(workloads) if found.has(name, workload)]
    ratios = [
        found.mean(name, workloads[row]) / found.mean(_best(found, workloads[row]), workloads[row])
        for row in rows
    ]
    heights = [row + shift for row in rows]
    axes.plot(
        ratios, heights, marker, color=colour, markerfacecolor="white", markersize=5, label=name
    )


def _mark_shared(axes: Axes, found: Found, workloads: list[str]) -> None:
    ratios = [found.ratio(SHARED, _best(found, name), name) for name in workloads]
    axes.errorbar(
        [ratio.value for ratio in ratios],
        [row - 0.32 for row in range(len(workloads))],
        xerr=[ratio.half for ratio in ratios],
        fmt="o",
        color=BLUE,
        markersize=8,
        label=SHARED,
        zorder=4,
    )


def _best(found: Found, workload: str) -> str:
    compared = found.to_best(workload)
    assert compared is not None
    return compared[0]


def _plain_numbers(axis: Axis, limits: tuple[float, float]) -> None:
    """Put plain numbers at a logarithmic axis: more of them where it is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    decades = np.log10(limits[1] / limits[0])
    subs = (1,) if decades > 2.5 else (1, 2, 5) if decades > 1 else (1, 1.5, 2, 3, 4, 5, 7)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _label(axes: Axes, found: Found, places: Mapping[str, tuple[float, float]]) -> None:
    """Write the names of the best beside their points, higher or lower where one is there."""
    taken: list[tuple[float, float, float, float]] = []  # left, right, bottom, top, in the axes
    points = {name: _in_axes(axes, place) for name, place in places.items()}
    for name in found.leaders.values():
        if name not in points:
            continue
        x, y = points[name]
        width = 0.0125 * len(name)
        left = x + 0.025 if x + width < 1 else x - 0.025 - width
        height = next(
            at
            for at in (y + sign * 0.01 * step for step in range(100) for sign in (1, -1))
            if _is_free((left, left + width, at - 0.025, at + 0.025), taken, points.values())
        )
        taken.append((left, left + width, height - 0.025, height + 0.025))
        axes.annotate(
            name,
            places[name],
            xytext=(left, height),
            textcoords=axes.transAxes,
            fontsize=9 if name == SHARED else 8,
            fontweight="bold" if name == SHARED else "normal",
            color=ink(_looks(found)[found.peers[name].library][0]),
            va="center",
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.6, "relpos": (0, 0.5)},
        )


def _in_axes(axes: Axes, place: tuple[float, float]) -> tuple[float, float]:
    """Return where a point is, from 0 to 1 in both directions."""
    limits = np.log([axes.get_xlim(), axes.get_ylim()])  # (direction, end)
    x, y = (np.log(place) - limits[:, 0]) / (limits[:, 1] - limits[:, 0])
    return float(x), float(y)


def _is_free(
    box: tuple[float, float, float, float],
    taken: Iterable[tuple[float, float, float, float]],
    points: Iterable[tuple[float, float]],
) -> bool:
    left, right, bottom, top = box
    over_a_name = any(
        left < other[1] and other[0] < right and bottom < other[3] and other[2] < top
        for other in taken
    )
    over_a_point = any(left < x < right and bottom < y < top for x, y in points)
    return not (over_a_name or over_a_point)
