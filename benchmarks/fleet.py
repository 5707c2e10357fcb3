"""What very many tasks cost: unit costs, how many tasks a prior needs, and a simulated fleet."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Section, Table
from cobandits.linalg import orthonormal
from cobandits.policies import Shared
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import DecomposedPrior, Hyperparameters, fit_priors
from cobandits.policies.shared.empirical_bayes.fitted import FittedPrior
from cobandits.policies.shared.empirical_bayes.rows import BlockRows
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.reduced import affordable_directions
from cobandits.policies.shared.row_store import RowStore
from cobandits.sharded import ShardedShared
from cobandits.sharded.head import Head
from cobandits.sharded.heads import LocalHeads

__all__ = ["Costs", "Fleet", "errors_by_sample", "measured_costs", "section", "waits"]

Doubles = NDArray[np.float64]

D, R, ROWS, NOISE = 200, 8, 10, 0.1
SHARED = Hyperparameters(shared=True)
SAMPLES = (1000, 2000, 3000, 10_000, 30_000, 100_000)
FRESH = 500  # tasks that a prior was not learned from
SHARD = 100_000  # tasks of a shard: posteriors have as many directions as there is memory for
MEMORY = 64e9  # bytes of a machine
FLEET = (1_000_000, 10_000_000, 100_000_000)  # tasks
DAILY = 10.0  # decisions per task and day
HISTORY = 10.0  # rewards per task so far
SHARDS = (500, 1500, 6000)  # of the largest fleet


class Costs(NamedTuple):
    """Per task, of one core."""

    evaluation: float  # seconds of the likelihood and its gradient
    head: float  # seconds of learning a posterior under a new prior
    rows: float  # bytes
    posterior: float  # bytes
    prior: float  # bytes of a published prior


def basis() -> Doubles:
    """Return the basis of all worlds, (d, r)."""
    return np.asarray(orthonormal(np.random.default_rng(0).standard_normal((D, R))), np.float64)


def weights(T: int, seed: int) -> Doubles:
    """Return the weights of tasks, (T, r)."""
    return np.random.default_rng([seed, 1]).standard_normal((T, R))


def world(T: int, seed: int) -> tuple[Doubles, Doubles]:
    """Return rows, (T, n, d), and rewards, (T, n)."""
    rng = np.random.default_rng(seed)
    Phi = rng.standard_normal((T, ROWS, D))
    y = np.einsum("tnr,tr->tn", Phi @ basis(), weights(T, seed))
    return Phi, y + NOISE * rng.standard_normal(y.shape)


def stored(Phi: Doubles, y: Doubles) -> RowStore:
    """Return a store with these rows."""
    T, n, d = Phi.shape
    F = np.concatenate([Phi, np.ones((T, n, 1)), y[..., None]], axis=2).reshape(-1, d + 2)
    store = RowStore.empty(n_tasks=T, dim=d)
    return store.added(np.repeat(np.arange(T), n), F).sorted()


@contextmanager
def all_tasks() -> Iterator[None]:
    """Learn priors from all tasks, however long it takes."""
    numbers, config.FIT_NUMBERS = config.FIT_NUMBERS, np.inf
    try:
        yield
    finally:
        config.FIT_NUMBERS = numbers


def measured_costs(T: int = 400) -> Costs:
    """Measure the unit costs, each the best of a few."""
    store = stored(*world(T, 1))
    with all_tasks():
        fit = fit_priors(store, None, SHARED)
    likelihood, _ = fit.likelihoods
    decomposed = DecomposedPrior.of(fit.under(SHARED))
    L = np.random.default_rng(0).standard_normal((decomposed.coordinates.dim, R))
    most = affordable_directions(SHARD, decomposed.coordinates.dim)
    posteriors = TaskPosteriors(n_tasks=T, prior=decomposed, most=most)
    held = (posteriors.thetas, posteriors.weights.roots, posteriors.weights.means)
    return Costs(
        evaluation=_best(lambda: likelihood.value(L, 0.0)) / T,
        head=_best(lambda: posteriors.relearn(store, np.arange(T))) / T,
        rows=store.row_buffer[: store.used].nbytes / T,
        posterior=sum(array[:T].nbytes for array in held) / T,
        prior=decomposed.covariance.nbytes,
    )


def _best(function: Callable[[], object], repetitions: int = 3) -> float:
    seconds = []
    for _ in range(repetitions):
        begin = time.process_time()
        function()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def errors_by_sample(samples: tuple[int, ...] = SAMPLES, fits: int = 3) -> dict[str, float]:
    """Return the relative error of thetas of fresh tasks, by how many a prior is learned from.

    Each prior is fitted a few times, each from the last, as in a policy that refits. The last
    entry is the error if the basis were known.
    """
    Phi, y = world(FRESH, 2)
    B, W = basis(), weights(FRESH, 2)
    found = {str(T): _error(prior_from(T, fits), stored(Phi, y), B @ W.T) for T in samples}
    A = Phi @ B  # (T, n, r)
    gram = np.einsum("tnr,tns->trs", A, A) + NOISE**2 * np.eye(R)
    known = np.linalg.solve(gram, np.einsum("tnr,tn->tr", A, y)[..., None])[..., 0]
    found["known"] = float(np.linalg.norm(known - W) / np.linalg.norm(W))
    return found


def prior_from(T: int, fits: int) -> FittedPrior:
    """Return the prior that is learned from so many tasks."""
    store = stored(*world(T, 1))
    with all_tasks():
        fit = fit_priors(store, None, SHARED)
        for _ in range(fits - 1):
            fit = fit_priors(store, fit.following(SHARED), SHARED, least_noise=NOISE**2)
    return fit.shared


def _error(prior: FittedPrior, fresh: RowStore, Theta: Doubles) -> float:
    rows = BlockRows.of(fresh, np.arange(FRESH), prior.start.coordinates)
    found = prior.thetas(prior.likelihood(rows), offset=False)[:, :-1].T
    return float(np.linalg.norm(found - Theta) / np.linalg.norm(Theta))


# ---- what passes between shards


class Listening(LocalHeads):
    """Shards that count their calls, and the bytes in and out of one of them."""

    def __init__(self, heads: Sequence[Head]) -> None:
        super().__init__(heads)
        self.calls: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        found = super().each(method, arguments)
        self.calls[method] += 1
        self.passed[method] += len(pickle.dumps((arguments[0], found[0])))
        return found


def refit_traffic(T: int = 400, rounds: int = ROWS) -> list[tuple[str, int, float]]:
    """Return the calls of the last refit of a policy, and kB of each at a shard, by method."""
    heads = Listening.start(2, {"dim": D, "explore": "needed", "floor": 0.0, "labels": False})
    policy, rng = ShardedShared(dim=D, shards=heads), np.random.default_rng(5)
    B, W, everyone = basis(), weights(T, 5), np.arange(T)
    last: list[tuple[str, int, float]] = []
    for _ in range(rounds):
        heads.calls.clear()
        heads.passed.clear()
        arms = rng.standard_normal((T, 5, D))
        decided = policy.decide(everyone, arms, rng)
        chosen = arms[everyone, decided.chosen]
        rewards = np.einsum("td,dr,tr->t", chosen, B, W) + NOISE * rng.standard_normal(T)
        policy.learn(everyone, arms, decided, rewards)
        if heads.calls["stage"]:
            own = {"stage", "answer", "learn_rows"}  # these have rewards and arms in them
            last = [
                (name, n, heads.passed[name] / n / 1e3)
                for name, n in sorted(heads.calls.items())
                if name not in own
            ]
    return last


# ---- the fleet


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Shards of many tasks that are asked at random, each a process of one core."""

    n_tasks: int
    n_shards: int
    costs: Costs
    answer: float  # seconds of a decision and its reward
    daily: float = DAILY
    history: float = HISTORY

    @property
    def gap(self) -> float:
        """Mean seconds between two decisions of a shard."""
        return 86_400 / (self.daily * self.n_tasks / self.n_shards)

    @property
    def refit_days(self) -> float:
        """Days until rewards have grown by a quarter."""
        return (config.REFIT_GROWTH - 1) * self.history / self.daily

    @property
    def pause(self) -> float:
        """Seconds in which a shard learns its posteriors under a new prior."""
        return self.costs.head * self.n_tasks / self.n_shards


