"""The policy ``shared``: its prior, its tasks, and how much of each task is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.labels import label_points
from cobandits.plots.style import BLUE, GREY, ink, new_figure, new_row, note, style
from cobandits.policies import Explanations

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["prior_spectrum", "shared_and_own", "shared_plane", "sharing"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_SHARED, _OWN = "#56B4E9", "#F3E3D5"  # apart in grey too, and light: dots are seen on them
_MOST_NAMED = 30  # tasks that are all named
_MOST_LETTERS = 24  # of all their names side by side
_FEW = 100  # tasks, whose bars and dots can be told apart
_LEAST, _MOST = 1e-8, 1e-2  # of the widest direction's variance: where its scale may begin
_LONG = 40  # directions, from which on a log scale shows the first ones better


def sharing(explanations: Explanations) -> Figure:
    """Draw :func:`prior_spectrum`, :func:`shared_plane` and :func:`shared_and_own` side by side.

    >>> from cobandits.policies import Shared
    >>> policy, rng = Shared(dim=3, n_tasks=4), np.random.default_rng(0)
    >>> arms = rng.standard_normal((4, 5, 3))
    >>> decisions = policy.decide(range(4), arms, rng)
    >>> policy.learn(range(4), arms, decisions, rewards=[1.0, 2.0, 0.0, 1.0])
    >>> [axes.get_ylabel() for axes in sharing(policy.explain_all()).axes[::2]]
    ['variance of theta between tasks', 'share of what a task predicts']
    """
    with style():
        figure, (left, middle, right) = new_row(13.0, 3.9, 3)
        figure.set_layout_engine("constrained", w_pad=0.12)
        _draw_spectrum(left, explanations)
        _draw_shares(right, explanations)
        _draw_plane(figure, middle, explanations)
    return figure


def prior_spectrum(explanations: Explanations) -> Figure:
    """Draw the variances of the prior's directions on a log scale, and the chosen rank."""
    with style():
        figure, axes = new_figure(4.6, 3.4)
        _draw_spectrum(axes, explanations)
    return figure


def shared_plane(explanations: Explanations) -> Figure:
    """Draw the tasks in the plane of the prior's two widest directions, darker with more rewards.

    Tasks without rewards would all be at zero, and are left out.
    """
    with style():
        figure, axes = new_figure(5.4, 4.4)
        _draw_plane(figure, axes, explanations)
    return figure


def shared_and_own(explanations: Explanations) -> Figure:
    """Draw the shared part of each task's prediction, and the uncertainty that is left.

    Tasks are in the order of their shared parts. Those without rewards are left out.
    """
    with style():
        figure, axes = new_figure(5.4, 3.6)
        _draw_shares(axes, explanations)
    return figure


def _draw_spectrum(axes: Axes, shown: Explanations) -> None:
    from matplotlib.ticker import MaxNLocator

    values, rank = shown.spectrum, shown.rank
    order = np.arange(1, len(values) + 1)
    axes.set_yscale("log")
    axes.plot(order, values, color=GREY, linewidth=0.8, zorder=1)
    axes.scatter(order[rank:], values[rank:], s=16, facecolor="white", edgecolor=GREY, zorder=2)
    axes.scatter(order[:rank], values[:rank], s=28, color=BLUE, zorder=3)
    axes.set_ylim(np.clip(values[-1], _LEAST * values[0], _MOST * values[0]) / 2, 3 * values[0])
    if len(values) > _LONG:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlim(0.8, 1.2 * len(values))
    else:
        axes.set_xlim(0.3, len(values) + 0.7)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if rank:
        _mark_rank(axes, rank)
    axes.set(
        xlabel="direction of theta, the widest first", ylabel="variance of theta between tasks"
    )
    note(axes, f"what tasks have in common: {_directions(rank)}")


def _mark_rank(axes: Axes, rank: int) -> None:
    axes.axvline(rank + 0.5, color=GREY, linestyle=":", linewidth=1.0)
    axes.annotate(
        f"rank {rank}",
        (rank + 0.5, 1.0),
        xytext=(4, -2),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        color=ink(BLUE),
        va="top",
    )


def _directions(rank: int) -> str:
    if not rank:
        return "no direction stands out"
    return f"{rank} direction{' stands' if rank == 1 else 's stand'} out"


