"""The engine: durable decisions and rewards against plain durable writes, and a refit's shadow.

**Pairs.** 64 threads, each with a task of its own, ask for a decision and tell its reward, one
after the other, and wait for each answer: features are checked and encoded, arms are chosen, both
are on disk before the answers, and rewards are learned meanwhile. Beside it one thread writes the
very rows that the engine has just written, which it need not make, into an equal table with an
equal index, with ``synchronous=FULL`` too, in the very groups in which the engine has written them.
The same in groups of 64 is what the engine was compared with until 2026-11-18; larger groups wait
for the disk less often. And 64 threads do nothing but hand those rows, one at a time, to a thread
that writes all that wait, and wait until they are on disk: what waking threads leaves of plain
writes. They are timed in turn. The space knows the law of the rewards before: what is timed is not
how it notices a change.

**Latency.** One thread decides, one at a time, while a prior of 1,000 tasks is learned and while
none is.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from benchmarks.report import FOLDER, Section, Table, Target
from cobandits.engine import Decide, Decision, Engine, Reward, Space

__all__ = ["section"]

CLIENTS = 64
PAIRS = 60  # of each client in a repetition: starting the threads is little of it
REPETITIONS = 5
ARMS = 5
LOAD_DIM, LOAD_TASKS, LOAD_ROWS = 20, 100, 6000  # what the space knows before it is timed
SINGLE = 300  # decisions one at a time, before and after the refit
REFIT_DIM, REFIT_TASKS, REFIT_ROWS = 50, 1000, 12_000

ENGINE, HANDED, PLAIN = "engine", "rows that threads hand over", "plain rows, in its groups"
LARGE = f"plain rows, {CLIENTS} at once"
WAYS = (ENGINE, HANDED, PLAIN, LARGE)

Arms = list[dict[str, Any]]


def section() -> Section:
    """Measure both."""
    FOLDER.mkdir(parents=True, exist_ok=True)  # /tmp may be in memory
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        pairs = durable_pairs(Path(folder))
        quiet, busy, refit = latencies(Path(folder))
    p99 = [float(np.percentile(times, 99)) for times in (quiet, busy)]
    return Section(
        name="engine",
        tables=[
            Table(
                title=f"a decision and its reward, {CLIENTS} threads, SQLite, synchronous=FULL",
                columns=("", "pairs a second", "of plain rows", f"of {CLIENTS} at once", "a group"),
                rows=[pairs.row(name) for name in WAYS],
            ),
            Table(
                title=f"decide while a prior of {REFIT_TASKS} tasks is learned ({refit:.1f} s)",
                columns=("milliseconds", "median", "p99", "calls"),
                rows=[
                    (name, *(1e3 * float(np.percentile(t, q)) for q in (50, 99)), len(t))
                    for name, t in (("otherwise", quiet), ("meanwhile", busy))
                ],
            ),
        ],
        targets=[
            Target(name="pairs, of plain", measured=pairs.share(ENGINE, PLAIN), at_least=0.5),
            Target(name="p99 of decide during a refit", measured=p99[1] / p99[0], at_most=3.0),
        ],
    )


def arms_from(rng: np.random.Generator, dim: int) -> Arms:
    return [{"features": row.tolist()} for row in rng.standard_normal((ARMS, dim))]


def filled(space: Space, dim: int, tasks: int, rows: int) -> Iterator[int]:
    """Let a space learn; yield the number of rewards after each group."""
    rng = np.random.default_rng(0)
    for n in range(0, rows, 500):
        asked = [
            Decide(task=f"task {rng.integers(tasks)}", arms=arms_from(rng, dim)) for _ in range(500)
        ]
        made = [one for one in space.ask(asked) if isinstance(one, Decision)]
        values = [
            earned(ask.arms, one) + float(rng.normal())
            for ask, one in zip(asked, made, strict=True)
        ]
        space.ask([Reward(decision=one.id, value=v) for one, v in zip(made, values, strict=True)])
        yield n + 500


def earned(arms: Any, made: Decision) -> float:
    """Return what a decision is worth on average."""
    return float(sum(arms[int(made.arm)]["features"][:3]))


# ---- Throughput


@dataclass
class Pairs:
    """Each way's pairs a second and rows of a transaction, (repetition, 2)."""

    found: dict[str, list[tuple[float, float]]]

    def share(self, name: str, other: str) -> float:
        """Return the median share of pairs a second in those of another way."""
        mine, others = (np.array(self.found[one])[:, 0] for one in (name, other))
        return float(np.median(mine / others))

    def row(self, name: str) -> tuple[str, float, float, float, float]:
        """Return a row of the table."""
        rate, group = np.median(self.found[name], axis=0)
        return name, float(rate), self.share(name, PLAIN), self.share(name, LARGE), float(group)


