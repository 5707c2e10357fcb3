"""One Gaussian prior for the thetas of all tasks, learned from all of them (empirical Bayes).

With ``theta_t ~ N(0, C)`` and rewards ``y = phi' theta_t + e``, ``e ~ N(0, noise)``, the covariance
``C`` says what tasks have in common. If they share a basis, ``C`` has a few wide directions
and next to nothing elsewhere: a new task is then learned as fast as its weights in them. If
they share nothing, ``C`` is a multiple of the identity, and every task is a ridge
regression of its own with the ridge that suits the data. What is between the two is decided by
:class:`Settings`, and those by rewards that were not learned from yet: :class:`Contest`.
"""

from cobandits.priors.contest import Contest, different_rivals
from cobandits.priors.learning import Block, Settings, blocks, improved
from cobandits.priors.prior import Coordinates, Prior

__all__ = [
    "Block",
    "Contest",
    "Coordinates",
    "Prior",
    "Settings",
    "blocks",
    "different_rivals",
    "improved",
]
