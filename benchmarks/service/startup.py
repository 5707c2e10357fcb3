"""How long a service takes to start: with a snapshot, and with nothing but its log."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import psutil

from cobandits.engine import Engine
from cobandits.engine.exchange import Past
from tests.service import running

__all__ = ["main"]

TASKS, DIM, ARMS = 1000, 10, 2


def _past(count: int) -> Iterator[Past]:
    """Yield decisions of tasks that share two directions."""
    rng = np.random.default_rng(0)
    likes, own = rng.standard_normal((2, DIM)), rng.standard_normal((TASKS, 2))
    for _ in range(count):
        task, arms = rng.integers(TASKS), rng.standard_normal((ARMS, DIM)).round(4)
        chosen = rng.integers(ARMS)
        value = own[task] @ likes @ arms[chosen] + 0.3 * rng.standard_normal()
        yield Past(
            task=f"task {task}",
            arms=[{"id": str(n), "features": row.tolist()} for n, row in enumerate(arms)],
            chosen=str(chosen),
            reward=round(float(value), 4),
            probability=1 / ARMS,
        )


def _started(db: Path, key: str | None) -> tuple[float, float, str]:
    """Return seconds and CPU seconds until a service listens, and its key."""
    start = time.perf_counter()
    with running(db, key=key) as service:
        seconds = time.perf_counter() - start
        used = psutil.Process(service.process.pid).cpu_times()
        return seconds, used.user + used.system, service.key


def main(rewards: int = 1_000_000) -> None:
    """Print the times."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "a.db"
        begin = time.process_time()
        with Engine.open(db) as engine:
            space = engine.space("large", dim=DIM)
            space.import_past(_past(rewards))
            engine.settle(36_000)
            versions = len(space.versions())
        print(
            f"made in {time.process_time() - begin:.0f} s of CPU, {versions} versions", flush=True
        )
        seconds, cpu, key = _started(db, None)
        print(f"with a snapshot: {seconds:.1f} s, {cpu:.1f} s of CPU", flush=True)
        with closing(sqlite3.connect(db)) as file:
            file.executescript("DELETE FROM snapshots; DELETE FROM snapshot_parts")
        seconds, cpu, _ = _started(db, key)
        print(f"{rewards:,} rewards, no snapshot: {seconds:.1f} s, {cpu:.1f} s of CPU", flush=True)
