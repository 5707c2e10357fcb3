"""What becomes of a fit on a Dask cluster when workers and links are lost, or memory is short."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import dask
import numpy as np
from distributed import Client, LocalCluster

from benchmarks.memory import peak_bytes
from cobandits.cluster.dask import DaskNodes
from cobandits.cluster.local import LocalNodes
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin
from cobandits.linalg import orthonormal
from cobandits.spread_estimate import SpreadEstimate
from cobandits.tasks import SpreadTasks, TaskRows
from cobandits.tasks.scratch import OnDisk

__all__ = ["Fault", "all_lost", "cluster", "joined", "killed", "link_down", "out_of_core", "rows"]

DIM, RANK, ROWS = 50, 8, 16
KILLS = 10
LIMIT = 400_000_000  # bytes of a worker's memory
TIMES = 4.2  # a shard over that limit
PIECE = 12_000_000  # bytes of a piece of it
ESTIMATOR = AltGDMin(rank=RANK, iterations=20, tolerance=0)


class Fault(NamedTuple):
    """What was seen over several trials: how many gave the same bits, and the extra seconds."""

    same: int
    trials: int
    seconds: list[float]


@contextlib.contextmanager
def cluster(n_workers: int, **options: Any) -> Iterator[Client]:
    """Start workers with one thread each.

    On a busy machine a killed worker is back later than a LocalCluster waits by itself.
    """
    given = {"host": "127.0.0.1", "dashboard_address": ":0", **options}
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **given) as workers,
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


class Disturbed:
    """Nodes to which something happens before a call."""

    def __init__(self, nodes: DaskNodes, at: int, happens: Callable[[], None]) -> None:
        self._nodes, self._left, self._happens = nodes, at, happens

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        self._left -= 1
        if self._left == 0:
            self._happens()
        return self._nodes.call(function, *arguments)


def _theta(found: Estimate) -> bytes:
    assert isinstance(found, SpreadEstimate)
    return found.gather().theta.tobytes()


def _trial(
    client: Client, parts: list[TaskRows], at: int, happens: Callable[[DaskNodes], None]
) -> tuple[float, bytes]:
    """Return the seconds of a fit, and its theta."""
    nodes = DaskNodes.of(client, parts)
    tasks = SpreadTasks.on(Disturbed(nodes, at, lambda: happens(nodes)))
    begin = time.perf_counter()
    found = ESTIMATOR.fit(tasks)
    return time.perf_counter() - begin, _theta(found)


def _trials(
    client: Client, n_workers: int, happenings: Sequence[Callable[[DaskNodes], None]]
) -> Fault:
    """Return the extra seconds of fits in which something happens, each at another call."""
    parts = [rows(200, 200 * k) for k in range(2)]
    expected = _theta(ESTIMATOR.fit(SpreadTasks.on(LocalNodes.of(parts))))
    _trial(client, parts, 0, lambda _: None)
    extra, same = [], 0
    for number, happens in enumerate(happenings):
        client.wait_for_workers(n_workers, timeout=300)
        usual, _ = _trial(client, parts, 0, lambda _: None)  # right before: the load changes
        seconds, theta = _trial(client, parts, 3 + 2 * number % 17, happens)
        extra.append(seconds - usual)
        same += theta == expected
    return Fault(same, len(extra), extra)


def _kill(client: Client, workers: Sequence[str]) -> None:
    for pid in client.run(os.getpid, workers=list(workers)).values():
        os.kill(pid, signal.SIGKILL)


def killed() -> Fault:
    """Kill one of two workers in the middle of a fit, many times."""
    with cluster(2) as client:
        return _trials(client, 2, [lambda nodes: _kill(client, nodes.homes[:1])] * KILLS)


def all_lost() -> Fault:
    """Kill the only worker; its nanny starts another one, which joins."""
    with cluster(1) as client:
        return _trials(client, 1, [lambda nodes: _kill(client, nodes.homes)] * 3)


def joined() -> tuple[Fault, int]:
    """Add a worker in the middle of a fit; return also how many workers the next fit uses."""
    with cluster(1) as client:
        fault = _trials(client, 1, [lambda _: client.cluster.scale(2)])
        client.wait_for_workers(2, timeout=300)
        return fault, len(set(DaskNodes.of(client, [rows(9, 9 * k) for k in range(4)]).homes))


# ---- a link


@contextlib.contextmanager
def _namespace() -> Iterator[None]:
    """Make a network namespace with a link to this one, 10.199.7.1 to 10.199.7.2."""
    lines = (
        "netns add cobandits",
        "link add cobandits0 type veth peer name cobandits1",
        "link set cobandits1 netns cobandits",
        "addr add 10.199.7.1/24 dev cobandits0",
        "link set cobandits0 up",
        "-n cobandits addr add 10.199.7.2/24 dev cobandits1",
        "-n cobandits link set cobandits1 up",
        "-n cobandits link set lo up",
    )
    try:
        for line in lines:
            subprocess.run(["ip", *line.split()], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", "cobandits0"], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", "cobandits"], check=False, capture_output=True)


def _link(state: str) -> None:
    subprocess.run(["ip", "link", "set", "cobandits0", state], check=True)


def link_down(seconds: float | None) -> Fault | None:
    """Take down the link to one of two workers, for a time or for good.

    None where the system does not allow network namespaces.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_namespace())
        except (OSError, subprocess.CalledProcessError):
            return None
        client = stack.enter_context(cluster(1, host="10.199.7.1"))
        words = ["ip", "netns", "exec", "cobandits", sys.executable, "-m", "distributed.cli"]
        words = [*words[:-1], "distributed.cli.dask_worker", client.scheduler.address]
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
        remote = subprocess.Popen([*words, *options], stderr=subprocess.DEVNULL)
        stack.callback(remote.wait)
        stack.callback(remote.kill)
        client.wait_for_workers(2, timeout=300)

        def happens(_: DaskNodes) -> None:
            _link("down")
            if seconds is not None:
                threading.Timer(seconds, _link, ["up"]).start()

        return _trials(client, 2, [happens])


# ---- memory


class Drawn(NamedTuple):
    """Rows that are drawn piece by piece: a source of any size."""

    n_pieces: int
    first: int = 0

    def pieces(self) -> Iterator[TaskRows]:
        """Yield the pieces."""
        n_tasks = PIECE // (8 * ROWS * (DIM + 1))
        for piece in range(self.first, self.first + self.n_pieces):
            yield rows(n_tasks, piece * n_tasks)


def out_of_core() -> tuple[float, float, float]:
    """Fit a shard far larger than its worker's memory.

    Returns the size of the shard and the worker's peak, over the limit, and the seconds of a pass.
    """
    pieces = int(TIMES * LIMIT / PIECE)
    with cluster(1, memory_limit=LIMIT) as client:
        tasks = SpreadTasks.on(DaskNodes(client, [OnDisk(Drawn(pieces))]))
        begin = time.perf_counter()
        found = AltGDMin(rank=RANK, iterations=3, tolerance=0).fit(tasks)
        calls = found.status.iterations + 3  # the start, the last weights
        seconds = (time.perf_counter() - begin) / calls
        (peak,) = client.run(peak_bytes).values()
    return tasks.n_rows * (DIM + 1) * 8 / LIMIT, peak / LIMIT, seconds
