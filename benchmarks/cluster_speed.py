"""Two workers against one: on a Dask cluster, and as plain processes without any cluster."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

import dask
import numpy as np
from distributed import Client

from benchmarks.cluster_faults import DIM, RANK, cluster, rows
from benchmarks.report import Table, Target
from cobandits.cluster.dask import DaskNodes
from cobandits.tasks import SpreadTasks, TaskRows
from cobandits.tasks.shards import Block, InMemory

__all__ = ["QUIET", "Made", "SpeedUp", "on_a_cluster", "plain", "report"]

BLOCK = 75_000  # tasks; 0.48 GB of rows
BLOCKS = 8  # 600,000 tasks in all: a pass takes well over half a second on one core
PAIRS = 15

# What docs/cluster.md advises: Dask samples its own threads 100 times per second, and has every
# process wake 50 times per second to see whether its loop is late.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}


class Made(NamedTuple):
    """A recipe whose rows are drawn at the node: nothing large is sent."""

    numbers: tuple[int, ...]  # of its blocks

    def blocks(self) -> Sequence[Block]:
        """Return the blocks, of which a process draws each once."""
        return [InMemory(_drawn(number)) for number in self.numbers]


@functools.cache
def _drawn(number: int) -> TaskRows:
    return rows(BLOCK, BLOCK * number)


class SpeedUp(NamedTuple):
    """The same pass by one worker and by two, in turn: medians over pairs."""

    seconds: float  # of a pass by one
    ratio: float  # of the times
    quartiles: tuple[float, float]  # of that ratio
    work: float  # ratio of the CPU times of the busiest: what the time is on free cores

    @classmethod
    def of(cls, pairs: Sequence[tuple[Pass, Pass]]) -> SpeedUp:
        """Summarise pairs of one and two."""
        ratios = [one.seconds / two.seconds for one, two in pairs]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
        work = float(np.median([one.work / two.work for one, two in pairs]))
        return cls(float(np.median([one.seconds for one, _ in pairs])), middle, (low, high), work)


class Pass(NamedTuple):
    """A pass: its wall time, and the CPU time of the process that had most."""

    seconds: float
    work: float


def in_turn(one: Callable[[], Pass], two: Callable[[], Pass]) -> SpeedUp:
    """Measure both in turn, so that what else the machine does hits both alike."""
    one(), two()
    return SpeedUp.of([(one(), two()) for _ in range(PAIRS)])


# ---- a cluster


def on_a_cluster(settings: dict[str, object]) -> SpeedUp:
    """Measure passes over the same rows on one of two workers, and on both."""
    with dask.config.set(settings), cluster(2, memory_limit=0) as client:
        halves = [tuple(range(BLOCKS // 2)), tuple(range(BLOCKS // 2, BLOCKS))]
        two = SpreadTasks.on(DaskNodes(client, [Made(half) for half in halves]))
        one = SpreadTasks.on(DaskNodes(client, [Made(tuple(range(BLOCKS)))]))
        return in_turn(lambda: _pass(client, one), lambda: _pass(client, two))


def _pass(client: Client, tasks: SpreadTasks) -> Pass:
    before = client.run(time.process_time)
    begin = time.perf_counter()
    tasks.least_squares(np.eye(DIM)[:, :RANK])
    seconds = time.perf_counter() - begin
    after = client.run(time.process_time)
    return Pass(seconds, max(after[worker] - before[worker] for worker in before))


# ---- the same without a cluster


def plain() -> SpeedUp:
    """Measure the same passes in one process and in two that know nothing of each other.

    What two cores of this machine gain at most: they share memory, and whatever else runs.
    """
    everything, half = range(BLOCKS), BLOCKS // 2
    with _process() as first, _process() as second:
        one = {first: [*everything]}
        two = {first: [*everything[:half]], second: [*everything[half:]]}
        return in_turn(lambda: _asked(one), lambda: _asked(two))


@contextlib.contextmanager
def _process() -> Iterator[Connection]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here
    finally:
        here.send(None)
        process.join()


def _serve(asked: Connection) -> None:
    """Pass over the blocks that are asked for, and send the CPU time."""
    while (numbers := asked.recv()) is not None:
        begin = time.process_time()
        for number in numbers:
            _drawn(number).least_squares(np.eye(DIM)[:, :RANK])
        asked.send(time.process_time() - begin)


def _asked(blocks: dict[Connection, list[int]]) -> Pass:
    begin = time.perf_counter()
    for process, numbers in blocks.items():
        process.send(numbers)
    works = [process.recv() for process in blocks]
    return Pass(time.perf_counter() - begin, max(works))


# ---- the report


def report() -> tuple[Table, list[Target]]:
    """Measure all of it: the target is for a cluster as docs/cluster.md advises to start it."""
    found = {
        "plain processes, no cluster": plain(),
        "a cluster, started as advised": on_a_cluster(QUIET),
        "a cluster, as Dask starts it": on_a_cluster({}),
    }
    ceiling, advised, _ = found.values()
    table = Table(
        title="Two workers against one, passes in turn: medians and quartiles of the ratio",
        columns=("", "a pass, s", "ratio", "quartile", "quartile", "by CPU time", "of plain"),
        rows=[
            (name, one.seconds, one.ratio, *one.quartiles, one.work, one.ratio / ceiling.ratio)
            for name, one in found.items()
        ],
    )
    name = f"two workers, a pass of {advised.seconds:.2f} s"
    return table, [
        Target(name=name, measured=advised.ratio, at_least=1.7),
        Target(name="the same, by CPU time of the busiest", measured=advised.work, at_least=1.7),
        Target(name="a pass on one worker", measured=advised.seconds, at_least=0.5, unit=" s"),
    ]
