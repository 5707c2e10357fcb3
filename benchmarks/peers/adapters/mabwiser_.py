"""MABWiser: one bandit a task with a single arm, to which the arms' features are contexts.

Its linear policies have a regression per arm, and all arms see one context. A bandit with a single
arm has a single regression; asked for the expectations of several contexts it gives one each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Learner, Peer, Setting

__all__ = ["PEERS"]

Grid = Mapping[str, tuple[float | str, ...]]

ARM = 0  # the only one


class SingleArm:
    """One ``MAB`` a task; the row with the highest expectation is chosen."""

    def __init__(self, setting: Setting, policy: str, **parameters: float) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        learning = getattr(LearningPolicy, policy)(**parameters)
        self.bandits = [MAB([ARM], learning, seed=setting.seed + t) for t in range(setting.n_tasks)]
        for bandit in self.bandits:  # one that was never fitted refuses to predict
            bandit.fit([ARM], [0.0], np.zeros((1, setting.dim)))

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        chosen = np.empty(len(tasks), np.int64)
        for i, (t, x) in enumerate(zip(tasks, arms, strict=True)):
            expected = self.bandits[t].predict_expectations(x)  # a dictionary a row
            chosen[i] = np.argmax([row[ARM] for row in expected])
        return chosen

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        for i, (t, a) in enumerate(zip(tasks, chosen, strict=True)):
            self.bandits[t].partial_fit([ARM], rewards[i : i + 1], arms[i, a : a + 1])


def greedy(setting: Setting, ridge: float) -> Learner:
    """Ridge regression without exploration."""
    return SingleArm(setting, "LinGreedy", epsilon=0.0, l2_lambda=ridge)


def ucb(setting: Setting, ridge: float, alpha: float) -> Learner:
    """LinUCB with a bonus of ``alpha`` standard deviations."""
    return SingleArm(setting, "LinUCB", alpha=alpha, l2_lambda=ridge)


def thompson(setting: Setting, ridge: float, alpha: float) -> Learner:
    """LinTS, which draws coefficients of their own for each row."""
    return SingleArm(setting, "LinTS", alpha=alpha, l2_lambda=ridge)


RIDGES = (1e-3, 0.3, 1.0, 10.0, 30.0)


def _peer(name: str, make: Callable[..., Learner], grid: Grid) -> Peer:
    return Peer(
        name=f"MABWiser {name}",
        library="mabwiser",
        module="mabwiser",
        make=make,
        grid=grid,
        exact=True,
        shares=False,
        note="a bandit with a single arm a task; inverts a matrix at every update",
        most_numbers=10_000_000,
    )


PEERS = (
    _peer("LinGreedy", greedy, {"ridge": (1e-3, 0.1, 0.3, 1.0, 3.0, 30.0, 100.0)}),
    _peer("LinUCB", ucb, {"ridge": RIDGES, "alpha": (1e-3, 0.03, 1.0)}),
    _peer("LinTS", thompson, {"ridge": RIDGES, "alpha": (1e-4, 1e-3, 0.03)}),
)
