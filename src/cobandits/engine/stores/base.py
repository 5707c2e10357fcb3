"""What every store promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cobandits.engine.events import Event
from cobandits.engine.stores.tables import RARE, is_rare

__all__ = ["Batch", "Query", "Saved", "Store"]

_PAGE = 2048  # events that are read at once: a reader never holds back a checkpoint for long


class Saved(NamedTuple):
    """A snapshot that is whole."""

    space: int
    number: int  # of the event that it is the state after
    parts: int


class Part(NamedTuple):
    """A piece of a snapshot: written one at a time, so that no reply waits for all of it."""

    space: int
    number: int
    part: int
    data: bytes


@dataclass(kw_only=True)
class Batch:
    """What is written in one transaction: all of it or nothing."""

    events: list[Event] = field(default_factory=list)
    keys: list[tuple[int, str, int]] = field(default_factory=list)  # space, id, number
    parts: list[Part] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.events or self.parts or self.saved)


@dataclass(frozen=True, kw_only=True)
class Query:
    """Which events are wanted; None leaves open."""

    after: int = 0  # numbers above this
    through: int | None = None  # and up to this
    space: int | None = None
    task: str | None = None
    kinds: tuple[str, ...] | None = None
    since: int | None = None  # from this time on, in microseconds
    before: int | None = None
    limit: int | None = None
    newest: bool = False  # the newest first
    body: int | None = None  # characters of the body that are wanted

    def conditions(self, sign: str) -> tuple[str, list[object]]:
        """Return the condition as SQL, with ``sign`` for each value, and the values."""
        known: list[tuple[str, object]] = [
            ("number > {}", self.after),
            ("number <= {}", self.through),
            ("space = {}", self.space),
            ("task = {}", self.task),
            ("at >= {}", self.since),
            ("at < {}", self.before),
        ]
        given = [(text.format(sign), value) for text, value in known if value is not None]
        values = [value for _, value in given]
        texts = [text for text, _ in given]
        if self.kinds is not None:
            texts.append(f"kind IN ({', '.join([sign] * len(self.kinds))})")
            values += self.kinds
            if is_rare(self.kinds):
                texts.append(RARE)
        return " AND ".join(texts), values


class Store(ABC):
    """A log with its keys and snapshots.

    - One owner at a time: :meth:`acquire` refuses a second one, and the claim dies with the
      process or the connection that made it. Readers are never refused.
    - Numbers rise by 1 from 1, and times never fall: the owner gives them, and a number that is
      taken already is refused, so that two owners could never both go on.
    - :meth:`append` returns after all of a batch is on disk, or raises and none of it counts. Where
      the answer of the database was lost, either may be true: :meth:`reconnect` tells which, by the
      last number.
    - What was read once is never changed; it may be removed when a snapshot stands for it.

    :meth:`append` and :meth:`reconnect` belong to one thread. All that reads may be called by any.
    """

    @abstractmethod
    def acquire(self) -> None:
        """Become the owner, and bring the tables up to date; refuse where there is one."""

    @abstractmethod
    def check(self) -> None:
        """Refuse tables that are not there or are of another release; for readers."""

    @abstractmethod
    def append(self, batch: Batch) -> None:
        """Write a batch, durably."""

    @abstractmethod
    def reconnect(self) -> None:
        """Begin anew after an error: connect, and be the owner again, or raise."""

    @abstractmethod
    def close(self) -> None:
        """Give up the claim and every connection."""

    @abstractmethod
    def last(self) -> tuple[int, int]:
        """Return number and time of the last event, 0 and 0 if there is none."""

    @abstractmethod
    def page(self, query: Query) -> list[Event]:
        """Return events in order, at most ``query.limit``."""

    @abstractmethod
    def referring(self, number: int) -> list[Event]:
        """Return the rewards and activations of a decision, in order."""

    @abstractmethod
    def find_key(self, space: int, key: str) -> int | None:
        """Return the number of the event that has a key."""

    @abstractmethod
    def key_of(self, number: int) -> str | None:
        """Return the key of an event."""

    @abstractmethod
    def meta(self, name: str) -> bytes:
        """Return a value that was made with the tables: the secret of ids."""

    @abstractmethod
    def snapshots(self, space: int) -> list[Saved]:
        """Return the snapshots that are whole, in order."""

    @abstractmethod
    def snapshot(self, saved: Saved) -> bytes:
        """Return a snapshot."""

    @abstractmethod
    def forget_snapshot(self, saved: Saved) -> None:
        """Remove a snapshot."""

    @abstractmethod
    def remove(self, numbers: Sequence[int], folded: int) -> None:
        """Remove events that a snapshot stands for, with their keys; note how far that goes."""

    @abstractmethod
    def erase(self, space: int, numbers: Sequence[int]) -> None:
        """Leave nothing of events but number and time; remove their keys, and the snapshots."""

    @abstractmethod
    def folded(self) -> int:
        """Return the number up to which events may have been removed, 0 if none were."""

    def event(self, number: int) -> Event | None:
        """Return one event."""
        found = self.page(Query(after=number - 1, through=number, limit=1))
        return found[0] if found else None

    def read(self, query: Query | None = None) -> Iterator[Event]:
        """Yield events in order, page by page."""
        asked, left = query or Query(), (query.limit if query else None)
        while left is None or left > 0:
            size = _PAGE if left is None else min(_PAGE, left)
            found = self.page(replace(asked, limit=size))
            yield from found
            if len(found) < size:
                return
            last = found[-1].number
            asked = replace(asked, through=last - 1) if asked.newest else replace(asked, after=last)
            left = None if left is None else left - len(found)
