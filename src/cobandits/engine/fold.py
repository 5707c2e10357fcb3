"""A space as a fold over its events: settings, open windows, what was learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.engine.codec import decoded
from cobandits.engine.events import REQUESTED, Event
from cobandits.engine.learner import Learner
from cobandits.engine.memory import Memory
from cobandits.engine.outcomes import Outcomes
from cobandits.engine.policies import (
    Learned,
    SpacePolicy,
    close,
    going_on,
    placed,
    policy_bytes,
    policy_for,
    read_policy,
)
from cobandits.engine.relearning import Relearning
from cobandits.engine.settings import LEARNED, Settings
from cobandits.engine.snapshots import packed, unpacked
from cobandits.engine.stores import Store
from cobandits.errors import ClusterError

__all__ = ["Relearned", "SpaceFold"]

Doubles = NDArray[np.float64]
Versions = Callable[[int], SpacePolicy]  # the policy that a version began with


class Relearned(NamedTuple):
    """What learning the log anew has led to."""

    found: Relearning
    policy: SpacePolicy


class SpaceFold:
    """All that follows from the events of a space so far.

    :meth:`apply` is the only way in. Learning itself is not done there: rewards wait in
    ``learner``, whose steps come in the same order whenever they are taken.

    With ``processes``, the shards of its policy live in some, once it was placed or restored.
    """

    def __init__(
        self, event: Event, store: Store, versions: Versions, *, processes: bool = False
    ) -> None:
        made = decoded(event.body or "")
        self.number, self.name, self.seed = event.number, str(made["name"]), int(made["seed"])
        self.settings = Settings.from_dict(made["settings"])
        self.outcomes = Outcomes()
        self.memory = Memory(event.number, store, self.settings.schema)
        self.learner = Learner(policy_for(self.settings), self.memory.lesson, event.number)
        self.learner.frozen = self.settings.frozen
        self.counts: Counter[str] = Counter()  # events by kind
        self.last = event.number  # the last event that was applied
        self.saved: tuple[int, str] | None = None  # event and state of the last snapshot
        self._versions, self._store, self._processes = versions, store, processes

    def place(self, policy: SpacePolicy | None = None) -> None:
        """Have the shards of a new policy live where they are to, or already do in ``policy``."""
        if policy is None and self._processes and self.settings.shards > 1:
            policy = policy_for(self.settings, processes=True)
        if policy is not None:
            self.learner.replace(policy)

    def become(self, other: SpaceFold) -> None:
        """Take over all of another fold of the same events, in place of what is here."""
        close(self.learner.policy)
        vars(self).update(vars(other))

    def apply(
        self, event: Event, *, x: Doubles | None = None, found: Learned | Relearned | None = None
    ) -> None:
        """Take the next event of this space.

        If its policy is lost on the way, it is as if it were lost later: the log has the event.

        Parameters
        ----------
        x : (d,)
            The vector of the arm of a decision, where it is known already.
        found
            The prior of an ``install``, or what a ``relearn`` has led to, where another thread has
            worked it out already.
        """
        if lessons := self.outcomes.follow(event, self.settings):
            self.learner.add(lessons)
        if event.kind in REQUESTED:
            self.memory.follow(event, x)
        else:
            try:
                self._take(event, found)
            except ClusterError:
                if not self.learner.lost:
                    raise
        self.counts[event.kind] += 1
        self.last = event.number

    def _take(self, event: Event, found: Learned | Relearned | None) -> None:
        """Take an event that no caller has asked for with a request."""
        if event.kind == "change":
            self._change(event.body)
        elif event.kind == "install":
            assert not isinstance(found, Relearned)
            self.learner.install(event.number, found)
        elif event.kind == "rollback":
            assert event.ref is not None
            self.learner.advance(decoded(event.body or "")["learned"])
            version, present = self._versions(event.ref), self.learner.policy
            self.learner.begin(event.number, going_on(present, version, self.settings))
        elif event.kind == "relearn":
            if isinstance(found, Relearned):
                self._relearned(event, *found)
            else:
                again, policy = Relearning.of(event, self._store)
                self._relearned(event, again, placed(policy, processes=self._processes))

    def _relearned(self, event: Event, found: Relearning, policy: SpacePolicy) -> None:
        """Take a policy that has learned the log anew; the rest of it is learned next."""
        self.outcomes = found.outcomes
        before, self.settings = self.settings, self.settings.relearned(event.body)
        if self.settings.schema is not before.schema:
            self.memory.change(self.settings.schema)
        self.learner.begin(event.number, policy, found.left)
        self.learner.policy.floor = self.settings.floor

    def _change(self, body: str | None) -> None:
        self.settings = self.settings.followed(body)
        self.learner.set_floor(self.settings.floor)
        learned = decoded(body or "").get(LEARNED)
        if learned is not None:  # where learning rests: a replay comes as far, and no further
            self.learner.advance(learned)
        self.learner.freeze(self.settings.frozen)

    @property
    def has_learned_since(self) -> bool:
        """Whether more was learned than in a snapshot of the last event, which stays as it is.

        That of an event with which a version began has the policy that it began with.
        """
        if self.learner.base == self.last:
            return self.learner.learned > 0
        return self.saved is not None and (
            self.saved[0] == self.last and self.saved[1] != self.learner.version
        )

    def snapshot(self, policy: bytes | None = None) -> bytes:
        """Return all of it; ``policy`` are its bytes, if they are known already."""
        header = {
            "settings": self.settings.to_dict(),
            "outcomes": self.outcomes.saved(),
            "learner": self.learner.saved(),
            "counts": dict(self.counts),
        }
        return packed(header, policy_bytes(self.learner.policy) if policy is None else policy)

    def restore(self, content: bytes, number: int) -> None:
        """Take what :meth:`snapshot` returned after the event with this number."""
        header, policy = unpacked(content)
        self.settings = Settings.from_dict(header["settings"])
        self.memory.change(self.settings.schema)
        self.outcomes = Outcomes.read(header["outcomes"])
        self.learner.replace(read_policy(policy, processes=self._processes))
        self.learner.policy.floor = self.settings.floor  # may have changed during its refit
        self.learner.restore(header["learner"])
        self.learner.frozen = self.settings.frozen
        self.counts = Counter(header["counts"])
        self.last = number
        self.saved = number, self.learner.version
