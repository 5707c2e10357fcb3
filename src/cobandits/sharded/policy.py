"""The shared policy over several shards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import as_codes
from cobandits.errors import ConfigurationError, DataError, ModelFileError
from cobandits.fast_checks import are_at_most
from cobandits.files import write_whole
from cobandits.policies import Policy
from cobandits.policies.gaussian import TOO_LARGE
from cobandits.policies.shared import Explanation
from cobandits.policies.shared.empirical_bayes import DecomposedPrior
from cobandits.policies.shared.exploration import Explore
from cobandits.policies.shared.task_drift import TaskChange
from cobandits.policies.task_index import as_labels
from cobandits.sharded.hashing import shards_of
from cobandits.sharded.head import Offer
from cobandits.sharded.heads import Heads, LocalHeads, ProcessHeads
from cobandits.sharded.training import call, learn_prior

__all__ = ["ShardedShared"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_FILE = "sharded.json"
_VERSION = 1


class ShardedShared(Policy):
    """:class:`~cobandits.policies.Shared` with its tasks dealt to several shards.

    Every task belongs to one shard, by a hash of its number or label. Decisions and rewards go
    there. Whenever the rewards of all shards have grown by a quarter, or have doubled once the
    prior is settled, it is learned from sums over all of them, and published. Each shard has as
    much memory and time as one ``Shared``, so memory, decisions per second and the tasks that a
    prior is learned from grow with the shards.

    Differences from ``Shared``: rewards are any numbers, as with ``rewards="gaussian"``. A shard
    that finds that its tasks have changed says so in :attr:`changes`, or in :attr:`task_changes`
    where only some have, and learning goes on.
    Probabilities are computed with each decision. How sure predictions are, and the highest reward
    so far, are known per shard. Close it when done, or use it in a ``with`` statement.

    Parameters
    ----------
    shards : int or Heads
        How many, in this process; or shards that live elsewhere, such as
        :meth:`~cobandits.sharded.ProcessHeads.start` makes with the same parameters.
    explore, floor, labels
        As in ``Shared``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> policy, arms = ShardedShared(dim=3, shards=2), rng.standard_normal((4, 5, 3))
    >>> decisions = policy.decide([0, 1, 2, 3], arms, rng)
    >>> policy.learn([0, 1, 2, 3], arms, decisions, rewards=[1.0, 2.0, 0.0, 1.0])
    >>> policy.rewards
    4
    """

    name: ClassVar[str] = "shared"

    def __init__(
        self,
        *,
        dim: int,
        shards: int | Heads = 2,
        explore: Explore = "needed",
        floor: float = 0.0,
        labels: bool = False,
    ) -> None:
        super().__init__(dim=dim)
        self.labels = bool(labels)
        self._setting = {"dim": dim, "explore": explore, "floor": floor, "labels": self.labels}
        if isinstance(shards, int):
            if shards < 1:
                raise ConfigurationError(f"shards must be at least 1, got {shards}")
            shards = LocalHeads.start(shards, self._setting)
        self._heads = shards
        self._rewards, self._due = 0, 1
        self._prior: DecomposedPrior | None = None
        self._largest = np.inf

    @classmethod
    def in_processes(cls, shards: int, **setting: Any) -> Self:
        """Return the policy with every shard in a process of its own; parameters are the same."""
        LocalHeads.start(1, setting)  # refuses wrong parameters here, not in the processes
        return cls(shards=ProcessHeads.start(shards, setting), **setting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of the shards, if they have any."""
        self._heads.close()

    @property
    def most_tasks(self) -> None:
        """There can be any number of tasks."""

    @property
    def heads(self) -> Heads:
        """The shards."""
        return self._heads

    @property
    def rewards(self) -> int:
        """How many rewards have been learned."""
        return self._rewards

    @property
    def prior(self) -> DecomposedPrior | None:
        """The prior that all tasks share, None before the first reward."""
        return self._prior

    @property
    def changes(self) -> dict[int, tuple[int, ...]]:
        """By shard, after how many of its rewards its tasks were found to have changed."""
        with self._lock:
            found = call(self._heads, "changes_so_far")
        return {shard: changes for shard, changes in enumerate(found) if changes}

    @property
    def task_changes(self) -> dict[int, tuple[TaskChange, ...]]:
        """By shard, its tasks that changed alone, and after how many of its rewards."""
        with self._lock:
            found = call(self._heads, "task_changes_so_far")
        return {shard: changes for shard, changes in enumerate(found) if changes}

    def refit_due(self, n_rewards: int = 1) -> bool:
        """Tell whether learning ``n_rewards`` more includes learning the prior."""
        return n_rewards > 0 and self._rewards + n_rewards >= self._due

    def explain(self, task: int | str | tuple[Any, ...]) -> Explanation:
        """Explain what a task's predictions come from and how certain they are; print it."""
        (shard,) = shards_of(self._check_tasks([task]), len(self._heads)).tolist()
        asked = [(task,) if number == shard else None for number in range(len(self._heads))]
        with self._lock:
            found: Explanation = self._heads.each("explain", asked)[shard]
        return found

    def thetas(self, tasks: ArrayLike) -> Floats:
        """Return the thetas of tasks with their intercepts, (m, d + 1)."""
        asked = self._check_tasks(tasks)
        with self._lock:
            if self._prior is None:
                raise ConfigurationError("there are no thetas before the first reward; learn one")
            return np.asarray(self._joined("thetas", asked, {"tasks": asked})[0])

    # ---- Learning

    def _learn_rows(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> None:
        if not len(tasks):
            return
        given = {"tasks": tasks, "rows": rows, "rewards": rewards}
        parts = self._dealt(tasks, given)
        following = self._rewards + len(tasks)
        if self.refit_due(len(tasks)):
            growth = self._refit([part or _none_of(given) for part in parts])
            self._due = int(np.ceil(following * growth))
        else:
            if not (are_at_most(rows, self._largest) and are_at_most(rewards, self._largest)):
                raise DataError(TOO_LARGE)  # before any shard has learned
            self._heads.each("learn_rows", parts)
        self._rewards = following

    def _refit(self, parts: list[tuple[Any, ...]]) -> float:
        """Learn the prior from all rewards, these too; shards change only when all are ready.

        Returns the growth of the number of rewards until the next refit, as a factor.
        """
        offers: list[Offer] = self._heads.each("stage", parts)
        learned = learn_prior(self._heads, offers)
        call(self._heads, "install_prepared")
        self._prior = learned.prior
        self._largest = min(call(self._heads, "largest_value"))
        return learned.growth

    # ---- Decisions

    def _check_tasks(self, tasks: ArrayLike, *, learning: bool = False) -> NDArray[Any]:
        return as_labels(tasks) if self.labels else as_codes(tasks)

    def _choose(
        self, tasks: NDArray[Any], arms: Floats, rng: np.random.Generator
    ) -> tuple[Codes, Floats]:
        seeds = rng.integers(2**63, size=len(self._heads)).tolist()
        given = {"tasks": tasks, "arms": arms}
        chosen, probabilities = self._joined("answer", tasks, given, seeds)
        return chosen, probabilities

    def _probabilities(self, tasks: NDArray[Any], arms: Floats) -> Floats:
        return np.asarray(self._joined("probabilities", tasks, {"tasks": tasks, "arms": arms})[0])

    def _dealt(
        self, tasks: NDArray[Any], given: Mapping[str, NDArray[Any]]
    ) -> list[tuple[Any, ...] | None]:
        """Return the part of each shard, None where it has no request."""
        owners = shards_of(tasks, len(self._heads))
        masks = [owners == shard for shard in range(len(self._heads))]
        return [
            tuple(values[mask] for values in given.values()) if mask.any() else None
            for mask in masks
        ]

    def _joined(
        self,
        method: str,
        tasks: NDArray[Any],
        given: Mapping[str, NDArray[Any]],
        more: list[int] | None = None,
    ) -> list[Any]:
        """Return the arrays that a method returns, with the answers of all shards in place."""
        parts = self._dealt(tasks, given)
        if more is not None:
            parts = [part and (*part, seed) for part, seed in zip(parts, more, strict=True)]
        answers = self._heads.each(method, parts)
        owners = shards_of(tasks, len(self._heads))
        found: list[Any] = []
        for shard, answer in enumerate(answers):
            if answer is None:
                continue
            arrays = answer if isinstance(answer, tuple) else (answer,)
            if not found:
                found = [np.empty((len(tasks), *a.shape[1:]), a.dtype) for a in arrays]
            for whole, part in zip(found, arrays, strict=True):
                whole[owners == shard] = part
        return found

    # ---- Files

    def save(self, path: str | Path) -> None:
        """Have every shard write its part to the directory ``path``; no pickle is used.

        The directory is complete when ``sharded.json`` is there, which is written last.
        """
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with self._lock:
            (folder / _FILE).unlink(missing_ok=True)
            paths = [(folder / _part(shard),) for shard in range(len(self._heads))]
            self._heads.each("save", paths)
            header = {
                "version": _VERSION,
                "shards": len(self._heads),
                "rewards": self._rewards,
                "due": self._due,
                "setting": self._setting,
            }
            write_whole(folder / _FILE, json.dumps(header).encode())

    @classmethod
    def load(cls, path: str | Path, *, processes: bool = False) -> Self:
        """Load a policy that goes on as the saved one; ``processes`` starts one per shard."""
        folder = Path(path)
        try:
            header = json.loads((folder / _FILE).read_text())
            if header["version"] != _VERSION:
                raise ModelFileError(
                    f"{folder} has version {header['version']}, this release reads {_VERSION}"
                )
            paths = [folder / _part(shard) for shard in range(int(header["shards"]))]
            kind = ProcessHeads if processes else LocalHeads
            policy = cls(shards=kind.load(paths), **header["setting"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"{folder} does not hold a whole sharded policy ({error}); save it again"
            ) from error
        policy._restore(int(header["rewards"]), int(header["due"]))
        return policy

    def _restore(self, rewards: int, due: int) -> None:
        self._rewards, self._due = rewards, due
        if rewards:
            self._prior = call(self._heads, "published_prior")[0]
            self._largest = min(call(self._heads, "largest_value"))


def _part(shard: int) -> str:
    return f"shard-{shard:03d}.npz"


def _none_of(given: Mapping[str, NDArray[Any]]) -> tuple[Any, ...]:
    """Return the same arrays without any request."""
    return tuple(values[:0] for values in given.values())
