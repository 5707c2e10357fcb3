"""Pictures of studies: quantities against sizes with fitted powers, and where recovery sets in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.plots.lines import mean_band, over, plain_numbers
from cobandits.plots.looks import nth_look
from cobandits.plots.style import GREY, head, new_row, note, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["Phase", "Power", "phases", "powers"]

Floats = NDArray[np.float64]


class Power(NamedTuple):
    """A quantity against a size, both on log scales, and what it is compared with."""

    size: str  # the name of the size
    sizes: Floats  # (point,)
    trials: Mapping[str, Floats]  # by line, (trial, point)
    reference: tuple[str, Floats] | None = None  # a name and values, (point,)
    said: str = ""  # above the drawing


class Phase(NamedTuple):
    """The share of recovered trials over numbers of tasks and rows."""

    title: str
    tasks: Sequence[int]
    rows: Sequence[int]
    shares: Floats  # (row, task)
    counted: Floats  # (task,): rows per task with as many rows in all as parameters


def powers(drawings: Sequence[Power], quantity: str, setting: str = "") -> Figure:
    """Draw quantities against sizes, side by side, with means and 95 % intervals over trials.

    >>> power = Power("n", np.array([1.0, 2.0]), {"error": np.array([[2.0, 1.0]])})
    >>> powers([power], "error").axes[0].get_xlabel()
    'n'
    """
    with style():
        figure, panels = new_row(1.2 + 3.0 * len(drawings), 3.6, len(drawings))
        for axes, one in zip(panels, drawings, strict=True):
            _draw_power(axes, one)
        panels[0].set_ylabel(quantity)
        n_trials = max(len(line) for one in drawings for line in one.trials.values())
        head(figure, f"{setting}\n{over(n_trials)}".strip())
    return figure


def _draw_power(axes: Axes, one: Power) -> None:
    for k, (name, trials) in enumerate(one.trials.items()):
        (mean, half), look = mean_band(trials), nth_look(k)
        low = np.maximum(mean - half, trials.min(axis=0))
        axes.plot(
            one.sizes, mean, color=look.colour, dashes=look.dashes, marker=look.marker, label=name
        )
        axes.fill_between(one.sizes, low, mean + half, color=look.colour, alpha=0.15, linewidth=0)
    if one.reference is not None:
        name, values = one.reference
        axes.plot(one.sizes, values, color="black", linestyle=":", label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if one.sizes.min() >= 0.01:
        plain_numbers(axes.xaxis)
        axes.set_xticks(one.sizes.tolist())
    axes.set_xlabel(one.size)
    note(axes, one.said)
    axes.legend(frameon=False, fontsize=8)


def phases(drawings: Sequence[Phase], setting: str = "") -> Figure:
    """Draw where recovery sets in: white where no trial recovers, blue where all do.

    >>> one = Phase("r = 1", (5, 9), (2, 4), np.eye(2), np.array([2.0, 3.0]))
    >>> phases([one]).axes[0].get_xlabel()
    'number of tasks, T'
    """
    with style():
        figure, panels = new_row(1.4 + 2.8 * len(drawings), 3.4, len(drawings))
        images = [_draw_phase(axes, one) for axes, one in zip(panels, drawings, strict=True)]
        panels[0].set_ylabel("rows per task, n")
        figure.colorbar(images[0], ax=panels, label="share of trials that recover theta")
        head(figure, setting)
    return figure


def _draw_phase(axes: Axes, one: Phase) -> AxesImage:
    image = axes.imshow(one.shares, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=1)
    at = np.interp(np.log(one.counted), np.log(one.rows), np.arange(len(one.rows)))
    axes.plot(np.arange(len(one.tasks)), at, color="#D55E00", marker="o")
    axes.set_xticks(range(len(one.tasks)), [str(count) for count in one.tasks])
    axes.set_yticks(range(len(one.rows)), [str(count) for count in one.rows])
    axes.set_xlabel("number of tasks, T")
    axes.set_title(one.title, loc="left", fontsize=8, color=GREY)
    return image
