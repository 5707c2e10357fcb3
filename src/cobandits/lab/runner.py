"""Running many cells, one after the other or in several processes."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from cobandits.errors import CobanditsError, ConfigurationError, DataError, MissingExtraError
from cobandits.lab.cells import Cell, run
from cobandits.traces import Trace

__all__ = ["Progress", "run_all"]

Progress = Callable[[int, int, str], None]  # rounds done, rounds in all, what is done now


def run_all(
    cells: Sequence[Cell], *, jobs: int = 1, progress: Progress | None = None
) -> Iterator[tuple[Cell, Trace]]:
    """Run cells, and yield each with its trace, in the order of the cells.

    Linear algebra has one thread, so that results are the same bit for bit however many
    processes there are, and processes do not fight for the machine.

    Parameters
    ----------
    jobs : int
        Processes; with 1, this one alone.
    progress
        Called with the rounds done, the rounds in all, and what is done now.

    Examples
    --------
    >>> size = {"dim": 5, "n_tasks": 3, "rank": 1}
    >>> cells = [
    ...     Cell(environment="synthetic", environment_parameters=size, policy=name, rounds=20)
    ...     for name in ("random", "ridge")
    ... ]
    >>> [trace.policy for _, trace in run_all(cells)]
    ['random', 'ridge']
    """
    if jobs < 1:
        raise ConfigurationError(f"jobs must be at least 1, got {jobs}")
    jobs = min(jobs, len(cells))
    yield from _one_by_one(cells, progress) if jobs <= 1 else _in_processes(cells, jobs, progress)


def _one_by_one(cells: Sequence[Cell], progress: Progress | None) -> Iterator[tuple[Cell, Trace]]:
    done, total = 0, sum(cell.rounds for cell in cells)
    for cell in cells:
        inside = None if progress is None else _inside(progress, done, total, str(cell))
        yield cell, _run_named(cell, inside)
        done += cell.rounds


def _inside(progress: Progress, before: int, total: int, text: str) -> Callable[[int, int], None]:
    """Return what a cell calls after each round."""
    return lambda n, _: progress(before + n, total, text)


def _in_processes(
    cells: Sequence[Cell], jobs: int, progress: Progress | None
) -> Iterator[tuple[Cell, Trace]]:
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))
    try:
        with _interrupts_ignored():
            futures = [pool.submit(_run_named, cell) for cell in cells]
        if progress is not None:
            _count_rounds(cells, futures, progress)
        futures.reverse()
        for cell in cells:
            yield cell, _result(cell, futures.pop())  # and forget it: traces can be large
    except BaseException:  # also an interrupt, or a caller that wants no more
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    pool.shutdown()


def _count_rounds(
    cells: Sequence[Cell], futures: Sequence[Future[Trace]], progress: Progress
) -> None:
    """Report the rounds of each cell when it is done."""
    total, done = sum(cell.rounds for cell in cells), 0

    def report(cell: Cell, _: Future[Trace]) -> None:
        nonlocal done
        done += cell.rounds
        progress(done, total, str(cell))

    for cell, future in zip(cells, futures, strict=True):
        future.add_done_callback(functools.partial(report, cell))


def _result(cell: Cell, future: Future[Trace]) -> Trace:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise DataError(
            f"{cell}: a process ended before it was done, perhaps for want of memory; "
            "take fewer jobs"
        ) from error


def _run_named(cell: Cell, progress: Callable[[int, int], None] | None = None) -> Trace:
    """Run a cell on one thread; an error says which cell it was."""
    with _one_thread():
        try:
            return run(cell, progress)
        except DataError as error:
            raise DataError(f"{cell}: {error}") from error
        except CobanditsError as error:
            raise ConfigurationError(f"{cell}: {error}") from error
        except Exception as error:
            error.add_note(f"in {cell}, {cell!r}")
            raise


def _one_thread() -> contextlib.AbstractContextManager[object]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("threadpoolctl", "cli") from error
    limits: contextlib.AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let processes that start inside leave an interrupt to this one, which then ends them."""
    if threading.current_thread() is not threading.main_thread():  # where signals cannot be set
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
