"""How long a decision and its update take: ``python -m benchmarks.peers.speed '{...}'``.

All libraries are in one process and are timed in turn, so that noise of the machine hits all
alike. Learners first learn from rounds of all tasks. Then a repetition asks for one task at
a time, tasks in turn, and for all tasks at once. Its time is the median of the mean times of
stretches of as many calls as there are tasks: what is done once in a stretch counts, and what
happens more seldom, like refits, does not; that is in the time of whole plays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from time import perf_counter

import numpy as np

from benchmarks.peers import adapters
from benchmarks.peers.contract import Codes, Floats, Peer, Setting
from benchmarks.peers.play import Parameters, step
from cobandits.environments import Synthetic

__all__ = ["Size", "Speed", "measure"]

Request = tuple[Codes, Floats, Floats]  # tasks (m,), arms (m, K, d), rewards (m, K)


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of the problem that is timed."""

    dim: int = 100
    n_tasks: int = 100
    rank: int = 8
    n_arms: int = 5
    warm_up: int = 100  # rounds of all tasks
    warm_up_seconds: float = 120.0  # after which a learner is warm enough
    repetitions: int = 7
    least_seconds: float = 0.05  # of a repetition
    most_calls: int = 500  # in a repetition


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Seconds of one decision, in each repetition."""

    decide: Sequence[float] = ()  # one task at a time
    learn: Sequence[float] = ()
    batch: Sequence[float] = ()  # a decision with its update, of all tasks at once
    warm_up: int = 0  # rounds that were learned before
    failed: str = ""

    @property
    def single(self) -> list[float]:
        """Seconds of a decision with its update, one task at a time."""
        return [sum(pair) for pair in zip(self.decide, self.learn, strict=True)]


def measure(told: Mapping[str, Parameters], size: Size) -> dict[str, Speed]:
    """Time the named peers with these parameters."""
    known = adapters.peers()
    environment = Synthetic(dim=size.dim, n_tasks=size.n_tasks, rank=size.rank, n_arms=size.n_arms)
    rounds = [(r.tasks, r.arms, r.rewards) for r in environment.rounds(size.warm_up + 10, seed=1)]
    found: dict[str, Speed] = {}
    timed: dict[str, _Timed] = {}
    for name, parameters in told.items():
        try:
            timed[name] = _Timed(known[name], parameters, rounds, size)
        except Exception as error:  # what other libraries raise is not known
            found[name] = Speed(failed=f"{type(error).__name__}: {error}")
        print(f"warm: {name}", file=sys.stderr, flush=True)
    for _ in range(size.repetitions):
        for one in timed.values():
            one.repeat()
    return found | {name: one.speed for name, one in timed.items()}


class _Timed:
    """A learner with a clock."""

    def __init__(
        self, peer: Peer, parameters: Parameters, rounds: Sequence[Request], size: Size
    ) -> None:
        setting = Setting(dim=size.dim, n_tasks=size.n_tasks, n_arms=size.n_arms, seed=1)
        self._size = size
        self._learner = peer.make(setting, **parameters)
        self._warm_up = self._learn(rounds[: size.warm_up])
        self._batches = cycle(rounds[size.warm_up :])
        self._singles = cycle(_one_by_one(rounds[size.warm_up :]))
        self._repetitions: list[tuple[float, float, float]] = []

    def repeat(self) -> None:
        """Time one more repetition."""
        n_tasks = self._size.n_tasks
        decide, learn = np.median(_means(self._calls(self._singles), n_tasks), axis=0)
        batch = np.median(np.sum(self._calls(self._batches), axis=1)) / n_tasks
        self._repetitions.append((float(decide), float(learn), float(batch)))

    @property
    def speed(self) -> Speed:
        """The measured times."""
        decide, learn, batch = zip(*self._repetitions, strict=True)
        return Speed(decide=decide, learn=learn, batch=batch, warm_up=self._warm_up)

    def _learn(self, rounds: Sequence[Request]) -> int:
        began = perf_counter()
        for count, asked in enumerate(rounds, 1):
            step(self._learner, *asked)
            if perf_counter() - began > self._size.warm_up_seconds:
                return count
        return len(rounds)

    def _calls(self, requests: Iterator[Request]) -> list[tuple[float, float]]:
        """Return the seconds of deciding and learning of each call."""
        calls: list[tuple[float, float]] = []
        began = perf_counter()
        for asked in islice(requests, self._size.most_calls):
            _, deciding, learning = step(self._learner, *asked)
            calls.append((deciding, learning))
            if perf_counter() - began > self._size.least_seconds and len(calls) >= 3:
                break
        return calls


def _means(calls: Sequence[tuple[float, float]], stretch: int) -> list[Floats]:
    """Return the mean of each stretch of calls, (2,); of all of them if they are fewer."""
    cuts = range(stretch, len(calls), stretch)
    whole = [part for part in np.split(np.array(calls), cuts) if len(part) == stretch]
    return [part.mean(axis=0) for part in whole or [np.array(calls)]]


def _one_by_one(rounds: Sequence[Request]) -> list[Request]:
    return [
        (tasks[i : i + 1], arms[i : i + 1], rewards[i : i + 1])
        for tasks, arms, rewards in rounds
        for i in range(len(tasks))
    ]


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    for peer_name, speed in measure(given["peers"], Size(**given["size"])).items():
        print(json.dumps({"peer": peer_name, **asdict(speed)}))
