"""Estimators of a shared representation: all take ``TaskData``, all return ``Estimate``.

A new estimator is one new file here: a subclass of ``Estimator`` with a ``name`` and a ``_fit``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from cobandits.discovery import named_classes, pick
from cobandits.errors import ConfigurationError
from cobandits.estimators.altgd import AltGD
from cobandits.estimators.altgdmin import AltGDMin, spectral_start
from cobandits.estimators.base import Estimator
from cobandits.estimators.common import CommonMean
from cobandits.estimators.independent import Independent, Pooled
from cobandits.estimators.lowrank import LowRank
from cobandits.estimators.moments import MethodOfMoments
from cobandits.estimators.tracenorm import TraceNorm

__all__ = [
    "AltGD",
    "AltGDMin",
    "CommonMean",
    "Estimator",
    "Independent",
    "LowRank",
    "MethodOfMoments",
    "Pooled",
    "TraceNorm",
    "available",
    "make",
    "spectral_start",
]

_RENAMED = {"fast": "lowrank"}  # old names, which still work


def available() -> dict[str, type[Estimator]]:
    """Return every estimator of this package by its name on the command line.

    >>> available()["lowrank"].__name__
    'LowRank'
    """
    return named_classes(__name__)


def make(name: str, rank: int | None, **parameters: Any) -> Estimator:
    """Return the estimator of this name, with the rank if it takes one and one is given.

    ``"fast"`` is the old name of ``"lowrank"`` and gives a ``DeprecationWarning``.

    >>> make("altgdmin", rank=3, iterations=50).rank
    3
    """
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(
            f"the estimator {name!r} is now called {new!r}; the old name will be removed",
            DeprecationWarning,
            stacklevel=2,
        )
        name = new
    kind: Callable[..., Estimator] = pick("estimator", name, available())
    known = inspect.signature(kind).parameters
    if unknown := sorted(set(parameters) - set(known)):
        raise ConfigurationError(
            f"the estimator {name} has no parameter {', '.join(unknown)}; it has: "
            f"{', '.join(known)}"
        )
    told = {"rank": rank} if rank is not None and "rank" in known else {}
    return kind(**{**told, **parameters})
