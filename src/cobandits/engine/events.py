"""Events: the rows of the log, of which everything else is computed."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from cobandits.engine.codec import Struct, decoded, decoded_as, encoded

__all__ = [
    "REQUESTED",
    "Choice",
    "Event",
    "Kind",
    "choice_of",
    "decision_body",
    "request_of",
    "space_body",
]

Kind = Literal[
    "space",  # a space was made: its number is that of this event
    "change",  # some of its settings are others from here on
    "decision",
    "held",  # a decision that counts when it is activated
    "activate",  # of the held decision `ref`
    "reward",  # of the decision `ref`
    "import",  # a decision that was made elsewhere, with its reward
    "tick",  # windows ended, and nothing else happened
    "install",  # a prior was learned with the reward that waited for it
    "rollback",  # to the version `ref`
    "relearn",  # all was learned anew, without the rewards that the body names
    "upload",  # a version from a file, which can be returned to
    "delete",  # the space was deleted, and its events are being erased
    "gone",  # an event of a deleted space: nothing but its number and time is left
]


REQUESTED = frozenset({"decision", "held", "activate", "reward", "import"})  # what callers ask for


class Event(NamedTuple):
    """One row of the log."""

    number: int  # from 1, without gaps
    at: int  # microseconds since 1970; never less than in the event before
    space: int
    kind: Kind
    ref: int | None = None  # the event that this one is about
    until: int | None = None  # of a decision or an activation: when the window ends
    value: float | None = None  # of a reward
    task: str | None = None  # of a decision
    body: str | None = None  # JSON


class Choice(Struct, omit_defaults=True, gc=False):
    """What was decided, beside the request, in the body of a decision."""

    arm: int  # its place in the request
    probability: float
    base: int  # the version: the event that made the state,
    learned: int  # and the rewards learned since
    chances: list[float | None]  # of each arm; -1 if excluded, null if not worked out
    batch: int  # the number of the first decision that was made in the same call
    size: int  # how many were
    proposed: int  # the arm that the policy chose
    by: Literal["policy", "baseline"] = "policy"
    mode: Literal["live", "shadow"] = "live"


class _Decision(Struct):
    choice: Choice


def decision_body(request: str, choice: Choice) -> str:
    """Return the body of a decision, around the request as it was encoded."""
    return f'{{"request":{request},"choice":{encoded(choice).decode()}}}'


def choice_of(event: Event) -> Choice:
    """Return what was decided."""
    return decoded_as(_Decision, event.body or "").choice


def request_of(event: Event) -> dict[str, Any]:
    """Return what was asked."""
    request: dict[str, Any] = decoded(event.body or "")["request"]
    return request


def space_body(name: str, seed: int, settings: dict[str, Any]) -> str:
    """Return the body of the event that makes a space."""
    return encoded({"name": name, "seed": seed, "settings": settings}).decode()
