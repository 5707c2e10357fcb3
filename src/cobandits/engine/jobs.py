"""Requests on their way through the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, Generic, TypeVar

from cobandits.engine.codec import Struct, field
from cobandits.engine.encoding import Prepared
from cobandits.engine.errors import EngineError
from cobandits.engine.messages import Activate, Answer, Reward

__all__ = ["Answered", "Asked", "Call", "Command", "Job", "Result", "another"]

Result = Answer | Exception
Answered = Callable[[list[Result]], None]
Done = TypeVar("Done")


def _taken() -> Lock:
    """Return a lock that is released when there is an answer."""
    lock = Lock()
    lock.acquire()
    return lock


class Call(Struct, gc=False, eq=False):
    """One request of a caller who waits for it.

    Results are handed on, not kept: an error holds the frame that raised it, and with it the
    request, which would be a cycle.
    """

    space: int
    request: Prepared | Reward | Activate
    result: Result | None = None
    answered: Lock = field(default_factory=_taken)

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
        self._answered = _taken()
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
