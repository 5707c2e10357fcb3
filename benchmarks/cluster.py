"""Fits on a Dask cluster of this machine: bytes per iteration, overhead, speed-up, lost workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import scipy.sparse.linalg
from distributed import Client
from tornado.iostream import IOStream

from benchmarks import cluster_speed
from benchmarks.cluster_faults import (
    DIM,
    RANK,
    all_lost,
    cluster,
    joined,
    killed,
    link_down,
    out_of_core,
    rows,
)
from benchmarks.report import Section, Table, Target
from cobandits.cluster.dask import DaskNodes
from cobandits.cluster.local import LocalNodes
from cobandits.estimators import AltGDMin, Estimator, LowRank, MethodOfMoments, Pooled
from cobandits.tasks import SpreadTasks, TaskRows
from cobandits.tasks.shards import InMemory, Shard

__all__ = ["section"]

TASKS = (500, 8000)  # on each of two nodes

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


def bytes_per_call(client: Client, estimator: Estimator, n_tasks: int) -> tuple[float, float]:
    """Return the bytes in and out of a node between two calls of a fit: the median, the most."""
    nodes = DaskNodes.of(client, [rows(n_tasks, n_tasks * k) for k in range(2)])
    tasks = SpreadTasks.on(Counted(nodes))
    client.run(_taken)
    estimator.fit(tasks)
    between = [n for one in client.run(_taken).values() for n in one]
    return float(np.median(between)), float(max(between))


class Overhead(NamedTuple):
    """What a call takes beyond the pass itself, for small shards: medians, in seconds."""

    wall: float
    driver: float  # CPU time of client and scheduler, which are one process here
    worker: float  # CPU time of each worker
    task_wall: float  # the same of a task per shard, which gets and returns as many bytes
    task_driver: float
    task_worker: float


def overhead(client: Client, rounds: int = 5) -> Overhead:
    """Measure calls, in turn with tasks of the same bytes."""
    parts = [rows(20, 20 * k) for k in range(2)]
    there, here = SpreadTasks.on(DaskNodes.of(client, parts)), SpreadTasks.on(LocalNodes.of(parts))
    B = np.eye(DIM)[:, :RANK]
    held = [client.submit(Shard, InMemory(part), k, pure=False) for k, part in enumerate(parts)]

    def as_tasks() -> None:
        homes = list(client.nthreads())
        futures = [
            client.submit(_echo, shard, B, workers=[home], pure=False)
            for shard, home in zip(held, homes, strict=True)
        ]
        client.gather(futures)

    found = [
        (*_unit_costs(client, lambda: there.least_squares(B)), *_unit_costs(client, as_tasks))
        for _ in range(rounds)
    ]
    pass_itself = float(np.median([_seconds(here) for _ in range(40)]))
    medians = np.median(found, axis=0) - [pass_itself, 0, pass_itself / 2, 0, 0, 0]
    return Overhead(*medians.tolist())


def _echo(_: Shard, B: Any) -> tuple[Any, Any]:
    return B + 1, B[:RANK] + 1


def _unit_costs(
    client: Client, function: Callable[[], object], n: int = 20
) -> tuple[float, float, float]:
    """Return the median wall time, and the CPU times here and in a worker, per call."""
    function()
    before, begin, times = client.run(time.process_time), time.process_time(), []
    for _ in range(n):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    driver, after = time.process_time() - begin, client.run(time.process_time)
    worker = float(np.mean([after[one] - before[one] for one in before]))
    return float(np.median(times)), driver / n, worker / n


def _seconds(tasks: SpreadTasks) -> float:
    begin = time.perf_counter()
    tasks.least_squares(np.eye(DIM)[:, :RANK])
    return time.perf_counter() - begin


def products_needed(d: int) -> int:
    """Return how many products with one vector find the basis of ``MethodOfMoments`` to 1e-12.

    Each would be sent and brought; the lower triangle of the matrix is brought once, in pieces.
    """
    rng, count = np.random.default_rng(0), [0]
    Phi = rng.standard_normal((8 * d, d))
    y = Phi[:, :RANK] @ rng.standard_normal(RANK)
    M = (Phi * (y**2)[:, None]).T @ Phi

    def times(x: Any) -> Any:
        count[0] += 1
        return M @ x

    scipy.sparse.linalg.eigsh(
        scipy.sparse.linalg.LinearOperator((d, d), matvec=times, dtype=float), k=RANK, tol=1e-12
    )
    return count[0]


def _bytes() -> tuple[list[Table], list[Target]]:
    estimators: dict[str, tuple[Estimator, int]] = {  # with the columns of their bases
        "altgdmin": (AltGDMin(rank=RANK, iterations=30, tolerance=0), RANK),
        "lowrank": (LowRank(rank=RANK), RANK),
        "moments": (MethodOfMoments(rank=RANK), RANK),
        "pooled": (Pooled(), 1),
    }
    with cluster(2) as client:
        client.run(_count_bytes)
        found = {
            name: [bytes_per_call(client, one, T) for T in TASKS]
            for name, (one, _) in estimators.items()
        }
        extra = overhead(client)
    table = Table(
        title=f"Bytes in and out of a node per call, d = {DIM}, r = {RANK}: median, and most",
        columns=("", *(f"T = {2 * T}, {word}" for T in TASKS for word in ("median", "most"))),
        rows=[(name, *(n for pair in pairs for n in pair)) for name, pairs in found.items()],
    )
    targets = [
        Target(
            name=f"bytes of the largest call, {name}",
            measured=max(most for _, most in found[name]),
            at_most=bound(r),
        )
        for name, (_, r) in estimators.items()
    ]
    targets += [
        Target(name="overhead of a call", measured=1e3 * extra.wall, at_most=25, unit=" ms"),
        Target(
            name="CPU of a call here, over that of tasks",
            measured=extra.driver / extra.task_driver,
            at_most=0.5,
        ),
    ]
    return [table, _in_pieces(), _overheads(extra)], targets


def bound(r: int) -> float:
    """Return the most bytes in and out of a node per call of a fit with r columns."""
    return 1.05 * (16 * DIM * r + 8 * r**2) + 5000


def _in_pieces() -> Table:
    return Table(
        title="Moments: half of the (d, d) matrix in pieces, or products of it with vectors",
        columns=("d", "pieces", "kB in all", "products", "kB in all"),
        rows=[
            (d, pieces(d), 4 * d * (d + 1) / 1e3, n := products_needed(d), n * 16 * d / 1e3)
            for d in (50, 200, 500)
        ],
    )


def pieces(d: int) -> int:
    """Return how many calls bring a symmetric (d, d) matrix, counted."""
    calls = [0]

    class Counting(LocalNodes):
        def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
            calls[0] += 1
            return super().call(function, *arguments)

    tasks = SpreadTasks.on(Counting.of([TaskRows.from_arrays(np.ones((1, d)), [1.0], [0])]))
    tasks.limit_messages(RANK)
    calls[0] = 0
    tasks.gram()
    return calls[0]


def _overheads(extra: Overhead) -> Table:
    return Table(
        title="A call on two workers beyond the pass itself, ms: medians",
        columns=("", "wall", "CPU of client and scheduler", "CPU of a worker"),
        rows=[
            ("a call", *(1e3 * one for one in extra[:3])),
            ("a task per shard, same bytes", *(1e3 * one for one in extra[3:])),
        ],
    )


def _faults() -> tuple[list[Table], list[Target], list[str]]:
    join, used = joined()
    found = {
        "a worker is killed": (killed(), 2.0),
        "all are killed, one joins": (all_lost(), 10.0),
        "a worker joins": (join, 2.0),
        "a link is down for 3 s": (link_down(3.0), 5.0),
        "a link is down for good": (link_down(None), 60.0),
    }
    told = {name: (fault, most) for name, (fault, most) in found.items() if fault is not None}
    table = Table(
        title="Fits that are disturbed: how many have the same bits, and extra seconds",
        columns=("", "same", "of", "median", "most"),
        rows=[
            (name, f.same, f.trials, float(np.median(f.seconds)), max(f.seconds))
            for name, (f, _) in told.items()
        ],
    )
    targets = [Target(name="workers of the fit after one joined", measured=used, at_least=2)]
    for name, (f, most) in told.items():
        assert f is not None
        targets += [
            Target(name=f"{name}: same bits", measured=f.same / f.trials, at_least=1),
            Target(name=f"{name}: extra", measured=max(f.seconds), at_most=most, unit=" s"),
        ]
    notes = [f"{name}: not measured here." for name in found if name not in told]
    return [table], targets, notes


def section() -> Section:
    """Measure all of it; times mean something on an idle machine only."""
    tables, targets = _bytes()
    more, faults, notes = _faults()
    size, peak, pass_seconds = out_of_core()
    two, speeds = cluster_speed.report()
    targets += [
        *faults,
        Target(name="shard over its worker's memory limit", measured=size, at_least=4),
        Target(name="peak of that worker over the limit", measured=peak, at_most=0.7),
        *speeds,
    ]
    notes = [*notes, f"A pass over the shard on disk takes {pass_seconds:.1f} s."]
    return Section(name="cluster", tables=[*tables, *more, two], targets=targets, notes=notes)
