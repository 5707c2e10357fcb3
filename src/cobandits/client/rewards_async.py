"""Rewards in batches, for asyncio. `tools/make_client.py` writes the other one from this file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType

from cobandits.client.errors import ServiceError
from cobandits.client.exchange import new_id
from cobandits.client.waiting import AsyncWaiting
from cobandits.wire import ProblemDocument, RewardInBatch, RewardResult
from cobandits.wire.limits import BATCH

__all__ = ["AsyncRewards"]

Deliver = Callable[[str, Sequence[RewardInBatch]], Awaitable[list[RewardResult]]]


class AsyncRewards:
    """Collects rewards and sends them together: when there are enough, or after a while.

    Use it in a ``with`` block: at its end all are sent. A batch that could not be delivered stays
    here and is sent with the next; rewards that were refused are in ``refused``.
    """

    def __init__(self, deliver: Deliver, space: str, *, size: int, seconds: float) -> None:
        self._deliver, self._space = deliver, space
        self._size = min(size, BATCH)
        self._rewards: list[RewardInBatch] = []
        self._waiting = AsyncWaiting(self.flush, seconds)
        self.refused: list[tuple[RewardInBatch, ProblemDocument]] = []

    async def __aenter__(self) -> AsyncRewards:
        await self._waiting.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._waiting.stop()
        await self.flush()

    async def add(
        self, decision: str, value: float, *, key: str | None = None, taken: str | None = None
    ) -> None:
        """Take a reward; it is sent soon."""
        one = RewardInBatch(decision=decision, value=value, key=key or new_id(), taken=taken)
        self._rewards.append(one)
        if len(self._rewards) >= self._size:
            await self.flush()

    async def flush(self) -> None:
        """Send all rewards that are here."""
        async with self._waiting.lock:
            while self._rewards:
                batch = self._rewards[: self._size]
                results = await self._deliver(self._space, batch)
                del self._rewards[: len(batch)]
                for one, result in zip(batch, results, strict=True):
                    if result.problem is not None:
                        self.refused.append((one, result.problem))

    def check(self) -> None:
        """Raise the first reward that was refused, if there is one."""
        if self.refused:
            raise ServiceError(self.refused[0][1])
