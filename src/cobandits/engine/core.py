"""The log and what follows from it: every space's fold, the next number, the time of the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from cobandits.engine.codec import decoded
from cobandits.engine.errors import (
    DamagedLogError,
    OwnedError,
    StoreError,
    UnknownSpaceError,
    UnknownVersionError,
)
from cobandits.engine.events import Event, Kind
from cobandits.engine.fold import SpaceFold
from cobandits.engine.ids import number_of
from cobandits.engine.policies import SpacePolicy, close, policy_for, read_policy
from cobandits.engine.settings import Settings
from cobandits.engine.snapshots import unpacked
from cobandits.engine.stores import Batch, Query, Store
from cobandits.engine.times import Times
from cobandits.engine.uploads import policy_of

__all__ = ["Clock", "Core", "decision_key"]

Clock = Callable[[], float]


class _Doubt(NamedTuple):
    """A batch of which it is not known whether it is in the log."""

    events: list[Event]
    apply: Callable[[], None]


def decision_key(given: str) -> str:
    """Return the key of a decision whose id was given."""
    return f"d:{given}"


class Core:
    """All state of an engine; only one thread at a time may change it.

    Nothing changes before it is in the log: :meth:`commit` writes a batch, and applies it then.
    """

    def __init__(self, store: Store, clock: Clock = time.time, *, processes: bool = False) -> None:
        self.store, self._clock = store, clock
        self.processes = processes  # whether shards of spaces live in processes, to decide
        self.secret = store.meta("secret")
        self.folds: dict[int, SpaceFold] = {}
        self.deleted: set[int] = set()  # spaces whose events are not all erased yet
        self.last, self.at = 0, 0
        self.disk = Times()  # of transactions that add to the log
        self._doubt: _Doubt | None = None
        self._broken = False

    # ---- Reading the log

    def load(self, through: int | None = None) -> None:
        """Read the log: the last snapshot of each space, and all events after it."""
        made = list(self.store.read(Query(kinds=("space", "delete"))))
        self.deleted = {event.space for event in made if event.kind == "delete"}
        starts = [
            self._restored(event, through)
            for event in made
            if event.space not in self.deleted and (through is None or event.number <= through)
        ]
        start = min(starts, default=0)
        if through is None:  # the last snapshots stand for all that was removed
            start = max(start, self.store.folded())
        for count, event in enumerate(self.store.read(Query(after=start, through=through)), 1):
            if event.number != start + count:
                raise DamagedLogError(
                    f"the log has no event {start + count}: it was removed, or is lost"
                )
            self.follow(event)

    def catch_up(self) -> None:
        """Learn what waits, but for refits: no state may come after a later one in the log."""
        for fold in self.folds.values():
            fold.learner.catch_up()

    def begin(self, event: Event) -> SpaceFold:
        """Begin a space."""
        fold = self.folds[event.number] = self._new(event)
        return fold

    def _new(self, event: Event) -> SpaceFold:
        return SpaceFold(event, self.store, self.version_policy, processes=self.processes)

    def _restored(self, event: Event, through: int | None) -> int:
        """Begin a space with its last snapshot; return the number after which it reads on."""
        fold = self.begin(event)
        self._restore(fold, through)
        self.last, self.at = max(self.last, fold.last), max(self.at, event.at)
        return fold.last

    def _restore(self, fold: SpaceFold, through: int | None) -> None:
        """Lead a new space to its last snapshot, if it has one."""
        found = self.store.snapshots(fold.number)
        saved = [one for one in found if through is None or one.number <= through]
        if saved:
            fold.restore(self.store.snapshot(saved[-1]), saved[-1].number)
        else:
            fold.place()

    def rebuild(self, fold: SpaceFold) -> None:
        """Make a space anew from its last snapshot and the log: a process of it was lost."""
        self.next_number()  # nothing is in doubt
        made = self.store.event(fold.number)
        assert made is not None
        fresh = self._new(made)
        try:
            self._restore(fresh, self.last)
            rest = Query(after=fresh.last, through=self.last, space=fold.number)
            for event in self.store.read(rest):
                fresh.apply(event)
            fresh.learner.catch_up()  # no state may come after a later one in the log
        except BaseException:
            close(fresh.learner.policy)
            raise
        fold.become(fresh)

    def follow(self, event: Event) -> None:
        """Take an event that was read."""
        if event.kind != "gone" and event.space not in self.deleted:
            self._follow(event)
        self.last, self.at = max(self.last, event.number), max(self.at, event.at)

    def _follow(self, event: Event) -> None:
        if event.kind == "space" and event.number not in self.folds:
            self.begin(event).place()
        fold = self.folds.get(event.space)
        if fold is None:
            raise DamagedLogError(f"event {event.number} is of a space that was never made")
        if event.number > fold.last:
            fold.apply(event)

    def fold(self, name: str) -> SpaceFold:
        """Return a space by its name."""
        for fold in self.folds.values():
            if fold.name == name:
                return fold
        known = ", ".join(fold.name for fold in self.folds.values()) or "none"
        raise UnknownSpaceError(
            f"there is no space {name!r}; make it with a schema. Known: {known}"
        )

    def check_there(self, number: int) -> SpaceFold:
        """Return a space by its number; refuse one that was deleted."""
        fold = self.folds.get(number)
        if fold is None:
            raise UnknownSpaceError("this space was deleted; nothing was kept")
        return fold

    def drop(self, fold: SpaceFold) -> int:
        """Forget a space that was deleted; return its number."""
        del self.folds[fold.number]
        close(fold.learner.policy)
        self.deleted.add(fold.number)
        return fold.number

    def close(self) -> None:
        """End the processes of all spaces."""
        for fold in self.folds.values():
            close(fold.learner.policy)

    def version_policy(self, number: int) -> SpacePolicy:
        """Return the policy that a version began with."""
        event = self.store.event(number)
        if event is not None and event.kind == "rollback" and event.ref is not None:
            return self.version_policy(event.ref)
        if event is not None and event.kind == "upload":
            return policy_of(event)
        if event is None or event.kind not in ("space", "install", "relearn"):
            raise UnknownVersionError(f"there is no version v{number}; versions() lists them")
        if event.kind == "space":
            return policy_for(Settings.from_dict(decoded(event.body or "")["settings"]))
        for saved in self.store.snapshots(event.space):
            if saved.number == number:
                return read_policy(unpacked(self.store.snapshot(saved))[1])
        if number <= self.store.folded():
            raise UnknownVersionError(f"the events of version v{number} were removed")
        past = Core(self.store, self._clock)
        past.load(through=number)
        return past.folds[event.space].learner.policy

    def number_of(self, space: int, given: str) -> int | None:
        """Return the number of a decision by its id."""
        number = number_of(given, self.secret)
        return self.store.find_key(space, decision_key(given)) if number is None else number

    # ---- Writing it

    def now(self) -> int:
        """Return the time for the next event: that of the clock, or of the log if it is later."""
        return max(self.at, int(self._clock() * 1e6))

    def next_number(self) -> int:
        """Return the number of the next event; first find out what became of a doubtful batch."""
        if self._broken:
            raise DamagedLogError("an event could not be applied; open the engine again")
        self._settle_doubt()
        return self.last + 1

    def next_event(
        self, space: int, kind: Kind, *, ref: int | None = None, body: str | None = None
    ) -> Event:
        """Return the next event, of a space that is there."""
        self.check_there(space)
        number = self.next_number()
        return Event(number, self.now(), space, kind, ref=ref, body=body)

    def commit(self, batch: Batch, apply: Callable[[], None]) -> None:
        """Write a batch, then apply it; its numbers begin with :meth:`next_number`.

        Raises an error if it is not in the log, or if that cannot be told at the moment. It is
        applied even then, before anything else is written, if it turns out to be there.
        """
        self._settle_doubt()
        try:
            self._append(batch)
        except StoreError:
            if not batch.events:
                self._doubt = _Doubt([], apply)
                raise
            self._doubt = _Doubt(batch.events, apply)
            if not self._settled():
                raise
            return
        self._applied(batch.events, apply)

    def _append(self, batch: Batch) -> None:
        begin = time.monotonic()
        try:
            self.store.append(batch)
        finally:
            self.disk.add(time.monotonic() - begin)

    def _applied(self, events: list[Event], apply: Callable[[], None]) -> None:
        if events:
            self.last, self.at = events[-1].number, events[-1].at
        try:
            apply()
        except BaseException:  # the log is right, and this is no longer what it leads to
            self._broken = True
            raise

    def _settle_doubt(self) -> None:
        """Find out whether the last batch that failed is in the log after all."""
        if self._doubt is not None:
            self._look()

    def _settled(self) -> bool:
        """Try the same; tell whether the batch is there."""
        try:
            return self._look()
        except StoreError:
            return False

    def _look(self) -> bool:
        doubt = self._doubt
        assert doubt is not None
        self.store.reconnect()
        last = max(self.store.last()[0], self.store.folded())  # the last may have been removed
        if last == self.last:
            self._doubt = None
            return False
        if not doubt.events or last != doubt.events[-1].number:
            raise OwnedError(
                f"the log ends with event {last}, not {self.last}: another process wrote to it; "
                "open it again"
            )
        self._doubt = None
        self._applied(doubt.events, doubt.apply)
        return True
