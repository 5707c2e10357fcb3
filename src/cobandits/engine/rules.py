"""What a reward or an activation is answered: pure functions of what is known before it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from cobandits.engine.errors import ConflictError, NotActivatedError
from cobandits.engine.memory import Given, Known
from cobandits.engine.settings import Settings

__all__ = ["Status", "Verdict", "judge_activation", "judge_reward"]

Status = Literal["accepted", "repeated", "late"]


class Verdict(NamedTuple):
    """The answer to a reward, and the earlier one that it repeats."""

    status: Status
    value: float  # of all rewards of the decision
    first: Given | None = None


def judge_reward(
    settings: Settings, known: Known, value: float, key: str | None, taken: int | None, at: int
) -> Verdict:
    """Return what becomes of a reward at a time, or refuse it.

    A repetition is answered as the first was, whenever it comes.
    """
    if not known.shown:
        raise NotActivatedError(
            "this decision was held and never activated, so it can have earned nothing; "
            "activate it first"
        )
    earlier = _earlier(settings, known, value, key)
    if earlier is not None:
        if (earlier.value, earlier.taken) != (value, taken):
            raise ConflictError(
                f"this decision has the reward {earlier.value:g}, got {value:g}"
                f"{'' if earlier.taken == taken else ' for another arm'}; the first stands. A "
                "space with rewards='sum' or 'last' takes several, each with a key of its own"
            )
        late = _is_late(known, earlier.at)
        return Verdict("late" if late else "repeated", _total(settings, known, None), earlier)
    if _is_late(known, at):
        return Verdict("late", value)
    return Verdict("accepted", _total(settings, known, value))


def _earlier(settings: Settings, known: Known, value: float, key: str | None) -> Given | None:
    """Return the reward that this one repeats or contradicts."""
    if not known.given:
        return None
    if settings.rewards == "first":
        return known.given[0]
    if key is not None:
        return next((one for one in known.given if one.key == key), None)
    last = known.given[-1]
    return last if settings.rewards == "last" and last.value == value else None


def _is_late(known: Known, at: int) -> bool:
    return known.until is not None and at > known.until


def _total(settings: Settings, known: Known, value: float | None) -> float:
    counted = [one.value for one in known.given if not _is_late(known, one.at)]
    if settings.rewards == "sum":
        return sum(counted, value or 0.0)
    if value is not None:
        return value
    return counted[-1] if counted else 0.0


def judge_activation(known: Known, at: int) -> Status:
    """Return what becomes of an activation at a time."""
    if known.shown:
        return "repeated"
    return "late" if _is_late(known, at) else "accepted"
