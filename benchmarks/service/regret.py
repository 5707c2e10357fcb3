"""A synthetic world played through HTTP: does the service learn as well as the library?

Some rewards come rounds later, some come twice, some never. The library plays the same world, with
the same arms and noise: as it is (each reward at once), and with the same delays and losses.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray

from cobandits.client import Client
from cobandits.decisions import Decisions, Round
from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.wire import DecideOne, RewardInBatch
from tests.service import Running, running

__all__ = ["Trouble", "main"]

Doubles = NDArray[np.float64]
WORLD = Synthetic(dim=20, n_tasks=30, rank=3, noise_std=0.3)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What happens to rewards on their way."""

    late: float = 0.0  # share that comes later,
    most: int = 5  # up to so many rounds
    twice: float = 0.0
    lost: float = 0.0

    def fates(self, rounds: int, seed: int) -> Iterator[tuple[Doubles, Doubles]]:
        """Yield, round by round, the delay of each reward (inf if it is lost) and its copies."""
        rng = np.random.default_rng([seed, 7])
        for _ in range(rounds):
            m = WORLD.n_tasks
            delays = np.where(rng.random(m) < self.late, rng.integers(1, self.most + 1, m), 0.0)
            delays[rng.random(m) < self.lost] = np.inf
            yield delays, np.where(rng.random(m) < self.twice, 2.0, 1.0)


def _regret(asked: Round, chosen: NDArray[np.int64]) -> float:
    best = asked.means.max(axis=1)
    return float((best - asked.means[np.arange(len(chosen)), chosen]).sum()) / WORLD.n_tasks


def library(rounds: int, seed: int, trouble: Trouble) -> float:
    """Return the regret per task of the library's policy."""
    policy, rng, total = Shared(dim=WORLD.dim), np.random.default_rng([seed, 1]), 0.0
    pending: list[tuple[float, int, Doubles, float]] = []
    worlds = zip(WORLD.rounds(rounds, seed=seed), trouble.fates(rounds, seed), strict=True)
    for n, (asked, (delays, _)) in enumerate(worlds):
        made = policy.decide(asked.tasks, asked.arms, rng)
        total += _regret(asked, made.chosen)
        for t, arm in enumerate(made.chosen):
            reward = float(asked.rewards[t, arm])
            pending.append((n + delays[t], int(asked.tasks[t]), asked.arms[t, arm], reward))
        due = [one for one in pending if one[0] <= n]
        pending = [one for one in pending if n < one[0] < np.inf]
        if due:
            picked = Decisions(
                chosen=np.zeros(len(due), np.int64),
                probabilities=np.ones(len(due)),
                policy="library",
            )
            arms = np.array([one[2] for one in due])[:, None, :]
            policy.learn([one[1] for one in due], arms, picked, [one[3] for one in due])
    return total


def service(
    running_one: Running, client: Client, rounds: int, seed: int, trouble: Trouble
) -> float:
    """Return the regret per task of the service."""
    space, total = f"world-{seed}-{trouble.late:g}", 0.0
    client.create_space(space, dim=WORLD.dim)
    pending: list[tuple[float, RewardInBatch, int]] = []
    worlds = zip(WORLD.rounds(rounds, seed=seed), trouble.fates(rounds, seed), strict=True)
    for n, (asked, (delays, copies)) in enumerate(worlds):
        requests = [
            DecideOne(
                task=f"task-{task}",
                arms=[{"id": str(k), "features": row.tolist()} for k, row in enumerate(arms)],
                id=f"{n}-{task}",
            )
            for task, arms in zip(asked.tasks, asked.arms, strict=True)
        ]
        made = [one.decision for one in client.decide_many(space, requests) if one.decision]
        chosen = np.array([int(one.arm) for one in made])
        total += _regret(asked, chosen)
        for t, one in enumerate(made):
            reward = RewardInBatch(decision=one.id, value=float(asked.rewards[t, chosen[t]]))
            pending.append((n + delays[t], reward, int(copies[t])))
        due = [one for at, one, count in pending if at <= n for _ in range(count)]
        pending = [one for one in pending if n < one[0] < np.inf]
        if due:
            results = client.reward_many(space, due)
            assert all(one.reward is not None for one in results)
        _wait(running_one, space)
    return total


def _wait(service: Running, space: str) -> None:
    """Wait until every reward is learned, as the library does before it decides again."""
    headers = {"authorization": f"Bearer {service.key}"}
    for _ in range(3000):
        text = httpx.get(f"{service.address}/metrics", headers=headers, timeout=60).text
        if f'cobandits_rewards_not_learned{{space="{space}"}} 0.0' in text:
            return
        time.sleep(0.01)
    raise TimeoutError("learning is behind by 30 s")


def main(rounds: int = 60, seeds: int = 20) -> None:
    """Print regrets per task, and their ratio with its standard error.

    The two make different random choices, so one seed's ratio is off by 10 to 20 %.
    """
    troubles = {
        "each reward at once": Trouble(),
        "30 % late, 10 % twice, 5 % lost": Trouble(late=0.3, twice=0.1, lost=0.05),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "a.db") as found,
        Client(found.address, found.key) as client,
    ):
        for name, trouble in troubles.items():
            ours = np.array([service(found, client, rounds, s, trouble) for s in range(seeds)])
            theirs = np.array([library(rounds, s, trouble) for s in range(seeds)])
            ratio = ours.sum() / theirs.sum()
            error = (ours - ratio * theirs).std(ddof=1) / seeds**0.5 / theirs.mean()
            print(
                f"{name}: service {ours.mean():.2f}, library {theirs.mean():.2f}, "
                f"ratio {ratio:.3f} +- {error:.3f} over {seeds} seeds", flush=True
            )  # fmt: skip
