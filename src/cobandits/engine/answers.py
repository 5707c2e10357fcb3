"""Answers from events: the first time, and again from the log."""

from __future__ import annotations

from cobandits.engine.encoding import arm_ids
from cobandits.engine.events import Choice, Event, choice_of, request_of
from cobandits.engine.messages import Decision, when

__all__ = ["decision_answer", "same_request"]


def same_request(event: Event, text: str) -> bool:
    """Tell whether a decision was asked for with this content, which is encoded the same way."""
    return (event.body or "").startswith(f'{{"request":{text},"choice":')


def decision_answer(
    event: Event,
    made: str,
    *,
    choice: Choice | None = None,
    ids: list[str] | None = None,
    repeated: bool = False,
) -> Decision:
    """Return the answer that a decision's event stands for; ``made`` is its id."""
    choice = choice_of(event) if choice is None else choice
    ids = arm_ids(request_of(event)) if ids is None else ids
    return Decision(
        id=made,
        number=event.number,
        task=event.task or "",
        arm=ids[choice.arm],
        probability=choice.probability,
        version=f"v{choice.base}+{choice.learned}",
        arms=ids,
        chances=choice.chances,
        explored=choice.by == "policy" and choice.probability < 0.5,
        proposed=ids[choice.proposed],
        by=choice.by,
        mode=choice.mode,
        held=event.kind == "held",
        at=when(event.at),
        expires=None if event.until is None else when(event.until),
        repeated=repeated,
    )
