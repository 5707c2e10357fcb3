"""Shrunken weights, which trade a little bias for less variance, and the choice of how much.

The parameter has the least estimated mean squared error (Wang, Agarwal and Dudik 2017; Su et al.
2020): the variance of the estimate, and the square of the bias, which is estimated by how far it
is from dr. docs/evaluation.md compares this with other rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shrunken", "is_shrunken", "least_error", "shrunk", "strengths"]

Floats = NDArray[np.floating]
Shrunken = Literal["switch-dr", "dros", "sgdr"]

_QUANTILES = (0.05, 0.95)  # of the weights, between which candidates are spread (Su et al. 2020)
_SWITCHES = 21  # candidates (Su et al. 2020)
_SHRINKAGES = 30  # candidates (Su et al. 2020)
_FURTHER = 100.0  # times that shrinkage candidates go beyond the squares (Su et al. 2020)
_MIXTURES = np.geomspace(1e-4, 0.5, 20)  # of sgdr; from nothing to weights below 2


def is_shrunken(method: str) -> bool:
    """Return whether a method has a parameter."""
    return method in _RULES


def shrunk(method: Shrunken, weights: Floats, parameter: float) -> Floats:
    """Return the weights, (n,), shrunken by a parameter.

    - switch-dr (Wang et al. 2017): weights above the parameter are 0; infinite leaves all.
    - dros (Su et al. 2020): ``p w / (w^2 + p)``; infinite leaves all, and 0 is the model alone.
    - sgdr (Metelli et al. 2021): ``w / (1 - p + p w)``, below ``1 / p``; 0 leaves all.

    >>> shrunk("switch-dr", np.array([1.0, 4.0]), 2.0).tolist()
    [1.0, 0.0]
    >>> shrunk("dros", np.array([1.0, 4.0]), 4.0).tolist()
    [0.8, 0.8]
    >>> shrunk("sgdr", np.array([1.0, 4.0]), 0.5).tolist()
    [1.0, 1.6]
    """
    return _RULES[method](weights, parameter)


def strengths(method: Shrunken, weights: Floats) -> Floats:
    """Return the parameters to choose among, that which leaves all weights first."""
    if method == "sgdr":
        return np.concatenate([[0.0], _MIXTURES])
    positive = weights[weights > 0]
    if not len(positive):
        return np.array([np.inf])
    low, high = np.quantile(positive, _QUANTILES)
    if method == "switch-dr":
        grid = np.geomspace(low, high, _SWITCHES)
    else:
        grid = np.geomspace(low**2 / _FURTHER, high**2 * _FURTHER, _SHRINKAGES)
    return np.concatenate([[np.inf], grid[::-1]])


def least_error(method: Shrunken, weights: Floats, expected: Floats, missed: Floats) -> float:
    """Return the parameter of least estimated mean squared error; of equal ones the weakest.

    Parameters
    ----------
    weights, expected, missed : (n,) arrays
        The weights, the model's expected reward of the target, and what it missed of each
        reward.

    >>> w, missed = np.array([0.5] * 98 + [9.0] * 2), np.array([1.0, -1.0] * 50)
    >>> least_error("switch-dr", w, np.zeros(100), missed)  # the two cancel, and only add noise
    0.5
    """
    candidates = strengths(method, weights)
    errors = []
    for parameter in candidates:
        used = shrunk(method, weights, parameter)
        bias = float(np.mean((weights - used) * missed))
        errors.append(np.var(expected + used * missed) / len(weights) + bias**2)
    return float(candidates[int(np.argmin(errors))])


def _switch(w: Floats, parameter: float) -> Floats:
    return np.asarray(np.where(w <= parameter, w, 0.0))


def _optimistic(w: Floats, parameter: float) -> Floats:
    if np.isinf(parameter):
        return w
    return np.asarray(parameter * w / (w**2 + parameter) if parameter > 0 else np.zeros_like(w))


def _sub_gaussian(w: Floats, parameter: float) -> Floats:
    scale = 1 - parameter + parameter * w
    return np.asarray(np.divide(w, scale, out=np.zeros_like(w), where=w > 0))


_RULES: dict[str, Callable[[Floats, float], Floats]] = {
    "switch-dr": _switch,
    "dros": _optimistic,
    "sgdr": _sub_gaussian,
}
