"""One iteration of AltGDMin, against the references, one read of the data and the roofline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.references import ITERATIONS, STEP, stacked
from benchmarks.report import Section, Table, Target
from benchmarks.timing import Timings, interleaved
from cobandits import kernels
from cobandits.estimators import AltGDMin
from cobandits.linalg import orthonormal
from cobandits.tasks import TaskData, TaskRows

__all__ = ["LARGE", "SMALL", "Case", "Size", "Work", "library_iteration", "measure", "section"]

Floats = NDArray[np.floating]
Work = Callable[[], object]

REPETITIONS = 11
ORDER = 1000  # of the square matrices whose product gives the GEMM rate
READS = ("np.dot", "np.sum")
GEMM = "GEMM"


@dataclass(frozen=True, kw_only=True)
class Size:
    """Tasks, rows per task, features and rank, and the type of the numbers."""

    T: int
    n: int
    d: int
    r: int
    dtype: type[np.float32] | type[np.float64]

    def __str__(self) -> str:
        return f"(T, n, d, r) = ({self.T}, {self.n}, {self.d}, {self.r}), {self.dtype.__name__}"

    @property
    def flops(self) -> int:
        """The operations of Phi B, A'A, A'y, A w - y, Phi'e and e w'; those of QR are few."""
        rows = self.T * self.n
        a_row = 2 * self.d * self.r + self.r * (self.r + 1) + 2 * self.r + 2 * self.r + 2 * self.d
        return rows * a_row + 2 * self.T * self.d * self.r


SMALL = Size(T=100, n=50, d=100, r=4, dtype=np.float64)
LARGE = Size(T=45, n=1000, d=784, r=8, dtype=np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Rows of a size, and a basis at which the iteration is done."""

    size: Size
    tasks: TaskRows
    B: Floats

    @classmethod
    def drawn(cls, size: Size) -> Case:
        rng = np.random.default_rng(0)
        rows = rng.standard_normal((size.T * size.n, size.d), dtype=size.dtype)
        truth, B = (orthonormal(rng.standard_normal((size.d, size.r))) for _ in range(2))
        W = rng.standard_normal((size.r, size.T))
        owners = np.repeat(np.arange(size.T), size.n)
        rewards = np.einsum("nr,rn->n", rows @ truth.astype(size.dtype), W[:, owners])
        tasks = TaskRows.from_arrays(rows, rewards, owners)
        return cls(size=size, tasks=tasks, B=np.ascontiguousarray(B, size.dtype))


@contextmanager
def numpy_only() -> Iterator[None]:
    """Let the library use NumPy in place of its compiled pass."""
    compiled, kernels.rows.COMPILED = kernels.rows.COMPILED, False
    try:
        yield
    finally:
        kernels.rows.COMPILED = compiled


def library_iteration(estimator: AltGDMin, tasks: TaskData, B: Floats) -> Floats:
    """Do what the library does in an iteration: one pass and one step; return the next basis."""
    return estimator._step(B, tasks.least_squares(B), tasks)


def measure(case: Case, others: dict[str, Work] | None = None) -> Timings:
    """Time the iteration in every version, the reads of the data, and a product of matrices."""
    tasks, B = case.tasks, case.B
    Phi, y = stacked(tasks.rows, tasks.rewards, tasks.n_tasks)
    flat = tasks.rows.reshape(-1)
    square = np.random.default_rng(0).standard_normal((ORDER, ORDER), dtype=case.size.dtype)

    library = partial(library_iteration, AltGDMin(rank=case.size.r, step=STEP), tasks, B)

    def fallback() -> None:
        with numpy_only():
            library()

    functions: dict[str, Work] = {
        name: partial(iteration, Phi, y, B, STEP) for name, iteration in ITERATIONS.items()
    }
    functions |= {
        "library": library,
        "library without C": fallback,
        "np.dot": lambda: np.dot(flat, flat),
        "np.sum": lambda: np.sum(flat),
        GEMM: lambda: square @ square,
    }
    return interleaved(functions | (others or {}), repetitions=REPETITIONS)


def section() -> Section:
    """Measure both sizes and compare with the targets."""
    small, large = measure(Case.drawn(SMALL)), measure(Case.drawn(LARGE))
    targets = [
        Target(name="literal / library", measured=small.ratio("literal", "library"), at_least=15),
        Target(name="batched / library", measured=small.ratio("batched", "library"), at_least=2.5),
        Target(
            name="library / one read of the data, large size",
            measured=large.ratio("library", _reader(large)),
            at_most=2.5,
        ),
    ]
    tables = [table(SMALL, small), table(LARGE, large), _roofline(small, large)]
    return Section(name="iteration", tables=tables, targets=targets)


def table(size: Size, timings: Timings) -> Table:
    """Return times of an iteration, and how they compare."""
    read = timings.median(_reader(timings))
    bound = max(read, _flop_seconds(size, timings))
    rows = [
        (
            name,
            timings.median(name) * 1e3,
            timings.ratio(name, "library"),
            timings.ratio(name, _reader(timings)),
            f"{bound / timings.median(name):.0%}",
        )
        for name in timings.seconds
        if name not in (*READS, GEMM)
    ]
    columns = ("version", "ms", "over library", "over one read", "of the roofline")
    return Table(title=f"One iteration of AltGDMin at {size}", columns=columns, rows=rows)


def _roofline(small: Timings, large: Timings) -> Table:
    rows = []
    for size, timings in ((SMALL, small), (LARGE, large)):
        megabytes = size.T * size.n * size.d * np.dtype(size.dtype).itemsize / 1e6
        read = timings.median(_reader(timings))
        rows.append(
            (
                str(size),
                megabytes,
                read * 1e3,
                megabytes / 1e3 / read,
                2e-9 * ORDER**3 / timings.median(GEMM),
                _flop_seconds(size, timings) * 1e3,
            )
        )
    columns = ("size", "MB", "one read, ms", "GB/s", "GEMM, GFLOP/s", "flops at that rate, ms")
    title = "Roofline: the slower of one read of the data (np.dot or np.sum) and its operations"
    return Table(title=title, columns=columns, rows=rows)


def _reader(timings: Timings) -> str:
    """Return the name of the fastest reader."""
    return min(READS, key=timings.median)


def _flop_seconds(size: Size, timings: Timings) -> float:
    return size.flops / (2 * ORDER**3) * timings.median(GEMM)
