"""The mean reward of a policy from the log of another one, with its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimators import Estimator, LowRank
from cobandits.evaluation.methods import (
    ROUNDING,
    Mean,
    Method,
    WeightedLog,
    effective_rows,
    mean_of,
)
from cobandits.logs import Log
from cobandits.policies.base import Informed, Policy
from cobandits.ragged import RaggedArms
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskRows

__all__ = ["Value", "evaluate"]

Floats = NDArray[np.floating]

_METHODS: tuple[Method, ...] = get_args(Method)
_RARE = 10.0  # an arm is mentioned if the target chooses it this many times as often as the log
_SHARE = 0.01  # and in more than this share of the requests
_NUMBERS = 2**21  # that a chunk of requests may need, about
_LEAST = 1e-100  # logged probability; squares of weights must be finite


@dataclass(frozen=True, kw_only=True)
class Value:
    """An estimate of the mean reward of a policy, with its confidence interval."""

    method: Method
    value: float
    low: float
    high: float
    n: int  # decisions in the log
    effective_n: float  # (sum w)^2 / sum w^2: as many decisions of the target's own say as much
    cautions: tuple[str, ...] = ()  # reasons to doubt it

    def __str__(self) -> str:
        doubts = f" ({'; '.join(self.cautions)})" if self.cautions else ""
        return f"{self.method}: {self.value:.4g}, {self.low:.4g} to {self.high:.4g}{doubts}"


def evaluate(
    target: Policy | ArrayLike,
    log: Log,
    *,
    methods: Sequence[Method] = _METHODS,
    estimator: Estimator | None = None,
    level: float = 0.95,
    rng: RandomSource = None,
) -> dict[Method, Value]:
    """Estimate the mean reward of a fixed policy on the requests of a log.

    Parameters
    ----------
    target : Policy or (n, K) array
        The policy as it is now; it does not learn. Or its probability of each arm.
    log : Log
        At least 2 decisions.
    methods
        Any of ips, snips, dm and dr; see :mod:`cobandits.evaluation`.
    estimator : Estimator, optional
        The model of rewards for dm and dr; ``LowRank(ridge="auto")`` by default.
    level : float
        Of the confidence intervals.
    rng
        Deals the rows to folds and groups.
    """
    _check(log, methods, level)
    probabilities = _probabilities(target, log)
    case, rare = _weighted(log, probabilities), _rare_arms(log, probabilities)
    _check_overlap(case, methods)
    model = LowRank(ridge="auto") if estimator is None else estimator
    means = {method: mean_of(method, case, model, generator(rng)) for method in methods}
    return {method: _value(method, mean, case, level, rare) for method, mean in means.items()}


def _value(
    method: Method, mean: Mean, case: WeightedLog, level: float, rare: tuple[str, ...]
) -> Value:
    """Return a mean with its confidence interval and all reasons to doubt it."""
    half = float(stdtrit(mean.freedom, (1 + level) / 2)) * mean.error
    n = len(case.weights)
    return Value(
        method=method,
        value=mean.value,
        low=mean.value - half,
        high=mean.value + half,
        n=n,
        effective_n=float(n) if method == "dm" else effective_rows(case.weights),
        cautions=mean.cautions + rare,
    )


def _weighted(log: Log, probabilities: Floats) -> WeightedLog:
    expected = np.empty((len(log), log.dim))
    for part in _chunks(log):
        expected[part] = _expected_arms(probabilities[part], log.arms[part])
    weights = probabilities[np.arange(len(log)), log.chosen] / log.probabilities
    order = np.argsort(log.codes, kind="stable")
    features = log.features[order].astype(np.float64, copy=False)
    rows = TaskRows.from_arrays(features, log.rewards[order], log.codes[order])
    return WeightedLog(rows=rows, expected=expected[order], weights=weights[order])


def _expected_arms(probabilities: Floats, arms: Floats | RaggedArms) -> Floats:
    """Return the mean arm of each request, (n, d), under probabilities, (n, K)."""
    if not isinstance(arms, RaggedArms):
        return np.asarray(np.einsum("nk,nkd->nd", probabilities, arms))
    weighted = probabilities[arms.owners, arms.numbers, None] * arms.flat
    return np.asarray(np.add.reduceat(weighted, arms.starts))


def _probabilities(target: Policy | ArrayLike, log: Log) -> Floats:
    """Return the target's probability of each arm, (n, K); refuse what cannot be one."""
    shape = len(log), log.n_arms
    if isinstance(target, Informed):
        raise ConfigurationError(
            f"the policy {target.name} needs what only an environment knows, and a log does not; "
            "give its probabilities as an (n, K) array"
        )
    if isinstance(target, Policy):
        given = np.empty(shape)
        for part in _chunks(log):
            given[part] = target.probabilities(log.codes[part], log.arms[part])
    else:
        given = np.asarray(target, np.float64)
    if given.shape != shape:
        raise DataError(f"expected the target's probabilities (n, K) = {shape}, got {given.shape}")
    wrong = ~((given >= 0).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= ROUNDING))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"the target's probabilities of decision {row} are {given[row].tolist()}; "
            "they must be at least 0 and sum to 1"
            + ("; divide percentages by 100" if given[row].sum() > 1 + ROUNDING else "")
        )
    if isinstance(log.arms, RaggedArms):
        _check_offered(given, log.arms)
    return given