def durable_pairs(folder: Path) -> Pairs:
    """Time pairs of the engine, and its rows: handed over, and written in two ways, in turn."""
    pairs = Pairs({name: [] for name in WAYS})
    with Engine.open(folder / "engine.db") as engine:
        space = engine.space("bench", dim=LOAD_DIM)
        for _ in filled(space, LOAD_DIM, LOAD_TASKS, LOAD_ROWS):
            pass
        engine.settle(600)
        rng = np.random.default_rng(1)
        offers = [arms_from(rng, LOAD_DIM) for _ in range(CLIENTS * PAIRS)]
        for repetition in range(REPETITIONS):
            after = space.last
            mine = seconds_of_clients(space, offers)
            engine.settle(600)
            rows = [event for event in space.events(after=after) if event.kind != "install"]
            for way, seconds, count in timed(folder, str(repetition), mine, rows):
                pairs.found[way].append((len(offers) / seconds, len(rows) / count))
    return pairs


def timed(
    folder: Path, name: str, mine: float, rows: list[Any]
) -> Iterator[tuple[str, float, int]]:
    """Yield each way to write rows, the seconds that it took and its transactions."""
    groups = as_written(rows)
    yield ENGINE, mine, len(groups)
    yield HANDED, *seconds_of_hand_over(folder / f"handed-{name}.db", rows)
    yield PLAIN, seconds_of_rows(folder / f"plain-{name}.db", groups), len(groups)
    many = [rows[n : n + CLIENTS] for n in range(0, len(rows), CLIENTS)]
    yield LARGE, seconds_of_rows(folder / f"large-{name}.db", many), len(many)


def as_written(rows: list[Any]) -> list[list[Any]]:
    """Return events in the transactions that wrote them: those of one have the same time."""
    return [list(some) for _, some in groupby(rows, key=lambda event: event.at)]


def seconds_of_clients(space: Space, offers: list[Arms]) -> float:
    rng = np.random.default_rng(len(space.versions()))
    noises = rng.standard_normal((CLIENTS, PAIRS)).tolist()

    def client(number: int) -> None:
        for arms, noise in zip(offers[number::CLIENTS], noises[number], strict=True):
            made = space.decide(f"task {number}", arms=arms)
            space.reward(made.id, earned(arms, made) + noise)

    return seconds_of([partial(client, number) for number in range(CLIENTS)])


def seconds_of(actions: list[Callable[[], None]]) -> float:
    threads = [threading.Thread(target=action) for action in actions]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


def seconds_of_rows(path: Path, groups: list[list[Any]]) -> float:
    """Write the same rows into the same table, each group in a transaction."""
    with closing(table(path)) as connection:
        begin = time.perf_counter()
        for rows in groups:
            write(connection, rows)
        return time.perf_counter() - begin


def seconds_of_hand_over(path: Path, rows: list[Any]) -> tuple[float, int]:
    """Let as many threads as there were clients hand over the same rows, and wait for each.

    The second number is that of transactions.
    """
    sizes: list[int] = []
    waiting: SimpleQueue[tuple[Any, threading.Lock]] = SimpleQueue()

    def client(number: int) -> None:
        for row in rows[number::CLIENTS]:
            written = threading.Lock()
            written.acquire()
            waiting.put((row, written))
            written.acquire()

    with closing(table(path)) as connection:

        def writer() -> None:
            while sum(sizes) < len(rows):
                some = [waiting.get()]
                some += [waiting.get() for _ in range(waiting.qsize())]
                write(connection, [row for row, _ in some])
                for _, written in some:
                    written.release()
                sizes.append(len(some))

        took = seconds_of([writer, *(partial(client, number) for number in range(CLIENTS))])
    return took, len(sizes)


def table(path: Path) -> sqlite3.Connection:
    """Return a new log."""
    made = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    made.execute("PRAGMA journal_mode=WAL")
    made.execute("PRAGMA synchronous=FULL")
    made.execute(
        "CREATE TABLE log (number INTEGER PRIMARY KEY, at, space, kind, ref, until, value, "
        "task, body)"
    )
    made.execute("CREATE INDEX log_ref ON log (ref) WHERE kind = 'reward'")
    return made


def write(connection: sqlite3.Connection, rows: list[Any]) -> None:
    """Write rows in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    connection.execute("COMMIT")


# ---- Latency


def latencies(folder: Path) -> tuple[Any, Any, float]:
    """Return the times of single decisions with and without a refit, and how long it took."""
    rng = np.random.default_rng(2)
    quiet: list[float] = []
    busy: list[float] = []
    with Engine.open(folder / "refits.db") as engine:
        space = engine.space("bench", dim=REFIT_DIM)
        for _ in filled(space, REFIT_DIM, REFIT_TASKS, REFIT_ROWS):
            engine.settle(600)
        quiet += [decide_once(space, rng) for _ in range(SINGLE)]
        begin, groups = time.perf_counter(), filled(space, REFIT_DIM, REFIT_TASKS, REFIT_ROWS)
        while not engine.status().refitting:
            next(groups)
        while engine.status().refitting:
            busy.append(decide_once(space, rng))
        took = time.perf_counter() - begin
        engine.settle(600)
        quiet += [decide_once(space, rng) for _ in range(SINGLE)]
    return np.array(quiet), np.array(busy), took


def decide_once(space: Space, rng: np.random.Generator) -> float:
    arms = arms_from(rng, REFIT_DIM)
    begin = time.perf_counter()
    space.decide(f"task {rng.integers(REFIT_TASKS)}", arms=arms)
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(section())
