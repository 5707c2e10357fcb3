"""Tasks on a real Dask cluster of worker processes: the same answers, also when workers die."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.dataframe
import numpy as np
import pandas
import pytest
from distributed import Client

from benchmarks.flagship.kept import Kept
from cobandits import datasets
from cobandits.cli.workers import chosen_workers
from cobandits.cluster.dask import DaskNodes, connected, n_threads
from cobandits.cluster.local import LocalNodes
from cobandits.errors import ClusterError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators import Estimator, LowRank
from cobandits.lab import Record, Simulation, Store, Workers, run_all
from cobandits.spread_estimate import SpreadEstimate
from cobandits.tasks import SpreadTasks, TaskRows
from cobandits.tasks.shards import Block, InMemory, Shard
from tests.clusters import pid_of
from tests.commands import Result, command_line
from tests.sharding import Spy, shards
from tests.support import NAMES, drawn, make

pytestmark = pytest.mark.filterwarnings("default")  # of Dask itself, at the end of a worker


@pytest.fixture
def client(dask_cluster: Client) -> Client:
    """Return a client of the cluster that all tests share, when both workers are there."""
    dask_cluster.wait_for_workers(2, timeout=200)
    return dask_cluster


def same_bits(found: Estimate, expected: Estimate) -> bool:
    assert isinstance(found, SpreadEstimate)
    assert isinstance(expected, SpreadEstimate)
    return found.gather().theta.tobytes() == expected.gather().theta.tobytes()


def local(estimator: Estimator, parts: Sequence[TaskRows]) -> Estimate:
    return estimator.fit(SpreadTasks.on(LocalNodes.of(parts)), rng=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_on_a_cluster_is_that_of_its_shards_here(client: Client, name: str) -> None:
    """And nothing that grows with the tasks passes: 200 per shard, 1600 bytes a number."""
    parts = shards(drawn(d=6, T=400, r=2, n=8, noise=0.1).tasks, 3)
    estimator = make(name, 2, iterations=3, noise_std=0.1, truncation=9.0)
    spy = Spy(DaskNodes.of(client, parts), out=12_000, back=1200)
    found = estimator.fit(SpreadTasks.on(spy), rng=0)
    spy.back = 10**6  # for the gathering that follows
    assert same_bits(found, local(estimator, parts))


def test_shards_are_dealt_to_all_workers_and_stay_there(client: Client) -> None:
    nodes = DaskNodes.of(client, shards(drawn(d=6, T=9, n=8).tasks, 4))
    assert len(set(nodes.homes)) == 2
    for _ in range(3):
        assert nodes.call(where) == [pid_of(client, home) for home in nodes.homes]


def where(_: object) -> int:
    return os.getpid()


class Killer:
    """Nodes of which one worker is killed before a call."""

    def __init__(self, client: Client, nodes: DaskNodes, at: int) -> None:
        self.client, self.nodes, self.left = client, nodes, at

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        self.left -= 1
        if self.left == 0:
            os.kill(pid_of(self.client, self.nodes.homes[0]), signal.SIGKILL)
        return self.nodes.call(function, *arguments)


@pytest.mark.parametrize("name", ["lowrank", "altgd"])
def test_a_worker_that_is_killed_in_the_middle_of_a_fit_changes_nothing(
    client: Client, name: str
) -> None:
    parts = shards(drawn(d=6, T=40, r=2, n=8, noise=0.1).tasks, 3)
    estimator = make(name, 2, iterations=8, tolerance=0)
    expected = local(estimator, parts)
    nodes = Killer(client, DaskNodes.of(client, parts), at=12)
    found = estimator.fit(SpreadTasks.on(nodes), rng=0)
    assert nodes.left < 0
    assert same_bits(found, expected)


def test_shards_move_to_a_worker_that_joins_after_all_were_lost(client: Client) -> None:
    parts = shards(drawn(d=6, T=40, r=2, n=8).tasks, 3)
    estimator = LowRank(rank=2)
    nodes = DaskNodes.of(client, parts)
    over, first = SpreadTasks.on(nodes), set(nodes.homes)
    for worker in client.nthreads():
        os.kill(pid_of(client, worker), signal.SIGKILL)  # its nanny starts another one
    found = estimator.fit(over, rng=0)
    assert same_bits(found, local(estimator, parts))
    assert not first & set(nodes.homes)


def test_a_cluster_that_is_not_there_is_named() -> None:
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
        pytest.raises(ClusterError, match="no Dask scheduler at tcp"),
    ):
        connected("tcp://127.0.0.1:9")


def test_what_a_node_cannot_do_is_raised_here(client: Client) -> None:
    nodes = DaskNodes.of(client, shards(drawn(d=6, T=4, n=3).tasks, 1))
    with pytest.raises(ZeroDivisionError):
        nodes.call(divided)


def test_a_file_that_a_node_lacks_is_no_lost_worker(client: Client) -> None:
    nodes = DaskNodes.of(client, shards(drawn(d=6, T=4, n=3).tasks, 1))
    with pytest.raises(ClusterError, match=r"worker tcp.* failed: .*no-such-file"):
        nodes.call(opened)


def opened(_: object) -> bytes:
    return Path("no-such-file").read_bytes()


class Slow(NamedTuple):
    """A recipe that notes in a file each time that a shard is made of it, and takes long."""

    tasks: TaskRows
    note: str

    def blocks(self) -> Sequence[Block]:
        with Path(self.note).open("a") as file:
            file.write("made\n")
        time.sleep(1.5)
        return [InMemory(self.tasks)]


def test_a_shard_that_is_lost_is_made_again_once_and_the_others_are_not_asked_twice(
    client: Client, tmp_path: Path
) -> None:
    parts = shards(drawn(d=6, T=4, n=3).tasks, 2, empty=False)
    notes = [str(tmp_path / name) for name in ("first", "second", "calls")]
    nodes = DaskNodes(client, [Slow(part, note) for part, note in zip(parts, notes, strict=False)])
    nodes.call(where)
    os.kill(pid_of(client, nodes.homes[0]), signal.SIGKILL)
    assert len(set(nodes.call(called, notes[2]))) == 1  # both on the worker that is left
    assert [Path(note).read_text().count("made") for note in notes] == [2, 1, 0]
    assert Path(notes[2]).read_text().split() == ["1", "0"]


def called(shard: Shard, note: str) -> int:
    with Path(note).open("a") as file:
        file.write(f"{shard.number}\n")
    return os.getpid()


def divided(_: object) -> float:
    return 1 / int(np.zeros(1)[0])


# ---- frames


def test_a_dask_frame_with_scattered_tasks_is_shuffled_once(client: Client) -> None:
    tasks = drawn(d=4, T=30, r=2, n=7, noise=0.1).tasks
    order = np.random.default_rng(0).permutation(tasks.n_rows)
    table = pandas.DataFrame(tasks.rows[order], columns=list("abcd"))
    table["y"], table["who"] = tasks.rewards[order], [f"task {t}" for t in tasks.owners[order]]
    plain = LowRank(rank=2).fit(tasks)
    with client.as_current(), dask.config.set({"dataframe.shuffle.method": "tasks"}):
        frame = dask.dataframe.from_pandas(table, npartitions=3)
        scattered = DaskNodes.of_frame(client, frame, task="who", reward="y", partitioned=True)
        with pytest.raises(DataError, match="partition the rows by task"):
            SpreadTasks.on(scattered)
        found = LowRank(rank=2).fit(
            SpreadTasks.on(DaskNodes.of_frame(client, frame, task="who", reward="y"))
        )
    assert isinstance(found, SpreadEstimate)
    theta = found.gather().theta_of([f"task {t}" for t in tasks.labels])
    assert np.linalg.norm(theta - plain.theta) <= 1e-6 * np.linalg.norm(plain.theta)
    assert found.feature_names == tuple("abcd")


# ---- experiments


def experiment(n: int) -> list[Simulation]:
    """Return cells of two policies and ``n`` trials."""
    size = {"dim": 5, "n_tasks": 3, "rank": 1}
    return [
        Simulation(
            environment="synthetic",
            environment_parameters=size,
            policy=policy,
            rounds=20,
            trial=trial,
        )
        for policy in ("random", "ridge")
        for trial in range(n)
    ]


def untimed(record: Record) -> dict[str, object]:
    return {key: value for key, value in record.items() if "seconds" not in key}


def test_cells_have_the_same_records_on_a_cluster_though_a_worker_is_killed(client: Client) -> None:
    cells = experiment(12)
    here = {cell.identity: untimed(record) for cell, record in run_all(cells)}
    workers = Workers(client.get_executor(pure=False), n_threads(client))
    there: dict[str, dict[str, object]] = {}
    for cell, record in run_all(cells, jobs=workers):
        if not there:
            os.kill(pid_of(client, next(iter(client.nthreads()))), signal.SIGKILL)
        there[cell.identity] = untimed(record)
    assert there == here


def test_a_run_on_a_cluster_that_is_stopped_cancels_what_is_under_way(client: Client) -> None:
    workers = Workers(client.get_executor(pure=False), n_threads(client))
    results = run_all(experiment(40), jobs=workers)
    next(results)
    results.close()
    with pytest.raises(RuntimeError, match="shutdown"):
        workers.executor.submit(os.getpid)


def test_a_run_on_a_cluster_that_is_stopped_at_half_goes_on_there(
    client: Client, tmp_path: Path
) -> None:
    cells = experiment(8)
    here = {cell.identity: untimed(record) for cell, record in run_all(cells)}

    def some(n: int) -> list[str]:
        workers = Workers(client.get_executor(pure=False), n_threads(client))
        with (
            Store(tmp_path) as store,
            contextlib.closing(store.run_all(cells, jobs=workers)) as results,
        ):
            return [cell.identity for cell, _ in itertools.islice(results, n)]

    before = some(8)
    with Store(tmp_path) as store:
        left = {cell.identity for cell in store.missing(cells)}
    assert left == here.keys() - before
    some(len(cells))
    with Store(tmp_path) as store:
        assert {name: untimed(record) for name, record in store.records().items()} == here


def test_commands_run_on_a_cluster(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    run = command_line(capsys)
    words = ["simulate", "--rounds", 10, "--trials", 2, "--tasks", 3, "--dim", 4, "--rank", 1]
    told = [*words, "--policy", "random", "--policy", "ridge", "--json"]
    address = client.scheduler.address
    here, there = run(*told), run(*told, "--cluster", address)
    assert here.code == there.code == 0
    assert regrets(here) == regrets(there)
    both = run(*told, "--cluster", address, "--jobs", 2)
    assert both.code != 0
    assert "leave out --jobs" in both.err


def test_workers_without_mnist_get_it_from_here(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = str(tmp_path / "theirs")
    monkeypatch.setenv("COBANDITS_CACHE", str(tmp_path))
    np.savez(datasets.mnist_path(), images=np.zeros(3))
    client.run(keep_cache_at, theirs)
    try:
        with chosen_workers(1, client.scheduler.address) as workers:
            assert isinstance(workers, Workers)
            assert all(client.run(datasets.is_there, "mnist").values())
    finally:
        client.run(keep_cache_at, None)
    (sent,) = (tmp_path / "theirs").iterdir()
    assert sent.read_bytes() == datasets.mnist_path().read_bytes()


def keep_cache_at(path: str | None) -> None:
    os.environ.pop("COBANDITS_CACHE", None)
    if path is not None:
        os.environ["COBANDITS_CACHE"] = path


def test_the_flagship_runs_on_a_cluster(client: Client, tmp_path: Path) -> None:
    kept = Kept(tmp_path, cluster=client.scheduler.address)
    assert kept.trials("some", "this", squared, 3) == [{"square": n**2} for n in range(3)]


def squared(trial: int) -> dict[str, float | None]:
    return {"square": trial**2}


def regrets(result: Result) -> list[tuple[str, float]]:
    return sorted((line["policy"], line["regret_per_task"]) for line in result.records)
