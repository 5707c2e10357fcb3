"""The four estimators of a policy's mean reward: ips, snips, dm and dr."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate
from cobandits.estimators import Estimator
from cobandits.tasks import TaskRows

__all__ = ["Mean", "Method", "WeightedLog", "effective_rows", "mean_of"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Method = Literal["ips", "snips", "dm", "dr"]

ROUNDING = 1e-6  # allowed in probabilities that sum to 1, and in weights of mean 1

_GROUPS = 20  # of the jackknife
_FOLDS = 5  # of the models of dr
_FEW = 100  # effective rows below which an interval means little
_FAR = 4.0  # standard errors of the mean weight from 1 that are not chance


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedLog:
    """A log with the weights of a target policy, sorted by task."""

    rows: TaskRows  # chosen arms and their rewards
    expected: Floats  # (n, d), sum_a pi(a) phi_a: the expected arm of the target
    weights: Floats  # (n,), pi(chosen) / p(chosen)


class Mean(NamedTuple):
    """An estimate of a mean reward."""

    value: float
    error: float  # its standard error
    freedom: int  # degrees of freedom of the standard error
    cautions: tuple[str, ...]


def mean_of(method: Method, case: WeightedLog, model: Estimator, rng: np.random.Generator) -> Mean:
    """Estimate the mean reward of the target by one method."""
    if method == "dm":
        return _direct(case, model, rng)
    if method == "dr":
        return _doubly_robust(case, model, rng)
    return _inverse_propensity(case) if method == "ips" else _self_normalised(case)


def _inverse_propensity(case: WeightedLog) -> Mean:
    return _mean(case.weights * case.rows.rewards, _weight_cautions(case.weights))


def _self_normalised(case: WeightedLog) -> Mean:
    w, y = case.weights, case.rows.rewards
    ratio = float(w @ y / w.sum())
    slopes = w * (y - ratio) / w.mean()  # derivative of the ratio in each row, times n
    return _mean(slopes, _weight_cautions(w))._replace(value=ratio)


def _doubly_robust(case: WeightedLog, model: Estimator, rng: np.random.Generator) -> Mean:
    rows, terms = case.rows, np.empty(len(case.weights))
    trouble: tuple[str, ...] = ()
    for held in _groups(rows, _FOLDS, rng):
        fitted = model.fit(rows.select(~held), rng=rng)
        owners = rows.owners[held]
        missed = rows.rewards[held] - _predicted(fitted, rows.rows[held], owners)
        terms[held] = _predicted(fitted, case.expected[held], owners)
        terms[held] += case.weights[held] * missed
        trouble = trouble or _trouble(fitted)
    return _mean(terms, _weight_cautions(case.weights) + trouble)


def _direct(case: WeightedLog, model: Estimator, rng: np.random.Generator) -> Mean:
    rows = case.rows
    fitted = model.fit(rows, rng=rng)
    value = float(_predicted(fitted, case.expected, rows.owners).mean())
    without = []
    for held in _groups(rows, _GROUPS, rng):
        refitted = model.fit(rows.select(~held), rng=rng)
        without.append(_predicted(refitted, case.expected[~held], rows.owners[~held]).mean())
    n = len(without)
    error = float(np.sqrt(n - 1) * np.std(without))  # the jackknife's
    caution = "only as good as its model: compare it with dr"
    return Mean(value, error, n - 1, (caution, *_trouble(fitted)))


def _mean(terms: Floats, cautions: tuple[str, ...]) -> Mean:
    n = len(terms)
    error = float(np.std(terms, ddof=1) / np.sqrt(n))
    return Mean(float(terms.mean()), error, n - 1, cautions)


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


def effective_rows(weights: Floats) -> float:
    """Return ``(sum w)^2 / sum w^2``, the number of own decisions that would say as much."""
    return float(weights.sum() ** 2 / np.sum(weights**2))


def _weight_cautions(weights: Floats) -> tuple[str, ...]:
    """Return reasons to doubt weighted means."""
    found = []
    if (effective := effective_rows(weights)) < _FEW:
        found.append(f"as uncertain as {effective:.1f} decisions of its own; log more")
    error = float(np.std(weights, ddof=1) / np.sqrt(len(weights)))
    if abs(weights.mean() - 1) > _FAR * error + ROUNDING:
        found.append(
            f"the mean weight is {weights.mean():.3g}, not 1: the target chooses what the log "
            "hardly ever could, or the logged probabilities are wrong"
        )
    return tuple(found)
