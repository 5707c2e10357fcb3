"""One thread for linear algebra: more of them cost more time than they save on small matrices."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

__all__ = ["one_thread", "set_threads", "threads_here"]

_limiting = threading.Lock()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit the linear algebra of this process to one thread, until the context ends.

    Where another thread of the process does so already, its limit is used, and ends when it ends:
    no thread waits for another one, and the last to end leaves things as they were at first.

    >>> with one_thread():
    ...     pass
    """
    if not _limiting.acquire(blocking=False):
        yield
        return
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        _limiting.release()


def threads_here() -> int | None:
    """Return how many threads the linear algebra of this process has, None if that is not known."""
    from threadpoolctl import threadpool_info

    found = [int(one["num_threads"]) for one in threadpool_info() if one["user_api"] == "blas"]
    return max(found, default=None)


def set_threads(count: int | None) -> None:
    """Give the linear algebra of this process so many threads; None leaves it as it started."""
    if count is not None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=count, user_api="blas")
