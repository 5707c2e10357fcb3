"""What a policy would have earned, from a log of another one's decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from cobandits.decisions import Decisions, check_tasks
from cobandits.environments.base import Environment
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators import Estimator, LowRank
from cobandits.logs import Log, LogWriter
from cobandits.policies.base import Informed, Policy
from cobandits.randomness import RandomSource, generator, stream
from cobandits.tasks import TaskRows

__all__ = ["Method", "Value", "collect", "evaluate", "relearn"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Method = Literal["ips", "snips", "dm", "dr"]

_METHODS: tuple[Method, ...] = get_args(Method)
_GROUPS = 20  # of the jackknife
_FOLDS = 5  # of the models that correct rows which they have not seen
_FEW = 100  # effective rows, below which an interval means little
_FAR = 4.0  # standard errors of the mean weight from 1 that are no chance
_RARE = 10.0  # times as often as the log that a target chooses an arm, to be mentioned
_SHARE = 0.01  # of the target's choices that an arm needs, to be mentioned
_NUMBERS = 2**21  # that a chunk of requests may need, about
_LEAST = 1e-100  # logged probability; squares of weights must be finite
_SUM = 1e-6  # rounding that is allowed in probabilities that sum to 1


@dataclass(frozen=True, kw_only=True)
class Value:
    """An estimate of the mean reward of a policy, with its confidence interval."""

    method: Method
    value: float
    low: float
    high: float
    n: int  # decisions in the log
    effective_n: float  # (sum w)^2 / sum w^2: as many rows of the target's own say as much
    cautions: tuple[str, ...] = ()  # reasons to doubt it

    def __str__(self) -> str:
        doubts = f" ({'; '.join(self.cautions)})" if self.cautions else ""
        return f"{self.method}: {self.value:.4g}, {self.low:.4g} to {self.high:.4g}{doubts}"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Case:
    """A log as seen by the target, sorted by task."""

    rows: TaskRows  # chosen arms and their rewards
    expected: Floats  # (n, d), sum_a pi(a) phi_a: the mean arm of the target
    weights: Floats  # (n,), pi(chosen) / p(chosen)


class _Mean(NamedTuple):
    value: float
    error: float  # its standard error
    spare: int  # degrees of freedom that the standard error has
    cautions: tuple[str, ...]


def collect(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    *,
    trial: int = 0,
    learning: bool = True,
) -> Log:
    """Let a policy decide for so many rounds, and return the log.

    It draws as :func:`cobandits.simulate.simulate` does. With ``learning`` false, the policy
    stays as it is: only then are the decisions of the log independent of each other.

    >>> from cobandits.environments import Synthetic
    >>> from cobandits.policies import Random
    >>> environment = Synthetic(dim=5, n_tasks=3, rank=1, n_arms=4)
    >>> log = collect(Random(dim=5, n_tasks=3), environment, rounds=10, seed=1)
    >>> len(log), log.policy, log.probabilities[0].item()
    (30, 'random', 0.25)
    """
    if rounds < 1:
        raise ConfigurationError(f"rounds must be at least 1, got {rounds}")
    rng = stream(seed, "policy", trial)
    writer = LogWriter()
    for asked in environment.rounds(rounds, seed=seed, trial=trial):
        if isinstance(policy, Informed):
            policy.inform(asked)
        paid = asked.outcome(policy.decide(asked.tasks, asked.arms, rng))
        writer.add(paid.tasks, paid.arms, paid.decisions, paid.rewards)
        if learning:
            policy.learn(paid.tasks, paid.arms, paid.decisions, paid.rewards)
    return writer.log()


def relearn(policy: Policy, log: Log) -> None:
    """Let a policy learn from a log as its rewards came: what was learned at once, at once.

    A new policy becomes what the one was that learned while the log was written, to the last bit.
    One that was saved on the way needs only the batches since. Decisions without a batch
    are learned one by one: from the same rewards, but what is refitted now and then is refitted
    at other times.

    >>> from cobandits.environments import Synthetic
    >>> from cobandits.policies import Shared
    >>> first, second = (Shared(dim=5, n_tasks=3) for _ in range(2))
    >>> log = collect(first, Synthetic(dim=5, n_tasks=3, rank=1), rounds=10, seed=1)
    >>> relearn(second, log)
    >>> bool((first.estimate.theta == second.estimate.theta).all())
    True
    """
    tasks = check_tasks(log.codes, policy.n_tasks)
    ends = np.flatnonzero(np.diff(log.batches)) + 1
    for rows in np.split(np.arange(len(log)), ends):
        made = Decisions(
            chosen=log.chosen[rows], probabilities=log.probabilities[rows], policy=log.policy
        )
        policy.learn(tasks[rows], log.arms[rows], made, log.rewards[rows])


def evaluate(
    target: Policy | ArrayLike,
    log: Log,
    *,
    methods: Sequence[Method] = _METHODS,
    estimator: Estimator | None = None,
    level: float = 0.95,
    rng: RandomSource = None,
) -> dict[Method, Value]:
    """Estimate the mean reward that a fixed policy would have had on the requests of a log.

    With weights ``w = pi(chosen) / p(chosen)`` and a model ``q(a) = phi_a' theta_t``:

    - ``"ips"``, inverse propensity: the mean of ``w y``.
    - ``"snips"``, self-normalised: the sum of ``w y`` over that of ``w``.
    - ``"dm"``, direct method: the mean of ``sum_a pi(a) q(a)``.
    - ``"dr"``, doubly robust: the mean of ``sum_a pi(a) q(a) + w (y - q(chosen))``, where the
      model of a row is fitted to the other folds' rows.

    Intervals are by Student's t: of the terms for ips and dr, by the delta method for snips, by
    a jackknife of 20 groups, with a fit for each, for dm.

    Parameters
    ----------
    target : Policy or (n, K) array
        The policy, as it is now: it does not learn. Or its probabilities of each arm.
    log : Log
        At least 2 decisions.
    methods
        Those to use.
    estimator : Estimator, optional
        The model of rewards for dm and dr; ``LowRank(ridge="auto")`` if not given.
    level : float
        Of the confidence intervals.
    rng
        Deals the rows to folds and groups.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> from cobandits.policies import Random, Ridge
    >>> environment = Synthetic(dim=5, n_tasks=3, rank=1)
    >>> log = collect(Random(dim=5, n_tasks=3), environment, rounds=200, seed=1)
    >>> values = evaluate(Ridge(dim=5, n_tasks=3), log)  # has learned nothing: as random
    >>> bool(values["dr"].low < 0 < values["dr"].high), values["ips"].effective_n
    (True, 600.0)
    """
    _check(log, methods, level)
    probabilities = _probabilities(target, log)
    case, rare = _case(log, probabilities), _rare_arms(log, probabilities)
    _check_overlap(case, methods)
    model = LowRank(ridge="auto") if estimator is None else estimator
    found: dict[Method, Value] = {}
    for method in methods:
        mean = _mean_of(method, case, model, generator(rng))
        half = float(stdtrit(mean.spare, (1 + level) / 2)) * mean.error
        found[method] = Value(
            method=method,
            value=mean.value,
            low=mean.value - half,
            high=mean.value + half,
            n=len(log),
            effective_n=float(len(log)) if method == "dm" else _effective(case.weights),
            cautions=mean.cautions + rare,
        )
    return found


def _mean_of(method: Method, case: _Case, model: Estimator, rng: np.random.Generator) -> _Mean:
    if method == "dm":
        return _direct(case, model, rng)
    if method == "dr":
        return _doubly_robust(case, model, rng)
    return _inverse_propensity(case) if method == "ips" else _self_normalised(case)


def _inverse_propensity(case: _Case) -> _Mean:
    return _mean(case.weights * case.rows.rewards, _weight_cautions(case.weights))


def _self_normalised(case: _Case) -> _Mean:
    w, y = case.weights, case.rows.rewards
    ratio = float(w @ y / w.sum())
    slopes = w * (y - ratio) / w.mean()  # of the ratio by each row, times n
    return _mean(slopes, _weight_cautions(w))._replace(value=ratio)


def _doubly_robust(case: _Case, model: Estimator, rng: np.random.Generator) -> _Mean:
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


def _direct(case: _Case, model: Estimator, rng: np.random.Generator) -> _Mean:
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
    return _Mean(value, error, n - 1, (caution, *_trouble(fitted)))


def _mean(terms: Floats, cautions: tuple[str, ...]) -> _Mean:
    n = len(terms)
    error = float(np.std(terms, ddof=1) / np.sqrt(n))
    return _Mean(float(terms.mean()), error, n - 1, cautions)


def _groups(rows: TaskRows, most: int, rng: np.random.Generator) -> list[NDArray[np.bool_]]:
    """Return masks, (n,) each, that deal each task's rows evenly to groups."""
    n_groups = min(most, rows.n_rows)
    dealt = rows.folds(n_groups, rng)
    return [dealt == group for group in range(n_groups)]


