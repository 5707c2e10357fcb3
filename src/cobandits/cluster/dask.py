"""Shards on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, Any

from cobandits.errors import ClusterError, MissingExtraError
from cobandits.frames import Frame
from cobandits.tasks.held import HeldTasks
from cobandits.tasks.rows import TaskRows
from cobandits.tasks.shards import InMemory, Recipe, Shard

if TYPE_CHECKING:
    from concurrent.futures import Future as Pending

    from dask.dataframe import DataFrame
    from distributed import Client, Future, Worker

    Answer = Pending[Mapping[str, Any]]

__all__ = ["DaskNodes", "connected", "n_threads"]

_PATIENCE = 0.2  # seconds without an answer, after which it is asked which workers are left
_PAUSE = 0.1  # seconds between two looks for a worker, or for a shard that was lost
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

    A call goes to the shards' workers as a message each, outside of Dask's scheduling of tasks: a
    third of the CPU time of a task per shard. If a home is lost, Dask makes its shard again from
    the recipe on another worker at once, and only that shard is asked again; if there was no
    other worker, the shard gets a new home as soon as one joins.

    Parameters
    ----------
    client : distributed.Client
    recipes
        How each shard is made, or futures of that; they are dealt to the workers in turn.
    """

    def __init__(self, client: Client, recipes: Sequence[Recipe | Future]) -> None:
        self._client = client
        self._recipes = list(recipes)
        workers = self._workers()
        self._homes = [workers[number % len(workers)] for number in range(len(self._recipes))]
        self._shards = [self._settled(number) for number in range(len(self._recipes))]
        self._found = False  # whether all shards are known to be at their homes

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
        everyone = range(len(self._shards))
        if not self._found:
            self._find(everyone)
            self._found = True
        results: dict[int, Any] = {}
        asked = self._asked(everyone, function, arguments)
        while asked:
            done, _ = wait(asked, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
            lost = [] if done else self._abandoned(asked)
            for one in done:
                numbers, answers = asked.pop(one), _answers(one)
                results |= answers
                lost += [number for number in numbers if number not in answers]
            if lost:
                self._find(lost)
                asked |= self._asked(lost, function, arguments)
        return [results[number] for number in everyone]

    def _asked(
        self, numbers: Sequence[int], function: Callable[..., Any], arguments: tuple[object, ...]
    ) -> dict[Answer, list[int]]:
        """Ask for the function of these shards, a message per worker."""
        at: dict[str, list[int]] = {}
        for number in numbers:
            at.setdefault(self._homes[number], []).append(number)
        return {self._sent(home, some, function, arguments): some for home, some in at.items()}

    def _sent(
        self,
        home: str,
        numbers: Sequence[int],
        function: Callable[..., Any],
        arguments: tuple[object, ...],
    ) -> Answer:
        keys = {number: self._shards[number].key for number in numbers}

        async def run() -> Mapping[str, Any]:
            found: Mapping[str, Any] = await self._client.run(
                _run, keys, function, arguments, workers=[home], on_error="return"
            )
            return found

        return asyncio.run_coroutine_threadsafe(run(), self._client.loop.asyncio_loop)

    def _abandoned(self, asked: dict[Answer, list[int]]) -> list[int]:
        """Return the shards whose worker is gone, and wait for its answer no longer."""
        workers = self._workers()
        gone = [one for one, some in asked.items() if self._homes[some[0]] not in workers]
        for one in gone:
            one.cancel()
        return [number for one in gone for number in asked.pop(one)]

    def _find(self, numbers: Sequence[int]) -> None:
        """Set the homes of these shards to where they are, once they are made."""
        from distributed import wait as wait_for_all

        lost = list(numbers)
        while lost:
            with self._client.as_current(), contextlib.suppress(TimeoutError):
                wait_for_all([self._shards[number] for number in lost], timeout=_PATIENCE)
            lost = self._elsewhere(lost)
            if lost:
                self._settle_again(lost)
                time.sleep(_PAUSE)

    def _elsewhere(self, numbers: Sequence[int]) -> list[int]:
        """Return the shards that no worker has; note where the others are, and raise errors."""
        shards = {number: self._shards[number] for number in numbers}
        for shard in shards.values():
            if shard.status == "error":
                shard.result()
        places = self._client.who_has(list(shards.values()))
        for number, shard in shards.items():
            if places[shard.key] and self._homes[number] not in places[shard.key]:
                self._homes[number] = places[shard.key][0]
        return [number for number, shard in shards.items() if not places[shard.key]]

    def _settle_again(self, numbers: Sequence[int]) -> None:
        """Give a new home to shards that no worker makes: they were lost with the last one."""
        workers, processing = self._workers(), self._client.processing()
        made = {key for keys in processing.values() for key in keys}
        for number in numbers:
            if self._homes[number] not in workers and self._shards[number].key not in made:
                self._homes[number] = workers[number % len(workers)]
                self._shards[number] = self._settled(number)

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

    def _settled(self, number: int) -> Future:
        """Return the future of a shard at its home; without the pin Dask would move shards."""
        return self._client.submit(
            Shard,
            self._recipes[number],
            number,
            workers=[self._homes[number]],
            allow_other_workers=True,
            pure=False,  # no hash of the recipe
        )


def _answers(one: Answer) -> dict[int, Any]:
    """Return what a worker answered, by shard; nothing if it was lost."""
    (answer,) = one.result().values()
    if isinstance(answer, OSError):  # of the connection: those of functions are made others
        return {}
    if isinstance(answer, Exception):
        raise answer
    found: dict[int, Any] = answer
    return found


async def _run(
    keys: Mapping[int, str],
    function: Callable[..., Any],
    arguments: tuple[object, ...],
    dask_worker: Worker,
) -> dict[int, Any]:
    """Return the function of these shards, as far as this worker has them.

    It runs in the worker's threads for tasks, so the worker goes on answering messages.
    """
    _keep_quiet()
    pool, data = dask_worker.executors["default"], dask_worker.data
    here = {number: data[key] for number, key in keys.items() if key in data}
    loop = asyncio.get_running_loop()
    try:
        values = await asyncio.gather(
            *(
                loop.run_in_executor(pool, _alone, shard, function, arguments)
                for shard in here.values()
            )
        )
    except OSError as error:
        raise ClusterError(f"the worker {dask_worker.address} failed: {error}") from error
    return dict(zip(here, values, strict=True))


def _alone(shard: Shard, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
    """Return the function of a shard; if a link was down, it may have been asked for already."""
    with shard.lock:
        return function(shard, *arguments)


@functools.cache
def _keep_quiet() -> None:
    """Have this worker not log every call: it logs each message of this kind."""
    logging.getLogger("distributed.worker").addFilter(
        lambda record: record.args != (_run.__name__,)
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
