"""Fits on a Dask cluster of this machine: bytes per iteration, overhead, speed-up, lost workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from distributed import Client, LocalCluster
from tornado.iostream import IOStream

from benchmarks.report import Section, Table, Target
from cobandits.cluster.dask import DaskNodes
from cobandits.cluster.local import LocalNodes
from cobandits.estimators import AltGDMin, Estimator, LowRank, MethodOfMoments, Pooled
from cobandits.linalg import orthonormal
from cobandits.tasks import SpreadTasks, TaskRows
from cobandits.tasks.shards import Shard

__all__ = ["section"]

DIM, RANK, ROWS = 50, 8, 16
TASKS = (500, 8000)  # on each of two nodes
BOUND = 1.05 * (16 * DIM * RANK + 8 * RANK**2) + 5000  # bytes
LARGE = 40_000  # tasks per node whose pass takes about half a second
KILLS = 3

_passed = [0]  # bytes that this process has sent and received
_noted: list[int] = []  # the same, at the beginning of each call


class Counted:
    """Nodes that note, in each call, the bytes that have passed at the node so far."""

    def __init__(self, nodes: DaskNodes) -> None:
        self._nodes = nodes

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        return self._nodes.call(_noting, function, *arguments)


def _noting(shard: Shard, function: Callable[..., Any], *arguments: object) -> Any:
    _noted.append(_passed[0])
    return function(shard, *arguments)


def _count_bytes() -> None:
    """Have this process count what its sockets send and receive."""
    write, read = IOStream.write_to_fd, IOStream.read_from_fd

    def counted_write(stream: IOStream, data: memoryview) -> int:
        n: int = write(stream, data)
        _passed[0] += n
        return n

    def counted_read(stream: IOStream, buffer: bytearray) -> int | None:
        n: int | None = read(stream, buffer)
        _passed[0] += n or 0
        return n

    patch.object(IOStream, "write_to_fd", counted_write).start()
    patch.object(IOStream, "read_from_fd", counted_read).start()


def _taken() -> list[int]:
    """Return the bytes between one call and the next, and begin anew."""
    between = np.diff(_noted).tolist()
    _noted.clear()
    return [int(n) for n in between]


@contextmanager
def cluster(n_workers: int) -> Iterator[Client]:
    """Start workers with one thread each."""
    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
        ) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        yield client


def rows(n_tasks: int, first: int, n: int = ROWS) -> TaskRows:
    """Return tasks of a low-rank problem, numbered from ``first``."""
    rng = np.random.default_rng([n_tasks, first])
    B = orthonormal(np.random.default_rng(0).standard_normal((DIM, RANK)))
    Phi = rng.standard_normal((n_tasks, n, DIM))
    Theta = B @ rng.standard_normal((RANK, n_tasks))
    y = np.einsum("tnd,dt->tn", Phi, Theta) + 0.1 * rng.standard_normal((n_tasks, n))
    return TaskRows.from_stacked(Phi, y, range(first, first + n_tasks))


def bytes_per_call(client: Client, estimator: Estimator, n_tasks: int) -> float:
    """Return the median bytes in and out of a node between two calls of a fit."""
    nodes = DaskNodes.of(client, [rows(n_tasks, n_tasks * k) for k in range(2)])
    tasks = SpreadTasks.on(Counted(nodes))
    client.run(_taken)
    estimator.fit(tasks)
    return float(np.median([n for between in client.run(_taken).values() for n in between]))


def overhead(client: Client) -> float:
    """Return the median seconds that a call takes beyond the pass itself, for small shards."""
    parts = [rows(20, 20 * k) for k in range(2)]
    there, here = SpreadTasks.on(DaskNodes.of(client, parts)), SpreadTasks.on(LocalNodes.of(parts))
    B = np.eye(DIM)[:, :RANK]
    return float(np.median(_seconds(there, B, 40)) - np.median(_seconds(here, B, 40)))


def speed_up() -> tuple[float, float]:
    """Return the seconds of a pass on one worker, and how many times faster two are."""
    medians = []
    for n_workers in (1, 2):
        with cluster(n_workers) as client:
            parts = [rows(LARGE // 2, LARGE // 2 * k) for k in range(2)]
            tasks = SpreadTasks.on(DaskNodes.of(client, parts))
            medians.append(float(np.median(_seconds(tasks, np.eye(DIM)[:, :RANK], 9))))
    return medians[0], medians[0] / medians[1]


def _seconds(tasks: SpreadTasks, B: np.ndarray[Any, np.dtype[np.float64]], n: int) -> list[float]:
    times = []
    for _ in range(n):
        begin = time.perf_counter()
        tasks.least_squares(B)
        times.append(time.perf_counter() - begin)
    return times


def after_a_kill(client: Client) -> float:
    """Return the seconds that a fit takes more if a worker is killed, the worst of a few."""
    parts = [rows(200, 200 * k) for k in range(2)]
    estimator = AltGDMin(rank=RANK, iterations=20, tolerance=0)
    times = []
    for kill in [False, *[True] * KILLS]:
        client.wait_for_workers(2)
        nodes = DaskNodes.of(client, parts)
        tasks = SpreadTasks.on(nodes)
        home = nodes.homes[0]
        pid = client.run(os.getpid, workers=[home])[home]
        if kill:
            os.kill(pid, signal.SIGKILL)
        begin = time.perf_counter()
        estimator.fit(tasks)
        times.append(time.perf_counter() - begin)
    return max(times[1:]) - times[0]


def section() -> Section:
    """Measure all of it; times mean something on an idle machine only."""
    estimators: dict[str, Estimator] = {
        "altgdmin": AltGDMin(rank=RANK, iterations=30, tolerance=0),
        "lowrank": LowRank(rank=RANK),
        "moments": MethodOfMoments(rank=RANK),
        "pooled": Pooled(),
    }
    with cluster(2) as client:
        client.run(_count_bytes)
        found = {
            name: [bytes_per_call(client, one, T) for T in TASKS]
            for name, one in estimators.items()
        }
        extra = overhead(client)
    with cluster(2) as client:
        recovery = after_a_kill(client)
    seconds, ratio = speed_up()
    columns = ("", *(f"T = {2 * T}" for T in TASKS))
    table = Table(
        title=f"Bytes in and out of a node per call (median), d = {DIM}, r = {RANK}",
        columns=columns,
        rows=[(name, *values) for name, values in found.items()],
    )
    targets = [
        Target(name=f"bytes, {name}", measured=max(values), at_most=BOUND)
        for name, values in found.items()
    ]
    targets += [
        Target(name="overhead of a call", measured=1e3 * extra, at_most=25, unit=" ms"),
        Target(name="a killed worker", measured=recovery, at_most=2, unit=" s"),
        Target(name=f"two workers, a pass of {seconds:.2f} s", measured=ratio, at_least=1.7),
    ]
    return Section(name="cluster", tables=[table], targets=targets)