def _predicted(fitted: Estimate, features: Floats, owners: Codes) -> Floats:
    """Return the expected reward of each row, (m,); 0 for a task without rows in the fit."""
    W = fitted.weights[:, owners]
    return np.asarray(np.einsum("nr,rn->n", features @ fitted.basis, W))


def _trouble(fitted: Estimate) -> tuple[str, ...]:
    status = fitted.status
    return () if status.outcome == "converged" else (f"the model's fit: {status}",)


def _case(log: Log, probabilities: Floats) -> _Case:
    expected = np.empty((len(log), log.dim))
    for part in _chunks(log):
        expected[part] = np.einsum("nk,nkd->nd", probabilities[part], log.arms[part])
    weights = probabilities[np.arange(len(log)), log.chosen] / log.probabilities
    order = np.argsort(log.codes, kind="stable")
    features = log.features[order].astype(np.float64, copy=False)
    rows = TaskRows.from_arrays(features, log.rewards[order], log.codes[order])
    return _Case(rows=rows, expected=expected[order], weights=weights[order])


def _probabilities(target: Policy | ArrayLike, log: Log) -> Floats:
    """Return the target's probability of each arm, (n, K), or refuse what is none."""
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
    wrong = ~((given >= 0).all(axis=1) & (np.abs(given.sum(axis=1) - 1) <= _SUM))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise DataError(
            f"the target's probabilities of decision {row} are {given[row].tolist()}; "
            "they must be at least 0 and sum to 1"
        )
    return given


