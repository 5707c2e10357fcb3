"""What happened in a space over time: a fold over its log that goes on where it was."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cobandits.engine import Event, Space
from cobandits.engine.encoding import arm_ids
from cobandits.engine.events import choice_of, request_of
from cobandits.evaluation.methods import may_have_mean_one

__all__ = ["Cell", "Mean", "Tally"]

_STEP = 10  # seconds that a cell sums up
_REMEMBERED = 100_000  # decisions whose rewards may still come
_FIRST = 200_000  # events that are read at most when the service starts
_CELLS = 7 * 24 * 360  # a week
_EFFECTIVE = 10  # decisions of the baseline's own that the log must be worth


class Mean(NamedTuple):
    """A mean with the ends of its interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass
class Cell:
    """The sums of some time."""

    decisions: int = 0
    explored: int = 0
    rewards: int = 0  # of all decisions
    own: int = 0  # of those that the policy made,
    total: float = 0.0  # with their sum
    squares: float = 0.0
    least: float = math.inf  # of all rewards
    most: float = -math.inf
    weights: float = 0.0  # of the baseline: 1 / probability where its arm was taken, else 0
    weighted: float = 0.0  # weight x reward
    moments: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])  # w^2, w^2 r, w^2 r^2

    def add(self, value: float, weight: float, *, own: bool) -> None:
        """Take a reward, the weight that it has for the baseline, and whether the policy chose."""
        self.rewards += 1
        self.least, self.most = min(self.least, value), max(self.most, value)
        self.own += own
        self.total += value * own
        self.squares += value * value * own
        self.weights += weight
        self.weighted += weight * value
        for power in range(3):
            self.moments[power] += weight * weight * value**power

    def merge(self, other: Cell) -> None:
        """Take the sums of another cell."""
        for name in ("decisions", "explored", "rewards", "own"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("total", "squares", "weights", "weighted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.least, self.most = min(self.least, other.least), max(self.most, other.most)
        self.moments = [a + b for a, b in zip(self.moments, other.moments, strict=True)]

    def drop_baseline(self) -> None:
        """Forget what was summed for the baseline."""
        self.weights, self.weighted, self.moments = 0.0, 0.0, [0.0, 0.0, 0.0]

    @property
    def reward(self) -> Mean | None:
        """The mean reward of the policy's own decisions."""
        if self.own < 2:
            return None
        mean = self.total / self.own
        variance = max(0.0, self.squares / self.own - mean**2) / (self.own - 1)
        return _interval(mean, variance)

    @property
    def baseline(self) -> Mean | None:
        """The mean reward that the baseline would have had, self-normalised, off-policy."""
        if self.weights <= 0 or self.rewards < 2:
            return None
        mean = self.weighted / self.weights
        zeroth, first, second = self.moments
        spread = second - 2 * mean * first + mean**2 * zeroth
        return _interval(mean, max(0.0, spread) / self.weights**2)


def _interval(mean: float, variance: float) -> Mean:
    half = 1.96 * math.sqrt(variance)
    return Mean(mean, mean - half, mean + half)


class _Made(NamedTuple):
    """A decision whose reward may come."""

    weight: float
    own: bool
    task: str


class Tally:
    """Counts of a space; :meth:`refresh` reads what is new in the log."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._after: int | None = None
        self._made: OrderedDict[int, _Made] = OrderedDict()
        self._lock = threading.Lock()
        self.cells: dict[int, Cell] = {}  # by steps since 1970
        self.whole = Cell()
        self.tasks: Counter[str] = Counter()  # decisions
        self.earned: dict[str, Cell] = {}

    @property
    def baseline(self) -> Mean | None:
        """The mean reward that the baseline would have had; None where the log cannot tell.

        It cannot where the baseline would choose what was hardly ever chosen.
        """
        whole, squares = self.whole, self.whole.moments[0]
        if not squares or whole.weights**2 < _EFFECTIVE * squares:
            return None
        told = may_have_mean_one(whole.rewards, whole.weights, squares)
        return whole.baseline if told else None

    @property
    def last(self) -> int:
        """The number of the last event that was read."""
        return self._after or 0

    def refresh(self) -> None:
        """Read the events that came since the last time."""
        with self._lock:
            if self._after is None:
                self._after = max(0, self.space.last - _FIRST)
            while chunk := list(islice(self.space.events(after=self._after, limit=2000), 2000)):
                for event in chunk:
                    self._follow(event)
                self._after = chunk[-1].number
            for step in sorted(self.cells)[:-_CELLS]:
                del self.cells[step]

    def _follow(self, event: Event) -> None:
        cell = self.cells.setdefault(event.at // (_STEP * 1_000_000), Cell())
        if event.kind in ("decision", "held"):
            choice, request = choice_of(event), request_of(event)
            ids = arm_ids(request)
            baseline = request.get("baseline") or ids[0]
            weight = 1 / choice.probability if ids[choice.arm] == baseline else 0.0
            self._made[event.number] = _Made(weight, choice.by == "policy", event.task or "")
            if len(self._made) > _REMEMBERED:
                self._made.popitem(last=False)
            self.tasks[event.task or ""] += 1
            for one in (cell, self.whole):
                one.decisions += 1
                one.explored += choice.by == "policy" and choice.probability < 0.5
        elif event.kind == "reward" and event.value is not None:
            made = self._made.pop(event.ref or 0, None)
            if made is None:
                return
            for one in (cell, self.whole, self.earned.setdefault(made.task, Cell())):
                one.add(event.value, made.weight, own=made.own)

    def series(self, most: int = 48) -> list[tuple[int, Cell]]:
        """Return at most ``most`` periods of equal length, with their first second since 1970.

        They have a baseline only where the whole log can tell it.
        """
        with self._lock:
            known = sorted(
                (step, cell) for step, cell in self.cells.items() if cell.decisions or cell.rewards
            )
            if not known:
                return []
            first, last = known[0][0], known[-1][0]
            width = next(
                (w for w in _WIDTHS if (last - first) // w < most), (last - first) // most + 1
            )
            periods: dict[int, Cell] = {}
            for step, cell in known:
                periods.setdefault(step // width * width, Cell()).merge(cell)
        if self.baseline is None:
            for period in periods.values():
                period.drop_baseline()
        return [(step * _STEP, periods[step]) for step in sorted(periods)]


_WIDTHS = (1, 3, 6, 12, 30, 60, 90, 180, 360, 720, 1440, 2880, 8640)  # 10 s to a day, in steps
