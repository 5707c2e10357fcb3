"""What becomes of the state when tasks are found to have changed.

An alarm may be false, or the rewards may be broken for a while and come right again. So by default
nothing is destroyed: the state before the change is kept beside the new one, and both predict the
rewards that come. Once there is enough evidence that the kept one predicts better, it is returned
to. It is kept until as many rewards have come since the change as it had learned from.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config

__all__ = ["OnChange", "return_evidence"]

Doubles = NDArray[np.float64]

OnChange = Literal["adapt", "start-over", "alert"]

_TINY = float(np.finfo(float).tiny)


def return_evidence(now: Doubles, kept: Doubles, usual: float) -> float:
    """Return the evidence that a kept state predicts rewards better than the present one.

    It is a log-likelihood ratio of Gaussian errors, less a margin per reward, so that a kept state
    that is no better loses. ``usual`` is the variance of the errors that the kept state had.

    Parameters
    ----------
    now, kept : (m,)
        Squared errors of the two states, of predicting the same rewards before they are learned.
    """
    most = change_config.DRIFT_CAP * max(usual, _TINY)
    better = (np.minimum(now, most) - np.minimum(kept, most)) / (2 * max(usual, _TINY))
    return float(better.sum()) - change_config.RETURN_MARGIN * len(now)
