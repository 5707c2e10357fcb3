"""cobandits: contextual bandits that learn together."""

from importlib.metadata import version

from cobandits.diagnostics import sharing, spectrum
from cobandits.environments import Problem, Synthetic
from cobandits.errors import CobanditsError
from cobandits.estimate import Estimate, History, Status
from cobandits.estimators import (
    AltGD,
    AltGDMin,
    Estimator,
    Independent,
    LowRank,
    MethodOfMoments,
    Pooled,
    TraceNorm,
)
from cobandits.tasks import TaskData, TaskRows, TaskStatistics

__all__ = [
    "AltGD",
    "AltGDMin",
    "CobanditsError",
    "Estimate",
    "Estimator",
    "History",
    "Independent",
    "LowRank",
    "MethodOfMoments",
    "Pooled",
    "Problem",
    "Status",
    "Synthetic",
    "TaskData",
    "TaskRows",
    "TaskStatistics",
    "TraceNorm",
    "sharing",
    "spectrum",
]

__version__ = version("cobandits")
