"""Variances of expected rewards as they are stated: as large as errors were.

Decisions are made with those of the posteriors; see ``empirical_bayes/calibration``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import chunks
from cobandits.policies.shared.beliefs import Beliefs
from cobandits.policies.shared.empirical_bayes import HyperparameterSelector
from cobandits.policies.shared.posteriors import TaskPosteriors

__all__ = ["honest_typical", "honest_variances"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


def honest_variances(
    posteriors: TaskPosteriors, selector: HyperparameterSelector, tasks: Codes, beliefs: Beliefs
) -> Doubles:
    """Return the variances of the values of arms, (m, K), of requests of tasks, (m,)."""
    if selector.calibration is None:
        return beliefs.variances
    typical, spread = _before(posteriors), selector.spread
    return selector.calibration.honest(
        beliefs.variances / spread,
        beliefs.prior_variances / spread,
        left=_typical(posteriors, tasks)[:, None] / typical,
        typical=typical / spread,
    )


def honest_typical(
    posteriors: TaskPosteriors, selector: HyperparameterSelector, tasks: Codes
) -> tuple[Doubles, float]:
    """Return the variances of a typical arm's expected reward: now, (m,), and before any reward."""
    before = _before(posteriors)
    both = np.append(_typical(posteriors, tasks), before)
    if selector.calibration is not None:
        typical = before / selector.spread
        both = selector.calibration.honest(
            both / selector.spread, np.full(len(both), typical), left=both / before, typical=typical
        )
    return both[:-1], float(both[-1])


def _typical(posteriors: TaskPosteriors, tasks: Codes) -> Doubles:
    """Return the variances of a typical arm's expected reward, (m,), under the posteriors."""
    q, M = posteriors.weights.dim, posteriors.basis.second_moment
    variances = posteriors.noises[tasks] - posteriors.prior.noise  # outside of their directions
    for block in chunks(len(tasks), 8 * q * q):
        S = posteriors.weights.unpacked(tasks[block])  # (b, q, q), S S' is the covariance
        variances[block] += np.einsum("bij,bij->b", S, M @ S)
    return np.asarray(variances)


def _before(posteriors: TaskPosteriors) -> float:
    """Return the same before a task's first reward."""
    return float(np.trace(posteriors.basis.second_moment) + posteriors.residual_variance)
