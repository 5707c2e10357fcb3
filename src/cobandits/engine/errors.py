"""The errors of the engine, each with one meaning for the caller.

::

    EngineError
    ├── UnknownSpaceError       no space has this name                            (KeyError)
    ├── UnknownDecisionError    no decision has this id, or not yet               (KeyError)
    ├── UnknownVersionError     no version has this name                          (KeyError)
    ├── ConflictError           the same id again, with another content           (ValueError)
    ├── NotActivatedError       a reward for a held decision that was never shown (ValueError)
    ├── OwnedError              another process decides on this database
    ├── ClosedError             the engine was closed
    ├── OverloadedError         too many requests wait; nothing was done
    └── StoreError              the log could not be written or read: nothing was answered
        ├── DiskFullError       no room is left
        ├── StoreAwayError      the database cannot be reached; try again
        └── DamagedLogError     the log is not as it was written

A request that makes no sense is a :class:`cobandits.errors.DataError`, a setting out of its bounds
a :class:`cobandits.errors.ConfigurationError`.
"""

from __future__ import annotations

from cobandits.errors import CobanditsError

__all__ = [
    "ClosedError",
    "ConflictError",
    "DamagedLogError",
    "DiskFullError",
    "EngineError",
    "NotActivatedError",
    "OverloadedError",
    "OwnedError",
    "StoreAwayError",
    "StoreError",
    "UnknownDecisionError",
    "UnknownSpaceError",
    "UnknownVersionError",
]


class EngineError(CobanditsError):
    """Base of every error of the engine."""


class _UnknownError(EngineError, KeyError):
    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class UnknownSpaceError(_UnknownError):
    """No space has this name."""


class UnknownDecisionError(_UnknownError):
    """No decision has this id, or not yet: nothing was kept, so send it again later."""


class UnknownVersionError(_UnknownError):
    """No version has this name."""


class ConflictError(EngineError, ValueError):
    """The same id again, with another content: the first one stands."""


class NotActivatedError(EngineError, ValueError):
    """A reward for a held decision that was never shown."""


class OwnedError(EngineError):
    """Another process decides on this database."""


class ClosedError(EngineError):
    """The engine was closed."""


class OverloadedError(EngineError):
    """Too many requests wait; this one was not looked at."""


class StoreError(EngineError):
    """The log could not be written or read: nothing was answered, so try again."""


class DiskFullError(StoreError):
    """There is no room left for the log."""


class StoreAwayError(StoreError):
    """The database cannot be reached at the moment."""


class DamagedLogError(StoreError):
    """The log is not as it was written."""
