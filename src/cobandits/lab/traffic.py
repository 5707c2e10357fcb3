"""What a fit over several nodes sends to each of them and gets back, in bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cobandits import environments, estimators
from cobandits.cluster.local import LocalNodes
from cobandits.environments import Synthetic
from cobandits.lab.cells import Estimation, Within
from cobandits.lab.records import Record
from cobandits.randomness import stream
from cobandits.tasks import SpreadTasks, TaskRows

__all__ = ["Traffic", "WeighedNodes"]

_NODES = 2


@dataclass(frozen=True, kw_only=True)
class Traffic(Estimation):
    """One fit of one estimator over nodes: the bytes of its calls at the busiest node.

    >>> size = {"dim": 8, "n_tasks": 6, "rank": 2}
    >>> cell = Traffic(environment_parameters=size, n_rows=9, estimator="altgdmin")
    >>> cell.run()["bytes"] < 16 * 8 * 2 + 8 * 2**2 + 2000
    True
    """

    kind: ClassVar[str] = "traffic"

    def __str__(self) -> str:
        return f"{self.estimator} over {_NODES} nodes, trial {self.trial}"

    def measure(self, progress: Within | None = None) -> Record:
        """Fit, and return the bytes of a call: the median over all calls, and the most."""
        made = environments.make("synthetic", self.environment_parameters)
        assert isinstance(made, Synthetic)
        tasks = made.problem(n_rows=self.n_rows, seed=self.seed, trial=self.trial).tasks
        nodes = WeighedNodes(LocalNodes.of([_dealt(tasks, node) for node in range(_NODES)]))
        spread = SpreadTasks.on(nodes)
        nodes.calls.clear()  # the calls of the fit alone
        estimator = estimators.make(self.estimator, made.rank, **self.estimator_parameters)
        estimator.fit(spread, rng=stream(self.seed, "estimator", self.trial))
        if progress is not None:
            progress(self.steps, self.steps)
        return {
            "estimator": self.estimator,
            "trial": self.trial,
            "bytes": float(np.median(nodes.calls)),
            "most_bytes": max(nodes.calls),
        }


def _dealt(tasks: TaskRows, node: int) -> TaskRows:
    """Return the tasks of a node: every other one, if there are two nodes."""
    here = tasks.owners % _NODES == node
    return TaskRows.from_arrays(tasks.rows[here], tasks.rewards[here], tasks.owners[here])


class WeighedNodes:
    """Nodes that note how many bytes each call moves at the node where it moves most.

    What is weighed is what any engine has to move: the function with its arguments, and the
    node's answer, as pickled. An engine adds frames of its own.
    """

    def __init__(self, nodes: LocalNodes) -> None:
        self._nodes = nodes
        self.calls: list[int] = []

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        """Return ``function(shard, *arguments)`` of every shard."""
        answers = self._nodes.call(function, *arguments)
        out = len(pickle.dumps((function, arguments)))  # weighed only, and never loaded
        self.calls.append(out + max(len(pickle.dumps(answer)) for answer in answers))
        return answers
