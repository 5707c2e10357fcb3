"""The policy that shares a prior, with up to 100,000 tasks: memory, speed, and regret.

Every size is a process of its own, since the peak of a process never falls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory import in_fresh_process, peak_bytes, resident_bytes
from benchmarks.report import Section, Table, Target
from benchmarks.timing import exponent
from cobandits.linalg import orthonormal
from cobandits.policies import Policy, Ridge, Shared

__all__ = ["Found", "Size", "measure", "section"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Answer = TypeVar("Answer")

N_TASKS = (10_000, 30_000, 100_000)
NOISE = 0.1
STEEPEST = 1.1  # exponent by the number of tasks


@dataclass(frozen=True, kw_only=True)
class Size:
    """Tasks, features, rank and arms; tasks asked at a time; rewards per task, on average."""

    T: int
    d: int = 200
    r: int = 8
    K: int = 5
    batch: int = 2000
    rewards: int = 3

    @property
    def batches(self) -> int:
        """The number of batches."""
        return self.rewards * self.T // self.batch


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was measured with one number of tasks."""

    size: Size
    decide: float  # seconds per decision
    learn: float  # seconds per reward, where the prior stays
    refit: float  # seconds of learning when the prior was last learned too
    refits: int
    refits_seconds: float  # of all of them
    directions: int  # of a task's posterior: fewer where there are more tasks
    peak: int  # bytes that are added to the interpreter with its imports
    regret: dict[str, tuple[float, float]]  # per decision, in the first and in the last tenth


class World:
    """Tasks with thetas of rank r that are asked at unequal rates.

    The share of the busiest tasks that has a share u of all decisions is ``u^2``: the busiest
    hundredth has a tenth of them, the less busy half 29 in 100.
    """

    def __init__(self, size: Size, rng: np.random.Generator) -> None:
        self.size, self._rng = size, rng
        self.B = orthonormal(rng.standard_normal((size.d, size.r)))
        self._W = rng.standard_normal((size.T, size.r))
        self._busiest = rng.permutation(size.T)

    def ask(self) -> tuple[Codes, Floats, Floats]:
        """Return tasks, (m,), their arms, (m, K, d), and the expected rewards, (m, K)."""
        m, K, d = self.size.batch, self.size.K, self.size.d
        tasks = self._busiest[(self.size.T * self._rng.random(m) ** 2).astype(np.int64)]
        arms = self._rng.standard_normal((m, K, d))
        return tasks, arms, np.einsum("mkr,mr->mk", arms @ self.B, self._W[tasks])

    def noise(self) -> Floats:
        """Return the noise of the rewards of tasks that were asked, (m,)."""
        return NOISE * self._rng.standard_normal(self.size.batch)


def section() -> Section:
    """Measure every number of tasks, and how all of it grows."""
    found = [in_fresh_process(partial(measure, Size(T=T))) for T in N_TASKS]
    size = found[0].size
    growth, targets = _growth(found)
    return Section(
        name="scale",
        tables=[_speed(found), _regret(found), growth],
        targets=targets,
        notes=[
            f"Tasks are asked {size.batch} at a time, some often and most seldom, "
            f"{size.rewards} times on average. Learning is timed apart from the refits, "
            "the times at which the prior is learned too. Of the prior's directions a task's "
            "posterior has as many as memory allows: with more tasks fewer, and so a decision is "
            "quicker."
        ],
    )


def measure(size: Size, seed: int = 0) -> Found:
    """Play all batches with the policy and with the oracle, on the same tasks, arms and noise."""
    orthonormal(np.eye(1000))  # takes the buffers of BLAS
    before = resident_bytes()
    rng = np.random.default_rng(seed)
    world, player = World(size, rng), Player(size)
    oracle = Ridge(dim=size.r, n_tasks=size.T, ridge=NOISE**2)
    regrets = []
    for _ in range(size.batches):
        tasks, arms, values = world.ask()
        noise = world.noise()
        chosen = player.play(tasks, arms, values, noise)
        known = _play(oracle, tasks, arms @ world.B, values, noise)
        lost = values.max(axis=1) - np.stack(
            [_of(values, chosen), _of(values, known), values.mean(axis=1)]
        )
        regrets.append(lost.mean(axis=1))
    return player.found(_tenths(np.array(regrets)), max(0, peak_bytes() - before))


