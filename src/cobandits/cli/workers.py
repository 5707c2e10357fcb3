"""Where commands run their cells: in processes of this machine, or on a cluster."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cobandits import datasets
from cobandits.cluster.dask import connected, n_threads
from cobandits.errors import ConfigurationError
from cobandits.files import write_whole
from cobandits.lab import Jobs, Workers

if TYPE_CHECKING:
    from distributed import Client

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
        workers = f"{len(client.nthreads())} workers, {number} cells at a time"
        print(f"cobandits: {cluster} has {workers}", file=sys.stderr)
        if datasets.is_there("mnist"):  # else workers would run other cells than this machine
            _send_mnist(client)
        yield Workers(client.get_executor(pure=False), number)


def _send_mnist(client: Client) -> None:
    """Put MNIST into the cache of every worker that does not have it."""
    there = client.run(datasets.is_there, "mnist")
    without = [worker for worker, is_there in there.items() if not is_there]
    if without:
        print(f"cobandits: sending MNIST to {len(without)} workers", file=sys.stderr)
        client.run(_keep_mnist, datasets.mnist_path().read_bytes(), workers=without)


def _keep_mnist(content: bytes) -> None:
    path = datasets.mnist_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
