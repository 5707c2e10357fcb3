"""What an update changes in place of a state, held so that one that fails leaves no trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared.state import State

__all__ = ["Held"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Held(NamedTuple):
    """The posteriors of the tasks of pending rewards, which :func:`absorb` may learn again."""

    places: Codes  # (m,)
    full_counts: Codes  # (m,)
    arrays: tuple[Doubles, ...]  # (m, ...) each

    @classmethod
    def of(cls, state: State) -> Held:
        """Hold what there is of a state before its pending rewards are stored."""
        places = np.unique(np.concatenate([part.tasks for part in state.pending]))
        arrays = tuple(values[places] for values in _arrays(state))
        return cls(places, state.full_counts[places], arrays)

    def put_back(self, state: State) -> None:
        """Set in the same state what there was."""
        state.full_counts[self.places] = self.full_counts
        for values, before in zip(_arrays(state), self.arrays, strict=True):
            values[self.places] = before


def _arrays(state: State) -> tuple[Doubles, ...]:
    """Return the arrays of the posteriors of all tasks."""
    assert state.posteriors is not None
    weights = state.posteriors.weights
    own = state.posteriors.thetas, state.posteriors.noises
    return (*own, weights.means, weights.roots, weights.log_volumes)
