"""Read files of version 2, which have the same content under other names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.archives import Arrays, Header
from cobandits.policies.shared.reader import refused

__all__ = ["upgraded"]

_NAMES = {
    "counts": "state.counts",
    "counts_whole": "state.full_counts",
    "usual": "drift.baseline",
    "gained_tasks": "drift.evidence_tasks",
    "gained": "drift.task_evidence",
    "errors": "selector.errors",
    "rivals": "selector.thetas",
    "rival_places": "selector.places",
    "sharing": "selector.covariance",
    "slot_tasks": "store.tasks",
    "slot_sizes": "store.sizes",
    "owners": "store.owners",
    "rows": "store.rows",
    "new_tasks": "pending.tasks",
    "new_rows": "pending.rows",
    "new_squares": "pending.squares",
    "new_expected": "pending.expected",
    "coordinates": "prior.coordinates",
    "covariance": "prior.covariance",
    "variances": "prior.variances",
    "vectors": "prior.vectors",
    "spread": "prior.feature_second_moment",
    "directions": "posteriors.directions",
    "thetas": "posteriors.thetas",
    "noises": "posteriors.noises",
    "means": "posteriors.means",
    "roots": "posteriors.roots",
    "log_volumes": "posteriors.log_volumes",
    "basis": "estimate.basis",
    "weights": "estimate.weights",
}
_GIVEN_UP = -2  # slot of a task whose rows were given up


def upgraded(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Return the header and the arrays of version 2 in the layout of version 3."""
    found = {_NAMES[name]: values for name, values in arrays.items() if name in _NAMES}
    contest, learned = header["contest"], header["learned"]
    parts: Header = {
        "setting": {**header["setting"], "labels": False, "on_change": "start-over"},  # as then
        "state": {
            **{name: header[name] for name in ("rewards", "seen", "due", "changes")},
            "range": (header["lowest"], header["highest"]) if learned else None,
            "return_evidence": 0.0,
        },
        "drift": header["alarm"],
        "store": {},
        "pending": {},
        "posteriors": {"all_directions": None},
        "selector": {
            "hyperparameters": {
                "shrinkage_pseudo_tasks": contest["isotropic"],
                "noise_share": contest["least_noise"],
                "offset": contest["offset"],
            },
            **header.get("sharing", {}),
        },
        "prior": header.get("prior", {}),
        "estimate": {"status": header.get("status"), "n_tasks": len(arrays["counts"])},
    }
    if learned:  # there was no mean
        found["prior.mean"] = found["selector.mean"] = np.zeros(len(arrays["variances"]))
    found["store.dropped"] = _given_up(arrays)
    if not learned and not arrays["counts"].any():  # no task has had rewards
        found["state.counts"] = found["state.full_counts"] = np.zeros(0, np.int64)
    found["state.tasks"] = np.arange(len(found["state.counts"]))
    return parts, found


def _given_up(arrays: Arrays) -> NDArray[np.int64]:
    """Return the tasks whose rows were given up, or refuse slots that are not those of tasks."""
    slots, tasks = arrays["slots"], arrays["slot_tasks"]
    expected = np.full(arrays["counts"].shape, -1)
    if slots.shape != expected.shape or slots.dtype.kind != "i":
        raise refused(f"slots of shape {slots.shape} and type {slots.dtype}")
    expected[tasks] = np.arange(len(tasks))
    if ((slots != expected) & (slots != _GIVEN_UP)).any():
        raise refused("slots that are not those of slot_tasks")
    return np.flatnonzero(slots == _GIVEN_UP)
