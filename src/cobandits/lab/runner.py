"""Run many cells, one after the other or in several processes."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple, Protocol

from cobandits.datasets import KNOWN
from cobandits.errors import CobanditsError, ConfigurationError, DataError
from cobandits.lab.cells import Cell, Within
from cobandits.lab.records import Record
from cobandits.threads import one_thread, set_threads

__all__ = ["Jobs", "Progress", "Results", "Runner", "Workers", "in_order", "run_all"]

Progress = Callable[[int, int, str], None]  # steps done, steps in all, what is done now
Results = Generator[tuple[Cell, Record], None, None]  # close it to end what is under way
Batch = tuple[Cell, ...]  # of one world, run one after the other in one process

_AHEAD = 8  # batches submitted per process, so that none is ever idle
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Workers(NamedTuple):
    """Workers that run elsewhere, such as those of a cluster, and how many there are."""

    executor: Executor
    number: int

    def __str__(self) -> str:
        return f"{self.number} workers of a cluster"


Jobs = int | Workers  # a number of processes of this machine, or workers


class Runner(Protocol):
    """A function that runs cells: ``run_all``, or that of a store with some of their records."""

    def __call__(
        self, cells: Sequence[Cell], *, jobs: Jobs = 1, progress: Progress | None = None
    ) -> Results:
        """Yield each cell with its record."""
        ...


def run_all(cells: Sequence[Cell], *, jobs: Jobs = 1, progress: Progress | None = None) -> Results:
    """Run cells, and yield each with its record as it is done; equal cells run once.

    Linear algebra uses one thread, so records are the same bit for bit whatever the number of
    processes, and processes do not compete for cores.

    Parameters
    ----------
    jobs : int or Workers
        The number of processes; with 1, cells run in this process, in their order. Or workers
        elsewhere: the cells of a worker that is lost are run again, if its executor does that.
    progress
        Called with the steps done, the steps in all, and the current cell.

    Examples
    --------
    >>> from cobandits.lab import Simulation
    >>> size = {"dim": 5, "n_tasks": 3, "rank": 1}
    >>> cells = [
    ...     Simulation(environment="synthetic", environment_parameters=size, policy=name, rounds=20)
    ...     for name in ("random", "ridge")
    ... ]
    >>> [record["policy"] for _, record in run_all(cells)]
    ['random', 'ridge']
    """
    distinct = list({cell.identity: cell for cell in reversed(cells)}.values())[::-1]
    if isinstance(jobs, Workers):
        yield from _on_workers(distinct, jobs, progress)
        return
    if jobs < 1:
        raise ConfigurationError(f"jobs must be at least 1, got {jobs}")
    jobs = min(jobs, len(distinct))
    if jobs <= 1:
        yield from _one_by_one(distinct, progress)
    else:
        yield from _in_processes(distinct, jobs, progress)


def in_order(cells: Sequence[Cell], results: Results) -> Results:
    """Yield every cell with its record in the order of the cells, as early as possible."""
    known: dict[str, Record] = {}
    for cell in cells:
        identity = cell.identity
        while identity not in known:
            done, record = next(results)
            known[done.identity] = record
        yield cell, known[identity]


def _one_by_one(cells: Sequence[Cell], progress: Progress | None) -> Results:
    done, total = 0, sum(cell.steps for cell in cells)
    for cell in cells:
        inside = None if progress is None else _inside(progress, done, total, str(cell))
        with one_thread():
            record = _run_named(cell, inside)
        done += cell.steps
        if progress is not None:
            progress(done, total, str(cell))
        yield cell, record


def _inside(progress: Progress, before: int, total: int, text: str) -> Within:
    """Return the function that a cell calls after each step."""
    return lambda n, _: progress(before + n, total, text)


def _in_processes(cells: Sequence[Cell], jobs: int, progress: Progress | None) -> Results:
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare)
    try:
        yield from _told(cells, _fed(pool, cells, jobs), progress)
    except BaseException:  # also an interrupt, or a caller that wants no more
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        pool.shutdown(cancel_futures=True)  # its thread ends too, not while the program exits
        raise
    pool.shutdown()


def _on_workers(cells: Sequence[Cell], workers: Workers, progress: Progress | None) -> Results:
    try:
        yield from _told(cells, _fed(workers.executor, cells, workers.number), progress)
    except BaseException:  # also an interrupt: what is under way is cancelled
        workers.executor.shutdown(wait=False)
        raise


def _told(cells: Sequence[Cell], results: Results, progress: Progress | None) -> Results:
    """Yield the results, and report each."""
    done, total = 0, sum(cell.steps for cell in cells)
    for cell, record in results:
        done += cell.steps
        if progress is not None:
            progress(done, total, str(cell))
        yield cell, record


def _fed(pool: Executor, cells: Sequence[Cell], jobs: int) -> Results:
    """Submit a few batches of cells at a time; yield cells and records."""
    waiting = _queue(_batches(cells, jobs), jobs)
    under_way: dict[Future[list[Record]], Batch] = {}

    def feed() -> None:
        while waiting and len(under_way) < jobs * _AHEAD:
            batch = waiting.pop()
            under_way[pool.submit(_run_batch, batch)] = batch

    with _interrupts_ignored():  # the processes start here
        feed()
    while under_way:
        finished, _ = wait(under_way, return_when=FIRST_COMPLETED)
        # what succeeded first: a failure ends the run, and must not take results with it
        for future in sorted(finished, key=lambda future: future.exception() is not None):
            batch = under_way.pop(future)
            yield from zip(batch, _results(batch, future), strict=True)
        feed()


def _batches(cells: Sequence[Cell], jobs: int) -> list[Batch]:
    """Group cells of one world, in batches small enough to keep all processes busy."""
    most = max(1, len(cells) // (_AHEAD * jobs))
    worlds: dict[str, list[Cell]] = {}
    for cell in cells:
        worlds.setdefault(cell.world, []).append(cell)
    return [
        tuple(met[start : start + most])
        for met in worlds.values()
        for start in range(0, len(met), most)
    ]


def _queue(batches: Sequence[Batch], jobs: int) -> list[Batch]:
    """Return batches in reverse order of running: long ones run first, short ones last.

    Short ones run last, so that no process is left with a long one at the end. Those between
    are mixed, so that the time left can be estimated from the time so far.
    """
    by_cost = sorted(batches, key=lambda batch: (_cost(batch), batch[0].identity))
    tenth = max(len(batches) // 10, 2 * _AHEAD * jobs)
    short, mixed, long = by_cost[:tenth], by_cost[tenth:-tenth], by_cost[tenth:][-tenth:]
    return [*short, *sorted(mixed, key=lambda batch: batch[0].identity), *long]


def _cost(batch: Batch) -> int:
    """Return the approximate cost of a batch: cells x steps x tasks x features."""
    cell = batch[0]
    size = getattr(cell, "environment_parameters", {})
    known = KNOWN.get(getattr(cell, "environment", ""))
    dim = size.get("dim", known.features if known else 1)
    numbers = (len(batch), cell.steps, size.get("n_tasks", 1), dim)
    return math.prod(number for number in numbers if isinstance(number, int))


def _results(batch: Batch, future: Future[list[Record]]) -> list[Record]:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise DataError(
            f"{batch[0]}: a process ended before it was done, perhaps for want of memory; "
            "take fewer jobs"
        ) from error


def _run_batch(batch: Batch) -> list[Record]:
    set_threads(1)  # from now on: a worker of a cluster was not prepared
    return [_run_named(cell) for cell in batch]


def _run_named(cell: Cell, progress: Within | None = None) -> Record:
    """Run a cell; an error names the cell."""
    try:
        return cell.run(progress)
    except DataError as error:
        raise DataError(f"{cell}: {error}") from error
    except CobanditsError as error:
        raise ConfigurationError(f"{cell}: {error}") from error
    except Exception as error:
        error.add_note(f"in {cell}, {cell!r}")
        raise


def _prepare() -> None:
    """Limit the linear algebra of this process to one thread, also of libraries loaded later."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    set_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is gone, as after a kill."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Make processes that start inside ignore interrupts; this one handles them."""
    if threading.current_thread() is not threading.main_thread():  # where signals cannot be set
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
