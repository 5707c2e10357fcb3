"""What waits for the engine's thread: requests, and commands between two groups of them."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Lock

from cobandits.engine.errors import OverloadedError
from cobandits.engine.jobs import Asked, Call, Command, Job

__all__ = ["Inbox"]

_MOST = 4096  # jobs that may wait; then callers are refused at once
_GROUP = 512  # requests of one transaction


class Inbox:
    """A queue that any thread puts into, and the engine's thread takes from."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Call | Job | Command[object]] = SimpleQueue()
        self._taking = Lock()  # after closing, all who come late take from it
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

    def collected(self, patience: float) -> tuple[list[Asked], list[Command[object]]]:
        """Return what waits; where nothing does, wait for it."""
        commands: list[Command[object]] = []
        with self._taking:
            tickets, self.left = self.left, []
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
        return tickets, commands
