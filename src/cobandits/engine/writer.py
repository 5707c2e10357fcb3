"""The engine's thread: it alone numbers, writes and learns; callers wait for its answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cobandits.engine.core import Core
from cobandits.engine.errors import ClosedError, EngineError, StoreError
from cobandits.engine.events import Event, Kind
from cobandits.engine.fold import Relearned, SpaceFold
from cobandits.engine.group import Group
from cobandits.engine.inbox import Inbox
from cobandits.engine.jobs import Asked, Call, Command, Job, another
from cobandits.engine.learning import Learning
from cobandits.engine.pieces import QUIET, Pieces
from cobandits.engine.retention import remove_events
from cobandits.engine.stores import Batch
from cobandits.engine.times import Times
from cobandits.engine.versions import drop_snapshots
from cobandits.errors import ClusterError

__all__ = ["Writer"]

Done = TypeVar("Done")

_PAUSE = 0.25  # seconds after which windows are looked at again
_MENDED = 1.0  # seconds after which a space is made anew again: its processes may end at once


class Writer:
    """Runs a :class:`Core` in a thread of its own."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.times = {work: Times() for work in ("answers", "learning", "commands")}
        self.times["disk"] = core.disk
        self._inbox = Inbox()
        self._pieces = Pieces()  # of snapshots, to be written
        self._asked = 0.0  # when there last were requests,
        self._took = 0.0  # and how many seconds it took to answer them
        self._learning = Learning(core, self._inbox, self.save)
        self._mended: dict[int, float] = {}  # by space: when it was last made anew
        self._thread = threading.Thread(target=self._run, name="cobandits-engine", daemon=True)
        self._closing = False
        self._closed = False
        self._thread.start()

    # ---- For callers, in any thread

    def put(self, job: Call | Job) -> None:
        """Hand over requests; refuse them if too many wait."""
        self._check_open()
        self._inbox.check_room()
        self._inbox.put(job)
        if self._closed:
            self._refuse_rest()  # it was closed in between

    def call(self, action: Callable[[], Done]) -> Done:
        """Let the thread do something between two groups, and return what it returns."""
        if threading.current_thread() is self._thread:
            return action()
        self._check_open()
        command = Command(action)
        self._inbox.put(command)  # type: ignore[arg-type]
        if self._closed:
            self._refuse_rest()
        return command.future.result()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this engine is closed; open it again")

    @property
    def refitting(self) -> tuple[int, ...]:
        """The spaces whose prior is being learned."""
        return self._learning.refitting

    @property
    def busy(self) -> bool:
        """Whether rewards wait that could be learned, or a prior is being learned."""
        return self._learning.busy

    def close(self) -> None:
        """Answer what waits, keep snapshots, learn no more, and end the thread."""
        if self._closed:
            return
        self.call(self._begin_closing)
        self._thread.join()
        self.core.close()
        self._learning.close()

    def _begin_closing(self) -> None:
        self._closing = True
        for fold in list(self.core.folds.values()):  # what is in doubt may delete one
            self.keep(fold)
        self._pieces.write_all(self.core.commit)

    def keep(self, fold: SpaceFold) -> None:
        """Write a snapshot of the present state, if there is none; drop those it replaces."""
        try:
            if fold.has_learned_since:
                self.write(fold, "tick")
            if not self._has_snapshot(fold):
                self.save(fold, fold.snapshot())
                self._pieces.write_all(self.core.commit)
            drop_snapshots(self.core.store, fold.number)
        except (EngineError, ClusterError) as error:  # it is a short cut only
            logging.getLogger("cobandits").warning("no snapshot was kept: %s", error)

    # ---- The thread

    def _run(self) -> None:
        while not self._closing:
            try:
                self._turn()
            except Exception:  # whatever it is, those who wait must not wait for ever
                logging.getLogger("cobandits").exception("the engine goes on after an error")
        self._closed = True
        self._refuse_rest()

    def _refuse_rest(self) -> None:
        while any(waiting := self._inbox.collected(0.0)):
            for ticket in waiting[0]:
                ticket.answer(ClosedError("this engine was closed; open it again"))
            for command in waiting[1]:
                command.future.set_exception(ClosedError("this engine was closed; open it again"))

    def _turn(self) -> None:
        tickets, commands = self._inbox.collected(self._patience(), self._took)
        self._mend()
        if tickets:
            begin = time.monotonic()
            with self._busy("answers"):
                self._answer(tickets)
            self._asked = time.monotonic()
            self._took = self._asked - begin
        for command in commands:
            with self._busy("commands"):
                command.run()
        if self._learning.has_work:
            self._learn()
        if self._pieces.due(self._asked):
            self._pieces.write_one(self.core.commit)
        self.tick()

    def _learn(self) -> None:
        try:
            with self._busy("learning"):
                self._learning.step()
        except (EngineError, ClusterError):  # away, or not ours: the next turn tries again
            time.sleep(_PAUSE / 10)

    @contextmanager
    def _busy(self, work: str) -> Iterator[None]:
        """Count how long the thread is busy with this, transactions aside."""
        begin, waited = time.monotonic(), self.core.disk.total
        try:
            yield
        finally:
            waited = self.core.disk.total - waited
            self.times[work].add(time.monotonic() - begin - waited)

    def _mend(self) -> None:
        """Make spaces anew that have lost a process; what was answered is in the log."""
        now = time.monotonic()
        for fold in [one for one in self.core.folds.values() if one.learner.lost]:
            if now < self._mended.get(fold.number, 0.0) + _MENDED:
                continue
            self._mended[fold.number] = now
            self._learning.forget(fold.number)
            warn = logging.getLogger("cobandits").warning
            warn("a process of %r has ended; it is learned again from the log", fold.name)
            try:
                with self._busy("learning"):
                    self.core.rebuild(fold)
            except Exception as error:  # the next turn tries again, and others get their answers
                warn("%r could not be learned again: %s", fold.name, error)

    def _answer(self, tickets: list[Asked]) -> None:
        try:
            group = Group(self.core)
        except EngineError as error:  # the store is away
            for ticket in tickets:
                ticket.answer(another(error))
            return
        self._inbox.left = group.run(tickets)

    def _patience(self) -> float:
        """Return how long to wait for requests: not at all while there is other work."""
        if self._inbox.left or self._learning.has_work:
            return 0.0
        if self._pieces:
            return 0.0 if self._pieces.due(self._asked) else QUIET
        return _PAUSE

    # ---- Events of the engine itself

    def write(
        self,
        fold: SpaceFold,
        kind: Kind,
        *,
        ref: int | None = None,
        body: str | None = None,
        found: Relearned | None = None,
    ) -> Event:
        """Write one event of a space and apply it."""
        event = self.core.next_event(fold.number, kind, ref=ref, body=body)

        def apply() -> None:
            fold.apply(event, found=found)
            if kind in ("rollback", "relearn", "delete") or fold.learner.frozen:
                self._learning.forget(fold.number)
            if kind == "delete":
                self._pieces.drop(self.core.drop(fold))

        self.core.commit(Batch(events=[event]), apply)
        return event

    def forget(self, before: int) -> int:
        """Keep a snapshot of each space, then remove the events before a time."""
        self.core.next_number()  # nothing is in doubt
        last = self.core.last
        for fold in list(self.core.folds.values()):
            if fold.last < last or fold.learner.learned:  # or it is of fewer rewards
                self.write(fold, "tick")  # so its snapshot comes after all that is removed
        for fold in list(self.core.folds.values()):
            self.keep(fold)
            if not self._has_snapshot(fold):
                raise StoreError("no snapshot could be written, so nothing is removed; try again")
        return remove_events(self.core, before)

    def _has_snapshot(self, fold: SpaceFold) -> bool:
        return any(one.number == fold.last for one in self.core.store.snapshots(fold.number))

    def save(self, fold: SpaceFold, content: bytes) -> None:
        """Write a snapshot of a space, piece by piece."""
        self._pieces.add(fold.number, fold.last, content)
        fold.saved = fold.last, fold.learner.version

    def tick(self) -> None:
        """Write that windows have ended, where nothing else tells so."""
        now = self.core.now()
        for fold in list(self.core.folds.values()):
            end = fold.outcomes.next_end
            if end is not None and end < now:
                try:
                    self.write(fold, "tick")
                except EngineError:
                    return  # the next turn tries again
