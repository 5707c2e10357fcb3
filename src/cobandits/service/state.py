"""What all calls share: the engine and its spaces, keys, limits and measures."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from cobandits.engine import Answer, Engine, Request, Space
from cobandits.service.bridge import Answers, Asked, Bridge
from cobandits.service.jobs import Evaluations
from cobandits.service.keys import Key, KeyStore
from cobandits.service.metrics import Metrics
from cobandits.service.problems import ProblemError
from cobandits.service.rates import Bucket
from cobandits.service.settings import ServiceSettings
from cobandits.wire.limits import SHARDS

__all__ = ["Service"]

Done = TypeVar("Done")


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
        self.metrics = Metrics(waiting=lambda: self._bridge.waiting)
        self._spaces = {space.name: space for space in engine.spaces()}
        self._starting = 0  # processes, for spaces that are made or learned anew
        self._bridge = Bridge(settings.waiting)
        self._buckets: dict[str, Bucket] = {}
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

    def add(self, space: Space) -> bool:
        """Take a space that the engine has; tell whether it is new here."""
        known = self._spaces.get(space.name)
        if known is not None and known.number == space.number:
            return False
        self._spaces[space.name] = space
        return True

    def remove(self, space: Space) -> None:
        """Forget a space that is deleted, and what was measured; not another of its name."""
        known = self._spaces.get(space.name)
        if known is not None and known.number == space.number:
            del self._spaces[space.name]
            self.evaluations.forget(space.name)
            self.metrics.forget(space.name)

    @contextmanager
    def starting(self, name: str, shards: int) -> Iterator[None]:
        """Take room for the processes of a space that are started meanwhile; refuse too many."""
        count = shards if shards > 1 else 0
        others = (one.settings.shards for one in self.spaces() if one.name != name)
        taken = self._starting + sum(n for n in others if n > 1)
        if count and taken + count > SHARDS:
            raise ProblemError(
                "invalid-request",
                f"all spaces together may have {SHARDS} processes, and {taken} are taken or just "
                f"started: this one may have {max(1, SHARDS - taken)} shards",
            )
        self._starting += count
        try:
            yield
        finally:
            self._starting -= count

    # ---- Asking the engine

    async def ask(self, space: Space, requests: Sequence[Request]) -> Answers:
        """Return the engine's answers; what waits has a limit, and beyond it nothing is taken."""
        future: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()

        def done(found: Answers | Exception) -> None:
            if future.done():  # the caller went away
                return
            if isinstance(found, Exception):
                future.set_exception(found)
            else:
                future.set_result(found)

        self._bridge.ask(space, requests, done)
        return await future

    def ask_directly(
        self, space: Space, request: Asked, done: Callable[[Answer | Exception], None]
    ) -> None:
        """Do the same for one request; the answer comes by a function."""
        self._bridge.ask_one(space, request, done)

    def ask_many_directly(
        self, space: Space, requests: Sequence[Asked], done: Callable[[Answers | Exception], None]
    ) -> None:
        """Do the same for several; there is a result or an error for each, or one for all."""
        self._bridge.ask(space, requests, done)

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
