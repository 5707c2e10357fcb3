"""What is known of decisions: the latest in memory, the others in the store."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from cobandits.engine.codec import Struct, decoded
from cobandits.engine.encoding import arm_ids, past_features
from cobandits.engine.errors import DamagedLogError
from cobandits.engine.events import Event, choice_of, request_of
from cobandits.engine.outcomes import Lesson
from cobandits.engine.stores import Store
from cobandits.errors import DataError
from cobandits.schema import Schema

__all__ = ["Given", "Known", "Memory"]

Doubles = NDArray[np.float64]

_DECISIONS = ("decision", "held", "import")
_KEPT = 2**15  # decisions in memory: 30 MB with 50 features and their bookkeeping


class Given(Struct, frozen=True, gc=False):
    """A reward that a decision has had."""

    number: int
    at: int
    value: float
    key: str | None
    taken: int | None


class Known(Struct, gc=False):  # of which there are many
    """A decision, and what has become of it."""

    number: int
    task: str
    until: int | None
    shown: bool  # not a held one that was not activated
    held: bool
    imported: bool = False  # made elsewhere: it has its reward, and no id
    given: tuple[Given, ...] = ()
    x: Doubles | None = None  # the vector of its arm
    event: Event | None = None  # read when the vector is not there

    def follow(self, event: Event) -> None:
        """Take an activation or a reward."""
        if event.kind == "activate":
            self.shown, self.until = True, event.until
        elif event.kind == "reward" and event.value is not None:
            body = decoded(event.body) if event.body else {}
            one = Given(event.number, event.at, event.value, body.get("key"), body.get("taken"))
            self.given = (*self.given, one)


class Memory:
    """Decisions of one space by number."""

    def __init__(self, space: int, store: Store, schema: Schema) -> None:
        self.schema = schema
        self._space, self._store = space, store
        self._recent: dict[int, Known] = {}
        self._order: deque[int] = deque()  # of their numbers: a dict finds its first slowly

    def follow(self, event: Event, x: Doubles | None = None) -> None:
        """Take an event that is in the log."""
        if event.kind in _DECISIONS:
            self._keep(_known(event, x))
        elif event.ref is not None and (known := self._recent.get(event.ref)) is not None:
            known.follow(event)

    def _keep(self, known: Known) -> None:
        if known.number not in self._recent:
            self._order.append(known.number)
        self._recent[known.number] = known
        if len(self._order) > _KEPT:
            del self._recent[self._order.popleft()]

    def clear(self) -> None:
        """Read decisions from the store again: some were removed."""
        self._recent.clear()
        self._order.clear()

    def change(self, schema: Schema) -> None:
        """Take another schema: vectors are made anew."""
        self.schema = schema
        self.clear()

    def find(self, number: int) -> Known | None:
        """Return what is known of a decision, None if there is none of this number."""
        if (known := self._recent.get(number)) is not None:
            return None if known.imported else known
        event = self._event(number)
        if event is None or event.kind == "import":
            return None
        known = _known(event, None)
        for later in self._store.referring(number):
            known.follow(later)
        self._keep(known)
        return known

    def _event(self, number: int) -> Event | None:
        event = self._store.event(number)
        fits = event is not None and event.space == self._space
        return event if fits and event is not None and event.kind in _DECISIONS else None

    def lesson(self, lesson: Lesson) -> tuple[str, Doubles]:
        """Return the task and the vector of the arm that a reward is for."""
        known = self._recent.get(lesson.decision)
        if known is not None and known.x is not None and lesson.taken is None:
            return known.task, known.x
        event = known.event if known is not None else None
        event = event or self._event(lesson.decision)
        if event is None or event.task is None:
            raise DamagedLogError(f"decision {lesson.decision} is not in the log; restore a copy")
        place = choice_of(event).arm if lesson.taken is None else lesson.taken
        return event.task, past_features(request_of(event), self.schema)[place]

    def place(self, number: int, arm: str) -> int | None:
        """Return the place of an arm in a decision, None if it is the one decided."""
        event = self._event(number)
        assert event is not None
        ids = arm_ids(request_of(event))
        if arm not in ids:
            raise DataError(f"taken must be an arm of the decision, got {arm!r:.60}; {ids!r:.100}")
        place = ids.index(arm)
        return None if place == choice_of(event).arm else place


def _known(event: Event, x: Doubles | None) -> Known:
    held = event.kind == "held"
    return Known(
        number=event.number,
        task=event.task or "",
        until=event.until,
        shown=not held,
        held=held,
        imported=event.kind == "import",
        x=x,
        event=None if x is not None else event,
    )
