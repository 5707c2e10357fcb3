"""Policies that run ahead of the one of a space while that waits for its prior.

The policy of a space rests from when a prior is due until it is installed. Its stand-in, a copy,
learns on under the prior before, and decides. The successor, a copy with the new prior, catches up
with the stand-in, which rests meanwhile, and is installed then. Both learn in the order of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cobandits.engine.policies import SpacePolicy
from cobandits.policies.shared import Shared

__all__ = ["Ahead", "Deciding"]


@dataclass
class Ahead:
    """A copy of a policy that has learned the first ``learned`` of the rewards that wait."""

    policy: Shared
    learned: int

    def run_length(self, n_waiting: int) -> int:
        """Return how many more of the rewards that wait it may learn in one call."""
        if self.policy.refit_due():
            return 0
        return min(n_waiting - self.learned, self.policy.run_length)


class Deciding(NamedTuple):
    """The policy that decides, and the name of its state."""

    policy: SpacePolicy
    base: int
    learned: int

    @property
    def version(self) -> str:
        """The name, such as ``"v412+1873"``."""
        return f"v{self.base}+{self.learned}"
