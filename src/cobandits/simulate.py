"""The loop between a policy and an environment: read this first."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

from cobandits.errors import ConfigurationError

if TYPE_CHECKING:  # the package imports this module at once, and the others when they are used
    from collections.abc import Callable

    from numpy.random import Generator

    from cobandits.decisions import Decisions, Outcome, Round
    from cobandits.environments.base import Environment
    from cobandits.policies.base import Policy
    from cobandits.traces import Trace

__all__ = ["simulate"]


def simulate(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    *,
    trial: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Trace:
    """Let a policy decide for a number of rounds, and return what happened.

    All random draws come from streams of the seed and the trial: two policies meet the same arms
    and noise.

    >>> from cobandits.environments import Synthetic
    >>> from cobandits.policies import Ridge
    >>> environment = Synthetic(dim=5, n_tasks=3, rank=1)
    >>> trace = simulate(Ridge(dim=5, n_tasks=3), environment, rounds=40, seed=1)
    >>> trace.decisions, bool(trace.cumulative[-1] < 2 * trace.cumulative[9])
    (120, True)
    """
    from cobandits.policies.base import Informed
    from cobandits.randomness import stream
    from cobandits.traces import TraceBuilder

    if rounds < 1:
        raise ConfigurationError(f"rounds must be at least 1, got {rounds}")
    rng = stream(seed, "policy", trial)
    builder = TraceBuilder(policy.name, rounds, environment.n_tasks)
    waiting: deque[tuple[int, Outcome]] = deque()  # the round in which it is known
    for n, asked in enumerate(environment.rounds(rounds, seed=seed, trial=trial), 1):
        if isinstance(policy, Informed):
            policy.inform(asked)
        decisions, paid, deciding = _decided(policy, asked, rng)
        waiting.append((n + asked.delay, paid))
        learning = _learned(policy, waiting, n)
        builder.add(asked, decisions, paid, policy.estimate, (deciding, learning))
        if progress is not None:
            progress(n, rounds)
    return builder.trace()


def _decided(policy: Policy, asked: Round, rng: Generator) -> tuple[Decisions, Outcome, float]:
    """Let a policy decide in one round, and time it."""
    began = perf_counter()
    decisions = policy.decide(asked.tasks, asked.arms, rng)
    seconds = perf_counter() - began
    return decisions, asked.outcome(decisions), seconds


def _learned(policy: Policy, waiting: deque[tuple[int, Outcome]], n: int) -> float:
    """Let a policy learn all that is known in round n, in order, and time it."""
    began = perf_counter()
    while waiting and waiting[0][0] <= n:
        _, paid = waiting.popleft()
        policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
    return perf_counter() - began
