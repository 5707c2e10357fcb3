"""This library: ``shared``, and its policies that learn each task alone or pool all tasks.

The others are shown for orientation, and are nobody's peer. ``lrrl`` is left out: it has to be
told the rank, which no learner here is.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Peer, Setting
from cobandits import policies  # the rounds come from this library anyway, and the grids

__all__ = ["PEERS", "Other", "Shared"]


class Shared:
    """The policy to use: nothing is tuned."""

    def __init__(self, setting: Setting) -> None:
        self._policy: policies.Policy = policies.Shared(dim=setting.dim, n_tasks=setting.n_tasks)
        self._rng = np.random.default_rng(setting.seed)

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        self._decisions = self._policy.decide(tasks, arms, self._rng)
        return self._decisions.chosen

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        self._policy.learn(tasks, arms, self._decisions, rewards)


class Other(Shared):
    """Another policy of this library, tuned."""

    def __init__(self, setting: Setting, *, name: str, **parameters: float) -> None:
        kind = policies.available()[name]
        self._policy = kind(dim=setting.dim, n_tasks=setting.n_tasks, **parameters)
        self._rng = np.random.default_rng(setting.seed)


def _other(name: str, *, shares: bool = False) -> Peer:
    return Peer(
        name=f"cobandits {name}",
        library="cobandits",
        module="cobandits",
        make=partial(Other, name=name),
        grid=policies.available()[name].grid,
        exact=True,
        shares=shares,
    )


PEERS = (
    Peer(
        name="cobandits shared",
        library="cobandits",
        module="cobandits",
        make=Shared,
        grid={},
        exact=True,
        shares=True,
        note="is told no rank, noise or horizon, and nothing is tuned",
    ),
    *(_other(name) for name in ("ridge", "thompson", "linucb")),
    *(_other(name, shares=True) for name in ("global", "global-own")),
)
