"""One thread for linear algebra: more of them cost more time than they save on small matrices."""

from __future__ import annotations

import contextlib

from cobandits.errors import MissingExtraError

__all__ = ["one_thread"]


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
