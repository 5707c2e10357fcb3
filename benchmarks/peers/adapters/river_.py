"""river: a Bayesian linear regression for each task, and a rule that chooses by its predictions."""

from __future__ import annotations

import random
from functools import partial

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Peer, Setting, Unable

__all__ = ["PEERS", "UNABLE", "River"]


class River:
    """Plays the arm of the highest mean, upper bound or sample of the predictive distribution."""

    def __init__(self, setting: Setting, *, rule: str, ridge: float, width: float = 0.0) -> None:
        from river.linear_model import BayesianLinearRegression

        self.models = [BayesianLinearRegression(alpha=ridge) for _ in range(setting.n_tasks)]
        self.rule, self.width = rule, width
        self.draws = random.Random(setting.seed)

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        chosen = []
        for task, rows in zip(tasks.tolist(), arms.tolist(), strict=True):
            scores = [self._score(task, dict(enumerate(row))) for row in rows]
            chosen.append(int(np.argmax(scores)))
        return np.array(chosen, np.int64)

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        rows = arms[np.arange(len(tasks)), chosen]  # (m, d)
        for task, row, reward in zip(tasks.tolist(), rows.tolist(), rewards.tolist(), strict=True):
            self.models[task].learn_one(dict(enumerate(row)), reward)

    def _score(self, task: int, features: dict[int, float]) -> float:
        if self.rule == "greedy":
            return float(self.models[task].predict_one(features))
        predicted = self.models[task].predict_one(features, with_dist=True)
        if self.rule == "bound":
            return float(predicted.mu + self.width * predicted.sigma)
        return self.draws.gauss(predicted.mu, self.width * predicted.sigma)


def _peer(name: str, rule: str, **grid: tuple[float, ...]) -> Peer:
    return Peer(
        name=f"river {name}",
        library="river",
        module="river",
        make=partial(River, rule=rule),
        grid=grid,
        exact=True,
        shares=False,
        note="learn_one, not learn_many: that inverts a whole matrix, and its ridge is 1/alpha",
    )


_RIDGES = (0.01, 1.0, 25.0)

PEERS = (
    _peer("Bayesian regression, greedy", "greedy", ridge=(0.01, 0.1, 1.0, 5.0, 25.0)),
    _peer("Bayesian regression, UCB", "bound", ridge=_RIDGES, width=(0.01, 0.1, 1.0)),
    _peer("Bayesian regression, sampling", "sample", ridge=_RIDGES, width=(0.001, 0.01, 0.1)),
)

UNABLE = (
    Unable(
        name="river bandit.LinUCBDisjoint",
        library="river",
        why="it has a regression for each arm over one common context and takes no features of "
        "arms (pull(arm_ids, context), river 0.26.1); the other policies take no context at all",
    ),
)