def _chunks(log: Log) -> list[slice]:
    """Return slices of the log small enough for a policy to decide on at once."""
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


def _check_overlap(case: _Case, methods: Sequence[Method]) -> None:
    if set(methods) != {"dm"} and not case.weights.any():
        raise DataError(
            "the target never chooses an arm that the log chose, so the rewards say nothing of it; "
            'log decisions that explore more, or trust a model with methods=("dm",)'
        )


def _effective(weights: Floats) -> float:
    return float(weights.sum() ** 2 / np.sum(weights**2))


def _weight_cautions(weights: Floats) -> tuple[str, ...]:
    """Return reasons to doubt weighted means."""
    found = []
    if (effective := _effective(weights)) < _FEW:
        found.append(f"as uncertain as {effective:.1f} decisions of its own; log more")
    error = float(np.std(weights, ddof=1) / np.sqrt(len(weights)))
    if abs(weights.mean() - 1) > _FAR * error + _SUM:
        found.append(
            f"the mean weight is {weights.mean():.3g}, not 1: the target chooses what the log "
            "hardly ever could, or the logged probabilities are wrong"
        )
    return tuple(found)


def _rare_arms(log: Log, probabilities: Floats) -> tuple[str, ...]:
    """Name arms, by their number, that the target chooses far more often than the log."""
    logged = np.bincount(log.chosen, minlength=log.n_arms) / len(log)
    wanted = probabilities.mean(axis=0)  # (K,)
    return tuple(
        f"the target chooses arm {arm} in {wanted[arm]:.0%} of the requests, "
        f"the log in {logged[arm]:.2%}"
        for arm in np.flatnonzero((wanted > _SHARE) & (wanted > _RARE * logged)).tolist()
    )
