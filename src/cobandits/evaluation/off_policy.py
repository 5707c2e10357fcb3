"""The mean reward of a policy from the log of another one, with its confidence interval."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimators import Estimator, LowRank
from cobandits.evaluation.methods import Jackknife, Method, Part, Terms, terms_of
from cobandits.evaluation.models import Models, Weighed, WeightedLog
from cobandits.evaluation.shrinkage import is_shrunken
from cobandits.evaluation.weighing import weigh
from cobandits.intervals import t_factor
from cobandits.logs import Log
from cobandits.policies.base import Policy
from cobandits.randomness import RandomSource

__all__ = ["METHODS", "Value", "Values", "evaluate", "evaluate_weighed"]

Floats = NDArray[np.floating]

METHODS: tuple[Method, ...] = get_args(Method)
_USUAL: tuple[Method, ...] = ("ips", "snips", "dm", "dr")
_WHOLE = Part(slice(None), slice(None))


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
    supported: bool = True  # whether the log could choose as the target does, by the weights' mean

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
        supported=mean.supported,
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
