"""What cannot be learned from the rows that a prior is fitted to, and the candidates of it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHOICES", "Hyperparameters", "candidate_numbers", "candidates"]

Codes = NDArray[np.int64]

CHOICES = (False, True)  # of each hyperparameter that is selected


class Hyperparameters(NamedTuple):
    """What cannot be learned from the rows that a prior is fitted to."""

    shared: bool = False  # whether thetas share directions; else each task is learned alone
    offset: bool = False  # whether rewards have a mean that no feature explains
    noise: float | None = None  # variance, where it is known
    clear: bool = False  # whether only directions that stand out of noise are shared


def candidates(hyperparameters: Hyperparameters) -> list[Hyperparameters]:
    """Return all candidates once; the hyperparameters in use are one of them."""
    return list(dict.fromkeys(_all_candidates(hyperparameters)))


@lru_cache(maxsize=16)
def candidate_numbers(hyperparameters: Hyperparameters) -> Codes:
    """Return the index in :func:`candidates` of each value of each hyperparameter."""
    different = candidates(hyperparameters)
    found = np.array([different.index(one) for one in _all_candidates(hyperparameters)])
    found.flags.writeable = False  # it is kept
    return found


def _all_candidates(used: Hyperparameters) -> list[Hyperparameters]:
    """Return a candidate for each value of each hyperparameter; the one in use comes twice.

    Where the noise is known there is an offset in any case. Which directions are shared is tried
    with tasks that share.
    """
    known = used.noise is not None
    return [
        *(used._replace(shared=value) for value in CHOICES),
        *(used if known else used._replace(offset=value) for value in CHOICES),
        *(used._replace(shared=True, clear=value) for value in CHOICES),
    ]
