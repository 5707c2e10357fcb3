"""Confidence sets of the tasks' thetas, and optimism in the face of uncertainty (UCB).

A task's posterior is Gaussian, so the set of thetas that holds the true one with a given
probability is an ellipsoid around its mean. In r dimensions its radius is the root of a quantile of
the chi-square distribution with r degrees of freedom, in units of the posterior's standard
deviation: along every arm at once, whatever arms are asked for. Bounds take r to be the dimensions
of the posterior. Optimism takes those that tasks share, a heuristic: its sets are narrower, and
hold the truth of all arms less often than they say.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import ArrayLike, NDArray

from cobandits.policies.shared import exploration_config
from cobandits.policies.shared.beliefs import Beliefs

__all__ = ["basis_variance", "confidence_radius", "upper_bounds"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


def confidence_radius(confidence: ArrayLike, dim: int) -> Doubles:
    """Return the radii of confidence sets of ``dim`` dimensions, in standard deviations.

    >>> confidence_radius([0.9, 0.95], 1).round(2), confidence_radius(0.95, 2).round(2)
    (array([1.64, 1.96]), np.float64(2.45))
    """
    return np.sqrt(scipy.special.chdtri(dim, 1 - np.asarray(confidence)))


def basis_variance(numbers: int, n_rewards: int, error: float) -> float:
    """Return the variance of a typical arm's value, as the basis was learned and is not known.

    Posteriors take the numbers of the basis for known. As in least squares, errors grow by the
    share of these to rewards; where there are more numbers, by all of the mean squared ``error`` of
    predicting rewards of late.

    >>> basis_variance(40, 400, error=2.0), basis_variance(40, 10, error=2.0)
    (0.2, 2.0)
    """
    return error * min(1.0, numbers / max(1, n_rewards))


def upper_bounds(beliefs: Beliefs, calibration: float, *, dim: int, basis: Floats) -> Doubles:
    """Return the highest value of each arm, (m, K), in the confidence set of its task.

    The part of a variance that is due to noise is scaled by the calibration, as where arms are
    sampled.

    Parameters
    ----------
    dim : int
        Dimensions of the learned subspace.
    basis : (m, K)
        Variances that are due to what is not known of it.
    """
    variances = beliefs.variances
    unseen = np.minimum(beliefs.unseen_variances, variances)
    honest = unseen + calibration * (variances - unseen) + basis
    return np.asarray(
        beliefs.values + confidence_radius(exploration_config.UCB_CONFIDENCE, dim) * np.sqrt(honest)
    )
