"""Estimators of a shared representation: all take ``TaskData``, all return ``Estimate``.

A new estimator is one new file here: a class with a ``name`` and a ``fit``.
"""

from __future__ import annotations

import importlib
import pkgutil

from cobandits.estimators.altgd import AltGD
from cobandits.estimators.altgdmin import AltGDMin, spectral_start
from cobandits.estimators.base import Estimator
from cobandits.estimators.independent import Independent, Pooled
from cobandits.estimators.lowrank import LowRank
from cobandits.estimators.moments import MethodOfMoments
from cobandits.estimators.tracenorm import TraceNorm

__all__ = [
    "AltGD",
    "AltGDMin",
    "Estimator",
    "Independent",
    "LowRank",
    "MethodOfMoments",
    "Pooled",
    "TraceNorm",
    "available",
    "spectral_start",
]


def available() -> dict[str, type[Estimator]]:
    """Return every estimator of this package by its name on the command line.

    >>> available()["fast"].__name__
    'LowRank'
    """
    found: dict[str, type[Estimator]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for member in vars(importlib.import_module(module.name)).values():
            name = vars(member).get("name") if isinstance(member, type) else None
            if isinstance(name, str):
                found[name] = member
    return dict(sorted(found.items()))
