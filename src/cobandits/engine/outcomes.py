"""Which reward of a decision is learned, and when: a fold over the events of a space."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any, NamedTuple

from cobandits.engine.codec import decoded, encoded
from cobandits.engine.events import Event
from cobandits.engine.settings import Settings

__all__ = ["Lesson", "Outcomes", "reward_body"]


class Lesson(NamedTuple):
    """A reward to learn."""

    decision: int  # its number
    value: float
    taken: int | None = None  # the place of the arm, where it is not the one decided


@dataclass
class _Open:
    """A decision whose window has not ended, and which is learned when it ends."""

    until: int
    value: float | None = None
    taken: int | None = None


class Outcomes:
    """Follows decisions to the ends of their windows.

    Time is that of the events: a window ends with the first event of its space after it.
    """

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        self._ends: list[tuple[int, int]] = []  # a heap of (until, number)

    @property
    def next_end(self) -> int | None:
        """When the next window ends."""
        return self._ends[0][0] if self._ends else None

    def __len__(self) -> int:
        return len(self._open)

    def follow(self, event: Event, settings: Settings) -> list[Lesson]:
        """Take an event, and return what is to be learned with it, in order."""
        lessons = self._ended(event.at, settings) if self._ends else []
        if event.kind in ("decision", "activate"):
            number = event.number if event.kind == "decision" else event.ref
            if event.until is not None and number is not None and not settings.learns_at_once:
                self._open[number] = _Open(event.until)
                heapq.heappush(self._ends, (event.until, number))
        elif event.kind == "reward":
            lessons += self._rewarded(event, settings)
        elif event.kind == "import" and event.value is not None:
            lessons.append(Lesson(event.number, event.value))
        return lessons

    def _ended(self, at: int, settings: Settings) -> list[Lesson]:
        lessons = []
        while self._ends and self._ends[0][0] < at:
            _, number = heapq.heappop(self._ends)
            one = self._open.pop(number)
            value = settings.default_reward if one.value is None else one.value
            if value is not None:
                lessons.append(Lesson(number, value, one.taken))
        return lessons

    def _rewarded(self, event: Event, settings: Settings) -> list[Lesson]:
        assert event.ref is not None
        assert event.value is not None
        if event.until is not None and event.at > event.until:
            return []  # late
        taken = None if event.body is None else decoded(event.body).get("taken")
        one = self._open.get(event.ref)
        if one is None:
            return [Lesson(event.ref, event.value, taken)]
        summed = settings.rewards == "sum" and one.value is not None
        one.value = event.value + (one.value or 0.0) if summed else event.value
        one.taken = taken if taken is not None else one.taken
        return []

    def saved(self) -> list[list[Any]]:
        """Return what is open, as JSON can hold it."""
        return [[n, one.until, one.value, one.taken] for n, one in self._open.items()]

    @classmethod
    def read(cls, saved: list[list[Any]]) -> Outcomes:
        """Read what :meth:`saved` returned."""
        found = cls()
        found._open = {n: _Open(until, value, taken) for n, until, value, taken in saved}
        found._ends = [(one.until, n) for n, one in found._open.items()]
        heapq.heapify(found._ends)
        return found


def reward_body(key: str | None, taken: int | None) -> str | None:
    """Return the body of a reward, None if there is nothing in it."""
    given = {name: one for name, one in (("key", key), ("taken", taken)) if one is not None}
    return encoded(given).decode() if given else None
