"""The Flower apps, and the accountant: `make test-federated` runs it in its own environment."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from scipy.stats import norm

from cobandits import TaskRows
from cobandits.environments import Synthetic
from cobandits.federated import FederatedAltGDMin, Node, noise_multiplier
from examples.federated.client_app import app as client
from examples.federated.server_app import app as server

CONFIG: dict[str, Any] = {"rank": 2, "dim": 8, "nodes": 2, "iterations": 60}


def written(tasks: TaskRows, folder: Path) -> list[str]:
    """Write the rows of even and of odd tasks to a file each."""
    names = [f"x{k}" for k in range(tasks.dim)]
    frame = polars.DataFrame(tasks.rows, schema=names)
    frame = frame.with_columns(reward=tasks.rewards, task=tasks.owners)
    paths = [folder / f"{owner}.parquet" for owner in range(2)]
    for owner, path in enumerate(paths):
        frame.filter(polars.col("task") % 2 == owner).write_parquet(path)
    return [str(path) for path in paths]


class DirectGrid:
    """A grid without a network: it calls the client app with each message."""

    def __init__(self, configs: Sequence[dict[str, Any]]) -> None:
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 0
        self._contexts = [
            Context(1, node + 1, config, RecordDict(), CONFIG)
            for node, config in enumerate(configs)
        ]

    def get_node_ids(self) -> Iterable[int]:
        return [context.node_id for context in self._contexts]

    def send_and_receive(self, messages: Iterable[Message]) -> Iterable[Message]:
        for message in messages:
            yield client(message, self._contexts[message.metadata.dst_node_id - 1])


def test_the_apps_find_the_basis_of_nodes_here(tmp_path: Path) -> None:
    problem = Synthetic(dim=8, n_tasks=20, rank=2, noise_std=0.1).problem(n_rows=12, seed=1)
    paths = written(problem.tasks, tmp_path)
    out = tmp_path / "basis.npy"
    context = Context(1, 0, {}, RecordDict(), {**CONFIG, "out": str(out)})
    server(DirectGrid([{"rows": path} for path in paths]), context)
    files = [TaskRows.from_file(path, task="task", reward="reward") for path in paths]
    here = FederatedAltGDMin(rank=2, dim=8, iterations=60).fit(
        [Node(rows, rank=2).answer for rows in files]
    )
    np.testing.assert_array_equal(np.load(out), here.basis)


@pytest.mark.parametrize(("epsilon", "releases"), [(1.0, 1), (4.0, 23), (8.0, 60)])
def test_the_accountant_agrees_with_the_exact_gaussian_mechanism(
    epsilon: float, releases: int
) -> None:
    """Several Gaussian releases are one with less noise, whose delta is known (Balle and Wang)."""
    mu = math.sqrt(releases) / noise_multiplier(epsilon, 1e-5, releases)
    delta = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert delta == pytest.approx(1e-5, rel=0.02)
