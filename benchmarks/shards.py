"""A space of the engine in one process, and with its tasks dealt to several.

The same tasks, with the same settings. **Batches** are 500 decisions in one call; **single** ones
are made one at a time, while nothing is learned and while a prior is. A shard's memory is that of
its process, with all that it has loaded.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.engine import REFIT_DIM, REFIT_ROWS, REFIT_TASKS, arms_from, decide_once, filled
from benchmarks.report import FOLDER, Section, Table
from cobandits.engine import Decide, Engine, Space
from cobandits.engine.settings import SHARDED
from cobandits.sharded import ProcessHeads, ShardedShared

__all__ = ["section"]

SHARDS = (1, 2, 4)
BATCH, BATCHES, SINGLE = 500, 10, 300


class Measured(NamedTuple):
    """What one number of shards gives."""

    rate: float  # decisions per second, in batches
    fast: float  # 10th percentile of single ones, ms: what others on the machine do not touch
    single: float  # median, ms
    slow: float  # 99th percentile, ms
    meanwhile: float  # the same while a prior is learned
    refit: float  # seconds
    memory: float  # MB of the largest process of a shard


def section() -> Section:
    """Measure all."""
    FOLDER.mkdir(parents=True, exist_ok=True)  # /tmp may be in memory
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        rows = [(n, *measured(Path(folder, f"{n}.db"), n)) for n in SHARDS]
    title = f"{REFIT_TASKS} tasks of {REFIT_DIM} features, {REFIT_ROWS} rewards, SQLite"
    columns = ("shards", "per second, in batches", "p10, ms", "p50", "p99", "p99 in a refit")
    return Section(
        name="shards",
        tables=[Table(title=title, columns=(*columns, "refit, s", "MB of a shard"), rows=rows)],
        targets=[],
    )


def measured(path: Path, shards: int) -> Measured:
    """Measure a space with so many shards."""
    rng = np.random.default_rng(2)
    with Engine.open(path) as engine:
        setting: dict[str, Any] = {"shards": shards, **SHARDED}
        space = engine.space("bench", dim=REFIT_DIM, seed=1, **setting)
        for _ in filled(space, REFIT_DIM, REFIT_TASKS, REFIT_ROWS):
            pass
        engine.settle(600)
        rate = batches(space, rng)
        single = [decide_once(space, rng) for _ in range(SINGLE)]
        busy, groups = list[float](), filled(space, REFIT_DIM, REFIT_TASKS, 4 * REFIT_ROWS)
        while not engine.status().refitting:
            next(groups)
        begin = time.perf_counter()
        while engine.status().refitting:
            busy.append(decide_once(space, rng))
        took = time.perf_counter() - begin
        memory = memory_of(space)
    slow, meanwhile = (1e3 * float(np.percentile(one, 99)) for one in (single, busy))
    fast, median = (1e3 * float(np.percentile(single, q)) for q in (10, 50))
    return Measured(rate, fast, median, slow, meanwhile, took, memory)


def batches(space: Space, rng: np.random.Generator) -> float:
    """Return the decisions per second of large calls."""
    tasks = [f"task {n}" for n in rng.integers(REFIT_TASKS, size=BATCH)]
    asked = [Decide(task=task, arms=arms_from(rng, REFIT_DIM)) for task in tasks]
    begin = time.perf_counter()
    for _ in range(BATCHES):
        space.ask(asked)
    return BATCH * BATCHES / (time.perf_counter() - begin)


def memory_of(space: Space) -> float:
    """Return the MB of the largest process of a shard, 0 where there is none."""
    policy = space._fold.learner.policy
    if not isinstance(policy, ShardedShared) or not isinstance(policy.heads, ProcessHeads):
        return 0.0
    return max(map(_megabytes, policy.heads.pids))


def _megabytes(pid: int | None) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    print(section())
