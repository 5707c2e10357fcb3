"""A space as a fold over its events: settings, open windows, what was learned."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cobandits.engine.codec import decoded
from cobandits.engine.events import REQUESTED, Event
from cobandits.engine.learner import Learner, policy_bytes, policy_for, policy_under
from cobandits.engine.memory import Memory
from cobandits.engine.outcomes import Outcomes
from cobandits.engine.relearning import Relearning
from cobandits.engine.settings import LEARNED, Settings
from cobandits.engine.snapshots import packed, unpacked
from cobandits.engine.stores import Store
from cobandits.policies import Shared
from cobandits.policies.shared import Refit

__all__ = ["SpaceFold"]

Doubles = NDArray[np.float64]
Relearned = tuple[Relearning, Shared]
Versions = Callable[[int], Shared]  # the policy that a version began with


class SpaceFold:
    """All that follows from the events of a space so far.

    :meth:`apply` is the only way in. Learning itself is not done there: rewards wait in
    ``learner``, whose steps come in the same order whenever they are taken.
    """

    def __init__(self, event: Event, store: Store, versions: Versions) -> None:
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
        self._versions, self._store = versions, store

    def apply(
        self, event: Event, *, x: Doubles | None = None, found: Refit | Relearned | None = None
    ) -> None:
        """Take the next event of this space.

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
            self._take(event, found)
        self.counts[event.kind] += 1
        self.last = event.number

    def _take(self, event: Event, found: Refit | Relearned | None) -> None:
        """Take an event that no caller has asked for with a request."""
        if event.kind == "change":
            self._change(event.body)
        elif event.kind == "install":
            assert found is None or isinstance(found, Refit)
            self.learner.install(event.number, found)
        elif event.kind == "rollback":
            assert event.ref is not None
            self.learner.advance(decoded(event.body or "")["learned"])
            version = policy_under(self.settings, self._versions(event.ref))
            self.learner.begin(event.number, version)
        elif event.kind == "relearn":
            made = found if isinstance(found, tuple) else Relearning.of(event, self._store)
            self._relearned(event, *made)

    def _relearned(self, event: Event, found: Relearning, policy: Shared) -> None:
        """Take a policy that has learned the log anew; the rest of it is learned next."""
        self.outcomes = found.outcomes
        if found.schema is not None:
            self.settings = replace(self.settings, schema=found.schema)
            self.memory.change(found.schema)
        self.learner.begin(event.number, policy, found.left)
        self.learner.policy.floor = self.settings.floor

    def _change(self, body: str | None) -> None:
        self.settings = self.settings.followed(body)
        self.learner.policy.floor = self.settings.floor
        learned = decoded(body or "").get(LEARNED)
        if learned is not None:  # where learning rests: a replay comes as far, and no further
            self.learner.advance(learned)
        self.learner.frozen = self.settings.frozen

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
        self.learner.policy = Shared.load(io.BytesIO(policy))
        self.learner.policy.floor = self.settings.floor  # may have changed during its refit
        self.learner.restore(header["learner"])
        self.learner.frozen = self.settings.frozen
        self.counts = Counter(header["counts"])
        self.last = number
        self.saved = number, self.learner.version
