"""The weights of a target policy on the decisions of a log."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.evaluation.methods import ROUNDING
from cobandits.evaluation.models import OwnModel, Weighed
from cobandits.log_tables import NamedArms
from cobandits.logs import Log
from cobandits.policies.base import Informed, Policy
from cobandits.ragged import RaggedArms

__all__ = ["weigh"]

Floats = NDArray[np.floating]

_NUMBERS = 2**21  # that a chunk of requests may need, about
_LEAST = 1e-100  # logged probability; squares of weights must be finite


def weigh(
    target: Policy | ArrayLike,
    log: Log,
    predictions: ArrayLike | None = None,
    arms: NamedArms | None = None,
) -> Weighed:
    """Return what evaluation needs of a log, or of a part of one.

    A log that is too large as a whole is weighed part by part, and the parts are joined. Cautions
    tell arms by their names, if these are given, else by their numbers.
    """
    _check_log(log)
    probabilities = _probabilities(target, log)
    expected = np.empty((len(log), log.dim))
    for part in _chunks(log):
        expected[part] = _expected_arms(probabilities[part], log.arms[part])
    rows = np.arange(len(log))
    named = NamedArms.by_number(len(log), log.n_arms) if arms is None else arms
    return Weighed(
        codes=log.codes,
        labels=log.labels,
        features=log.features,
        rewards=log.rewards,
        weights=probabilities[rows, log.chosen] / log.probabilities,
        expected=expected,
        own=None if predictions is None else OwnModel.of(predictions, log, probabilities),
        wanted=named.sums(probabilities),
        logged=named.sums(np.arange(log.n_arms) == log.chosen[:, None]),
        names=named.names,
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
        given, tasks = np.zeros(shape), log.tasks if target.labels else log.codes
        for part in _chunks(log):
            found = target.probabilities(tasks[part], log.arms[part])
            given[part, : found.shape[1]] = found
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
