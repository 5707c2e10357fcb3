"""One thread for linear algebra: more of them cost more time than they save on small matrices."""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Iterator

__all__ = ["one_thread", "set_threads", "threads_here"]


class _Turns:
    """Whose turn it is to limit threads; a process that is forked has turns of its own."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Forget a thread that the new process does not have."""
        self.lock = threading.RLock()


_turns = _Turns()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit the linear algebra of this process to one thread, until the context ends.

    The limit is one of the process, so threads that want it take turns: each has it from its
    beginning to its end, and rounds as if it were alone.

    >>> with one_thread():
    ...     pass
    """
    from threadpoolctl import threadpool_limits

    importlib.import_module("scipy.linalg")  # its library has to be there to be limited
    with _turns.lock, threadpool_limits(limits=1):
        yield


def threads_here() -> int | None:
    """Return how many threads the linear algebra of this process has, None if that is not known.

    It waits until no other thread limits them.
    """
    from threadpoolctl import threadpool_info

    with _turns.lock:
        pools = threadpool_info()
    found = [int(one["num_threads"]) for one in pools if one["user_api"] == "blas"]
    return max(found, default=None)


def set_threads(count: int | None) -> None:
    """Give the linear algebra of this process so many threads; None leaves it as it started."""
    if count is not None:
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=count, user_api="blas")
