"""Decisions of a policy whose tasks are dealt to shards, and where its shards live."""

from __future__ import annotations

from threading import Lock
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import as_codes
from cobandits.errors import ConfigurationError
from cobandits.policies import Policy
from cobandits.policies.shared.exploration import Explore
from cobandits.policies.task_index import as_labels
from cobandits.ragged import RaggedArms
from cobandits.sharded.dealing import Deal
from cobandits.sharded.heads import Heads, LocalHeads, ProcessHeads
from cobandits.sharded.ledger import Ledger
from cobandits.sharded.refits import StagedRefit
from cobandits.sharded.training import call

__all__ = ["DealtPolicy"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class DealtPolicy(Policy):
    """A policy that asks the shard of a task to decide."""

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
        self.labels, self.explore, self._floor = bool(labels), explore, float(floor)
        if isinstance(shards, int):
            if shards < 1:
                raise ConfigurationError(f"shards must be at least 1, got {shards}")
            shards = LocalHeads.start(shards, self._setting)
        self._heads = shards
        self._ledger = Ledger(rooms=(0,) * len(shards))
        self._staged: StagedRefit | None = None  # the refit that is under way,
        self._training = Lock()  # and a call to the shards for it

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: state[name] for name in state.keys() - {"_training", "_staged"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({**state, "_training": Lock(), "_staged": None})

    @property
    def _setting(self) -> dict[str, Any]:
        """What each shard is made with."""
        names = ("dim", "explore", "floor", "labels")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def in_processes(cls, shards: int, *, threads: int | None = 1, **setting: Any) -> Self:
        """Return the policy with every shard in a process of its own; parameters are the same.

        ``threads`` is as in :class:`~cobandits.sharded.ProcessHeads`.
        """
        LocalHeads.start(1, setting)  # refuses wrong parameters here, not in the processes
        return cls(shards=ProcessHeads.start(shards, setting, threads=threads), **setting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of the shards, if they have any; a refit under way is given up."""
        with self._lock:
            self._staged = None
            with self._training:
                self._heads.close()

    @property
    def heads(self) -> Heads:
        """The shards."""
        return self._heads

    @property
    def lost(self) -> bool:
        """Whether a shard is gone, with what it has learned."""
        return self._heads.lost

    def wait(self) -> None:
        """Wait until all shards answer: processes take a second to start."""
        with self._lock:
            call(self._heads, "published_prior")

    @property
    def floor(self) -> float:
        """Share of the decisions that are uniformly random."""
        return self._floor

    @floor.setter
    def floor(self, floor: float) -> None:
        with self._lock:
            if floor != self._floor:
                call(self._heads, "set_floor", float(floor))
                self._floor = float(floor)

    # ---- Decisions

    def _check_tasks(self, tasks: ArrayLike, *, learning: bool = False) -> NDArray[Any]:
        return as_labels(tasks) if self.labels else as_codes(tasks)

    def _choose(
        self, tasks: NDArray[Any], arms: Floats | RaggedArms, rng: np.random.Generator
    ) -> tuple[Codes, Floats]:
        seeds = rng.integers(2**63, size=len(self._heads)).tolist()
        deal = Deal(tasks, len(self._heads))
        parts = zip(deal.parts(tasks, arms), seeds, strict=True)
        answers = self._heads.each("answer", [part and (*part, seed) for part, seed in parts])
        chosen, probabilities = deal.joined(answers) or (np.zeros(0, np.int64), np.zeros(0))
        return chosen, probabilities

    def _choose_ragged(
        self, tasks: NDArray[Any], arms: RaggedArms, rng: np.random.Generator
    ) -> tuple[Codes, Floats]:
        return self._choose(tasks, arms, rng)

    def _probabilities(self, tasks: NDArray[Any], arms: Floats) -> Floats:
        return self._asked("probabilities", tasks, arms)

    def _asked(self, method: str, tasks: NDArray[Any], *values: Floats) -> Floats:
        """Return the array that a method of the shards returns, with a row for each task."""
        deal = Deal(tasks, len(self._heads))
        answers = self._heads.each(method, deal.parts(tasks, *values))
        return deal.joined([None if one is None else (one,) for one in answers])[0]
