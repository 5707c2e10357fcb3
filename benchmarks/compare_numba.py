"""The fused pass three ways: C (what the library ships), numba, and NumPy.

numba is no dependency of the project; this is the comparison that the choice rests on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from benchmarks.iteration import LARGE, SMALL, Case, Work, library_iteration, measure, table
from benchmarks.references import STEP, stacked
from benchmarks.report import Section, Table
from cobandits.estimators import AltGDMin
from cobandits.kernels import Fit
from cobandits.tasks import TaskFit

__all__ = ["cholesky_solve", "fused_pass", "numba_iteration", "section"]

Floats = NDArray[np.floating]
Pass = Callable[[Floats, Floats, Floats, Floats, Floats, Floats], None]
Solve = Callable[[Floats, Floats], None]


def section() -> Section:
    """Time an iteration at both sizes, and the first use of each way."""
    begin = time.perf_counter()
    compiled = _compiled(_numba())
    imported = time.perf_counter() - begin
    tables: list[Table] = []
    first: list[tuple[str | float, ...]] = []
    for size in (SMALL, LARGE):
        case = Case.drawn(size)
        estimator = AltGDMin(rank=size.r, step=STEP)
        in_c = _seconds(partial(library_iteration, estimator, case.tasks, case.B))
        work = numba_iteration(compiled, case)
        first.append((str(size), imported, _seconds(work), in_c))
        tables.append(table(size, measure(case, {"numba": work})))
    columns = ("size", "import numba, s", "first iteration, numba, s", "first iteration, C, s")
    title = "First use in a process, nothing cached; C is compiled when the package is installed"
    return Section(
        name="compare-numba", tables=[*tables, Table(title=title, columns=columns, rows=first)]
    )


def cholesky_solve(M: Floats, w: Floats) -> None:
    """Solve ``M w = w`` in place, from the lower triangle of ``M``."""
    r = len(w)
    for p in range(r):
        for q in range(p + 1):
            s = M[p, q]
            for k in range(q):
                s -= M[p, k] * M[q, k]
            M[p, q] = np.sqrt(s) if p == q else s / M[q, q]
    for p in range(r):
        for k in range(p):
            w[p] -= M[p, k] * w[k]
        w[p] /= M[p, p]
    for p in range(r - 1, -1, -1):
        for k in range(p + 1, r):
            w[p] -= M[k, p] * w[k]
        w[p] /= M[p, p]


def fused_pass(solve: Solve) -> Pass:
    """Return a pass over the data task by task, so that the rows of a task stay in cache."""

    def fill(Phi: Floats, y: Floats, B: Floats, A: Floats, W: Floats, G: Floats) -> None:
        """Fill W (T, r) and G (T, d), the gradients in theta; A (n, r) is room to work in."""
        (T, n, d), r = Phi.shape, B.shape[1]
        M = np.empty((r, r), Phi.dtype)
        for t in range(T):
            np.dot(Phi[t], B, A)
            M[:], W[t], G[t] = 0, 0, 0
            for i in range(n):
                for p in range(r):
                    W[t, p] += A[i, p] * y[t, i]
                    for q in range(p + 1):
                        M[p, q] += A[i, p] * A[i, q]
            solve(M, W[t])
            for i in range(n):
                e = -y[t, i]
                for p in range(r):
                    e += A[i, p] * W[t, p]
                for j in range(d):
                    G[t, j] += e * Phi[t, i, j]

    return fill


def numba_iteration(compiled: Pass, case: Case) -> Callable[[], Floats]:
    """Return an iteration on ``case`` that uses the pass, with the library's own step."""
    tasks, B, size = case.tasks, case.B, case.size
    Phi, y = stacked(tasks.rows, tasks.rewards, size.T)
    estimator = AltGDMin(rank=size.r, step=STEP)
    A, W, G = (
        np.empty(shape, B.dtype) for shape in ((size.n, size.r), (size.T, size.r), (size.T, size.d))
    )
    no_costs = np.empty(0)  # a step does not use them

    def iteration() -> Floats:
        compiled(Phi, y, B, A, W, G)
        return estimator._step(B, TaskFit.of(Fit(W.T, G.T @ W, no_costs), tasks.counts), tasks)

    return iteration


def _numba() -> ModuleType:
    try:
        return import_module("numba")
    except ImportError:
        raise SystemExit(
            "this needs numba, which is not installed; run: pip install numba"
        ) from None


def _compiled(numba: ModuleType) -> Pass:
    compile_ = numba.njit(fastmath=True, cache=False)
    compiled: Pass = compile_(fused_pass(compile_(cholesky_solve)))
    return compiled


def _seconds(work: Work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
