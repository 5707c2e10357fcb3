"""Logs of a policy's decisions, and policies that learn from a log."""

from __future__ import annotations

import numpy as np

from cobandits.decisions import Decisions, check_tasks
from cobandits.environments.base import Environment
from cobandits.errors import ConfigurationError
from cobandits.logs import Log, LogWriter
from cobandits.policies.base import Informed, Policy
from cobandits.randomness import stream

__all__ = ["collect", "relearn"]


def collect(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    *,
    trial: int = 0,
    learning: bool = True,
) -> Log:
    """Let a policy decide for a number of rounds, and return the log.

    Random draws are those of :func:`cobandits.simulate.simulate`. If ``learning`` is false, the
    policy stays as it is: only then are the decisions of the log independent of each other.

    >>> from cobandits.environments import Synthetic
    >>> from cobandits.policies import Random
    >>> environment = Synthetic(dim=5, n_tasks=3, rank=1, n_arms=4)
    >>> log = collect(Random(dim=5, n_tasks=3), environment, rounds=10, seed=1)
    >>> len(log), log.policy, log.probabilities[0].item()
    (30, 'random', 0.25)
    """
    if rounds < 1:
        raise ConfigurationError(f"rounds must be at least 1, got {rounds}")
    rng = stream(seed, "policy", trial)
    writer = LogWriter()
    for asked in environment.rounds(rounds, seed=seed, trial=trial):
        if isinstance(policy, Informed):
            policy.inform(asked)
        paid = asked.outcome(policy.decide(asked.tasks, asked.arms, rng))
        writer.add(paid.tasks, paid.arms, paid.decisions, paid.rewards)
        if learning:
            policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
    return writer.log()


def relearn(policy: Policy, log: Log) -> None:
    """Let a policy learn from a log, batch by batch.

    A new policy then has the same state, to the last bit, as the policy that learned while the
    log was written. A policy that was saved in between needs only the batches since then. A log
    without batches is learned decision by decision: the rewards are the same, but a policy that
    refits after some batches refits at other times.

    >>> from cobandits.environments import Synthetic
    >>> from cobandits.policies import Shared
    >>> first, second = (Shared(dim=5, n_tasks=3) for _ in range(2))
    >>> log = collect(first, Synthetic(dim=5, n_tasks=3, rank=1), rounds=10, seed=1)
    >>> relearn(second, log)
    >>> bool((first.estimate.theta == second.estimate.theta).all())
    True
    """
    codes = check_tasks(log.codes, policy.most_tasks)  # before anything is learned
    tasks = log.tasks if policy.labels else codes
    ends = np.flatnonzero(np.diff(log.batches)) + 1
    for rows in np.split(np.arange(len(log)), ends):
        made = Decisions(
            chosen=log.chosen[rows], probabilities=log.probabilities[rows], policy=log.policy
        )
        policy.learn(tasks[rows], log.arms[rows], made, log.rewards[rows])
