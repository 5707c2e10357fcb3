"""Requests of threads that wait for their answers."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from cobandits.engine.codec import Struct, field
from cobandits.engine.encoding import Prepared
from cobandits.engine.messages import Activate, Answer, Reward

__all__ = [
    "Call",
    "PlainCall",
    "Result",
    "answer_all",
    "answer_calls",
    "answer_plain",
    "taken_lock",
]

Result = Answer | Exception

# Callers who are woken at once; each wakes another one. With 64 of them, threads change places 2.5
# times per answer where all are woken, 1.8 times with 2, and 1.1 times with 4 and with 8.
_WIDTH = 4


def taken_lock() -> Lock:
    """Return a lock that is released when there is an answer."""
    lock = Lock()
    lock.acquire()
    return lock


class PlainCall(Struct, gc=False, eq=False):
    """One request of a caller who waits for it; ``compiled/_handover.c`` has the same.

    Results are handed on, not kept: an error holds the frame that raised it, and with it the
    request, which would be a cycle.
    """

    space: int
    request: Prepared | Reward | Activate
    result: Result | None = None
    answered: Lock = field(default_factory=taken_lock)

    def answer(self, result: Result) -> None:
        """Give the result to the caller."""
        self.result = result
        self.answered.release()

    def wait(self) -> Result:
        """Return the result when it is there."""
        self.answered.acquire()
        result, self.result = self.result, None
        assert result is not None
        return result


def answer_plain(calls: list[PlainCall], results: list[Result], _width: int) -> None:
    """Give results to their callers, and wake all of them, whatever the width."""
    for call, result in zip(calls, results, strict=True):
        call.answer(result)


if TYPE_CHECKING:  # both have the same methods
    Call = PlainCall
    answer_all = answer_plain
else:
    try:
        from cobandits.compiled._handover import Call, answer_all
    except ImportError:  # no compiler at installation
        Call, answer_all = PlainCall, answer_plain


def answer_calls(calls: list[Call], results: list[Result]) -> None:
    """Give results to their callers, and wake them a few at a time."""
    answer_all(calls, results, _WIDTH)
