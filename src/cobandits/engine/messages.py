"""What a caller asks of a space, and what it answers."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from cobandits.engine.codec import Struct

__all__ = [
    "Activate",
    "Activated",
    "Answer",
    "By",
    "Decide",
    "Decision",
    "Mode",
    "Ranked",
    "Request",
    "Reward",
    "Rewarded",
    "when",
]

Mode = Literal["live", "shadow"]
By = Literal["policy", "baseline"]


class Decide(Struct, frozen=True, kw_only=True, gc=False):
    """Ask for a decision: one of the arms, for a task.

    Parameters
    ----------
    task : str
        Any name; it need not be known before.
    arms : sequence of mappings
        Each has an ``id`` (its place, as text, if it has none) and the fields of the schema.
    context : mapping, optional
        What all arms have in common.
    exclude : sequence of str
        Ids of arms that cannot be chosen.
    baseline : str, optional
        The arm that the application would take by itself; the first that is available by default.
        It is taken in shadow mode, and in the baseline's share of the decisions.
    held : bool
        Whether the decision counts only when it is activated.
    id : str, optional
        The decision's id. The same request again with the same id gets the first answer.
    """

    task: str
    arms: Sequence[Mapping[str, Any]]
    context: Mapping[str, Any] | None = None
    exclude: Sequence[str] = ()
    baseline: str | None = None
    held: bool = False
    id: str | None = None


class Reward(Struct, frozen=True, kw_only=True, gc=False):
    """Tell what a decision has earned.

    Parameters
    ----------
    decision : str
        Its id.
    value : float
    key : str, optional
        The name of this reward among those of its decision: where rewards are summed, the same
        key again is the same reward, and without a key each counts.
    taken : str, optional
        The id of the arm that the application took, where it is not the one decided.
    """

    decision: str
    value: float
    key: str | None = None
    taken: str | None = None


class Activate(Struct, frozen=True, kw_only=True, gc=False):
    """Tell that a held decision was shown: its window begins."""

    decision: str


Request = Decide | Reward | Activate


class Ranked(NamedTuple):
    """An arm and the probability with which the policy could have chosen it.

    It is None where it was not worked out: the choice was not certain, and there were many arms or
    many requests at once.
    """

    arm: str
    probability: float | None


_ranked: Callable[[tuple[str, float | None]], Ranked] = functools.partial(tuple.__new__, Ranked)


def _falling(one: Ranked) -> float:
    return 1.0 if one[1] is None else -one[1]


class Decision(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to :class:`Decide`; it is on disk."""

    id: str
    number: int  # of its event in the log
    task: str
    arm: str
    probability: float  # with which this arm was chosen; 1 where the baseline decided
    version: str  # of the state that decided, such as "v412+1873"
    arms: list[str]  # of the request, by their ids
    chances: list[float | None]  # of these arms; -1 if excluded, None if not worked out
    explored: bool  # whether the policy was likelier to choose another arm
    proposed: str  # the arm that the policy chose; another one than ``arm`` in shadow mode
    by: By
    mode: Mode
    held: bool
    at: datetime.datetime
    expires: datetime.datetime | None  # the end of its window
    repeated: bool = False  # whether it was answered before

    @property
    def ranking(self) -> tuple[Ranked, ...]:
        """All arms that could be chosen: the most likely first, those not worked out last."""
        pairs = zip(self.arms, self.chances, strict=True)
        known = [one for one in map(_ranked, pairs) if one[1] is None or one[1] >= 0]
        known.sort(key=_falling)
        return tuple(known)

    def __hash__(self) -> int:
        return hash((self.id, self.number))


class Rewarded(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to :class:`Reward`; it is on disk.

    ``"accepted"``: it counts. ``"repeated"``: the same was accepted before, nothing happened.
    ``"late"``: its window had ended; it is in the log, and not learned.
    """

    status: Literal["accepted", "repeated", "late"]
    decision: str
    value: float  # of all its rewards: the sum or the last, where the space says so
    number: int  # of the event in the log, the first one's if repeated
    at: datetime.datetime


class Activated(Struct, frozen=True, kw_only=True, gc=False):
    """The answer to :class:`Activate`: ``"late"`` if its window had ended before."""

    status: Literal["accepted", "repeated", "late"]
    decision: str
    expires: datetime.datetime | None


Answer = Decision | Rewarded | Activated


@functools.lru_cache(1024)  # requests that are answered together have the same times
def when(microseconds: int) -> datetime.datetime:
    """Return a time of the log in UTC.

    >>> when(1_000_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    seconds, rest = divmod(microseconds, 1_000_000)
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(microsecond=rest)
