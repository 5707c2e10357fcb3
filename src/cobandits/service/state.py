"""What all calls share: the engine and its spaces, keys, limits and measures."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from cobandits.engine import Answer, Engine, Request, Space
from cobandits.service.keys import Key, KeyStore
from cobandits.service.metrics import Metrics
from cobandits.service.problems import ProblemError
from cobandits.service.rates import Bucket
from cobandits.service.settings import ServiceSettings

__all__ = ["Service"]

Done = TypeVar("Done")
Answers = list[Answer | Exception]


class Service:
    """One engine, open to the network."""

    def __init__(self, *, engine: Engine, keys: KeyStore, settings: ServiceSettings) -> None:
        self.engine, self.keys, self.settings = engine, keys, settings
        self.metrics = Metrics()
        self._spaces = {space.name: space for space in engine.spaces()}
        self._bridge = Bridge()
        self._buckets: dict[str, Bucket] = {}
        self._waiting = 0

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
        self.metrics.waiting.set(self._waiting)
        try:
            return await self._bridge.ask(space, requests)
        finally:
            self._waiting -= len(requests)
            self.metrics.waiting.set(self._waiting)

    @staticmethod
    async def aside(action: Callable[[], Done]) -> Done:
        """Do something that takes a while in another thread."""
        return await asyncio.get_running_loop().run_in_executor(None, action)

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


class Bridge:
    """Leads answers from the engine's thread to the event loop, many at a time."""

    def __init__(self) -> None:
        self._answered: deque[tuple[asyncio.Future[Answers], Future[Answers]]] = deque()
        self._called = False  # whether the loop will look

    async def ask(self, space: Space, requests: Sequence[Request]) -> Answers:
        """Return what a space answers."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answers] = loop.create_future()
        space.submit(requests).add_done_callback(partial(self._put, loop, future))
        return await future

    def _put(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Answers],
        done: Future[Answers],
    ) -> None:
        """Take an answer, in the engine's thread."""
        self._answered.append((future, done))
        if not self._called:
            self._called = True
            loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        """Hand over all answers that are there, in the loop's thread."""
        self._called = False  # before looking: who puts one after this calls again
        while self._answered:
            future, done = self._answered.popleft()
            if not future.done():
                future.set_result(done.result())
