"""What waits for the engine's thread: requests, and commands between two groups of them."""

from __future__ import annotations

from collections import deque
from threading import Lock

from cobandits.engine.errors import OverloadedError
from cobandits.engine.jobs import Asked, Call, Command, Job

__all__ = ["Inbox"]

_MOST = 4096  # jobs that may wait; then callers are refused at once
_GROUP = 512  # requests of one transaction
# A transaction costs about 0.4 ms of CPU time, however many requests it has. Of callers who ask
# again as soon as they are answered, half would come too late for the next one, and it would have
# half of them: so they are waited for, at most as long as the last transaction took. Where some do
# not come back, fewer are expected the next time.
_MANY = 8  # requests of the last transaction, from which on their callers are waited for,
_ENOUGH = 64  # until so many are there,
_LONGEST = 0.002  # or so many seconds have passed


class Inbox:
    """A queue that any thread puts into, and the engine's thread takes from.

    That thread says how many requests it waits for, and is woken once, when they are there.
    """

    def __init__(self) -> None:
        self._items: deque[Call | Job | Command[object]] = deque()
        self._count = 0  # of requests among them
        self._wanted = 0  # so many are waited for, if somebody waits
        self._lock = Lock()
        self._bell = Lock()  # released when they are there
        self._bell.acquire()
        self._answered = 0  # requests that were handed on last
        self.left: list[Asked] = []  # by the last group, for the next one

    @property
    def has_requests(self) -> bool:
        """Whether requests wait."""
        return self._count > 0

    def check_room(self) -> None:
        """Refuse another request if too many wait."""
        if len(self._items) >= _MOST:
            raise OverloadedError(
                f"{_MOST} requests wait already, so this one was not taken; try again in a while"
            )

    def put(self, item: Call | Job | Command[object]) -> None:
        """Add what is to be done."""
        with self._lock:
            self._items.append(item)
            self._count += _size(item)
            enough = self._count >= self._wanted or isinstance(item, Command)
            if self._wanted and enough:
                self._wanted = 0
                self._bell.release()

    def collected(
        self, patience: float, gather: float = 0.0
    ) -> tuple[list[Asked], list[Command[object]]]:
        """Return what waits; where nothing does, wait for it.

        With ``patience``, callers who were answered just before are waited for too, for ``gather``
        seconds at most, where they were many.
        """
        commands: list[Command[object]] = []
        with self._lock:
            tickets, self.left = self.left, []
        self._collect(tickets, commands)
        expected = min(len(tickets) + self._answered, _ENOUGH)
        if patience and not (tickets or commands):
            self._wait(1, patience)
            self._collect(tickets, commands)
        if patience and tickets and not commands and self._answered >= _MANY:
            self._wait(expected - len(tickets), min(gather, _LONGEST))
            self._collect(tickets, commands)
        if patience or tickets:
            self._answered = len(tickets)
        return tickets, commands

    def _wait(self, count: int, seconds: float) -> None:
        """Wait until so many requests are there, or a command, or the time is over."""
        with self._lock:
            if self._count >= count or (self._items and not self._count):
                return
            self._wanted = count
        if not self._bell.acquire(timeout=seconds):
            with self._lock:
                if not self._wanted:  # it rang just now
                    self._bell.acquire()
                self._wanted = 0

    def _collect(self, tickets: list[Asked], commands: list[Command[object]]) -> None:
        """Add what is there."""
        with self._lock:
            while self._items and len(tickets) < _GROUP:
                item = self._items.popleft()
                self._count -= _size(item)
                if isinstance(item, Call):
                    tickets.append(item)
                elif isinstance(item, Job):
                    tickets.extend(item.tickets())
                else:
                    commands.append(item)


def _size(item: Call | Job | Command[object]) -> int:
    """Return how many requests there are in it."""
    if isinstance(item, Call):
        return 1
    return item.size if isinstance(item, Job) else 0
