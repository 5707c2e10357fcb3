"""The data of many tasks: their rows, or the sufficient statistics of their rows.

``TaskRows`` keeps every row, a task's rows side by side; tasks may have any number of
them. ``TaskStatistics`` keeps ``Phi'Phi``, ``Phi'y`` and ``y'y`` of each task, and its
memory does not grow with rows. Estimators take either, as ``TaskData``.
"""

from cobandits.tasks.base import TaskData
from cobandits.tasks.rows import TaskRows
from cobandits.tasks.statistics import TaskStatistics

__all__ = ["TaskData", "TaskRows", "TaskStatistics"]
