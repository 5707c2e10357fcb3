"""The estimators of a policy's mean reward, from the weights and the models of its log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from cobandits.evaluation.models import Models, WeightedLog
from cobandits.evaluation.shrinkage import Shrunken, is_shrunken, least_error, shrunk

__all__ = [
    "ROUNDING",
    "Jackknife",
    "Mean",
    "Method",
    "Part",
    "Terms",
    "effective_rows",
    "may_have_mean_one",
    "terms_of",
]

Floats = NDArray[np.floating]
Method = Literal["ips", "snips", "dm", "dr", "sndr", "switch-dr", "dros", "sgdr"]

ROUNDING = 1e-6  # allowed in probabilities that sum to 1, and in weights of mean 1

_FEW = 100  # effective rows below which an interval means little
_FAR = 4.0  # standard errors of the mean weight from 1 that are not chance
_MODEL_ALONE = "only as good as its model: compare it with dr"


class Part(NamedTuple):
    """The decisions of some tasks, in a log that is sorted by task."""

    rows: slice
    tasks: slice


class Mean(NamedTuple):
    """An estimate of a mean reward."""

    value: float
    error: float  # its standard error
    freedom: int  # degrees of freedom of the standard error
    n: int  # decisions
    effective: float  # own decisions that would say as much
    cautions: tuple[str, ...]
    supported: bool = True  # whether the weights may have the mean 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """What each decision adds: the estimate is ``mean(base) + mean(moved) / mean(norm)``."""

    base: Floats  # (n,), what the model says of the target
    moved: Floats  # (n,), weighted rewards, or what of them the model missed
    norm: Floats  # (n,), the weights where they are normalised, else 1
    weights: Floats  # (n,), as used
    full: Floats  # (n,), before shrinking
    parameter: float | None = None  # of the weights, if they have one
    trouble: tuple[str, ...] = ()  # of the model

    def mean(self, part: Part) -> Mean:
        """Return the estimate over some decisions; by the delta method where it is a ratio."""
        base, moved, norm = (x[part.rows] for x in (self.base, self.moved, self.norm))
        weights, n = self.weights[part.rows], len(base)
        effective = effective_rows(weights)
        full = self.full[part.rows]
        supported = may_have_mean_one(n, float(full.sum()), float(full @ full))
        cautions = _weight_cautions(weights, full, supported=supported) + self.trouble
        if not norm.any():
            return Mean(np.nan, np.inf, 1, n, effective, cautions, supported)
        ratio = float(moved.sum() / norm.sum())
        slopes = base + (moved - ratio * norm) / norm.mean()  # derivative in each row, times n
        error = float(np.std(slopes, ddof=1) / np.sqrt(n)) if n > 1 else np.inf
        value = float(base.mean()) + ratio
        return Mean(value, error, max(1, n - 1), n, effective, cautions, supported)


@dataclass(frozen=True, kw_only=True, eq=False)
class Jackknife:
    """What a model says of the target, and what those say that lack a group of rows."""

    sums: Floats  # (1 + groups, T), of the expected rewards, by all rows and without each group
    counts: Floats  # (1 + groups, T), of the rows
    trouble: tuple[str, ...] = ()
    parameter: None = None

    def mean(self, part: Part) -> Mean:
        """Return the estimate for some tasks, with the jackknife's error."""
        counts = self.counts[:, part.tasks].sum(axis=1)
        n = int(counts[0])
        usable = counts > 0
        sums = self.sums[:, part.tasks].sum(axis=1)
        value, *without = (sums[usable] / counts[usable]).tolist()
        left = len(without)
        error = float(np.sqrt(left - 1) * np.std(without)) if n > 1 else np.inf
        return Mean(value, error, max(1, left - 1), n, n, (_MODEL_ALONE, *self.trouble))


def terms_of(
    method: Method, case: WeightedLog, models: Models, parameter: float | None
) -> Terms | Jackknife:
    """Return what a method makes of a log; without a parameter, that of least estimated error."""
    if method == "dm":
        return _direct(case, models)
    w, ones = case.weights, np.ones(len(case.weights))
    if method in ("ips", "snips"):
        norm = w if method == "snips" else ones
        nothing, paid = np.zeros_like(w), w * case.rows.rewards
        return Terms(base=nothing, moved=paid, norm=norm, weights=w, full=w)
    expected, missed, trouble = models.cross_fitted
    used = w
    if is_shrunken(method):
        rule = cast("Shrunken", method)
        parameter = least_error(rule, w, expected, missed) if parameter is None else parameter
        used = shrunk(rule, w, parameter)
        trouble = (*_bias_caution(w, used, missed), *trouble)
    return Terms(
        base=expected,
        moved=used * missed,
        norm=w if method == "sndr" else ones,
        weights=used,
        full=w,
        parameter=parameter,
        trouble=trouble,
    )


def _bias_caution(w: Floats, used: Floats, missed: Floats) -> tuple[str, ...]:
    """Say that an interval leaves out the bias of shrinking, and how large that seems."""
    if np.array_equal(w, used):
        return ()
    bias = float(np.mean((used - w) * missed))
    return (f"weights are shrunken: the interval leaves out a bias of about {bias:+.2g}",)


def _direct(case: WeightedLog, models: Models) -> Terms | Jackknife:
    if case.own is None:
        sums, counts, trouble = models.jackknife
        return Jackknife(sums=sums, counts=counts, trouble=trouble)
    expected, ones = case.own.expected, np.ones(len(case.weights))
    nothing = np.zeros_like(expected)
    return Terms(
        base=expected, moved=nothing, norm=ones, weights=ones, full=ones, trouble=(_MODEL_ALONE,)
    )


def effective_rows(weights: Floats) -> float:
    """Return ``(sum w)^2 / sum w^2``, the number of own decisions that would say as much."""
    squares = float(np.sum(weights**2))
    return float(weights.sum() ** 2 / squares) if squares > 0 else 0.0


def may_have_mean_one(n: int, total: float, squares: float) -> bool:
    """Tell whether n weights may have the mean 1, by their sum and their sum of squares.

    They do where the log could choose all that the target chooses. Where it could not, a mean
    reward that is normalised by the weights is that of the decisions they have in common.

    >>> may_have_mean_one(100, 95.0, 95.0), may_have_mean_one(100, 68.0, 68.0)
    (True, False)
    """
    mean = total / n
    variance = max(0.0, squares / n - mean**2) / (n - 1) if n > 1 else np.inf
    return bool(abs(mean - 1) <= _FAR * np.sqrt(variance) + ROUNDING)


def _weight_cautions(weights: Floats, full: Floats, *, supported: bool) -> tuple[str, ...]:
    """Return reasons to doubt weighted means."""
    if not full.any():
        return ("the target never chooses what the log chose; the rewards say nothing of it",)
    found = []
    if (effective := effective_rows(weights)) < _FEW:
        found.append(f"as uncertain as {effective:.1f} decisions of its own; log more")
    if not supported:
        found.append(
            f"the mean weight is {full.mean():.3g}, not 1: the target chooses what the log "
            "hardly ever could, or the logged probabilities are wrong"
        )
    return tuple(found)
