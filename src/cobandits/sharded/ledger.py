"""What is counted over all shards: rewards, when a refit is due, and which tasks have changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from cobandits.labels import decoded_label, encoded_label
from cobandits.policies.shared.task_drift import TaskChange
from cobandits.sharded.messages import Noted

__all__ = ["Ledger"]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """The counts of a policy with shards."""

    rooms: tuple[int, ...]  # per shard, rewards that it takes before it looks for changes
    rewards: int = 0
    due: int = 1  # rewards with which the prior is learned
    changes: tuple[int, ...] = ()
    task_changes: tuple[TaskChange, ...] = ()

    @property
    def run_length(self) -> int:
        """How many rewards shards take without looking for changes and without a refit."""
        return max(1, min(*self.rooms, self.due - 1 - self.rewards))

    def after(
        self, n_rewards: int, noted: Sequence[Noted | None], growth: float | None = None
    ) -> Self:
        """Return the counts after more rewards, and after a refit if there is a ``growth``."""
        rewards = self.rewards + n_rewards
        known = [one for one in noted if one is not None]
        return type(self)(
            rooms=tuple(
                room if one is None else one.room
                for room, one in zip(self.rooms, noted, strict=True)
            ),
            rewards=rewards,
            due=self.due if growth is None else math.ceil(rewards * growth),
            changes=self.changes + (rewards,) * sum(one.changes for one in known),
            task_changes=self.task_changes
            + tuple(TaskChange(rewards, task) for one in known for task in one.changed),
        )

    def saved(self) -> dict[str, Any]:
        """Return what a file holds of it: all but the rooms, which shards know."""
        changed = [(one.rewards, encoded_label(one.task)) for one in self.task_changes]
        return {
            "rewards": self.rewards,
            "due": self.due,
            "changes": self.changes,
            "task_changes": changed,
        }

    @classmethod
    def read(cls, saved: Mapping[str, Any], rooms: Iterable[int]) -> Self:
        """Read what :meth:`saved` returned; files of earlier releases know no changes."""
        return cls(
            rooms=tuple(rooms),
            rewards=int(saved["rewards"]),
            due=int(saved["due"]),
            changes=tuple(int(change) for change in saved.get("changes", ())),
            task_changes=tuple(
                TaskChange(int(rewards), decoded_label(task))
                for rewards, task in saved.get("task_changes", ())
            ),
        )
