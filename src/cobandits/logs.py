"""Logs: decisions that were made, with their probabilities and their rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.archives import Archive, Arrays, Header
from cobandits.decisions import Decisions, check_decisions, check_offers, check_values
from cobandits.errors import DataError
from cobandits.ragged import RaggedArms, joined_arms, offered_arms

__all__ = ["Log", "LogWriter"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_SAME = {1: lambda header, arrays: (header, arrays)}  # in version 1 all had as many arms
_FILE = Archive(holds="log", version=2, advice="save it again", upgrades=_SAME)
_ARRAYS = ("tasks", "arms", "chosen", "probabilities", "rewards", "batches")


@dataclass(frozen=True, kw_only=True, eq=False)
class Log:
    """Decisions in the order in which they were made, each with its reward.

    Tasks are whole numbers from 0, as policies use them, or strings. Strings are numbered in
    the order of ``labels``, or of first appearance if that is not given. Where requests differ
    in their number of arms, or some were excluded, arms are kept as :class:`RaggedArms`.

    >>> log = Log(
    ...     tasks=["shop", "site"],
    ...     arms=[[[0.0], [1.0]], [[2.0], [3.0]]],
    ...     chosen=[1, 0],
    ...     probabilities=[0.5, 0.9],
    ...     rewards=[4.0, 6.0],
    ...     policy="old rules",
    ... )
    >>> len(log), log.n_tasks, log.codes.tolist(), log.features.tolist()
    (2, 2, [0, 1], [[1.0], [2.0]])
    """

    tasks: NDArray[Any]  # (n,), numbers or labels
    arms: Floats | RaggedArms  # (n, K, d), all that could be chosen
    chosen: Codes  # (n,), the number of the arm
    probabilities: Floats  # (n,), with which that arm was chosen
    rewards: Floats  # (n,)
    policy: str = ""  # the name of what decided
    labels: tuple[str, ...] = ()  # in the order of their numbers; none for tasks by number
    # (n,): consecutive decisions with the same number were learned in one call; default: each alone
    batches: Codes = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        tasks = _checked_tasks(self.tasks)
        arms = _checked_arms(self.arms, len(tasks))
        made = Decisions(
            chosen=np.asarray(self.chosen),
            probabilities=_numbers(self.probabilities, "probabilities", len(tasks)),
            policy=self.policy,
        )
        made.features(arms)  # refuses an arm that was not offered
        rewards = _numbers(self.rewards, "rewards", len(tasks))
        chosen = made.chosen.astype(np.int64, copy=False)
        batches = _checked_batches(self.batches, len(tasks))
        values = (tasks, arms, chosen, made.probabilities, rewards, batches)
        for name, value in zip(_ARRAYS, values, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "labels", _checked_labels(tasks, self.labels))

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def n_arms(self) -> int:
        """Arms per decision, K; the most, where they differ."""
        return self.arms.width if isinstance(self.arms, RaggedArms) else int(self.arms.shape[1])

    @property
    def dim(self) -> int:
        """Features per arm, d."""
        return self.arms.dim if isinstance(self.arms, RaggedArms) else int(self.arms.shape[2])

    @property
    def n_tasks(self) -> int:
        """Number of tasks, T: that of the labels, or one more than the highest task number."""
        return len(self.labels) or int(self.tasks.max()) + 1

    @cached_property
    def codes(self) -> Codes:
        """The number of each decision's task, (n,)."""
        if not self.labels:
            return self.tasks
        known = {label: code for code, label in enumerate(self.labels)}
        return np.array([known[label] for label in self.tasks.tolist()], np.int64)

    @property
    def decisions(self) -> Decisions:
        """The decisions, as :meth:`Policy.learn` takes them."""
        return Decisions(chosen=self.chosen, probabilities=self.probabilities, policy=self.policy)

    @property
    def features(self) -> Floats:
        """The feature vectors of the chosen arms, (n, d)."""
        return self.decisions.features(self.arms)

    def select(self, rows: slice | NDArray[np.bool_] | Codes) -> Log:
        """Return some of the decisions; tasks keep their numbers."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _ARRAYS})

    @classmethod
    def concatenate(cls, logs: Sequence[Log]) -> Log:
        """Return one log of several, in order; all need the same number of features."""
        if not logs:
            raise DataError("there is no log to concatenate; give at least one")
        for what in (
            {f"{log.dim} features" for log in logs},
            {"labels" if log.labels else "numbers" for log in logs},
        ):
            if len(what) > 1:
                raise DataError(
                    f"logs of different kinds cannot be one: {_listed(what)}; "
                    "all need the same features, and tasks by number or all by label"
                )
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(log, name) for log in logs])
            for name in _ARRAYS
            if name != "arms"
        }
        counts = [log.batches[-1] + 1 for log in logs]
        joined["batches"] += np.repeat(np.cumsum(counts) - counts, [len(log) for log in logs])
        return cls(
            **joined,
            arms=joined_arms([log.arms for log in logs]),
            policy=", ".join(dict.fromkeys(log.policy for log in logs)),
            labels=tuple(dict.fromkeys(label for log in logs for label in log.labels)),
        )

    def save(self, path: str | Path) -> None:
        """Write the log to ``path``, atomically and without pickle."""
        header = {"policy": self.policy, "labels": self.labels}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        if isinstance(self.arms, RaggedArms):
            del arrays["arms"]
            arrays |= self.arms.saved()
        _FILE.save(path, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Log:
        """Read what :meth:`save` wrote."""
        return _FILE.load(path, _made)


class LogWriter:
    """Collects decisions and their rewards as they come, one round or one request at a time.

    What is added in one call is one batch of the log. If the batches are those that a policy
    learned from, :func:`cobandits.evaluation.relearn` gives another policy the same state.

    >>> writer = LogWriter()
    >>> made = Decisions(chosen=np.array([0]), probabilities=np.array([0.5]), policy="random")
    >>> writer.add(np.array([3]), np.ones((1, 2, 4)), made, [1.5])
    >>> len(writer), writer.log().rewards.tolist()
    (1, [1.5])
    """

    def __init__(self) -> None:
        self._parts: list[Log] = []

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def add(
        self,
        tasks: ArrayLike,
        arms: ArrayLike | RaggedArms,
        decisions: Decisions,
        rewards: ArrayLike,
        *,
        available: ArrayLike | None = None,
    ) -> None:
        """Add a copy of the decisions with a known reward; those with NaN are left out.

        ``arms`` and ``available`` are as in :meth:`Policy.decide`.
        """
        check_decisions(decisions)
        y = np.asarray(rewards, np.float64)
        if y.shape != (len(decisions),):
            raise DataError(
                f"expected a reward for each of {len(decisions)} decisions, got {y.shape}"
            )
        known = ~np.isnan(y)
        if not known.any():
            return
        kept = decisions.select(known)
        part = Log(
            tasks=np.asarray(tasks)[known],  # a mask makes copies
            arms=offered_arms(arms, available)[known],
            chosen=kept.chosen,
            probabilities=kept.probabilities,
            rewards=y[known],
            policy=kept.policy,
            batches=np.zeros(len(kept), np.int64),
        )
        self._parts.append(part)

    def log(self) -> Log:
        """Return everything added so far as one log."""
        if not self._parts:
            raise DataError("no decision with a known reward was added; a log needs at least one")
        return Log.concatenate(self._parts)


def _made(header: Header, arrays: Arrays) -> Log:
    known: dict[str, Any] = {name: arrays[name] for name in _ARRAYS if name in arrays}
    if "arms" not in known:
        known["arms"] = RaggedArms.read(arrays)
    return Log(**known, policy=str(header["policy"]), labels=tuple(map(str, header["labels"])))


def _checked_arms(arms: ArrayLike | RaggedArms, n: int) -> Floats | RaggedArms:
    """Return the arms of n decisions as finite floats; refuse others."""
    given = offered_arms(arms)
    dim = given.dim if isinstance(given, RaggedArms) else (1, *given.shape)[-1]
    found = check_offers(given, n, dim)
    check_values(found.flat if isinstance(found, RaggedArms) else found)
    return found


def _checked_tasks(tasks: ArrayLike) -> NDArray[Any]:
    """Return task numbers as int64, or labels as strings, (n,); refuse others."""
    values = np.asarray(tasks)
    if values.ndim != 1 or not len(values):
        raise DataError(f"a log needs tasks (n,), n at least 1, got shape {values.shape}")
    if values.dtype.kind == "U":
        return values
    if values.dtype.kind not in "iu":
        raise DataError(
            f"tasks must be whole numbers or labels of text, got values of type {values.dtype}; "
            "write other labels as text"
        )
    if values.min() < 0:
        raise DataError(
            f"tasks are numbered from 0, got {values.min()}; write other labels as text"
        )
    return values.astype(np.int64, copy=False)


def _checked_labels(tasks: NDArray[Any], labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels in the order of their numbers; refuse those that do not fit."""
    if tasks.dtype.kind != "U":
        if labels:
            raise DataError("tasks are numbers, so leave out labels; or give tasks by label")
        return ()
    present = dict.fromkeys(tasks.tolist())
    if len(set(labels)) < len(labels):
        raise DataError(f"{len(labels)} labels, but only {len(set(labels))} different ones")
    missing = present.keys() - set(labels) if labels else set()
    if missing:
        raise DataError(f"the task {min(missing)!r} is not among the {len(labels)} labels; add it")
    return tuple(labels) or tuple(present)


def _checked_batches(batches: ArrayLike, n: int) -> Codes:
    """Return the batch of each decision, numbered from 0 without gaps."""
    values = np.asarray(batches)
    if not values.size:
        return np.arange(n)
    if values.shape != (n,) or values.dtype.kind not in "iu":
        raise DataError(
            f"expected batches ({n},), a whole number for each decision, "
            f"got shape {values.shape} of {values.dtype}"
        )
    starts = values[1:] != values[:-1]
    return np.concatenate([[0], np.cumsum(starts)])


def _numbers(values: ArrayLike, name: str, n: int) -> NDArray[np.float64]:
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "biuf" or numbers.shape != (n,):
        raise DataError(
            f"expected {name} ({n},), a number for each decision, "
            f"got shape {numbers.shape} of {numbers.dtype}"
        )
    if not np.isfinite(numbers).all():
        first = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(
            f"{name} must be finite, got {numbers[first]} in decision {first}; "
            "leave out decisions of which not all is known"
        )
    return numbers.astype(np.float64, copy=False)


def _listed(what: set[Any]) -> str:
    return " and ".join(map(str, sorted(what)))