def _check_offered(given: Floats, arms: RaggedArms) -> None:
    """Refuse probabilities, (n, K), above 0 of arms that were excluded or do not exist."""
    elsewhere = (given > 0) & (arms.spread(np.ones(len(arms.flat)), missing=0.0) == 0)
    if elsewhere.any():
        row, arm = np.argwhere(elsewhere)[0].tolist()
        raise DataError(
            f"the target chooses arm {arm} of decision {row} with probability "
            f"{given[row, arm]:g}, but it was not available; give it 0"
        )


def _chunks(log: Log) -> list[slice]:
    """Return slices of the log that are small enough to be decided on at once."""
    step = max(1, _NUMBERS // (log.dim * (log.n_arms + log.dim) + 64 * log.n_arms))
    return [slice(start, start + step) for start in range(0, len(log), step)]


def _check(log: Log, methods: Sequence[Method], level: float) -> None:
    unknown = [method for method in methods if method not in _METHODS]
    if isinstance(methods, str) or unknown or not methods:
        raise ConfigurationError(
            f"methods must be some of {', '.join(_METHODS)}, got {methods!r}; give a tuple of them"
        )
    if not 0 < level < 1:
        raise ConfigurationError(f"level must be between 0 and 1, got {level}")
    if len(log) < 2:
        raise DataError("an interval needs at least 2 decisions, the log has 1; log more")
    if (least := log.probabilities.min()) < _LEAST:
        raise DataError(
            f"a logged probability is {least:.3g}: what is below {_LEAST} is never chosen; "
            "check how the probabilities were logged"
        )


def _check_overlap(case: WeightedLog, methods: Sequence[Method]) -> None:
    if set(methods) != {"dm"} and not case.weights.any():
        raise DataError(
            "the target never chooses an arm that the log chose, so the rewards say nothing of it; "
            'log decisions that explore more, or trust a model with methods=("dm",)'
        )


def _rare_arms(log: Log, probabilities: Floats) -> tuple[str, ...]:
    """Name the arms, by number, that the target chooses far more often than the log."""
    logged = np.bincount(log.chosen, minlength=log.n_arms) / len(log)
    wanted = probabilities.mean(axis=0)  # (K,)
    return tuple(
        f"the target chooses arm {arm} in {wanted[arm]:.0%} of the requests, "
        f"the log in {logged[arm]:.2%}"
        for arm in np.flatnonzero((wanted > _SHARE) & (wanted > _RARE * logged)).tolist()
    )
