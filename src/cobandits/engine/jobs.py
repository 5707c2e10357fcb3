"""Requests on their way through the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from cobandits.engine.calls import Call, Result, answer_calls, taken_lock
from cobandits.engine.codec import Struct
from cobandits.engine.encoding import Prepared
from cobandits.engine.errors import EngineError
from cobandits.engine.messages import Activate, Reward

__all__ = ["Answered", "Asked", "Call", "Command", "Job", "Result", "another", "answer_each"]

Answered = Callable[[list[Result]], None]
Done = TypeVar("Done")


class Job:
    """Some requests of one caller, answered together."""

    def __init__(
        self,
        space: int,
        requests: Sequence[Prepared | Reward | Activate | Exception],
        done: Answered | None = None,
    ) -> None:
        self.space = space
        self._results: list[Result | None] = [
            one if isinstance(one, Exception) else None for one in requests
        ]
        self._requests = requests
        self._left = self.size = self._results.count(None)
        self._done = done
        self._answered = taken_lock()
        if not self._left:
            self._finish()

    def tickets(self) -> list[Ticket]:
        """Return the requests that are to be answered, for the thread that answers them.

        They know their job, which keeps none of them: what refers to itself would stay in memory.
        """
        requests, self._requests = self._requests, ()
        return [
            Ticket(self.space, one, self, place)
            for place, one in enumerate(requests)
            if not isinstance(one, Exception)
        ]

    def answer(self, place: int, result: Result) -> None:
        """Take the result of one of the requests."""
        self._results[place] = result
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        if self._done is not None:
            self._done(self._whole())
        self._answered.release()

    def wait(self) -> list[Result]:
        """Return all results when they are there."""
        self._answered.acquire()
        return self._whole()

    def _whole(self) -> list[Result]:
        results, self._results = self._results, []
        return [one for one in results if one is not None]


class Ticket(Struct, gc=False, eq=False):
    """One of the requests of a job, and the place of its result."""

    space: int
    request: Prepared | Reward | Activate
    job: Job
    place: int

    def answer(self, result: Result) -> None:
        """Give the result to the job."""
        self.job.answer(self.place, result)


Asked = Call | Ticket


def answer_each(asked: list[Asked], results: list[Result]) -> None:
    """Give each request its result; callers who wait are woken last, a few at a time."""
    calls, theirs = [], []
    for one, result in zip(asked, results, strict=True):
        if isinstance(one, Call):
            calls.append(one)
            theirs.append(result)
        else:
            one.answer(result)
    answer_calls(calls, theirs)


def another(error: Exception) -> Exception:
    """Return an error of the engine once more, so that each caller raises one of its own."""
    if not isinstance(error, EngineError):
        return error
    made = type(error)(*error.args)
    made.__cause__ = error.__cause__
    return made


class Command(Generic[Done]):
    """Something that the engine's own thread is to do between two groups of requests."""

    def __init__(self, action: Callable[[], Done]) -> None:
        self._action = action
        self.future: Future[Done] = Future()

    def run(self) -> None:
        """Do it, and give what it returns or raises to who waits for it."""
        try:
            result: Any = self._action()
        except Exception as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
