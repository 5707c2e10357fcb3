"""Read files of version 3, in which the prior was learned by expectation and maximisation.

What predicted rewards to select hyperparameters was of another kind, so its errors are forgotten:
the first refit goes on with the hyperparameters and the covariance that were in use.
"""

from __future__ import annotations

import numpy as np

from cobandits.archives import Arrays, Header
from cobandits.policies.shared import config

__all__ = ["upgraded"]

_ALONE = 1e5  # pseudo-tasks from which on each task was learned alone
_KEPT = "before."  # prefix of the arrays of the state from before a change


def upgraded(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Return the header and the arrays of version 3 in the layout of version 4."""
    header, arrays = dict(header), dict(arrays)
    header["setting"] = {**header["setting"], "rewards": "gaussian"}
    _upgrade(header, arrays, "")
    if "before" in header:
        header["before"] = dict(header["before"])
        _upgrade(header["before"], arrays, _KEPT)
    return header, arrays


def _upgrade(header: Header, arrays: Arrays, prefix: str) -> None:
    """Replace the selector of a state, in place, and say that rewards are any numbers."""
    gaussian = {"likelihood": "gaussian", "whole": True, "judged": 0, "outliers": 0}
    header["state"] = {**header["state"], **gaussian}
    selector, name = dict(header["selector"]), f"{prefix}selector."
    before = selector["hyperparameters"]
    selector["hyperparameters"] = {
        "shared": before["shrinkage_pseudo_tasks"] < _ALONE,
        "offset": before["offset"],
        "noise": None,
    }
    selector["noise_share"], selector["spread"] = config.NOISE_SHARE, 1.0
    arrays[name + "errors"], arrays[name + "recent"] = np.zeros(4), np.zeros(5)
    if name + "covariance" in arrays:
        covariance = arrays[name + "covariance"]
        selector["alone_variance"] = float(np.trace(covariance)) / len(covariance)
        selector["alone_offset"], selector["alone_noise"] = selector["offset"], selector["noise"]
        arrays[name + "alone_mean"] = arrays[name + "mean"]
        arrays[name + "thetas"] = np.zeros((0, 3, arrays[name + "thetas"].shape[2]))
        arrays[name + "places"] = np.zeros(0, np.int64)
    header["selector"] = selector
