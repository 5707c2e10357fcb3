"""From the event loop to the engine's thread, and back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from cobandits.engine import Answer, Prepared, Request, Space
from cobandits.service.calls import Reply
from cobandits.service.logs import LOGGER
from cobandits.service.problems import ProblemError

__all__ = ["Answers", "Asked", "Bridge", "One"]

Asked = Request | Prepared
Answers = list[Answer | Exception]
Done = Callable[[Answers | Exception], None]
Draft = Callable[[], list[tuple[int, Answer]]]


class One(NamedTuple):
    """What becomes of the answer to one request."""

    make: Callable[[Answer], Reply]  # may be called before the answer is on disk,
    done: Callable[[Answer, Reply], None]  # and this once it is;
    failed: Callable[[Exception], None]  # or this, if it is refused

    def take(self, found: Answer | Exception, early: tuple[Answer, Reply] | None) -> None:
        """Give out an answer, with the reply that was made early if it is of this very answer."""
        if isinstance(found, Exception):
            self.failed(found)
        elif early is not None and early[0] is found:
            self.done(*early)
        else:
            self.done(found, self.make(found))


class _Group:
    """Requests of one turn of the loop for one space."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Sequence[Asked], Done | One]] = []
        self.early: dict[int, tuple[Answer, Reply]] = {}  # by place

    def make_early(self, draft: Draft) -> None:
        """Make replies while the engine writes; nobody sees them before they are on disk."""
        takers = [taker for requests, taker in self.waiting for _ in requests]
        for place, answer in draft():
            taker = takers[place]
            if isinstance(taker, One):
                self.early[place] = answer, taker.make(answer)

    def hand_out(self, answers: Answers | Exception) -> None:
        """Give each caller its answers."""
        start = 0
        for requests, taker in self.waiting:
            end = start + len(requests)
            try:
                if isinstance(answers, Exception):
                    (taker.failed if isinstance(taker, One) else taker)(answers)
                elif isinstance(taker, One):
                    taker.take(answers[start], self.early.get(start))
                else:
                    taker(answers[start:end])
            except Exception:  # of this caller alone: the others have their answers too
                LOGGER.exception("an answer could not be given")
            start = end


class Bridge:
    """Leads requests from the event loop to the engine's thread, and answers back.

    All requests of one turn of the loop go to the engine together: it is woken once, and writes
    them together. One by one they would cost twice the CPU time, as the two threads take the
    interpreter from each other at each. While the engine waits for the disk, replies are made
    here; they are sent when it has them.

    Parameters
    ----------
    most
        Requests that may wait; more are refused, and nothing is done.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._asked: dict[Space, _Group] = {}
        self._found: deque[Callable[[], None]] = deque()  # what the loop is to do, in order
        self._called = False  # whether it will
        self.waiting = 0

    def ask(self, space: Space, requests: Sequence[Asked], done: Done) -> None:
        """Ask a space; ``done`` gets a result or an error for each, or one error for all."""
        self._add(space, requests, done)

    def ask_one(self, space: Space, request: Asked, one: One) -> None:
        """Ask one thing."""
        self._add(space, (request,), one)

    def _add(self, space: Space, requests: Sequence[Asked], taker: Done | One) -> None:
        if self.waiting + len(requests) > self._most:
            raise ProblemError(
                "overloaded",
                f"{self.waiting} requests wait, and at most {self._most} may; nothing was done",
                retry=1.0,
            )
        self.waiting += len(requests)
        if not self._asked:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._flush, loop)
        group = self._asked.get(space)
        if group is None:
            group = self._asked[space] = _Group()
        group.waiting.append((requests, taker))

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what was asked in this turn."""
        waiting, self._asked = self._asked, {}
        for space, group in waiting.items():
            requests = [request for asked, _ in group.waiting for request in asked]

            def done(answers: Answers, group: _Group = group) -> None:
                self._call(loop, partial(self._hand_out, group, answers, len(answers)))

            def drafted(draft: Draft, group: _Group = group) -> None:
                self._call(loop, partial(group.make_early, draft))

            try:
                space.send(requests, done, drafted=drafted, plain=True)
            except Exception as error:
                self._hand_out(group, error, len(requests))

    def _call(self, loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
        """Let the loop do something, from the engine's thread; wake it if nothing else does."""
        self._found.append(action)  # before the look at what the loop sets first
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._act)

    def _act(self) -> None:
        """Do all that is to be done, of several groups at once."""
        self._called = False
        while self._found:
            try:
                self._found.popleft()()
            except Exception:  # replies are made later then
                LOGGER.exception("replies could not be made early")

    def _hand_out(self, group: _Group, answers: Answers | Exception, count: int) -> None:
        self.waiting -= count
        group.hand_out(answers)
