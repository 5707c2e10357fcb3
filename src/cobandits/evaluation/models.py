"""Models of rewards for off-policy evaluation, fitted so that no row judges itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError
from cobandits.estimate import Estimate
from cobandits.estimators import Estimator
from cobandits.logs import Log
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskRows

__all__ = ["Models", "OwnModel", "Weighed", "WeightedLog"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_GROUPS = 20  # of the jackknife
_FOLDS = 5  # of the models of dr
_RARE = 10.0  # an arm is mentioned if the target chooses it this many times as often as the log
_SHARE = 0.01  # and in more than this share of the requests


class OwnModel(NamedTuple):
    """The predictions of a user's own model."""

    expected: Floats  # (n,), sum_a pi(a) q(a): the reward that it expects of the target
    chosen: Floats  # (n,), q(chosen)

    @classmethod
    def of(cls, predictions: ArrayLike, log: Log, probabilities: Floats) -> OwnModel:
        """Return what a user's model says; refuse what cannot be predictions of rewards."""
        predicted = np.asarray(predictions, np.float64)
        if predicted.shape != probabilities.shape:
            raise DataError(
                f"expected predictions (n, K) = {probabilities.shape}, got {predicted.shape}"
            )
        used = np.where(probabilities > 0, predicted, 0.0)  # of other arms none is needed
        chosen = predicted[np.arange(len(log)), log.chosen]
        if not (np.isfinite(used).all() and np.isfinite(chosen).all()):
            raise DataError("predictions must be finite for every arm that is or may be chosen")
        return cls(np.einsum("nk,nk->n", probabilities, used), chosen)


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedLog:
    """A log with the weights of a target policy, sorted by task."""

    rows: TaskRows  # chosen arms and their rewards
    expected: Floats  # (n, d), sum_a pi(a) phi_a: the expected arm of the target
    weights: Floats  # (n,), pi(chosen) / p(chosen)
    own: OwnModel | None = None  # in place of models that are fitted here


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighed:
    """What evaluation keeps of a log, or of a part of it: nothing for each arm."""

    codes: Codes  # (n,), the tasks' numbers
    labels: tuple[str, ...]  # of the tasks; none for tasks by number
    features: Floats  # (n, d), of the chosen arms
    rewards: Floats  # (n,)
    weights: Floats  # (n,), pi(chosen) / p(chosen)
    expected: Floats  # (n, d), sum_a pi(a) phi_a
    own: OwnModel | None  # the predictions of a user's own model
    wanted: Floats  # (arms,), how often the target chooses each arm
    logged: Floats  # (arms,), how often the log did
    names: tuple[str, ...]  # of the arms, or their numbers

    @classmethod
    def joined(cls, parts: Sequence[Weighed]) -> Weighed:
        """Return the parts of a log as one; tasks have the same numbers in all of them."""
        owns = [part.own for part in parts if part.own is not None]
        n_arms = max(len(part.wanted) for part in parts)
        arrays = ("codes", "features", "rewards", "weights", "expected")
        return cls(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays},
            labels=max((part.labels for part in parts), key=len),
            own=OwnModel(*map(np.concatenate, zip(*owns, strict=True))) if owns else None,
            wanted=sum((_padded(part.wanted, n_arms) for part in parts), np.zeros(n_arms)),
            logged=sum((_padded(part.logged, n_arms) for part in parts), np.zeros(n_arms)),
            names=max((part.names for part in parts), key=len),
        )

    def sorted(self) -> WeightedLog:
        """Return the decisions sorted by task, as methods take them."""
        order = np.argsort(self.codes, kind="stable")
        features = self.features[order].astype(np.float64, copy=False)
        rows = TaskRows.from_arrays(features, self.rewards[order], self.codes[order])
        own = None if self.own is None else OwnModel(*(x[order] for x in self.own))
        return WeightedLog(
            rows=rows, expected=self.expected[order], weights=self.weights[order], own=own
        )

    def rare_arms(self) -> tuple[str, ...]:
        """Name the arms that the target chooses far more often than the log."""
        logged, wanted = self.logged / len(self.codes), self.wanted / len(self.codes)
        return tuple(
            f"the target chooses arm {self.names[arm]} in "
            f"{wanted[arm]:.0%} of the requests, "
            f"the log in {logged[arm]:.2%}"
            for arm in np.flatnonzero((wanted > _SHARE) & (wanted > _RARE * logged)).tolist()
        )


