"""The mean reward of a policy from the log of another one, with its confidence interval."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimators import Estimator, LowRank
from cobandits.evaluation.methods import ROUNDING, Jackknife, Method, Part, Terms, terms_of
from cobandits.evaluation.models import Models, OwnModel, Weighed, WeightedLog
from cobandits.evaluation.shrinkage import is_shrunken
from cobandits.intervals import t_factor
from cobandits.logs import Log
from cobandits.policies.base import Informed, Policy
from cobandits.ragged import RaggedArms
from cobandits.randomness import RandomSource

__all__ = ["METHODS", "Value", "Values", "evaluate", "evaluate_weighed", "weigh"]

Floats = NDArray[np.floating]

METHODS: tuple[Method, ...] = get_args(Method)
_USUAL: tuple[Method, ...] = ("ips", "snips", "dm", "dr")
_WHOLE = Part(slice(None), slice(None))
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
    parameter: float | None = None  # that shrinks the weights, given or chosen

    def __str__(self) -> str:
        doubts = f" ({'; '.join(self.cautions)})" if self.cautions else ""
        return f"{self.method}: {self.value:.4g}, {self.low:.4g} to {self.high:.4g}{doubts}"


@dataclass(frozen=True, kw_only=True)
class Values:
    """The mean reward of a policy by several methods, over all decisions and per task."""

    overall: dict[Method, Value]
    tasks: dict[Hashable, dict[Method, Value]]  # by number or label


def evaluate(
    target: Policy | ArrayLike,
    log: Log,
    *,
    methods: Sequence[Method] = _USUAL,
    estimator: Estimator | None = None,
    predictions: ArrayLike | None = None,
    parameters: Mapping[Method, float] | None = None,
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
        Any of ips, snips, dm, dr, sndr, switch-dr, dros and sgdr; see
        :mod:`cobandits.evaluation`.
    estimator : Estimator, optional
        The model of rewards for all but ips and snips; ``LowRank(ridge="auto")`` by default.
    predictions : (n, K) array, optional
        The rewards that your own model predicts, in place of an estimator. It should not have
        seen the rewards of the log.
    parameters
        Of switch-dr, dros and sgdr, by method; those not given are chosen by least
        estimated mean squared error.
    level : float
        Of the confidence intervals.
    rng
        Deals the rows to folds and groups.
    """
    found = _terms(
        weigh(target, log, predictions), methods, estimator, parameters or {}, level, rng
    )
    return found.values(_WHOLE, level)


def evaluate_weighed(
    weighed: Weighed,
    *,
    methods: Sequence[Method] = _USUAL,
    estimator: Estimator | None = None,
    parameters: Mapping[Method, float] | None = None,
    level: float = 0.95,
    rng: RandomSource = None,
) -> Values:
    """Estimate the mean reward as :func:`evaluate` does, over all decisions and per task.

    Models and the parameters of weights are those of all tasks together.

    >>> log = Log(
    ...     tasks=["shop", "site"] * 8,
    ...     arms=np.ones((16, 2, 1)),
    ...     chosen=[0, 1, 1, 0] * 4,
    ...     probabilities=np.full(16, 0.5),
    ...     rewards=[1.0, 3.0] * 8,
    ... )
    >>> values = evaluate_weighed(weigh(np.full((16, 2), 0.5), log), methods=("ips",))
    >>> values.overall["ips"].value, values.tasks["site"]["ips"].value
    (2.0, 3.0)
    """
    found = _terms(weighed, methods, estimator, parameters or {}, level, rng)
    offsets = found.case.rows.offsets.tolist()
    codes = np.unique(weighed.codes).tolist()
    return Values(
        overall=found.values(_WHOLE, level),
        tasks={
            weighed.labels[code] if weighed.labels else code: found.values(
                Part(slice(*offsets[t : t + 2]), slice(t, t + 1)), level
            )
            for t, code in enumerate(codes)
        },
    )


