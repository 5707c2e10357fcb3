"""Recalibration: predictions moved to the line that recent rewards follow.

Decisions depend on the order of predictions, not on their level or scale. Once a policy decides
well, nearly all rewards are high, and rows of late alone teach to predict just that: which predicts
better than all rows do, and tells nothing of which arm is better. So predictors that are compared
are first recalibrated, each by itself, as far as rewards before these have told how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config

__all__ = ["Recalibration"]

Doubles = NDArray[np.float64]

_TINY = float(np.finfo(float).tiny)
_ROUNDING = 1e-9  # share of a mean square below which a variance is lost in rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Recalibration:
    """Regressions of the errors of predictors on their predictions, over rewards that lose weight.

    ``sums``, (5, predictor), are of weights, predictions, errors, squared predictions, and
    predictions times errors.
    """

    sums: Doubles

    @classmethod
    def none(cls, n_predictors: int) -> Recalibration:
        """Return it before any reward: predictions stay as they are."""
        return cls(sums=np.zeros((5, n_predictors)))

    @property
    def weight(self) -> float:
        """The weight of all rewards so far."""
        return float(self.sums[0, 0])

    def applied(self, predictions: Doubles) -> Doubles:
        """Return predictions, (m, predictor), with the errors that are expected of them added.

        Pseudo-rewards with no errors draw the line to that of no errors while rewards are few.
        """
        weight, *sums = self.sums
        share = weight / (weight + change_config.LINE_PSEUDO_REWARDS)
        value, error, square, product = np.array(sums) / np.maximum(weight, 1)  # means
        variance = np.maximum(square - value**2, _ROUNDING * square + _TINY)
        slope = (product - value * error) / variance
        return np.asarray(predictions + share * (error + slope * (predictions - value)))

    def after(
        self, predictions: Doubles, rewards: Doubles, *, kept: float, most: float
    ) -> Recalibration:
        """Return it after rewards, (m,); older ones weigh ``kept`` times as much as before.

        Errors are at most ``most`` in size: no outlier moves a line.
        """
        errors = np.clip(rewards[:, None] - predictions, -most, most)
        new = [np.ones_like(errors), predictions, errors, predictions**2, predictions * errors]
        return Recalibration(sums=kept * self.sums + np.array(new).sum(axis=1))
