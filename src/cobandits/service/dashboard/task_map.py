"""The map of the tasks: where they are in the two directions in which they differ most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from cobandits.service.dashboard.charts import BOTTOM, FORM, HEIGHT, LEFT, WIDTH, Frame
from cobandits.wire import TaskPoint

__all__ = ["sharing_map"]

_DRAWN = 500  # tasks, those with most rewards first
_NAMED = 12  # of them that have a name in the picture,
_TRIED = 60  # and for so many a place is looked for
_LETTERS = 16  # of a name
_LETTER = 11  # units that a letter is wide, at the size of text that a phone has
_LINE = 22  # that a name is high
_RIGHT, _TOP = WIDTH - 12, 12  # the frame's other corner
_FRAME = Markup('<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>')
_DOT = Markup('<circle class="task" cx="{}" cy="{}" r="{}" opacity="{}"><title>{}</title></circle>')
_NAME = Markup('<text class="name" x="{}" y="{}" text-anchor="{}">{}</text>')
_ACROSS = Markup('<text x="{}" y="{}" text-anchor="middle">{} →</text>')
_UP = Markup('<text text-anchor="middle" transform="translate({} {}) rotate(-90)">{} →</text>')


class _Dot(NamedTuple):
    """A task in the picture."""

    x: float
    y: float
    radius: float
    point: TaskPoint


class _Box(NamedTuple):
    """A rectangle that a name takes."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        """Tell whether two rectangles overlap."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def sharing_map(points: Sequence[TaskPoint]) -> Markup:
    """Return tasks on the map of the first two directions: near ones decide alike."""
    if not points:
        return Markup('<p class="soft">The map appears with the first rewards.</p>')
    dots = _dots(points)
    middle = ((LEFT + _RIGHT) / 2, (_TOP + HEIGHT - BOTTOM) / 2)
    drawn = [
        _FRAME.format(LEFT, _TOP, _RIGHT - LEFT, HEIGHT - BOTTOM - _TOP),
        _ACROSS.format(middle[0], HEIGHT - 10, "direction in which they differ most"),
        _UP.format(LEFT - 14, middle[1], "second direction"),
        *map(_drawn, dots),
        *_names(dots),
    ]
    says = (
        f"{len(points)} tasks on the map of the two directions in which they differ most; "
        "the table below has the numbers"
    )
    return FORM.format(WIDTH, HEIGHT, says, Markup().join(drawn))


def _dots(points: Sequence[TaskPoint]) -> list[_Dot]:
    """Return where tasks are, those with most rewards first, of these the outermost ones."""
    xs, ys = [one.x for one in points], [one.y for one in points]
    room = 0.06 * max(max(xs) - min(xs), max(ys) - min(ys), 1e-9)  # dots stay inside
    frame = Frame((min(xs) - room, max(xs) + room), (min(ys) - room, max(ys) + room))
    most = max(one.rewards for one in points) or 1
    found = []
    for one in points:
        x, y = map(float, frame.at(one.x, one.y).split(","))
        found.append(_Dot(x, y, round(3 + 7 * (one.rewards / most) ** 0.5, 1), one))
    centre = (LEFT + _RIGHT) / 2
    return sorted(found, key=lambda dot: (-dot.point.rewards, -abs(dot.x - centre)))[:_DRAWN]


def _drawn(dot: _Dot) -> Markup:
    one = dot.point
    says = f"{one.task}: {one.rewards} rewards, {one.shared:.0%} shared"
    return _DOT.format(dot.x, dot.y, dot.radius, f"{0.35 + 0.6 * one.shared:.2f}", says)


def _names(dots: Sequence[_Dot]) -> list[Markup]:
    """Return names of some tasks, none over another one, and over as few dots as may be."""
    around = [_Box(d.x - d.radius, d.y - d.radius, d.x + d.radius, d.y + d.radius) for d in dots]
    taken: list[_Box] = []
    written: list[Markup] = []
    for dot in dots[:_TRIED]:
        task = dot.point.task
        text = task if len(task) <= _LETTERS else task[: _LETTERS - 1] + "…"
        free = [
            place for place in _places(dot, text) if not any(place[1].meets(box) for box in taken)
        ]
        if free and len(written) < _NAMED:
            anchor, box = min(free, key=lambda place: sum(map(place[1].meets, around)))
            taken.append(box)
            x = {"start": box.left, "end": box.right, "middle": (box.left + box.right) / 2}[anchor]
            written.append(_NAME.format(x, box.bottom - 6, anchor, text))
    return written


def _places(dot: _Dot, text: str) -> list[tuple[str, _Box]]:
    """Return where a name may be inside of the frame: right of its dot, left, above or below."""
    wide, far = _LETTER * len(text), dot.radius + 3
    top, above, below = dot.y - _LINE / 2, dot.y - far - _LINE, dot.y + far
    left = dot.x - wide / 2
    places = [
        ("start", _Box(dot.x + far, top, dot.x + far + wide, top + _LINE)),
        ("end", _Box(dot.x - far - wide, top, dot.x - far, top + _LINE)),
        ("middle", _Box(left, above, left + wide, above + _LINE)),
        ("middle", _Box(left, below, left + wide, below + _LINE)),
    ]
    return [
        (anchor, box)
        for anchor, box in places
        if box.left >= LEFT
        and box.right <= _RIGHT
        and box.top >= _TOP
        and box.bottom <= HEIGHT - BOTTOM
    ]
