"""The data of many tasks: their rows, or the sufficient statistics of their rows.

``TaskRows`` keeps every row, sorted by task; tasks may have different numbers of rows.
``TaskStatistics`` keeps ``Phi'Phi``, ``Phi'y`` and ``y'y`` per task; its memory does not grow
with the number of rows. Estimators take either, as ``TaskData``.
"""

from cobandits.tasks.base import TaskData
from cobandits.tasks.results import LeastSquares, RidgedLeastSquares, TaskFit
from cobandits.tasks.rows import TaskRows
from cobandits.tasks.spread import SpreadTasks
from cobandits.tasks.statistics import TaskStatistics

__all__ = [
    "LeastSquares",
    "RidgedLeastSquares",
    "SpreadTasks",
    "TaskData",
    "TaskFit",
    "TaskRows",
    "TaskStatistics",
]
