"""Settings that compete for the best predictions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.priors.learning import (
    ISOTROPIC,
    LEAST_NOISE,
    OFFSET,
    Learned,
    Settings,
    means,
    taken,
)
from cobandits.priors.prior import Prior

__all__ = ["Contest"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_CUTS = (len(ISOTROPIC), len(ISOTROPIC) + len(LEAST_NOISE))  # where the next setting begins
_AS_GOOD = 1.01  # times the least errors: of such rivals the one that shares least is taken
_CLEARLY = 1.05  # times the errors with an offset: rewards have one if there are more without it
_DISCOUNT = 0.5  # of earlier errors, whenever a prior is learned


class Contest:
    """Which settings predicted rewards best that had not been learned from.

    Whenever a prior is learned, every rival predicts with the thetas that it would have had. The
    settings are chosen one at a time: each value is tried with the others as they are.
    """

    def __init__(self) -> None:
        self.settings = Settings()
        self.prior: Prior | None = None  # the one that shares most
        self.errors: Doubles = np.zeros(_CUTS[1] + len(OFFSET))  # sums of squares
        self.places: Codes = np.zeros(0, np.int64)  # of slots among the thetas, -1 for none
        self.thetas: Doubles = np.zeros((0, 0, 0))  # (place, rival, d + 1)

    def errors_with(self, slots: Codes, rows: Doubles) -> Doubles:
        """Return the errors with those of new rows ``[phi, 1, y]``, (m, d + 2)."""
        if not len(self.thetas):
            return self.errors
        known = (slots >= 0) & (slots < len(self.places))
        places = np.where(known, self.places[np.where(known, slots, 0)], -1)
        there = places >= 0
        predicted = np.einsum("md,mcd->mc", rows[there, :-1], self.thetas[places[there]])
        return np.asarray(self.errors + ((rows[there, -1:] - predicted) ** 2).sum(axis=0))

    def winner(self, errors: Doubles) -> Settings:
        """Return the settings with the least errors so far."""
        if not len(self.thetas):
            return self.settings
        isotropic, least_noise, offset = np.split(errors, _CUTS)
        return Settings(
            ISOTROPIC[np.flatnonzero(isotropic <= _AS_GOOD * isotropic.min())[-1]],
            LEAST_NOISE[least_noise.argmin()],
            bool(offset[0] > _CLEARLY * offset[1]),
        )

    def next_round(self, settings: Settings, errors: Doubles, learned: Learned) -> Contest:
        """Return the contest that goes on with the thetas of now."""
        following = Contest()
        following.settings, following.prior = settings, learned.prior
        if settings.offset == self.settings.offset:  # else no rival has been near before
            following.errors = _DISCOUNT * errors
        slots = np.concatenate([block.slots for block in learned.blocks])
        following.places = np.full(slots.max() + 1, -1)
        following.places[slots] = np.arange(len(slots))
        by_rival: dict[Settings, Doubles] = {}
        rivals = _rivals(settings)
        for rival in rivals:
            if rival not in by_rival:
                by_rival[rival] = _thetas(learned, rival)
        following.thetas = np.stack([by_rival[rival] for rival in rivals], axis=1)
        return following


def _rivals(settings: Settings) -> list[Settings]:
    """Return the settings with each value of each of them."""
    return [
        *(settings._replace(isotropic=value) for value in ISOTROPIC),
        *(settings._replace(least_noise=value) for value in LEAST_NOISE),
        *(settings._replace(offset=value) for value in OFFSET),
    ]


def _thetas(learned: Learned, rival: Settings) -> Doubles:
    """Return the thetas, with the intercept, that tasks would have, (place, d + 1)."""
    prior = taken(learned.prior, learned.suggestion, rival)
    coordinates = np.concatenate([means(block, prior) for block in learned.blocks])
    thetas = coordinates @ prior.coordinates.matrix.T
    thetas[:, -1] += prior.offset
    return np.asarray(thetas)