def waits(fleet: Fleet, *, n: int = 200_000, seed: int = 0) -> tuple[float, float, float]:
    """Return the median, the 99th percentile and the most of the waiting times of a shard.

    Poisson arrivals, one at a time; a new prior is published once, in the middle.
    """
    rng = np.random.default_rng(seed)
    gaps = rng.exponential(fleet.gap, n)
    service = np.full(n, fleet.answer)
    service[n // 2] += fleet.pause
    # Lindley's recursion: what is left of the work before, less the time since then
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    found = walk - np.minimum.accumulate(walk)
    return float(np.median(found)), float(np.quantile(found, 0.99)), float(found.max())


def section() -> Section:
    """Measure unit costs and samples, and simulate fleets with these costs."""
    costs, answer = measured_costs(), answer_seconds()
    errors = errors_by_sample()
    sizes = [
        (
            T,
            T * costs.rows / 1e12,
            T * costs.posterior / 1e12,
            T * (costs.rows + costs.posterior) / MEMORY,
            T * costs.evaluation * config.FIT_STEPS,
            T * costs.head,
        )
        for T in FLEET
    ]
    fleets = [
        Fleet(n_tasks=FLEET[-1], n_shards=shards, costs=costs, answer=answer) for shards in SHARDS
    ]
    queues = [
        (f.n_shards, f.n_tasks / f.n_shards, 1 / f.gap, f.answer / f.gap, f.pause, *waits(f))
        for f in fleets
    ]
    return Section(
        name="fleet",
        tables=[
            Table(
                title=f"Per task, d = {D}, r = {R}, {ROWS} rows; one core",
                columns=("evaluation, us", "head, us", "rows, kB", "posterior, kB", "answer, us"),
                rows=[
                    (
                        1e6 * costs.evaluation,
                        1e6 * costs.head,
                        costs.rows / 1e3,
                        costs.posterior / 1e3,
                        1e6 * answer,
                    )
                ],
            ),
            Table(
                title="Relative error of fresh tasks by the tasks that a prior is learned from",
                columns=tuple(errors),
                rows=[tuple(errors.values())],
            ),
            Table(
                title=f"Calls of a refit, and kB of each in and out of a shard, d = {D}, r = {R}",
                columns=("", "calls", "kB of a call"),
                rows=refit_traffic(),
            ),
            Table(
                title="What all tasks take: state, machines of 64 GB, core-seconds",
                columns=("tasks", "rows, TB", "posteriors, TB", "machines", "fit on all", "heads"),
                rows=sizes,
            ),
            Table(
                title=f"{FLEET[-1]:,} tasks, {DAILY:g} decisions a day each: waits in s",
                columns=("shards", "tasks", "per s", "busy", "pause", "median", "99 %", "most"),
                rows=queues,
            ),
        ],
    )


def answer_seconds(T: int = 200, n: int = 400) -> float:
    """Return the seconds of one decision and its reward, one request at a time."""
    rng = np.random.default_rng(3)
    policy, arms = Shared(dim=D, n_tasks=T), rng.standard_normal((n, 5, D))
    everyone = np.arange(T)
    first = policy.decide(everyone, arms[:T], rng)
    policy.learn(everyone, arms[:T], first, rng.standard_normal(T))
    times = []
    for k in range(n):
        task, offered = everyone[k % T : k % T + 1], arms[k : k + 1]
        begin = time.process_time()
        decided = policy.decide(task, offered, rng)
        if not policy.refit_due():
            policy.learn(task, offered, decided, [0.5])
            times.append(time.process_time() - begin)
    return float(np.median(times))
