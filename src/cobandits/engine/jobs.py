"""Requests on their way through the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, Generic, TypeVar

from cobandits.engine.codec import Struct
from cobandits.engine.encoding import Prepared
from cobandits.engine.errors import EngineError
from cobandits.engine.messages import Activate, Answer, Reward
from cobandits.engine.turnstile import Turnstile

__all__ = ["Command", "Job", "Result", "Ticket", "another"]

Result = Answer | Exception
Done = TypeVar("Done")


class Job:
    """Some requests of one caller, answered together."""

    def __init__(
        self,
        space: int,
        requests: Sequence[Prepared | Reward | Activate | Exception],
        done: Callable[[list[Result]], None] | None = None,
    ) -> None:
        self.space = space
        self.turnstile: Turnstile | None = None  # of the engine that has it
        self.results: list[Result | None] = [
            one if isinstance(one, Exception) else None for one in requests
        ]
        self._requests = requests
        self._left = self.results.count(None)
        self._done = done
        self._answered = Lock()
        self._answered.acquire()
        if not self._left:
            self._finish()

    def tickets(self) -> list[Ticket]:
        """Return the requests that are to be answered, for the thread that answers them.

        They know their job, which keeps none of them: what refers to itself would stay in memory
        until the garbage collector finds it.
        """
        requests, self._requests = self._requests, ()
        return [
            Ticket(self, place, one)
            for place, one in enumerate(requests)
            if not isinstance(one, Exception)
        ]

    def answer(self, place: int, result: Result) -> None:
        """Take the result of one of the requests."""
        self.results[place] = result
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        if self._done is not None:
            self._done(self._whole())
        elif self.turnstile is not None:
            self.turnstile.add(self._answered)
            return
        self._answered.release()

    def wait(self) -> list[Result]:
        """Return all results when they are there."""
        self._answered.acquire()
        if self.turnstile is not None:
            self.turnstile.step()
        return self._whole()

    def _whole(self) -> list[Result]:
        return [one for one in self.results if one is not None]


class Ticket(Struct, frozen=True):
    """One request, and where its result goes.

    An error that is a result holds the frame that raised it, and with it the ticket: a cycle.
    """

    job: Job
    place: int
    request: Prepared | Reward | Activate

    def answer(self, result: Result) -> None:
        """Give the result to the caller."""
        self.job.answer(self.place, result)


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
