"""Decisions as they stand in the log, read beside the engine's thread."""

from __future__ import annotations

from cobandits.engine.answers import decision_answer
from cobandits.engine.core import Core
from cobandits.engine.events import Event, request_of
from cobandits.engine.history import Record
from cobandits.engine.ids import made_id
from cobandits.engine.memory import Known

__all__ = ["record_in_log"]


def record_in_log(core: Core, event: Event) -> Record:
    """Return a decision with what became of it; only the store is asked."""
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
        rewards=tuple(known.given),
        activated=known.held and known.shown,
    )
