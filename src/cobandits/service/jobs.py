"""Evaluations that take a while: asked for, followed, and kept until the service stops."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from cobandits.engine import Space
from cobandits.errors import CobanditsError
from cobandits.evaluation import Value, evaluate
from cobandits.evaluation.methods import Method
from cobandits.service.logs import LOGGER
from cobandits.service.problems import ProblemError

__all__ = ["Evaluation", "Evaluations"]

_KEPT = 100
_METHODS: tuple[Method, ...] = ("snips", "dr")
_READING = 0.5  # the part of the work that reading the log is, about
State = Literal["waiting", "reading the log", "evaluating", "done", "failed"]


@dataclass
class Evaluation:
    """The value of a version on the decisions of the log."""

    id: str
    space: str
    version: str
    state: State = "waiting"
    progress: float = 0.0  # share of the work that is done
    asked: datetime = field(default_factory=lambda: datetime.now(UTC))
    decisions: int | None = None
    values: list[Value] = field(default_factory=list)
    error: str | None = None


class Evaluations:
    """Evaluations of all spaces, one at a time."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="cobandits-evaluation")
        self._known: OrderedDict[str, Evaluation] = OrderedDict()
        self._numbers = itertools.count(1)

    def ask(self, space: Space, version: str) -> Evaluation:
        """Begin an evaluation."""
        waiting = sum(one.state == "waiting" for one in self._known.values())
        if waiting >= 10:
            raise ProblemError(
                "overloaded", f"{waiting} evaluations wait already; try again later", retry=60
            )
        found = Evaluation(str(next(self._numbers)), space.name, version)
        self._known[found.id] = found
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)
        self._pool.submit(_run, found, space)
        return found

    def of(self, space: str) -> list[Evaluation]:
        """Return the evaluations of a space."""
        return [one for one in self._known.values() if one.space == space]

    def find(self, space: str, name: str) -> Evaluation:
        """Return one."""
        found = self._known.get(name)
        if found is None or found.space != space:
            raise ProblemError("unknown-evaluation", f"there is no evaluation {name[:100]!r}")
        return found

    def forget(self, space: str) -> None:
        """Forget the evaluations of a space that was deleted."""
        for one in self.of(space):
            del self._known[one.id]

    def close(self) -> None:
        """Forget what waits; what is under way is finished."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _read(found: Evaluation, share: float) -> None:
    found.progress = _READING * share


def _run(found: Evaluation, space: Space) -> None:
    """Evaluate; whatever happens is kept for who asks."""
    try:
        policy = space.policy(None if found.version == "present" else found.version)
        found.state = "reading the log"
        log = space.log(progress=lambda share: _read(found, share))
        found.decisions, found.state = len(log), "evaluating"
        for done, method in enumerate(_METHODS, 1):
            found.values += evaluate(policy, log, methods=(method,), rng=0).values()
            found.progress = _READING + (1 - _READING) * done / len(_METHODS)
        found.state = "done"
    except CobanditsError as error:
        found.state, found.error = "failed", str(error)
    except Exception:
        LOGGER.exception("an evaluation failed")
        found.state, found.error = "failed", "an error that was not foreseen; the logs have it"
