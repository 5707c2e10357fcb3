"""cobandits: contextual bandits that learn together."""

from importlib.metadata import version

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
from cobandits.simulate import simulate
from cobandits.tasks import TaskData, TaskRows, TaskStatistics
from cobandits.traces import Trace

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

__version__ = version("cobandits")
