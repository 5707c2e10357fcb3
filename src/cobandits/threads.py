"""One thread for linear algebra: more of them cost more time than they save on small matrices."""

from __future__ import annotations

import contextlib

from cobandits.errors import MissingExtraError

__all__ = ["one_thread", "set_threads", "threads_here"]


def one_thread() -> contextlib.AbstractContextManager[object]:
    """Limit the linear algebra of this process to one thread, until the context ends.

    >>> with one_thread():
    ...     pass
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("threadpoolctl", "cli") from error
    limits: contextlib.AbstractContextManager[object] = threadpool_limits(limits=1)
    return limits


def threads_here() -> int | None:
    """Return how many threads the linear algebra of this process has, None if that is not known."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return None
    found = [int(one["num_threads"]) for one in threadpool_info() if one["user_api"] == "blas"]
    return max(found, default=None)


def set_threads(count: int | None) -> None:
    """Give the linear algebra of this process so many threads; None leaves it as it started."""
    if count is not None:
        with contextlib.suppress(ImportError):
            from threadpoolctl import threadpool_limits

            threadpool_limits(limits=count, user_api="blas")
