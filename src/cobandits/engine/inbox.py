"""What waits for the engine's thread: requests, and commands between two groups of them."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from threading import Lock

from cobandits.engine.errors import OverloadedError
from cobandits.engine.jobs import Asked, Call, Command, Job

__all__ = ["Inbox"]

_MOST = 4096  # jobs that may wait; then callers are refused at once
_GROUP = 512  # requests of one transaction
# A transaction costs about 0.4 ms of CPU time, however many requests it has. Of callers who ask
# again as soon as they are answered, half would come too late for the next one, and it would have
# half of them: so they are waited for, at most as long as the last transaction took. Where some do
# not come back, fewer are expected the next time. Threads that wait for their own call are not
# waited for: they run one at a time, and a look at what has come holds them up.
_MANY = 8  # requests of the last transaction, from which on their callers are waited for,
_ENOUGH = 64  # until so many are there,
_LONGEST = 0.002  # or so many seconds have passed;
_STEP = 0.0005  # seconds after which it is looked again: a look costs a switch of threads


class Inbox:
    """A queue that any thread puts into, and the engine's thread takes from."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | Job | Command[object]] = SimpleQueue()
        self._taking = Lock()  # after closing, all who come late take from it
        self._answered = 0  # requests of jobs that were handed on last
        self.left: list[Asked] = []  # by the last group, for the next one

    def check_room(self) -> None:
        """Refuse another request if too many wait."""
        if self._queue.qsize() >= _MOST:
            raise OverloadedError(
                f"{_MOST} requests wait already, so this one was not taken; try again in a while"
            )

    def put(self, item: Call | Job | Command[object]) -> None:
        """Add what is to be done."""
        self._queue.put(item)

    def collected(
        self, patience: float, gather: float = 0.0
    ) -> tuple[list[Asked], list[Command[object]]]:
        """Return what waits; where nothing does, wait for it.

        With ``patience``, callers who were answered just before are waited for too, for ``gather``
        seconds at most, where they were many.
        """
        commands: list[Command[object]] = []
        with self._taking:
            tickets, self.left = self.left, []
        self._collect(0.0, tickets, commands)
        expected = min(len(tickets) + self._answered, _ENOUGH)
        if patience and not (tickets or commands):
            self._collect(patience, tickets, commands)
        if patience and self._answered >= _MANY:
            self._gather(tickets, commands, expected, min(gather, _LONGEST))
        if patience or tickets:
            self._answered = sum(type(one) is not Call for one in tickets)
        return tickets, commands

    def _gather(
        self, tickets: list[Asked], commands: list[Command[object]], expected: int, seconds: float
    ) -> None:
        """Wait until as many requests are there as are expected, or the time is over."""
        until = time.monotonic() + seconds
        while 0 < len(tickets) < expected and time.monotonic() < until:
            time.sleep(_STEP)
            self._collect(0.0, tickets, commands)

    def _collect(
        self, patience: float, tickets: list[Asked], commands: list[Command[object]]
    ) -> None:
        """Add what waits; where nothing does, wait for it."""
        try:
            item = self._queue.get(timeout=patience) if patience else self._queue.get_nowait()
            while True:
                if isinstance(item, Call):
                    tickets.append(item)
                elif isinstance(item, Job):
                    tickets.extend(item.tickets())
                else:
                    commands.append(item)
                if len(tickets) >= _GROUP:
                    break
                item = self._queue.get_nowait()
        except Empty:
            pass
