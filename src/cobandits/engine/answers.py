"""Answers from events: the first time, and again from the log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cobandits.engine.encoding import arm_ids
from cobandits.engine.events import Choice, Event, choice_of, request_of
from cobandits.engine.messages import Decision, Ranked, when

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
        ranking=_ranking(choice, ids),
        explored=choice.by == "policy" and choice.probability < 0.5,
        proposed=ids[choice.proposed],
        by=choice.by,
        mode=choice.mode,
        held=event.kind == "held",
        at=when(event.at),
        expires=None if event.until is None else when(event.until),
        repeated=repeated,
    )


def _ranking(choice: Choice, ids: list[str]) -> tuple[Ranked, ...]:
    """Return the arms that could be chosen: the most likely first, those not worked out last."""
    first, chances = choice.proposed, choice.chances
    rest, most = chances[first - 1], chances[first]  # of another arm, if there is one
    alike = most is not None and (rest is None or 0 <= rest < most)
    if alike and chances.count(rest) == len(ids) - 1:  # nothing to sort: the usual case
        others = [(name, rest) for name in (*ids[:first], *ids[first + 1 :])]
        return tuple(map(_ranked, [(ids[first], most), *others]))
    pairs = zip(ids, chances, strict=True)
    known = [one for one in map(_ranked, pairs) if one[1] is None or one[1] >= 0]
    known.sort(key=_falling)
    return tuple(known)


_ranked: Callable[[tuple[str, float | None]], Ranked] = partial(tuple.__new__, Ranked)  # fast


def _falling(one: Ranked) -> float:
    return 1.0 if one[1] is None else -one[1]