class _Found(NamedTuple):
    case: WeightedLog
    terms: dict[Method, Terms | Jackknife]
    rare: tuple[str, ...]  # on arms that the log hardly chose; said of the whole

    def values(self, part: Part, level: float) -> dict[Method, Value]:
        more = self.rare if part is _WHOLE else ()
        return {m: _value(m, terms, part, level, more) for m, terms in self.terms.items()}


def _terms(
    weighed: Weighed,
    methods: Sequence[Method],
    estimator: Estimator | None,
    parameters: Mapping[Method, float],
    level: float,
    rng: RandomSource,
) -> _Found:
    _check(weighed, methods, parameters, level)
    case = weighed.sorted()
    models = Models(case, LowRank(ridge="auto") if estimator is None else estimator, rng)
    terms = {m: terms_of(m, case, models, parameters.get(m)) for m in dict.fromkeys(methods)}
    return _Found(case, terms, weighed.rare_arms())


def _value(
    method: Method, terms: Terms | Jackknife, part: Part, level: float, more: tuple[str, ...]
) -> Value:
    """Return a mean with its confidence interval and all reasons to doubt it."""
    mean = terms.mean(part)
    half = t_factor(mean.freedom, level) * mean.error
    return Value(
        method=method,
        value=mean.value,
        low=mean.value - half,
        high=mean.value + half,
        n=mean.n,
        effective_n=mean.effective,
        cautions=mean.cautions + more,
        parameter=terms.parameter,
    )


def weigh(target: Policy | ArrayLike, log: Log, predictions: ArrayLike | None = None) -> Weighed:
    """Return what evaluation needs of a log, or of a part of one.

    A log that is too large as a whole is weighed part by part, and the parts are joined.
    """
    _check_log(log)
    probabilities = _probabilities(target, log)
    expected = np.empty((len(log), log.dim))
    for part in _chunks(log):
        expected[part] = _expected_arms(probabilities[part], log.arms[part])
    return Weighed(
        codes=log.codes,
        labels=log.labels,
        features=log.features,
        rewards=log.rewards,
        weights=probabilities[np.arange(len(log)), log.chosen] / log.probabilities,
        expected=expected,
        own=None if predictions is None else OwnModel.of(predictions, log, probabilities),
        wanted=probabilities.sum(axis=0),
        logged=np.bincount(log.chosen, minlength=log.n_arms).astype(np.float64),
    )


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


def _check_log(log: Log) -> None:
    if (least := log.probabilities.min()) < _LEAST:
        raise DataError(
            f"a logged probability is {least:.3g}: what is below {_LEAST} is never chosen; "
            "check how the probabilities were logged"
        )


def _check(
    weighed: Weighed, methods: Sequence[Method], parameters: Mapping[Method, float], level: float
) -> None:
    unknown = [method for method in methods if method not in METHODS]
    if isinstance(methods, str) or unknown or not methods:
        raise ConfigurationError(
            f"methods must be some of {', '.join(METHODS)}, got {methods!r}; give a tuple of them"
        )
    for method, parameter in parameters.items():
        _check_parameter(method, parameter)
    if not 0 < level < 1:
        raise ConfigurationError(f"level must be between 0 and 1, got {level}")
    if len(weighed.codes) < 2:
        raise DataError("an interval needs at least 2 decisions, the log has 1; log more")
    if set(methods) != {"dm"} and not weighed.weights.any():
        raise DataError(
            "the target never chooses an arm that the log chose, so the rewards say nothing of it; "
            'log decisions that explore more, or trust a model with methods=("dm",)'
        )


def _check_parameter(method: Method, parameter: float) -> None:
    if not is_shrunken(method):
        has = ", ".join(filter(is_shrunken, METHODS))
        raise ConfigurationError(f"{method} has no parameter, got {parameter}; those with: {has}")
    most = 1.0 if method == "sgdr" else np.inf
    if not 0 <= parameter <= most:
        raise ConfigurationError(
            f"the parameter of {method} must be from 0 to {most:g}, got {parameter}"
        )