class CrossFitted(NamedTuple):
    """Models by folds: each decision is judged by one that did not see it."""

    expected: Floats  # (n,), the reward that is expected of the target
    missed: Floats  # (n,), the reward less its prediction
    trouble: tuple[str, ...]


class LeftOut(NamedTuple):
    """Models without each group of rows; see :class:`cobandits.evaluation.methods.Jackknife`."""

    sums: Floats  # (1 + groups, T)
    counts: Floats  # (1 + groups, T)
    trouble: tuple[str, ...]


class Models:
    """The models of a log, fitted when they are first asked for."""

    def __init__(self, case: WeightedLog, estimator: Estimator, rng: RandomSource) -> None:
        self._case, self._estimator, self._rng = case, estimator, rng

    @cached_property
    def cross_fitted(self) -> CrossFitted:
        """What models of the other folds say; or a user's own model."""
        case, rows = self._case, self._case.rows
        if case.own is not None:
            return CrossFitted(case.own.expected, rows.rewards - case.own.chosen, ())
        rng = generator(self._rng)
        expected, missed = np.empty((2, rows.n_rows))
        trouble: tuple[str, ...] = ()
        for held in _groups(rows, _FOLDS, rng):
            fitted = self._estimator.fit(rows.select(~held), rng=rng)
            owners = rows.owners[held]
            missed[held] = rows.rewards[held] - _predicted(fitted, rows.rows[held], owners)
            expected[held] = _predicted(fitted, case.expected[held], owners)
            trouble = trouble or _trouble(fitted)
        return CrossFitted(expected, missed, trouble)

    @cached_property
    def jackknife(self) -> LeftOut:
        """What the model of all rows says, and those without each group."""
        case, rows, rng = self._case, self._case.rows, generator(self._rng)
        fitted = self._estimator.fit(rows, rng=rng)
        found = [_by_task(fitted, case, np.ones(rows.n_rows, bool))]
        for held in _groups(rows, _GROUPS, rng):
            refitted = self._estimator.fit(rows.select(~held), rng=rng)
            found.append(_by_task(refitted, case, ~held))
        sums, counts = np.array(found).transpose(1, 0, 2)
        return LeftOut(sums, counts, _trouble(fitted))


def _by_task(fitted: Estimate, case: WeightedLog, kept: NDArray[np.bool_]) -> Floats:
    """Return the sum of the expected rewards of some rows, and their number, (2, T)."""
    owners, n_tasks = case.rows.owners[kept], case.rows.n_tasks
    expected = _predicted(fitted, case.expected[kept], owners)
    return np.array(
        [np.bincount(owners, expected, n_tasks), np.bincount(owners, minlength=n_tasks)]
    )


def _groups(rows: TaskRows, most: int, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Return masks, (n,) each, of groups with about as many rows of each task."""
    n_groups = min(most, rows.n_rows)
    dealt = rows.folds(n_groups, rng)
    return [dealt == group for group in range(n_groups)]


def _predicted(fitted: Estimate, features: Floats, owners: Codes) -> Floats:
    """Return the predicted reward of each row, (m,); 0 for a task without rows in the fit."""
    W = fitted.weights[:, owners]
    return np.asarray(np.einsum("nr,rn->n", features @ fitted.basis, W))


def _trouble(fitted: Estimate) -> tuple[str, ...]:
    status = fitted.status
    return () if status.outcome == "converged" else (f"the model's fit: {status}",)


def _padded(counts: Floats, n_arms: int) -> Floats:
    return np.pad(counts, (0, n_arms - len(counts)))
