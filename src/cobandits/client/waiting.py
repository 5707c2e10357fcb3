"""The only difference between the two clients: how they wait, and do something now and then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable

from cobandits.errors import CobanditsError

__all__ = ["AsyncWaiting", "Waiting"]

_LOGGER = logging.getLogger("cobandits")


class AsyncWaiting:
    """Calls something each ``seconds``, in a task."""

    def __init__(self, call: Callable[[], Awaitable[None]], seconds: float) -> None:
        self.lock = asyncio.Lock()
        self._call, self._seconds = call, seconds
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    async def sleep(seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End; what is under way is finished."""
        async with self.lock:
            if self._task is not None:
                self._task.cancel()
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._seconds)
            try:
                await self._call()
            except CobanditsError as error:
                _LOGGER.warning("rewards could not be sent and are kept: %s", error)


class Waiting:
    """Calls something each ``seconds``, in a thread."""

    def __init__(self, call: Callable[[], None], seconds: float) -> None:
        self.lock = threading.Lock()
        self._call, self._seconds = call, seconds
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @staticmethod
    def sleep(seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="cobandits-rewards")
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way is finished."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._call()
            except CobanditsError as error:
                _LOGGER.warning("rewards could not be sent and are kept: %s", error)