class Player:
    """The policy with a clock."""

    def __init__(self, size: Size) -> None:
        self._size = size
        self._policy = Shared(dim=size.d, n_tasks=size.T)
        self._rng = np.random.default_rng(1)
        self._decide: list[float] = []
        self._learn: list[float] = []
        self._refit: list[float] = []

    def play(self, tasks: Codes, arms: Floats, values: Floats, noise: Floats) -> Codes:
        """Decide and learn; return the arms that were chosen."""
        policy = self._policy
        seconds, decided = _timed(lambda: policy.decide(tasks, arms, self._rng))
        self._decide.append(seconds)
        rewards, prior = _of(values, decided.chosen) + noise, policy.prior
        seconds, _ = _timed(lambda: policy.learn(tasks, arms, decided, rewards))
        (self._learn if policy.prior is prior else self._refit).append(seconds)
        return decided.chosen

    def found(self, regret: dict[str, tuple[float, float]], peak: int) -> Found:
        """Return the measurements."""
        return Found(
            size=self._size,
            decide=float(np.mean(self._decide[1:])) / self._size.batch,  # the first is at random
            learn=float(np.mean(self._learn)) / self._size.batch,
            refit=self._refit[-1],
            refits=len(self._refit),
            refits_seconds=sum(self._refit),
            directions=self._policy.estimate.rank if self._policy.estimate else 0,
            peak=peak,
            regret=regret,
        )


def _play(oracle: Policy, tasks: Codes, arms: Floats, values: Floats, noise: Floats) -> Codes:
    """Decide and learn with a policy that sees the arms in the subspace."""
    decided = oracle.decide(tasks, arms, np.random.default_rng(0))
    oracle.learn(tasks, arms, decided, _of(values, decided.chosen) + noise)
    return decided.chosen


def _of(values: Floats, chosen: Codes) -> Floats:
    return np.asarray(values[np.arange(len(values)), chosen])


def _timed(function: Callable[[], Answer]) -> tuple[float, Answer]:
    begin = time.perf_counter()
    answer = function()
    return time.perf_counter() - begin, answer


def _tenths(regrets: Floats) -> dict[str, tuple[float, float]]:
    """Return the means of the first and the last tenth of the batches."""
    some = max(1, len(regrets) // 10)
    first, last = regrets[:some].mean(axis=0), regrets[-some:].mean(axis=0)
    return {
        name: (float(first[place]), float(last[place]))
        for place, name in enumerate(("shared", "oracle", "random"))
    }


def _speed(found: list[Found]) -> Table:
    size = found[0].size
    rows = [
        (
            f.size.T,
            1 / f.decide,
            1 / f.learn,
            f.refit,
            f.refits,
            f.refits_seconds,
            f.directions,
            f.peak / 1e6,
            f.size.T * size.d**2 * 8 / 1e6,
        )
        for f in found
    ]
    columns = (
        "tasks",
        "decisions per second",
        "rewards per second",
        "last refit, s",
        "refits",
        "all refits, s",
        "directions",
        "peak, MB",
        "d x d matrices, MB",
    )
    title = f"Shared at d = {size.d}, r = {size.r}, K = {size.K}"
    return Table(title=title, columns=columns, rows=rows)


def _regret(found: list[Found]) -> Table:
    """Return the regret beside that of an oracle that knows the subspace."""
    rows = [
        (f.size.T, name, first, last) for f in found for name, (first, last) in f.regret.items()
    ]
    columns = ("tasks", "policy", "first tenth", "last tenth")
    return Table(title="Regret per decision", columns=columns, rows=rows)


def _growth(found: list[Found]) -> tuple[Table, list[Target]]:
    """Return the exponents by the number of tasks: all of it grows at most as they do."""
    grown: dict[str, Callable[[Found], float]] = {
        "seconds of all decisions": lambda f: f.decide * f.size.T * f.size.rewards,
        "seconds of all learning but refits": lambda f: f.learn * f.size.T * f.size.rewards,
        "seconds of the last refit": lambda f: f.refit,
        "peak memory": lambda f: f.peak,
    }
    sizes = [f.size.T for f in found]
    slopes = {name: exponent(sizes, [of(f) for f in found]) for name, of in grown.items()}
    table = Table(
        title="Fitted exponents b of what = a tasks^b",
        columns=("what", "b", "std. error"),
        rows=[(name, slope, error) for name, (slope, error) in slopes.items()],
    )
    targets = [
        Target(name=f"Growth by tasks, {name}", measured=slope, at_most=STEEPEST)
        for name, (slope, _) in slopes.items()
    ]
    return table, targets
