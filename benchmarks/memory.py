"""Peak memory: what fitting adds to the data, and many rows kept as statistics.

Every measurement is a process of its own, since the peak of a process never falls.
"""

from __future__ import annotations

import inspect
import multiprocessing
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Section, Table, Target
from cobandits.estimators import Estimator, LowRank, available
from cobandits.linalg import orthonormal
from cobandits.tasks import TaskRows, TaskStatistics

__all__ = [
    "added_by_fit",
    "peak_bytes",
    "reset_peak",
    "resident_bytes",
    "section",
    "statistics_peak",
]

Floats = NDArray[np.floating]
Shape = tuple[int, int, int, int]  # T, n, d, r
Float = type[np.float32] | type[np.float64]
Answer = TypeVar("Answer")

ROWS: tuple[tuple[Shape, Float], ...] = (
    ((2000, 80, 100, 4), np.float64),
    ((45, 1000, 784, 8), np.float32),
)
STATISTICS: Shape = (1000, 10_000, 100, 4)
CHUNK_TASKS, CHUNK_ROWS = 100, 100  # a chunk holds so many rows of each of so many tasks
ITERATIONS = 3  # the peak is that of one iteration
SLOW = {"iterations": ITERATIONS, "tolerance": 0.0}


def section() -> Section:
    """Measure all estimators on rows, and the default one on statistics."""
    tables: list[Table] = []
    targets: list[Target] = []
    for shape, dtype in ROWS:
        table, shares = _fitting(shape, dtype)
        tables.append(table)
        worst = max(shares, key=lambda name: shares[name])
        title = f"{table.title}, the most ({worst})"
        targets.append(Target(name=title, measured=shares[worst], at_most=20, unit=" %"))
    table, peak = _statistics()
    targets.append(Target(name="Peak with statistics", measured=peak, at_most=400, unit=" MB"))
    return Section(name="memory", tables=[*tables, table], targets=targets)


def added_by_fit(name: str, shape: Shape, dtype: Float) -> tuple[int, int, int]:
    """Return bytes of the data, and what a fit adds at its peak by NumPy's count and the system's.

    Buffers that BLAS takes at its first product, and keeps, are not counted.
    """
    tasks = _drawn(shape, dtype)
    estimator = _made(name, shape[3])
    _warm_up(dtype)
    before = resident_bytes()
    reset_peak()
    estimator.fit(tasks)
    resident = peak_bytes() - before
    tracemalloc.start()
    estimator.fit(tasks)
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return tasks.nbytes, traced, resident


def statistics_peak(shape: Shape) -> tuple[int, int, int, float]:
    """Add rows chunk by chunk and fit; return the bytes at the start, the peaks, and the error."""
    T, n, d, r = shape
    before = resident_bytes()
    rng = np.random.default_rng(0)
    B, W = orthonormal(rng.standard_normal((d, r))), rng.standard_normal((r, T))
    statistics = TaskStatistics(d)
    width = min(CHUNK_TASKS, T)
    for _ in range(n // CHUNK_ROWS):
        for first in range(0, T, width):
            owners = np.repeat(np.arange(first, first + width), CHUNK_ROWS)
            rows = rng.standard_normal((len(owners), d))
            rewards = np.einsum("nr,rn->n", rows @ B, W[:, owners])
            statistics.add(rows, rewards + rng.standard_normal(len(owners)), owners)
    added = peak_bytes()
    estimate = LowRank(rank=r).fit(statistics)
    error = float(np.linalg.norm(estimate.theta - B @ W) / np.linalg.norm(B @ W))
    return before, added, peak_bytes(), error


def resident_bytes() -> int:
    """Return the memory that this process holds now, or its peak where that is not told."""
    return _linux_status("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    """Return the most memory that this process has held.

    ``getrusage`` would do, but on Linux it inherits the peak of the process that started this.
    """
    told = _linux_status("VmHWM")
    if told is not None:
        return told
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def in_fresh_process(function: Callable[[], Answer]) -> Answer:
    """Return what ``function`` returns in a process that has done nothing else."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function)


def _fitting(shape: Shape, dtype: Float) -> tuple[Table, dict[str, float]]:
    rows: list[tuple[str | float, ...]] = []
    shares: dict[str, float] = {}
    for name in available():
        data, traced, resident = in_fresh_process(partial(added_by_fit, name, shape, dtype))
        shares[name] = 100 * max(traced, resident) / data
        rows.append((name, data / 1e6, traced / 1e6, resident / 1e6, shares[name]))
    table = Table(
        title=f"Memory that fitting adds at (T, n, d, r) = {shape}, {dtype.__name__}",
        columns=("estimator", "data, MB", "arrays, MB", "process, MB", "larger, % of data"),
        rows=rows,
    )
    return table, shares


def _statistics() -> tuple[Table, float]:
    before, added, fitted, error = in_fresh_process(partial(statistics_peak, STATISTICS))
    T, n, d, _ = STATISTICS
    table = Table(
        title=f"{T} tasks of {n} rows, d = {d}, added in chunks as statistics, then fitted",
        columns=("as rows, MB", "at start, MB", "peak, added, MB", "peak, fitted, MB", "error"),
        rows=[(T * n * (d + 1) * 8 / 1e6, before / 1e6, added / 1e6, fitted / 1e6, error)],
    )
    return table, fitted / 1e6


def _drawn(shape: Shape, dtype: Float) -> TaskRows:
    """Draw rows of the type they are kept in, so that they are not copied."""
    T, n, d, r = shape
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((T * n, d), dtype=dtype)
    B, W = orthonormal(rng.standard_normal((d, r))), rng.standard_normal((r, T))
    owners = np.repeat(np.arange(T), n)
    rewards = np.einsum("nr,rn->n", rows @ B.astype(dtype), W[:, owners])
    tasks = TaskRows.from_arrays(rows, rewards + 1e-3 * rng.standard_normal(T * n), owners)
    return tasks


def _made(name: str, rank: int) -> Estimator:
    """Return the estimator of this name, with few iterations where it takes a number of them."""
    kind: Callable[..., Estimator] = available()[name]
    known = inspect.signature(kind).parameters
    chosen = {"rank": rank, **SLOW}
    return kind(**{key: value for key, value in chosen.items() if key in known})


def _warm_up(dtype: Float) -> None:
    square = np.diag(np.ones(1000, dtype))
    np.linalg.cholesky(square @ square)


def reset_peak() -> None:
    """Reset the peak memory of this process to the present one, if the system allows it."""
    switch = Path("/proc/self/clear_refs")
    try:
        switch.write_text("5", encoding="ascii")
    except OSError:
        return  # then the peak of drawing the rows counts too: the answer is too large, never small


def _linux_status(key: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None
