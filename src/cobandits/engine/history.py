"""What happened: events, decisions with their rewards, and decisions made again from the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cobandits.engine.answers import decision_answer
from cobandits.engine.core import Core
from cobandits.engine.deciding import decide_batch
from cobandits.engine.encoding import Prepared, arm_ids, features
from cobandits.engine.errors import DamagedLogError, UnknownDecisionError
from cobandits.engine.events import Choice, Event, choice_of, request_of
from cobandits.engine.fold import SpaceFold
from cobandits.engine.ids import made_id
from cobandits.engine.memory import Given, Known
from cobandits.engine.messages import Decision
from cobandits.engine.stores import Query

__all__ = [
    "Record",
    "batch_of",
    "decided_again",
    "find_event",
    "prepared_again",
    "record",
    "record_in_log",
]


@dataclass(frozen=True, kw_only=True)
class Record:
    """A decision in the log, with all that became of it."""

    decision: Decision
    request: dict[str, Any]  # as it was asked
    rewards: tuple[Given, ...]
    activated: bool


def find_event(core: Core, space: int, given: str) -> Event:
    """Return the event of a decision by its id."""
    number = core.number_of(space, given)
    event = None if number is None else core.store.event(number)
    if event is None or event.space != space or event.kind not in ("decision", "held"):
        raise UnknownDecisionError(f"there is no decision {given!r:.60} in this space")
    return event


def record(core: Core, event: Event) -> Record:
    """Return what is in the log of a decision."""
    later = core.store.referring(event.number)
    known = core.folds[event.space].memory.find(event.number)
    assert known is not None
    key = core.store.key_of(event.number)
    made = made_id(event.number, core.secret) if key is None else key.partition(":")[2]
    return Record(
        decision=decision_answer(event, made),
        request=request_of(event),
        rewards=known.given,
        activated=any(one.kind == "activate" for one in later),
    )


def prepared_again(event: Event, fold: SpaceFold) -> Prepared:
    """Return a request as it was when it was decided."""
    request = request_of(event)
    ids, schema = arm_ids(request), fold.settings.schema
    excluded = request.get("exclude", [])
    available = np.array([one not in excluded for one in ids])
    baseline = request.get("baseline")
    return Prepared(
        id=None,
        text="",
        task=event.task or "",
        ids=ids,
        phi=features(request, schema),
        available=available,
        n_available=int(available.sum()),
        baseline=int(available.argmax()) if baseline is None else ids.index(baseline),
        held=event.kind == "held",
        schema=schema,
    )


def batch_of(core: Core, event: Event) -> list[Event]:
    """Return the decisions that were made in the same call."""
    made = choice_of(event)
    query = Query(after=made.batch - 1, space=event.space, kinds=("decision", "held"))
    found: list[Event] = []
    for one in core.store.read(query):
        if choice_of(one).batch == made.batch:
            found.append(one)
        if len(found) == made.size:
            return found
    raise DamagedLogError(f"the decisions that were made with {event.number} are not in the log")


def decided_again(fold: SpaceFold, batch: list[Event]) -> list[Choice]:
    """Make decisions again; the state is led to the one that made them."""
    first = choice_of(batch[0])
    fold.learner.advance(first.learned)
    present = fold.learner.deciding
    if (present.base, present.learned) != (first.base, first.learned):
        raise DamagedLogError(
            f"decision {batch[0].number} was made by v{first.base}+{first.learned}, "
            f"the log leads to {present.version}"
        )
    asked = [prepared_again(event, fold) for event in batch]
    numbers = [event.number for event in batch]
    return decide_batch(fold.learner, fold.settings, fold.seed, asked, numbers)


def record_in_log(core: Core, event: Event) -> Record:
    """Return the same from the log alone, beside the engine's thread."""
    known = Known(
        number=event.number,
        task=event.task or "",
        until=event.until,
        shown=event.kind == "decision",
        held=event.kind == "held",
    )
    for later in core.store.referring(event.number):
        known.follow(later)
    key = core.store.key_of(event.number)
    made = made_id(event.number, core.secret) if key is None else key.partition(":")[2]
    return Record(
        decision=decision_answer(event, made),
        request=request_of(event),
        rewards=known.given,
        activated=known.held and known.shown,
    )
