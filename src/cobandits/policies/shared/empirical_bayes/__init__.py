"""One Gaussian prior for the thetas of all tasks, learned from all of them (empirical Bayes).

With ``theta_t ~ N(m, C)`` and rewards ``y = phi' theta_t + e``, ``e ~ N(0, noise)``, the covariance
``C`` says what tasks have in common. If they share a basis, ``C`` has a few wide directions and
next to nothing elsewhere, so only a new task's weights in these have to be learned. If they share
nothing, ``C`` is a multiple of the identity, and every task is a ridge regression of its own with
the ridge that suits the data. How far to go from one to the other is up to
:class:`Hyperparameters`. :class:`HyperparameterSelector` selects them by how well they predict
rewards before these are learned.
"""

from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock, task_blocks
from cobandits.policies.shared.empirical_bayes.fit import fit_priors, sharing_thetas
from cobandits.policies.shared.empirical_bayes.fitted import (
    PriorFit,
    Priors,
    is_explained,
    unexplained_share,
)
from cobandits.policies.shared.empirical_bayes.hyperparameters import Hyperparameters, candidates
from cobandits.policies.shared.empirical_bayes.prior import Coordinates, DecomposedPrior, Prior
from cobandits.policies.shared.empirical_bayes.selection import HyperparameterSelector

__all__ = [
    "Coordinates",
    "DecomposedPrior",
    "HyperparameterSelector",
    "Hyperparameters",
    "Prior",
    "PriorFit",
    "Priors",
    "TaskBlock",
    "candidates",
    "fit_priors",
    "is_explained",
    "sharing_thetas",
    "task_blocks",
    "unexplained_share",
]
