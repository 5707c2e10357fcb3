"""Learning the log anew: without some of its rewards, or under other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cobandits.engine.codec import decoded, encoded
from cobandits.engine.events import Event
from cobandits.engine.learner import Learner
from cobandits.engine.memory import Memory
from cobandits.engine.outcomes import Lesson, Outcomes
from cobandits.engine.policies import SpacePolicy, policy_for
from cobandits.engine.settings import Settings, relearned_under
from cobandits.engine.stores import Query, Store

__all__ = ["Relearning"]


class Relearning:
    """The rewards of a space in the order of learning, but for those of a span of time.

    A reward that is left out is as one that never came: where there is a default, that is learned
    at the end of the window. ``changed`` are settings to learn it under. With a schema, the
    requests of the log are encoded by it; the reward of one that does not fit is left out.
    """

    def __init__(
        self,
        store: Store,
        space: int,
        since: int,
        before: int,
        changed: Mapping[str, Any] | None = None,
    ) -> None:
        self._changed = dict(changed or {})
        self.outcomes = Outcomes()
        self.lessons: list[Lesson] = []
        self._store, self._space, self._span = store, space, (since, before)
        self._settings: Settings | None = None
        self._last = 0
        self._taught = 0  # lessons that the policy has learned

    def extend(self, through: int) -> None:
        """Read on, through an event."""
        query = Query(after=self._last, through=through, space=self._space)
        for event in self._store.read(query):
            self._follow(event)
        self._last = through

    def _follow(self, event: Event) -> None:
        if event.kind == "space":
            self._settings = Settings.from_dict(decoded(event.body or "")["settings"])
        assert self._settings is not None
        since, before = self._span
        left_out = event.kind in ("reward", "import") and since <= event.at < before
        followed = event._replace(kind="tick") if left_out else event
        self.lessons += self.outcomes.follow(followed, self._settings)
        if event.kind == "change":
            self._settings = self._settings.followed(event.body)
        elif event.kind == "relearn":
            self._settings = self._settings.relearned(event.body)

    def taught(self, count: int | None = None) -> SpacePolicy:
        """Return a policy that has learned the first lessons, all of them by default."""
        assert self._settings is not None
        self._taught = len(self.lessons) if count is None else count
        settings = replace(self._settings, **self._changed)
        memory = Memory(self._space, self._store, settings.schema)
        learner = Learner(policy_for(settings), memory.lesson, 0)
        learner.add(self.lessons[: self._taught])
        learner.finish()
        return learner.policy

    @property
    def left(self) -> list[Lesson]:
        """What the policy has not learned yet."""
        return self.lessons[self._taught :]

    def body(self) -> str:
        """Return the body of the event that installs the policy."""
        since, before = self._span
        body: dict[str, Any] = {"since": since, "before": before, "count": self._taught}
        others = {name: value for name, value in self._changed.items() if name != "schema"}
        if "schema" in self._changed:
            body["schema"] = self._changed["schema"].to_dict()
        if others:
            body["settings"] = others
        return encoded(body).decode()

    @classmethod
    def of(cls, event: Event, store: Store) -> tuple[Relearning, SpacePolicy]:
        """Do again what an event says."""
        asked: dict[str, Any] = decoded(event.body or "")
        span = asked["since"], asked["before"]
        found = cls(store, event.space, *span, relearned_under(event.body))
        found.extend(event.number - 1)
        return found, found.taught(asked["count"])
