"""What all calls share: the engine and its spaces, keys, limits and measures."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from cobandits.engine import Answer, Engine, Request, Space
from cobandits.service.jobs import Evaluations
from cobandits.service.keys import Key, KeyStore
from cobandits.service.metrics import Metrics
from cobandits.service.problems import ProblemError
from cobandits.service.rates import Bucket
from cobandits.service.settings import ServiceSettings

__all__ = ["Service"]

Done = TypeVar("Done")
Answers = list[Answer | Exception]


class Noted(NamedTuple):
    """A problem that was answered."""

    at: str
    call: str
    status: int
    request: str


class Service:
    """One engine, open to the network."""

    def __init__(self, *, engine: Engine, keys: KeyStore, settings: ServiceSettings) -> None:
        self.engine, self.keys, self.settings = engine, keys, settings
        self.metrics = Metrics(waiting=lambda: self._waiting)
        self._spaces = {space.name: space for space in engine.spaces()}
        self._bridge = Bridge()
        self._buckets: dict[str, Bucket] = {}
        self._waiting = 0
        self.evaluations = Evaluations()
        self.problems: deque[Noted] = deque(maxlen=200)

    # ---- Spaces

    def space(self, name: str) -> Space:
        """Return a space; refuse a name that is not known."""
        found = self._spaces.get(name)
        if found is None:
            raise ProblemError(
                "unknown-space", f"there is no space {name[:100]!r}; POST /v1/spaces makes one"
            )
        return found

    def spaces(self) -> list[Space]:
        """Return all spaces, in the order in which they were made."""
        return list(self._spaces.values())

    def add(self, space: Space) -> None:
        """Take a space that was made."""
        self._spaces[space.name] = space

    def remove(self, name: str) -> None:
        """Forget a space that was deleted, and what was measured of it."""
        self._spaces.pop(name, None)
        self.evaluations.forget(name)
        self.metrics.forget(name)

    # ---- Asking the engine

    async def ask(self, space: Space, requests: Sequence[Request]) -> Answers:
        """Return the engine's answers; what waits has a limit, and beyond it nothing is taken."""
        if self._waiting + len(requests) > self.settings.waiting:
            raise ProblemError(
                "overloaded",
                f"{self._waiting} requests wait, and at most {self.settings.waiting} may; "
                "nothing was done",
                retry=1.0,
            )
        self._waiting += len(requests)
        try:
            return await self._bridge.ask(space, requests)
        finally:
            self._waiting -= len(requests)

    @staticmethod
    async def aside(action: Callable[[], Done]) -> Done:
        """Do something that takes a while in another thread."""
        return await asyncio.get_running_loop().run_in_executor(None, action)

    def note_problem(self, call: str, status: int, request: str) -> None:
        """Keep a problem that was answered, for the dashboard."""
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.problems.append(Noted(at, call, status, request))

    # ---- Limits

    def rate(self, key: Key | None, count: int) -> None:
        """Count requests of a key; refuse too many."""
        if key is None or count < 1:
            return
        bucket = self._buckets.get(key.id)
        if bucket is None:
            bucket = self._buckets[key.id] = Bucket(key.rate or self.settings.rate)
        wait = bucket.take(count)
        if wait:
            most = key.rate or self.settings.rate
            raise ProblemError(
                "too-many-requests",
                f"the key {key.id} may make {most:g} requests per second; "
                f"try again in {wait:.2g} s",
                retry=wait,
            )


class _Asked(NamedTuple):
    """Requests of one caller."""

    requests: Sequence[Request]
    future: asyncio.Future[Answers]

    def answer(self, answers: Answers | Exception) -> None:
        """Tell the caller, if it still waits."""
        if self.future.done():
            return
        if isinstance(answers, Exception):
            self.future.set_exception(answers)
        else:
            self.future.set_result(answers)


class Bridge:
    """Leads requests from the event loop to the engine's thread, and answers back.

    All requests of one turn of the loop go to the engine together: it is woken once, and writes
    them together. One by one they would cost twice the CPU time, as the two threads take the
    interpreter from each other at each.
    """

    def __init__(self) -> None:
        self._asked: dict[Space, list[_Asked]] = {}

    async def ask(self, space: Space, requests: Sequence[Request]) -> Answers:
        """Return what a space answers."""
        loop = asyncio.get_running_loop()
        asked = _Asked(requests, loop.create_future())
        if not self._asked:
            loop.call_soon(self._flush, loop)
        self._asked.setdefault(space, []).append(asked)
        return await asked.future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over what was asked in this turn."""
        waiting, self._asked = self._asked, {}
        for space, group in waiting.items():
            requests = [request for asked in group for request in asked.requests]

            def done(found: Future[Answers], group: list[_Asked] = group) -> None:
                loop.call_soon_threadsafe(_hand_out, group, found.result())  # engine's thread

            try:
                space.submit(requests).add_done_callback(done)
            except Exception as error:
                for asked in group:
                    asked.answer(error)


def _hand_out(group: list[_Asked], answers: Answers) -> None:
    """Give each caller its answers, in the loop's thread."""
    start = 0
    for asked in group:
        end = start + len(asked.requests)
        asked.answer(answers[start:end])
        start = end
