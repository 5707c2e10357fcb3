"""Pictures as SVG; colours come from the page, so that they fit light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from cobandits.service.dashboard.tally import Cell, Mean

__all__ = ["BOTTOM", "FORM", "HEIGHT", "LEFT", "WIDTH", "Frame", "reward_chart", "round_marks"]

WIDTH, HEIGHT, LEFT, BOTTOM = 720, 260, 76, 34
_MARKS = 5  # about so many numbers along an axis
_GRID = Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>')
_NUMBER = Markup('<text x="{}" y="{}" text-anchor="end">{}</text>')
FORM = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">{}</svg>')


class Frame:
    """From values to places in a picture."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, (y[0], y[1] if y[1] > y[0] else y[0] + 1.0)

    def at(self, x: float, y: float) -> str:
        """Return the place of a value, as ``across,down``."""
        wide = (self._x[1] - self._x[0]) or 1.0
        across = LEFT + (x - self._x[0]) / wide * (WIDTH - LEFT - 12)
        up = (y - self._y[0]) / (self._y[1] - self._y[0]) * (HEIGHT - BOTTOM - 12)
        return f"{across:.1f},{HEIGHT - BOTTOM - up:.1f}"

    def ticks(self, marks: Sequence[float]) -> Markup:
        """Return lines and numbers of the vertical axis."""
        parts = []
        for value in marks:
            x, y = self.at(self._x[0], value).split(",")
            parts.append(_GRID.format(x, WIDTH - 12, y, y))
            parts.append(_NUMBER.format(LEFT - 8, float(y) + 4, f"{value:.10g}"))
        return Markup().join(parts)


def round_marks(low: float, high: float) -> list[float]:
    """Return round numbers at equal distances, the first and last ones around a range.

    >>> round_marks(0.02, 0.97)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> round_marks(-130, 260)
    [-200.0, -100.0, 0.0, 100.0, 200.0, 300.0]
    """
    least = (high - low) / _MARKS
    power = 10.0 ** math.floor(math.log10(least))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= 0.999 * least)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{place * step:.12g}") for place in range(first, last + 1)]


def reward_chart(series: Sequence[tuple[int, Cell]]) -> Markup:
    """Return the mean reward over time beside the baseline's, each with its interval."""
    lines = {
        "policy": [(at, one) for at, cell in series if (one := cell.reward) is not None],
        "baseline": [(at, one) for at, cell in series if (one := cell.baseline) is not None],
    }
    points = [one for line in lines.values() for _, one in line]
    if len(points) < 2:
        return Markup('<p class="soft">The picture begins with more rewards, at other times.</p>')
    times = [at for at, _ in series]
    low, high = _range(points, [cell for _, cell in series])
    marks = round_marks(low, high)
    frame = Frame((times[0], times[-1]), (marks[0], marks[-1]))
    drawn = [frame.ticks(marks)]
    drawn += [_line(frame, name, line, low, high) for name, line in lines.items()]
    for at, anchor in ((times[0], "start"), (times[-1], "end"))[: len(set(times))]:
        x = frame.at(at, marks[0]).split(",")[0]
        text = datetime.fromtimestamp(at, UTC).strftime("%d %b %H:%M")
        label = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
        drawn.append(label.format(x, HEIGHT - 10, anchor, text))
    says = (
        "Mean reward over time, of the policy and of the baseline; the table below has the numbers"
    )
    return FORM.format(WIDTH, HEIGHT, says, Markup().join(drawn))


def _range(points: Sequence[Mean], cells: Sequence[Cell]) -> tuple[float, float]:
    """Return what is drawn: no more than twice the means' range, and no reward that never came."""
    means = [one.value for one in points]
    room = (max(means) - min(means)) or 1.0
    low = max(min(one.low for one in points), min(means) - room, min(one.least for one in cells))
    high = min(max(one.high for one in points), max(means) + room, max(one.most for one in cells))
    return (low, high) if high > low else (low, low + 1.0)


def _line(
    frame: Frame, name: str, line: Sequence[tuple[int, Mean]], low: float, high: float
) -> Markup:
    """Return a line and the band of its intervals."""
    upper = [frame.at(at, min(one.high, high)) for at, one in line]
    lower = [frame.at(at, max(one.low, low)) for at, one in reversed(line)]
    middle = [frame.at(at, one.value) for at, one in line]
    band = Markup('<polygon class="band {}" points="{}"/>').format(name, " ".join(upper + lower))
    path = Markup('<polyline class="line {}" points="{}"/>').format(name, " ".join(middle))
    dots = Markup().join(
        Markup('<circle class="dot {}" cx="{}" cy="{}" r="2.5"/>').format(name, *place.split(","))
        for place in middle
    )
    return band + path + dots
