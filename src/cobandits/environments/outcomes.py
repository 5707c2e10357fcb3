"""From the values of arms to rewards: numbers with noise of any kind, clicks, counts."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError

__all__ = ["Outcome", "check_outcome", "drawn", "expected"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

Outcome = Literal["gaussian", "clicks", "counts", "outliers", "heavy-tails", "own-noise"]

_OUTLIERS, _SIZE = 0.01, 100.0  # share of outliers, and their size in standard deviations
_FREEDOM = 2.0  # degrees of freedom of heavy tails: the variance is infinite
_RATIO = 10.0  # of the noise of a task to the noise, at most, and its inverse at least


def check_outcome(outcome: str, rate: float) -> None:
    """Refuse what is not known, and rates that there cannot be."""
    if outcome not in (known := get_args(Outcome)):
        raise ConfigurationError(f"outcome must be one of {', '.join(known)}, got {outcome!r}")
    if not 0 < rate < (1 if outcome == "clicks" else np.inf):
        raise ConfigurationError(f"rate must be above 0, and below 1 for clicks, got {rate}")


def expected(outcome: Outcome, values: Floats, rate: float) -> Floats:
    """Return expected rewards of arms with these values.

    The log-odds of clicks, and the logs of expected counts, are the values, and those of ``rate``
    where the value is 0.

    >>> expected("clicks", np.array([0.0]), 0.1).round(3), expected("counts", np.array([0.0]), 3)
    (array([0.1]), array([3.]))
    """
    if outcome == "clicks":
        return np.asarray(1 / (1 + np.exp(-values) * (1 - rate) / rate))
    return np.asarray(rate * np.exp(values)) if outcome == "counts" else values


def drawn(
    outcome: Outcome, means: Floats, tasks: Codes, noise_std: float, rng: np.random.Generator
) -> Floats:
    """Draw rewards, (m, K), with these means; the arms of a request have the same noise."""
    m = len(means)
    if outcome == "clicks":
        return (rng.random((m, 1)) < means) * 1.0
    if outcome == "counts":
        return rng.poisson(means).astype(np.float64)
    if outcome == "heavy-tails":
        return np.asarray(means + noise_std * rng.standard_t(_FREEDOM, (m, 1)))
    noise = noise_std * rng.standard_normal((m, 1))
    if outcome == "outliers":
        noise *= np.where(rng.random((m, 1)) < _OUTLIERS, _SIZE, 1.0)
    if outcome == "own-noise":
        places = (tasks * (np.sqrt(5) - 1) / 2) % 1  # spread evenly, whatever the number of tasks
        noise *= _RATIO ** (2 * places[:, None] - 1)
    return np.asarray(means + noise)
