"""From the event loop to the engine's thread, and back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from cobandits.engine import Answer, Prepared, Request, Space
from cobandits.service.logs import LOGGER
from cobandits.service.problems import ProblemError

__all__ = ["Answers", "Asked", "Bridge"]

Asked = Request | Prepared
Answers = list[Answer | Exception]
Done = Callable[[Answers | Exception], None]
DoneOne = Callable[[Answer | Exception], None]
_Waiting = tuple[Sequence[Asked], Done | None, DoneOne | None]  # one of the two


class Bridge:
    """Leads requests from the event loop to the engine's thread, and answers back.

    All requests of one turn of the loop go to the engine together: it is woken once, and writes
    them together. One by one they would cost twice the CPU time, as the two threads take the
    interpreter from each other at each.

    Parameters
    ----------
    most
        Requests that may wait; more are refused, and nothing is done.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._asked: dict[Space, list[_Waiting]] = {}
        self._answered: deque[tuple[list[_Waiting], Answers]] = deque()
        self._called = False  # whether the loop will look for answers
        self.waiting = 0

    def ask(self, space: Space, requests: Sequence[Asked], done: Done) -> None:
        """Ask a space; ``done`` gets a result or an error for each, or one error for all."""
        self._add(space, (requests, done, None))

    def ask_one(self, space: Space, request: Asked, done: DoneOne) -> None:
        """Ask one thing; ``done`` gets its result or its error."""
        self._add(space, ((request,), None, done))

    def _add(self, space: Space, asked: _Waiting) -> None:
        requests = asked[0]
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
            group = self._asked[space] = []
        group.append(asked)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what was asked in this turn."""
        waiting, self._asked = self._asked, {}
        for space, group in waiting.items():
            requests = [request for asked, _, _ in group for request in asked]
            try:
                space.send(requests, partial(self._take, loop, group), plain=True)
            except Exception as error:
                self._hand_out(group, error, len(requests))

    def _take(
        self, loop: asyncio.AbstractEventLoop, group: list[_Waiting], answers: Answers
    ) -> None:
        """Take answers in the engine's thread, and wake the loop if it is not called already."""
        self._answered.append((group, answers))  # before the look at what the loop sets first
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(self._hand_out_all)

    def _hand_out_all(self) -> None:
        """Give out all answers that are there, of several groups at once."""
        self._called = False
        while self._answered:
            group, answers = self._answered.popleft()
            self._hand_out(group, answers, len(answers))

    def _hand_out(self, group: list[_Waiting], answers: Answers | Exception, count: int) -> None:
        """Give each caller its answers, in the loop's thread."""
        self.waiting -= count
        start = 0
        for requests, done, done_one in group:
            end = start + len(requests)
            try:
                if done_one is not None:
                    done_one(answers if isinstance(answers, Exception) else answers[start])
                elif done is not None:
                    done(answers if isinstance(answers, Exception) else answers[start:end])
            except Exception:  # of this caller alone: the others have their answers too
                LOGGER.exception("an answer could not be given")
            start = end
