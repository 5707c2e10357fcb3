"""What pictures of trials share: means with intervals, scales, and names at the lines' ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.plots.labels import label_beside
from cobandits.plots.looks import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["Ends", "label_ends", "mean_line", "median_line", "over", "plain_numbers", "thin"]

Floats = NDArray[np.float64]
Ends = dict[str, tuple[float, str]]  # by name: the last value of a line, and its colour

_MOST_POINTS = 60  # of a line: more cannot be told apart, and make the file large
_MOST_MARKERS = 7
_MIDDLE = (0.1, 0.5, 0.9)


def mean_line(axes: Axes, x: Floats, trials: Floats, name: str) -> tuple[float, str]:
    """Draw the mean over trials, (trial, point), and its 95 % interval; return the line's end.

    The interval does not reach below the least trial, which keeps it on a log scale.
    """
    mean, half = t_interval(trials)
    low = np.maximum(mean - half, trials.min(axis=0))
    return _line(axes, x, (low, mean, mean + half), name)


def median_line(axes: Axes, x: Floats, trials: Floats, name: str) -> tuple[float, str]:
    """Draw the median over trials, (trial, point), and their middle 80 %; return the line's end.

    For what differs by orders of magnitude, where a mean shows the worst trial alone.
    """
    low, middle, high = np.quantile(trials, _MIDDLE, axis=0)
    return _line(axes, x, (low, middle, high), name)


def _line(
    axes: Axes, x: Floats, band: tuple[Floats, Floats, Floats], name: str
) -> tuple[float, str]:
    """Draw a line and the band around it."""
    low, middle, high = band
    colour, dashes, marker = look(name)
    axes.plot(
        x,
        middle,
        color=colour,
        dashes=dashes,
        marker=marker,
        markevery=_marked(len(x), name),
        clip_on=False,  # markers at the edge stay whole
    )
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
    return float(middle[-1]), colour


def _marked(n_points: int, name: str) -> tuple[int, int]:
    """Return where markers are: on all of a few points, else apart from those of other lines."""
    spacing = max(1, n_points // _MOST_MARKERS)
    return len(name) * spacing // 5 % spacing, spacing


def thin(x: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Return evenly spread points of the lines, (trial, point), the first and the last too.

    >>> x, lines = thin(np.arange(1000.0), np.zeros((2, 1000)))
    >>> len(x), x[-1].item(), lines.shape
    (60, 999.0, (2, 60))
    """
    if len(x) <= _MOST_POINTS:
        return x, trials
    at = np.linspace(0, len(x) - 1, _MOST_POINTS).round().astype(np.int64)
    return x[at], trials[:, at]


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, str]]) -> None:
    """Write the names of lines at the right, beside their last values; limits must be set."""
    to_height = axes.transScale + axes.transLimits
    label_beside(
        axes,
        {
            name: (float(to_height.transform((0, value))[1]), colour)
            for name, (value, colour) in ends.items()
        },
    )


def plain_numbers(axis: Axis) -> None:
    """Write plain numbers at 1, 2 and 5 of each decade of a log scale."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:,g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def over(n_trials: int) -> str:
    """Say what lines and bands are.

    >>> over(1), over(3)
    ('one trial', 'mean and 95 % interval over 3 trials')
    """
    return f"mean and 95 % interval over {n_trials} trials" if n_trials > 1 else "one trial"
