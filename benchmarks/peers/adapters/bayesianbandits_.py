"""bayesianbandits: one agent per task, whose arms share a learner, each with its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Learner, Peer, Setting, Unable

__all__ = ["PEERS", "UNABLE"]

Values = tuple[float | str, ...]


class Agents:
    """One ``LipschitzContextualAgent`` a task; its context holds the features of all arms."""

    def __init__(self, setting: Setting, policy: object, learners: Sequence[object]) -> None:
        from bayesianbandits import Arm, FunctionArmFeaturizer, LipschitzContextualAgent

        K, d = setting.n_arms, setting.dim

        def features(X: Floats, tokens: Sequence[int]) -> Floats:
            return X.reshape(-1, K, d)[:, tokens].transpose(0, 2, 1)  # (context, d, arm)

        self.agents = [
            LipschitzContextualAgent(
                arms=[Arm(k) for k in range(K)],
                policy=policy,
                arm_featurizer=FunctionArmFeaturizer(features),
                learner=learner,
                random_seed=setting.seed + t,
            )
            for t, learner in enumerate(learners)
        ]

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        contexts = arms.reshape(len(tasks), 1, -1)
        chosen = [self.agents[t].pull(X)[0] for t, X in zip(tasks, contexts, strict=True)]
        return np.array(chosen, np.int64)

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        contexts = arms.reshape(len(tasks), 1, -1)
        for i, (t, a) in enumerate(zip(tasks, chosen, strict=True)):
            self.agents[t].select_for_update(a).update(contexts[i], rewards[i : i + 1])


def _normal(ridge: float, noise: float, **options: object) -> Any:
    from bayesianbandits import NormalRegressor

    return NormalRegressor(alpha=ridge / noise**2, beta=1 / noise**2, **options)


def greedy(setting: Setting, ridge: float, epsilon: float) -> Learner:
    """The highest posterior mean, which the library estimates from draws."""
    from bayesianbandits import EpsilonGreedy

    learners = [_normal(ridge, 1e-3) for _ in range(setting.n_tasks)]
    return Agents(setting, EpsilonGreedy(epsilon), learners)


def ucb(setting: Setting, ridge: float, noise: float) -> Learner:
    """The highest upper quantile, one standard deviation above the mean."""
    from bayesianbandits import UpperConfidenceBound

    learners = [_normal(ridge, noise) for _ in range(setting.n_tasks)]
    return Agents(setting, UpperConfidenceBound(0.84), learners)


def thompson(setting: Setting, ridge: float, noise: float) -> Learner:
    """Thompson sampling with a noise that is told."""
    from bayesianbandits import ThompsonSampling

    learners = [_normal(ridge, noise) for _ in range(setting.n_tasks)]
    return Agents(setting, ThompsonSampling(), learners)


def tuned(setting: Setting, alpha: float, beta: float) -> Learner:
    """Thompson sampling that learns its prior and its noise by empirical Bayes."""
    from bayesianbandits import EmpiricalBayesNormalRegressor, ThompsonSampling

    learners = [
        EmpiricalBayesNormalRegressor(alpha=alpha, beta=beta) for _ in range(setting.n_tasks)
    ]
    return Agents(setting, ThompsonSampling(), learners)


RIDGES = (1e-3, 0.3, 1.0, 10.0, 30.0)
NOISES = (1e-4, 1e-3, 0.03)


def _peer(name: str, make: Callable[..., Learner], note: str, **grid: Values) -> Peer:
    return Peer(
        name=f"bayesianbandits {name}",
        library="bayesianbandits",
        module="bayesianbandits",
        make=make,
        grid=grid,
        exact=True,
        shares=False,
        note=note,
        most_numbers=10_000_000,
    )


PEERS = (
    _peer("greedy", greedy, "means of 1000 draws", ridge=RIDGES, epsilon=(0.0, 0.01, 0.05)),
    _peer("UCB", ucb, "quantiles of 1000 draws", ridge=RIDGES, noise=(1e-3, 0.03, 1.0)),
    _peer("Thompson", thompson, "one agent per task", ridge=RIDGES, noise=NOISES),
    _peer(
        "Thompson, empirical Bayes",
        tuned,
        "learns its ridge and noise; told only where to start",
        alpha=(0.1, 1.0, 10.0),
        beta=(1.0, 1e2, 1e4),
    ),
)

UNABLE = (
    Unable(
        name="bayesianbandits Thompson, hybrid",
        library="bayesianbandits",
        why="one sparse regression of common coefficients and of deviations of each task, as large "
        "as all tasks together: about 0.1 s a decision and update when tried once at T=25",
    ),
)
