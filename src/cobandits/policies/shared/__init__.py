"""The shared policy: a prior that all tasks share, and a posterior per task.

``policy`` is the API, ``state`` what has been learned. ``deciding`` decides, under a rule of
``exploration``. ``transitions`` lead from one state to the next, and ``change`` says what becomes
of it when tasks change. ``empirical_bayes`` learns the prior. ``posteriors`` holds the posterior of
each task, ``beliefs`` what it says of arms, ``reduced`` the directions that they have, and
``carry_over`` takes them from one prior to the next without rows. ``row_store`` and ``pending``
hold the rows. ``drift`` detects changes, ``checkpoint`` saves and loads, ``config`` has every
constant.
"""

from cobandits.policies.shared.explain import Explanation, Explanations
from cobandits.policies.shared.policy import Shared
from cobandits.policies.shared.state import Refit, Snapshot
from cobandits.policies.shared.transitions import refit

__all__ = ["Explanation", "Explanations", "Refit", "Shared", "Snapshot", "refit"]
