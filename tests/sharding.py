"""Tasks cut into shards, and nodes that watch what passes between them and the driver."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cobandits.tasks import TaskRows
from cobandits.tasks.driver import Nodes


def shards(tasks: TaskRows, n: int, *, empty: bool = True) -> list[TaskRows]:
    """Cut the tasks into ``n`` shards, in order; of several one is empty, the second."""
    filled = n - (empty and n > 1)
    cuts = np.linspace(0, tasks.n_tasks, filled + 1).astype(int).tolist()
    parts = [between(tasks, a, b) for a, b in itertools.pairwise(cuts)]
    if filled < n:
        parts.insert(1, TaskRows(tasks.dim))
    return parts


def between(tasks: TaskRows, first: int, last: int) -> TaskRows:
    """Return the tasks from number ``first`` up to ``last``, those without rows too."""
    here = (tasks.owners >= first) & (tasks.owners < last)
    part = TaskRows(tasks.dim, tasks.feature_names)
    owners = tasks.owners[here] - first
    part._append(tasks.rows[here], tasks.rewards[here], owners, tasks.labels[first:last])
    return part


class Spy:
    """Nodes that fail if a call sends a node more than ``out`` bytes, or brings ``back`` more.

    Or if it does ``both`` with more bytes in all.
    """

    def __init__(self, nodes: Nodes, out: int, back: int, both: float = np.inf) -> None:
        self._nodes, self._out, self.back, self._both = nodes, out, back, both

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        sent = len(pickle.dumps(arguments))
        assert sent <= self._out, f"{sent} bytes were sent to each node"
        results = self._nodes.call(function, *arguments)
        for result in results:
            brought = len(pickle.dumps(result))
            assert brought <= self.back, f"a node sent {brought} bytes"
            assert sent + brought <= self._both, f"{sent} + {brought} bytes in one call"
        return results
