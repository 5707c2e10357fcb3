"""Lines over trials: means and medians with bands, and names at their ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.plots.labels import label_beside
from cobandits.plots.looks import Look, look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "MIDDLE",
    "Band",
    "Ends",
    "draw_line",
    "label_ends",
    "mean_band",
    "mean_line",
    "median_line",
    "over",
    "plain_numbers",
    "thin",
]

Floats = NDArray[np.float64]
Band = tuple[Floats, Floats, Floats]  # low, middle and high, (point,) each
Ends = dict[str, tuple[float, str]]  # by name: the last value of a line, and its colour
Markers = tuple[int, int] | list[int]  # the first and the step, or each point that has one

MIDDLE = (0.1, 0.5, 0.9)  # quantiles: the median, and the middle 80 % of the trials

_MOST_POINTS = 60  # of a line: more cannot be told apart, and make the file large
_MOST_MARKERS = 7
_LEAST_TRIALS = 3  # for a band


def draw_line(
    axes: Axes, x: Floats, band: Band, look: Look, *, markers: Markers, clip_on: bool = True
) -> tuple[float, str]:
    """Draw a line and the band around it; return the last value of the line, and its colour."""
    low, middle, high = band
    axes.plot(
        x,
        middle,
        color=look.colour,
        dashes=look.dashes,
        marker=look.marker,
        markevery=markers,
        clip_on=clip_on,
    )
    axes.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
    return float(middle[-1]), look.colour


def mean_band(trials: Floats) -> tuple[Floats, Floats]:
    """Return the mean over trials, (trial, point), and half the width of the band to draw.

    There is none below three trials: the t-interval of two is 12.7 standard errors to each
    side, and would fill the picture.

    >>> [mean_band(np.array([[1.0], [2.0], [3.0]])[:n])[1].round(1).tolist() for n in (2, 3)]
    [[0.0], [2.5]]
    """
    mean, half = t_interval(trials)
    return mean, half if len(trials) >= _LEAST_TRIALS else np.zeros_like(half)


def mean_line(axes: Axes, x: Floats, trials: Floats, name: str) -> tuple[float, str]:
    """Draw the mean over trials, (trial, point), and its 95 % interval; return the line's end.

    The interval does not reach below the least trial, which keeps it on a log scale.
    """
    mean, half = mean_band(trials)
    low = np.maximum(mean - half, trials.min(axis=0))
    return _named_line(axes, x, (low, mean, mean + half), name)


def median_line(axes: Axes, x: Floats, trials: Floats, name: str) -> tuple[float, str]:
    """Draw the median over trials, (trial, point), and their middle 80 %; return the line's end.

    For errors that differ by orders of magnitude: their mean shows the worst trial alone.
    """
    low, middle, high = np.quantile(trials, MIDDLE, axis=0)
    return _named_line(axes, x, (low, middle, high), name)


def _named_line(axes: Axes, x: Floats, band: Band, name: str) -> tuple[float, str]:
    """Draw a line that looks as its name does everywhere; markers at the edge stay whole."""
    markers = _spaced(len(x), name)
    return draw_line(axes, x, band, look(name), markers=markers, clip_on=False)


def _spaced(n_points: int, name: str) -> tuple[int, int]:
    """Return the first marker and the step to the next, apart from those of other names."""
    spacing = max(1, n_points // _MOST_MARKERS)
    return len(name) * spacing // 5 % spacing, spacing


def thin(x: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Return at most 60 evenly spaced points of the lines, (trial, point), with both ends.

    >>> x, lines = thin(np.arange(1000.0), np.zeros((2, 1000)))
    >>> len(x), x[-1].item(), lines.shape
    (60, 999.0, (2, 60))
    """
    if len(x) <= _MOST_POINTS:
        return x, trials
    at = np.linspace(0, len(x) - 1, _MOST_POINTS).round().astype(np.int64)
    return x[at], trials[:, at]


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, str]]) -> None:
    """Write the names of lines at the right, beside their last values; set the limits first."""
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

    >>> over(1), over(2), over(3)
    ('one trial', 'mean over 2 trials', 'mean and 95 % interval over 3 trials')
    """
    if n_trials < _LEAST_TRIALS:
        return f"mean over {n_trials} trials" if n_trials > 1 else "one trial"
    return f"mean and 95 % interval over {n_trials} trials"


def over_lines(trials: Mapping[str, int]) -> str:
    """Say what lines and bands are, and which lines have fewer trials than others.

    >>> over_lines({"ridge": 100, "shared": 10})
    'mean and 95 % interval over 100 trials (shared: 10)'
    """
    most = max(trials.values())
    fewer = ", ".join(f"{name}: {count}" for name, count in trials.items() if count < most)
    return over(most) + (f" ({fewer})" if fewer else "")
