"""Two versions of a policy, side by side on the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cobandits.engine.encoding import arm_ids, past_features
from cobandits.engine.events import Event, request_of
from cobandits.engine.policies import SpacePolicy
from cobandits.errors import DataError
from cobandits.ragged import RaggedArms
from cobandits.schema import Schema

__all__ = ["Comparison", "compared"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How differently two policies would make the same decisions."""

    decisions: int
    other_arm: float  # share of the decisions in which the most likely arm is another one
    distance: float  # mean total variation of the probabilities: 0 is the same, 1 never the same
    rewards: tuple[int, int]  # that each has learned

    def __str__(self) -> str:
        return (
            f"of {self.decisions:,} decisions {self.other_arm:.0%} have another arm; mean distance "
            f"of probabilities {self.distance:.3g}; {self.rewards[0]:,} and {self.rewards[1]:,} "
            "rewards learned"
        )


def compared(events: Sequence[Event], *sides: tuple[SpacePolicy, Schema]) -> Comparison:
    """Return how differently two policies, each with its schema, would make logged decisions."""
    if not events:
        raise DataError("there are no decisions to compare versions on; make some first")
    requests = [request_of(event) for event in events]
    tasks = [str(event.task) for event in events]
    masks = [
        np.array([name not in request.get("exclude", ()) for name in arm_ids(request)])
        for request in requests
    ]
    first, second = (
        policy.probabilities(
            tasks, RaggedArms.of([past_features(one, schema) for one in requests], masks)
        )
        for policy, schema in sides
    )
    return Comparison(
        decisions=len(events),
        other_arm=float(np.mean(first.argmax(axis=1) != second.argmax(axis=1))),
        distance=float(np.abs(first - second).sum(axis=1).mean() / 2),
        rewards=(sides[0][0].rewards, sides[1][0].rewards),
    )
