"""Off-policy evaluation: what a policy would have earned, from a log of another one's decisions.

With weights ``w = pi(chosen) / p(chosen)`` and a model ``q(a) = phi_a' theta_t``, the mean reward
of a policy is estimated by

- ``"ips"``, inverse propensity: the mean of ``w y``;
- ``"snips"``, self-normalised: the sum of ``w y`` over that of ``w``;
- ``"dm"``, direct method: the mean of ``sum_a pi(a) q(a)``;
- ``"dr"``, doubly robust: the mean of ``sum_a pi(a) q(a) + w (y - q(chosen))``, where the model
  of a row is fitted to the rows of the other folds;
- ``"sndr"``, self-normalised dr: the weights are divided by their mean;
- ``"switch-dr"``, ``"dros"`` and ``"sgdr"``: dr with weights that are cut off, shrunken
  optimistically or made sub-Gaussian (:func:`cobandits.evaluation.shrinkage.shrunk`), by a
  parameter that is given, or has the least estimated error.

Intervals are by Student's t: from the terms, by the delta method for snips and sndr, and by a
jackknife of 20 groups, with one fit for each, for dm. They leave out the bias of shrinking.

>>> from cobandits.environments import Synthetic
>>> from cobandits.policies import Random, Ridge
>>> environment = Synthetic(dim=5, n_tasks=3, rank=1)
>>> log = collect(Random(dim=5, n_tasks=3), environment, rounds=200, seed=1)
>>> values = evaluate(Ridge(dim=5, n_tasks=3), log)  # has learned nothing: as random
>>> bool(values["dr"].low < 0 < values["dr"].high), values["ips"].effective_n
(True, 600.0)
"""

from cobandits.evaluation.methods import Method
from cobandits.evaluation.models import Weighed
from cobandits.evaluation.off_policy import (
    METHODS,
    Value,
    Values,
    evaluate,
    evaluate_weighed,
)
from cobandits.evaluation.playing import collect, relearn
from cobandits.evaluation.weighing import weigh

__all__ = [
    "METHODS",
    "Method",
    "Value",
    "Values",
    "Weighed",
    "collect",
    "evaluate",
    "evaluate_weighed",
    "relearn",
    "weigh",
]
