"""Replay a log from its start, and compare: every decision, and the state at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from cobandits.engine.core import Core
from cobandits.engine.errors import DamagedLogError
from cobandits.engine.events import Event, choice_of
from cobandits.engine.fold import SpaceFold
from cobandits.engine.history import decided_again
from cobandits.engine.policies import SpacePolicy, policy_bytes, read_policy
from cobandits.engine.stores import Query, Store

__all__ = ["Live", "Replay", "Verification", "live_state", "verified"]

_SHOWN = 20  # differences that are named


@dataclass(frozen=True, kw_only=True)
class Live:
    """A space as it is in memory."""

    number: int
    base: int
    learned: int
    state: bytes


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a replay of the whole log has shown."""

    events: int
    decisions: int  # that were made again
    rewards: int  # that were learned again
    differences: tuple[str, ...]  # none, if all is as it was

    @property
    def ok(self) -> bool:
        """Whether every decision and every bit of the state is the same."""
        return not self.differences

    def __str__(self) -> str:
        found = f"{self.events:,} events, {self.decisions:,} decisions, {self.rewards:,} rewards: "
        return found + ("equal, bit for bit" if self.ok else "; ".join(self.differences))


def live_state(fold: SpaceFold) -> Live:
    """Return all that has been learned and waits, as bytes."""
    learner = fold.learner
    return Live(
        number=fold.number, base=learner.base, learned=learner.learned, state=fold.snapshot()
    )


class Replay(Core):
    """A log read from its start: no snapshot is used, also not to roll back to.

    Where old events were removed, it begins with the first snapshot after them.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        rolled = store.read(Query(kinds=("rollback",)))
        self._wanted = {event.ref for event in rolled}
        self._versions: dict[int, bytes] = {}
        self.folded = store.folded()
        self.deleted = {event.space for event in store.read(Query(kinds=("delete",)))}

    def begin(self, event: Event) -> SpaceFold:
        """Begin a space."""
        fold = super().begin(event)
        if event.number <= self.folded:
            later = [one for one in self.store.snapshots(fold.number) if one.number >= self.folded]
            fold.restore(self.store.snapshot(later[0]), later[0].number)
        return fold

    def follow(self, event: Event) -> None:
        """Take an event that was read."""
        gap = event.number != self.last + 1 and event.number > self.folded + 1
        if gap or event.at < self.at:
            raise DamagedLogError(
                f"event {event.number} at {event.at} follows on {self.last} at {self.at}"
            )
        super().follow(event)
        fold = self.folds.get(event.space)  # none while the space is being deleted
        if fold is None or event.kind == "upload" or fold.last != event.number:
            return  # or the fold began with a later snapshot
        if event.number in self._wanted:
            self._versions[event.number] = policy_bytes(fold.learner.policy)

    def version_policy(self, number: int) -> SpacePolicy:
        """Return the policy that a version began with."""
        if number not in self._versions:  # before the first snapshot, or a file
            return super().version_policy(number)
        return read_policy(self._versions[number])


def verified(store: Store, live: list[Live], last: int) -> Verification:
    """Replay the log through event ``last``, and compare it with spaces as they are."""
    replay, counts, differences = Replay(store), Counter[str](), list[str]()
    batches: dict[int, list[Event]] = {}  # decisions made together, by the number of the first
    for event in store.read(Query(through=last)):
        counts[event.kind] += 1
        fold = replay.folds.get(event.space)
        in_snapshot = fold is not None and event.number <= fold.last
        replay.follow(event)
        there = event.space in replay.folds  # not a space that is being deleted
        if event.kind in ("decision", "held") and there and not in_snapshot:
            made = choice_of(event)
            batch = batches.setdefault(made.batch, [])
            batch.append(event)
            if len(batch) == made.size:
                del batches[made.batch]
                differences += _compared(replay.folds[event.space], batch)
    differences += [f"the decisions of batch {first} are not all there" for first in batches]
    for one in (one for one in live if one.number in replay.folds):  # not one deleted meanwhile
        differences += _same_state(replay.folds[one.number], one)
    return Verification(
        events=sum(counts.values()),
        decisions=counts["decision"] + counts["held"],
        rewards=counts["reward"],
        differences=tuple(differences[:_SHOWN]),
    )


def _compared(fold: SpaceFold, batch: list[Event]) -> list[str]:
    """Return what is different when decisions are made again."""
    try:
        again = decided_again(fold, batch)
    except DamagedLogError as error:
        return [str(error)]
    return [
        f"decision {event.number} was {before}, now {now}"
        for event, now in zip(batch, again, strict=True)
        if (before := choice_of(event)) != now
    ]


def _same_state(fold: SpaceFold, live: Live) -> list[str]:
    fold.learner.advance(live.learned)
    if fold.snapshot() == live.state:
        return []
    return [
        f"the space {fold.name!r} is at v{live.base}+{live.learned}; its log leads to another "
        f"state ({fold.learner.version})"
    ]
