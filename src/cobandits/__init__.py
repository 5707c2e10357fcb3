"""cobandits: contextual bandits that learn together.

The names below are loaded with their modules when they are first used: the import itself takes
next to no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from cobandits import compiled as compiled  # says so where there is no compiled code
from cobandits.simulate import simulate  # now: later, its module would take its name

if TYPE_CHECKING:
    from cobandits.decisions import Decisions
    from cobandits.diagnostics import sharing, spectrum
    from cobandits.environments import Problem, Synthetic
    from cobandits.errors import CobanditsError
    from cobandits.estimate import Estimate, History, Status
    from cobandits.estimators import (
        AltGD,
        AltGDMin,
        CommonMean,
        Estimator,
        Independent,
        LowRank,
        MethodOfMoments,
        Pooled,
        TraceNorm,
    )
    from cobandits.evaluation import evaluate, relearn
    from cobandits.logs import Log
    from cobandits.policies import LRRL, LinUCB, Policy, Ridge, Shared, Thompson
    from cobandits.tasks import TaskData, TaskRows, TaskStatistics
    from cobandits.traces import Trace

    __version__: str

__all__ = [
    "LRRL",
    "AltGD",
    "AltGDMin",
    "CobanditsError",
    "CommonMean",
    "Decisions",
    "Estimate",
    "Estimator",
    "History",
    "Independent",
    "LinUCB",
    "Log",
    "LowRank",
    "MethodOfMoments",
    "Policy",
    "Pooled",
    "Problem",
    "Ridge",
    "Shared",
    "Status",
    "Synthetic",
    "TaskData",
    "TaskRows",
    "TaskStatistics",
    "Thompson",
    "Trace",
    "TraceNorm",
    "evaluate",
    "relearn",
    "sharing",
    "simulate",
    "spectrum",
]

_NAMES = {
    "decisions": "Decisions",
    "diagnostics": "sharing spectrum",
    "environments": "Problem Synthetic",
    "errors": "CobanditsError",
    "estimate": "Estimate History Status",
    "estimators": "AltGD AltGDMin CommonMean Estimator Independent LowRank MethodOfMoments Pooled "
    "TraceNorm",
    "evaluation": "evaluate relearn",
    "logs": "Log",
    "policies": "LRRL LinUCB Policy Ridge Shared Thompson",
    "tasks": "TaskData TaskRows TaskStatistics",
    "traces": "Trace",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Load a public name, or the version, when it is first used (PEP 562)."""
    if name == "__version__":
        found: object = importlib.import_module("importlib.metadata").version("cobandits")
    elif name in _MODULES:
        found = getattr(importlib.import_module(f"cobandits.{_MODULES[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Name what can be loaded too."""
    return sorted({*globals(), *__all__, "__version__"})