def _draw_plane(figure: Figure, axes: Axes, shown: Explanations) -> None:
    tasks = np.flatnonzero(shown.rewards)
    tasks = tasks[np.argsort(shown.rewards[tasks], kind="stable")]  # those that know most on top
    first, second = shown.weights[tasks].T
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    _draw_dots(figure, axes, (first, second), shown.rewards[tasks])
    axes.axvline(0, color="0.85", linewidth=0.8, zorder=0)
    axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
    axes.set(xlabel=_axis(shown, 0), ylabel=_axis(shown, 1))
    alike = "; similar angles, similar choices" if shown.rank else ""
    note(axes, f"{_present(shown)}{alike}")
    remote = np.argsort(-np.hypot(first, second), kind="stable")
    label_points(figure, axes, (first, second), [shown.tasks[t] for t in tasks], remote, few=0)


def _draw_dots(figure: Figure, axes: Axes, places: tuple[Doubles, Doubles], rewards: Codes) -> None:
    """Draw tasks as dots, shaded by their rewards where these differ."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    few = len(rewards) <= _FEW
    size = 30 if few else 7
    if (rewards == rewards[0]).all():
        axes.scatter(*places, s=size, color=BLUE, rasterized=not few)
        return
    shades = LinearSegmentedColormap.from_list("rewards", ["#A9CFE8", BLUE, "#001E30"])
    dots = axes.scatter(*places, s=size, c=rewards, cmap=shades, rasterized=not few)
    bar = figure.colorbar(dots, ax=axes, shrink=0.7, pad=0.02, aspect=16, label="rewards so far")
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(integer=True, nbins=6)


def _axis(shown: Explanations, index: int) -> str:
    share = 100 * shown.spectrum[index] / shown.spectrum.sum()
    shared = "" if index < shown.rank else ", not shared"
    return f"weight in direction {index + 1}{shared}\n({share:.0f} % of the variance of theta)"


def _present(shown: Explanations) -> str:
    """Return the number of tasks, in words."""
    present, total = int(np.count_nonzero(shown.rewards)), len(shown.rewards)
    if present < total:
        return f"{present:,} of {total:,} tasks have rewards"
    return f"{total:,} task{'' if total == 1 else 's'}"


def _draw_shares(axes: Axes, shown: Explanations) -> None:
    from matplotlib.ticker import MaxNLocator

    tasks = np.flatnonzero(shown.rewards)
    tasks = tasks[np.lexsort((shown.left[tasks], -shown.shared[tasks]))]
    places = np.arange(1, len(tasks) + 1)
    _fill(axes, places, shown.shared[tasks])
    few = len(tasks) <= _FEW
    axes.scatter(
        places,
        shown.left[tasks],
        s=22 if few else 3,
        color="black",
        linewidth=0,
        alpha=1.0 if few else 0.6,
        clip_on=False,
        rasterized=not few,
        zorder=3,
    )
    axes.set(ylim=(0, 1), xlim=(0.4, len(tasks) + 0.6))
    axes.set(xlabel="tasks, those that share most first", ylabel="share of what a task predicts")
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    if len(tasks) <= _MOST_NAMED:
        names = [str(shown.tasks[task]) for task in tasks]
        axes.set_xticks(places, names)
        axes.tick_params(axis="x", length=0)
        if len("".join(names)) > _MOST_LETTERS:
            axes.tick_params(axis="x", labelsize=7, labelrotation=90)
    _name_parts(axes)


def _fill(axes: Axes, places: Codes, shared: Doubles) -> None:
    """Draw the two shares of each task: as bars for few tasks, as areas for many."""
    if len(places) <= _FEW:
        axes.bar(places, shared, color=_SHARED)
        axes.bar(places, 1 - shared, bottom=shared, color=_OWN)
        return
    edges = np.arange(len(places) + 1) + 0.5
    axes.stairs(shared, edges, fill=True, color=_SHARED)
    axes.stairs(np.ones(len(places)), edges, baseline=shared, fill=True, color=_OWN)


def _name_parts(axes: Axes) -> None:
    """Write a legend of colours and dots above the axes."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    dot = Line2D([], [], linestyle="none", marker="o", color="black")
    axes.legend(
        [Patch(color=_SHARED), Patch(color=_OWN), dot],
        ["shared", "its own", "uncertainty left (now / before)"],
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncols=3,
        frameon=False,
        fontsize=8,
        labelcolor=GREY,
        columnspacing=1.2,
        handlelength=1.2,
        borderpad=0.2,
    )
