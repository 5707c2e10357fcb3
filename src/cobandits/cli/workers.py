"""Where commands run their cells: in processes of this machine, or on a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cobandits import datasets
from cobandits.cluster.dask import connected, n_threads
from cobandits.errors import ClusterError, ConfigurationError
from cobandits.lab import Jobs, Workers

__all__ = ["chosen_workers"]


@contextlib.contextmanager
def chosen_workers(jobs: int, cluster: str | None) -> Iterator[Jobs]:
    """Yield the number of processes, or the workers of the cluster at this address."""
    if cluster is None:
        yield jobs
        return
    if jobs != 1:
        raise ConfigurationError("--cluster has its own workers; leave out --jobs")
    with connected(cluster) as client:
        number = n_threads(client)
        if datasets.is_there("mnist"):
            _check_mnist(client.run(datasets.is_there, "mnist"))
        yield Workers(client.get_executor(pure=False), number)


def _check_mnist(there: dict[str, bool]) -> None:
    """Refuse workers without MNIST where this machine has it: they would run other cells."""
    without = [worker for worker, is_there in there.items() if not is_there]
    if without:
        raise ClusterError(
            f"MNIST is here, but not on {len(without)} of {len(there)} workers, first "
            f"{without[0]}; run `cobandits data fetch mnist` there, or share the cache directory"
        )
