"""Shards on the workers of a Dask cluster."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cobandits.errors import ClusterError, MissingExtraError
from cobandits.frames import Frame
from cobandits.tasks.held import HeldTasks
from cobandits.tasks.rows import TaskRows
from cobandits.tasks.shards import InMemory, Recipe, Shard

if TYPE_CHECKING:
    from dask.dataframe import DataFrame
    from distributed import Client, Future

__all__ = ["DaskNodes", "connected", "n_threads"]

_PATIENCE = 1.0  # seconds without an answer, after which homes are checked
_PAUSE = 0.2  # seconds between two looks for a worker
_PATIENCE_FOR_WORKERS = 600.0  # seconds without any worker, after which a call fails


def connected(address: str) -> Client:
    """Return a client of the scheduler at ``address``, such as ``tcp://host:8786``."""
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingExtraError("distributed", "dask") from error
    try:
        return Client(address, set_as_default=False)
    except OSError as error:
        raise ClusterError(
            f"there is no Dask scheduler at {address}; start one with `dask scheduler` "
            "and workers with `dask worker ADDRESS`"
        ) from error


def n_threads(client: Client) -> int:
    """Return how many things the workers do at once; refuse a cluster without workers."""
    number = sum(client.nthreads().values())
    if number == 0:
        raise ClusterError("the cluster has no workers; start one with `dask worker ADDRESS`")
    return int(number)


class DaskNodes:
    """Shards as futures, each pinned to a worker, its home.

    Without pins Dask would move whole shards between workers. If a home is lost, Dask makes
    its shard again from the recipe on another worker; if there was none, the shard gets a new
    home as soon as a worker joins.

    Parameters
    ----------
    client : distributed.Client
    recipes
        How each shard is made, or futures of that; they are dealt to the workers in turn.
    """

    def __init__(self, client: Client, recipes: Sequence[Recipe | Future]) -> None:
        self._client = client
        self._recipes = list(recipes)
        self._homes = self._dealt()
        self._shards = [self._settled(number) for number in range(len(self._recipes))]

    @classmethod
    def of(cls, client: Client, parts: Sequence[HeldTasks]) -> DaskNodes:
        """Return nodes with these tasks, which are sent to the workers, a part for each."""
        return cls(client, [InMemory(tasks) for tasks in parts])

    @classmethod
    def of_frame(
        cls,
        client: Client,
        frame: DataFrame,
        *,
        task: str,
        reward: str,
        features: Sequence[str] | None = None,
        intercept: bool = False,
        partitioned: bool = False,
    ) -> DaskNodes:
        """Return nodes with the rows of a Dask frame, a shard per partition.

        If the frame is not ``partitioned`` by task, its rows are shuffled once. For the
        columns see :func:`cobandits.frames.columns_of`.
        """
        from dask import delayed

        whole = frame if partitioned else frame.shuffle(on=task)
        names = _feature_columns(whole, task, reward, features)
        parts = [
            delayed(_frame_recipe)(part, task, reward, names, intercept)
            for part in whole.to_delayed()
        ]
        return cls(client, client.compute(parts))

    @property
    def homes(self) -> list[str]:
        """The address of each shard's worker."""
        return list(self._homes)

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        """Return ``function(shard, *arguments)`` of every shard, computed at its home."""
        futures = [
            self._submitted(number, function, *arguments) for number in range(len(self._shards))
        ]
        while not self._all_done(futures):
            for number in self._homeless():
                self._homes[number] = self._home(number)
                self._shards[number] = self._settled(number)
                futures[number] = self._submitted(number, function, *arguments)
        results: Sequence[Any] = self._client.gather(futures)
        return results

    def _all_done(self, futures: Sequence[Future]) -> bool:
        from distributed import wait

        try:
            with self._client.as_current():
                wait(futures, timeout=_PATIENCE)
        except TimeoutError:
            return False
        return True

    def _homeless(self) -> list[int]:
        """Return the shards whose home is gone."""
        workers = self._workers()
        return [number for number, home in enumerate(self._homes) if home not in workers]

    def _workers(self) -> list[str]:
        """Return the workers' addresses; wait for one if there is none."""
        until = time.monotonic() + _PATIENCE_FOR_WORKERS
        while not (workers := list(self._client.nthreads())):
            if time.monotonic() > until:
                raise ClusterError(
                    f"the cluster has had no worker for {_PATIENCE_FOR_WORKERS:.0f} seconds; "
                    "start one with `dask worker ADDRESS`"
                )
            time.sleep(_PAUSE)
        return workers

    def _dealt(self) -> list[str]:
        return [home for home, _ in zip(itertools.cycle(self._workers()), self._recipes)]

    def _home(self, number: int) -> str:
        workers = self._workers()
        return workers[number % len(workers)]

    def _settled(self, number: int) -> Future:
        """Return the future of a shard at its home."""
        return self._pinned(number, Shard, self._recipes[number], number)

    def _submitted(self, number: int, function: Callable[..., Any], *arguments: object) -> Future:
        return self._pinned(number, function, self._shards[number], *arguments)

    def _pinned(self, number: int, function: Callable[..., Any], *arguments: object) -> Future:
        return self._client.submit(
            function,
            *arguments,
            workers=[self._homes[number]],
            allow_other_workers=True,
            pure=False,  # no hash of the arguments: a call is never one that was made before
        )


def _feature_columns(
    frame: DataFrame, task: str, reward: str, features: Sequence[str] | None
) -> list[str]:
    """Return the names of the features: those given, or all other columns."""
    return [name for name in (features or frame.columns) if name not in (task, reward)]


def _frame_recipe(
    part: Frame, task: str, reward: str, features: list[str], intercept: bool
) -> InMemory:
    """Return the rows of a partition, which may have none."""
    if len(part) == 0:
        return InMemory(TaskRows(len(features) + intercept))
    rows = TaskRows.from_frame(
        part, task=task, reward=reward, features=features, intercept=intercept
    )
    return InMemory(rows)
