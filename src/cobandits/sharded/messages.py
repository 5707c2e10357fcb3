"""What is said between shards and the policy that they are of."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared.empirical_bayes import Hyperparameters, HyperparameterSelector
from cobandits.policies.shared.empirical_bayes.fitted import FittedPriors

__all__ = ["Fitted", "Noted", "Offer", "Published", "Spread"]

Doubles = NDArray[np.float64]


class Offer(NamedTuple):
    """What a shard says before a prior is learned."""

    products: Doubles  # (d + 2, d + 2), of its rows
    selector: HyperparameterSelector  # without thetas


class Spread(NamedTuple):
    """How large the rewards of a shard's tasks are."""

    n_tasks: int
    largest: float  # mean square of a task
    n_rows: float
    reward_squares: float


class Published(NamedTuple):
    """Priors that were learned from all shards, and which of them is to be used."""

    priors: FittedPriors
    hyperparameters: Hyperparameters
    noise_share: float  # of the next fit
    spread: float  # factor of its variances


class Noted(NamedTuple):
    """What a shard says after it has learned."""

    room: int  # rewards that it takes before it looks for changes
    changes: int  # of its tasks, that were not noted before
    changed: tuple[Hashable, ...]  # tasks that have changed alone, not noted before


class Fitted(NamedTuple):
    """What a shard says that was loaded."""

    room: int  # as in :class:`Noted`
    rewards: int
    has_prior: bool
