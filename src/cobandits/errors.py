"""The exceptions of this package.

::

    CobanditsError
    ├── DataError            rows, rewards or labels that cannot be used   (ValueError)
    ├── RankError            a rank that the data cannot carry             (ValueError)
    ├── ConfigurationError   a parameter out of its bounds                 (ValueError)
    ├── UnknownTaskError     a task label that was never fitted            (KeyError)
    ├── ClusterError         a cluster that cannot be reached, or has no workers
    ├── ModelFileError       a saved estimate, log or policy that cannot be read
    └── MissingExtraError    an optional dependency is not installed       (ImportError)

Each message says what was wrong, the bound, what was given and what to do.
"""

from __future__ import annotations

__all__ = [
    "ClusterError",
    "CobanditsError",
    "ConfigurationError",
    "DataError",
    "MissingExtraError",
    "ModelFileError",
    "RankError",
    "UnknownTaskError",
]


class CobanditsError(Exception):
    """Base of every error that this package raises on purpose."""


class DataError(CobanditsError, ValueError):
    """Rows, rewards or labels that cannot be used."""


class RankError(CobanditsError, ValueError):
    """A rank that the data cannot carry."""


class ConfigurationError(CobanditsError, ValueError):
    """A parameter out of its bounds."""


class UnknownTaskError(CobanditsError, KeyError):
    """A task label that was never fitted."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show the message in quotes


class ModelFileError(CobanditsError):
    """A saved estimate, log or policy that cannot be read."""


class ClusterError(CobanditsError):
    """A cluster that cannot be reached, or has no workers."""


class MissingExtraError(CobanditsError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"this needs {package}, which is not installed; run in the checkout: "
            f"pip install '.[{extra}]'"
        )
