"""Pictures as SVG; colours come from the page, so that they fit light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup

from cobandits.service.dashboard.tally import Cell, Mean
from cobandits.wire import TaskPoint

__all__ = ["reward_chart", "sharing_map"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 260, 76, 34
_TASK = Markup(
    '<circle class="task" cx="{}" cy="{}" r="{}" opacity="{}"><title>{}</title></circle>'
)
_FORM = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}" class="chart">{}</svg>')


class _Frame:
    """From values to places in a picture."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, (y[0], y[1] if y[1] > y[0] else y[0] + 1.0)

    def at(self, x: float, y: float) -> str:
        wide = (self._x[1] - self._x[0]) or 1.0
        across = _LEFT + (x - self._x[0]) / wide * (_WIDTH - _LEFT - 12)
        up = (y - self._y[0]) / (self._y[1] - self._y[0]) * (_HEIGHT - _BOTTOM - 12)
        return f"{across:.1f},{_HEIGHT - _BOTTOM - up:.1f}"

    def ticks(self) -> Markup:
        """Return lines and numbers of the vertical axis."""
        parts = []
        for step in range(5):
            value = self._y[0] + step / 4 * (self._y[1] - self._y[0])
            x, y = self.at(self._x[0], value).split(",")
            parts.append(
                Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
                    x, _WIDTH - 12, y, y
                )
            )
            parts.append(
                Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
                    _LEFT - 8, float(y) + 4, f"{value:.3g}"
                )
            )
        return Markup().join(parts)


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
    means = [one.value for one in points]
    room = (max(means) - min(means)) or 1.0
    low = max(min(one.low for one in points), min(means) - room)
    high = min(max(one.high for one in points), max(means) + room)
    frame = _Frame((times[0], times[-1]), (low, high))
    drawn = [frame.ticks(), *(_line(frame, name, line, low, high) for name, line in lines.items())]
    for at, anchor in ((times[0], "start"), (times[-1], "end"))[: len(set(times))]:
        x = frame.at(at, low).split(",")[0]
        text = datetime.fromtimestamp(at, UTC).strftime("%d %b %H:%M")
        label = Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>')
        drawn.append(label.format(x, _HEIGHT - 10, anchor, text))
    says = (
        "Mean reward over time, of the policy and of the baseline; the table below has the numbers"
    )
    return _FORM.format(_WIDTH, _HEIGHT, says, Markup().join(drawn))


def _line(
    frame: _Frame, name: str, line: Sequence[tuple[int, Mean]], low: float, high: float
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


def sharing_map(points: Sequence[TaskPoint]) -> Markup:
    """Return tasks on the map of the first two directions: near ones decide alike."""
    if not points:
        return Markup('<p class="soft">The map appears with the first rewards.</p>')
    xs, ys = [one.x for one in points], [one.y for one in points]
    room = 0.06 * max(max(xs) - min(xs), max(ys) - min(ys), 1e-9)  # dots stay inside
    frame = _Frame((min(xs) - room, max(xs) + room), (min(ys) - room, max(ys) + room))
    most = max(one.rewards for one in points) or 1
    drawn = []
    for one in sorted(points, key=lambda task: -task.rewards)[:500]:
        x, y = frame.at(one.x, one.y).split(",")
        form = Markup(
            '<circle class="task" cx="{}" cy="{}" r="{}" opacity="{}"><title>{}</title></circle>'
        )
        radius = 3 + 7 * (one.rewards / most) ** 0.5
        says = f"{one.task}: {one.rewards} rewards, {one.shared:.0%} shared"
        drawn.append(form.format(x, y, f"{radius:.1f}", f"{0.35 + 0.6 * one.shared:.2f}", says))
    says = f"{len(points)} tasks on the map of the two directions in which they differ most"
    return _FORM.format(_WIDTH, _HEIGHT, says, Markup().join(drawn))
