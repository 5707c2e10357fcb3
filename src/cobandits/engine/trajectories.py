"""Decisions with what was learned of them, from the log: what exports and reports are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cobandits.engine.codec import decoded
from cobandits.engine.encoding import arm_ids, past_features
from cobandits.engine.errors import UnknownSpaceError
from cobandits.engine.events import Choice, Event, choice_of, request_of
from cobandits.engine.outcomes import Lesson, Outcomes
from cobandits.engine.settings import Settings
from cobandits.engine.stores import Query, Store
from cobandits.errors import DataError
from cobandits.logs import Log
from cobandits.ragged import RaggedArms
from cobandits.schema import Schema

__all__ = ["Trajectory", "log_of", "trajectories", "usable"]

_DECISIONS = ("decision", "held", "import")


class Trajectory(NamedTuple):
    """A decision, and the reward that was learned, if one was."""

    event: Event
    choice: Choice
    lesson: Lesson | None

    @property
    def request(self) -> dict[str, Any]:
        """What was asked."""
        return request_of(self.event)

    @property
    def known(self) -> bool:
        """Whether the arm was drawn with a known probability, and has a reward."""
        drawn = self.choice.by == "policy" and self.choice.probability > 0
        return drawn and self.lesson is not None and self.lesson.taken is None


def trajectories(
    store: Store,
    space: int,
    *,
    through: int,
    since: int | None = None,
    before: int | None = None,
) -> Iterator[Trajectory]:
    """Yield the decisions of a space in order, each with its reward."""
    lessons = _lessons(store, space, through)
    query = Query(space=space, kinds=_DECISIONS, through=through, since=since, before=before)
    for event in store.read(query):
        yield Trajectory(event, choice_of(event), lessons.get(event.number))


def _lessons(store: Store, space: int, through: int) -> dict[int, Lesson]:
    """Return what was learned of each decision."""
    outcomes, found, settings = Outcomes(), dict[int, Lesson](), None
    for event in store.read(Query(space=space, through=through)):
        if event.kind == "space":
            settings = Settings.from_dict(decoded(event.body or "")["settings"])
        if settings is None:
            raise UnknownSpaceError("this space is being deleted; nothing is kept")
        for lesson in outcomes.follow(event, settings):
            found[lesson.decision] = lesson
        if event.kind == "change":
            settings = settings.followed(event.body)
    return found


def usable(found: list[Trajectory], schema: Schema, began: int) -> list[Trajectory]:
    """Return decisions that evaluation can use; those up to event ``began`` had another schema."""
    return [
        one
        for one in found
        if one.known and (one.event.number > began or _fits(one.request, schema))
    ]


def _fits(request: dict[str, Any], schema: Schema) -> bool:
    try:
        past_features(request, schema)
    except DataError:
        return False
    return True


def log_of(found: list[Trajectory], schema: Schema) -> Log:
    """Return decisions with known probabilities and rewards as a log, for evaluation."""
    kept = [one for one in found if one.known]
    if not kept:
        raise DataError(
            "no decision of the policy has a reward yet; reward some, or leave shadow mode"
        )
    requests = [one.request for one in kept]
    masks = [
        np.array([name not in request.get("exclude", ()) for name in arm_ids(request)])
        for request in requests
    ]
    return Log(
        tasks=np.array([one.event.task for one in kept], np.str_),
        arms=RaggedArms.of([past_features(request, schema) for request in requests], masks),
        chosen=np.array([one.choice.arm for one in kept], np.int64),
        probabilities=np.array([one.choice.probability for one in kept]),
        rewards=np.array([one.lesson.value for one in kept if one.lesson is not None]),
        policy="shared",
    )
