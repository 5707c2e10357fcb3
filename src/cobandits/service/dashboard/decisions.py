"""Decisions on pages: a list of them that goes back to the first, and one with its explanation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from cobandits.engine import Decision, Space
from cobandits.engine.history import Record
from cobandits.errors import DataError
from cobandits.policies.shared.explain import Explanation

__all__ = ["Listed", "Place", "listed", "one_decision", "when"]

_BACK = 200_000  # events that are looked at for a page: tasks may be rare, and `older` goes on
_HOW = {
    "baseline": "the baseline decided",
    "explored": "one of the other arms was likelier, and this one was taken to learn about it",
    "best": "this arm was at least as likely as all others together",
}


class Place(NamedTuple):
    """Where a page of decisions ends or begins, by numbers of events; the newest page has none."""

    before: int | None = None
    after: int | None = None


class Listed(NamedTuple):
    """A page of decisions, the newest first."""

    rows: list[dict[str, object]]
    older: int | None  # the pages beside it: older ones are before this number,
    newer: int | None  # newer ones after this; None where there are none


def listed(space: Space, task: str | None, place: Place, count: int) -> Listed:
    """Return a page of ``count`` decisions."""
    through = _end(space, task, place, count)
    top = space.last if through is None else through
    start = max(0, top - _BACK)
    asked = {"after": start, "through": top, "task": task, "newest": True, "limit": count + 1}
    found = list(space.decisions(**asked))
    older = start + 1 if start else None
    if len(found) > count:
        older = found[count - 1].decision.number
    return Listed([_row(one) for one in found[:count]], older, through)


def _end(space: Space, task: str | None, place: Place, count: int) -> int | None:
    """Return the number up to which a page goes; None for the newest one."""
    if place.after is None:
        return None if place.before is None else place.before - 1
    top = place.after + _BACK
    found = list(space.decisions(after=place.after, through=top, task=task, limit=count + 1))
    if len(found) > count:
        return found[count].decision.number - 1
    return top if top < space.last else None


def one_decision(space: Space, decision: str, few: int) -> dict[str, Any]:
    """Return one decision with its explanation, if there are at least ``few`` rewards."""
    record = space.decision(decision)
    policy = space.policy()
    enough = policy.rewards >= few
    try:
        explained = policy.explain(record.decision.task) if enough else None
    except DataError:
        explained = None
    arms = {str(arm.get("id", place)): arm for place, arm in enumerate(record.request["arms"])}
    ranking = [
        {"arm": one.arm, "probability": one.probability, "fields": _fields(arms[one.arm])}
        for one in record.decision.ranking
    ]
    how = _how(record.decision)
    return {
        "record": record,
        "at": when(record.decision.at.timestamp()),
        "how": f"{how}: {_HOW[how]}",
        "ranking": ranking,
        "context": _fields(record.request.get("context") or {}),
        "explained": explained,
        "alike": _likenesses(explained, alike=True),
        "unlike": _likenesses(explained, alike=False),
        "rewards": [(when(one.at / 1e6), f"{one.value:.4g}") for one in record.rewards],
    }


def _likenesses(explained: Explanation | None, *, alike: bool) -> str:
    """Return the nearest tasks with their likeness: those that are alike, or the others."""
    near = explained.nearest if explained else ()
    shown = [f"{one.task} ({one.likeness:.2f})" for one in near if (one.likeness > 0) == alike]
    return ", ".join(shown)


def _how(made: Decision) -> str:
    """Return in a word how a decision was made."""
    if made.by == "baseline":
        return "baseline"
    return "explored" if made.explored else "best"


def _row(record: Record) -> dict[str, object]:
    made = record.decision
    return {
        "id": made.id,
        "at": when(made.at.timestamp()),
        "task": made.task,
        "arm": made.arm,
        "probability": f"{made.probability:.3f}",
        "how": _how(made),
        "reward": ", ".join(f"{one.value:.4g}" for one in record.rewards),
    }


def _fields(given: dict[str, Any]) -> str:
    shown = {name: value for name, value in given.items() if name != "id"}
    return msgspec.json.encode(shown).decode()[:300] if shown else ""


def when(seconds: float) -> str:
    """Return a time, in UTC.

    >>> when(0)
    '1970-01-01 00:00:00'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
