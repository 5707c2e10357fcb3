"""Rewards in batches, for threads; written by `tools/make_client.py`, do not edit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from cobandits.client.errors import ServiceError
from cobandits.client.exchange import new_id
from cobandits.client.waiting import Waiting
from cobandits.wire import ProblemDocument, RewardInBatch, RewardResult
from cobandits.wire.limits import BATCH

__all__ = ["Rewards"]

Deliver = Callable[[str, Sequence[RewardInBatch]], list[RewardResult]]


class Rewards:
    """Collects rewards and sends them together: when there are enough, or after a while.

    Use it in a ``with`` block: at its end all are sent. A batch that could not be delivered stays
    here and is sent with the next; rewards that were refused are in ``refused``.
    """

    def __init__(self, deliver: Deliver, space: str, *, size: int, seconds: float) -> None:
        self._deliver, self._space = deliver, space
        self._size = min(size, BATCH)
        self._rewards: list[RewardInBatch] = []
        self._waiting = Waiting(self.flush, seconds)
        self.refused: list[tuple[RewardInBatch, ProblemDocument]] = []

    def __enter__(self) -> Rewards:
        self._waiting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._waiting.stop()
        self.flush()

    def add(
        self, decision: str, value: float, *, key: str | None = None, taken: str | None = None
    ) -> None:
        """Take a reward; it is sent soon."""
        one = RewardInBatch(decision=decision, value=value, key=key or new_id(), taken=taken)
        self._rewards.append(one)
        if len(self._rewards) >= self._size:
            self.flush()

    def flush(self) -> None:
        """Send all rewards that are here."""
        with self._waiting.lock:
            while self._rewards:
                batch = self._rewards[: self._size]
                results = self._deliver(self._space, batch)
                del self._rewards[: len(batch)]
                for one, result in zip(batch, results, strict=True):
                    if result.problem is not None:
                        self.refused.append((one, result.problem))

    def check(self) -> None:
        """Raise the first reward that was refused, if there is one."""
        if self.refused:
            raise ServiceError(self.refused[0][1])
