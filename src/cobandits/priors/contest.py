"""Settings that compete for the best predictions."""

from __future__ import annotations

import functools

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
from cobandits.requests import add_errors, are_codes

__all__ = ["Contest", "different_rivals"]

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
        self.thetas: Doubles = np.zeros((0, 0, 0))  # (place, different rival, d + 1)

    def errors_with(self, slots: Codes, rows: Doubles) -> Doubles:
        """Return the errors with those of new rows ``[phi, 1, y]``, (m, d + 2)."""
        if not len(self.thetas):
            return self.errors
        if are_codes(slots, len(self.places)):
            places = self.places[slots]
        else:
            known = (slots >= 0) & (slots < len(self.places))
            places = np.where(known, self.places[np.where(known, slots, 0)], -1)
        errors = np.zeros(self.thetas.shape[1])
        add_errors(errors, self.thetas, places, rows)
        return self.errors + errors[_numbers(self.settings)]

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
        thetas = [_thetas(learned, rival) for rival in different_rivals(settings)]
        following.thetas = np.stack(thetas, axis=1)
        return following


def different_rivals(settings: Settings) -> list[Settings]:
    """Return the rivals that differ: the settings in use are there thrice."""
    return list(dict.fromkeys(_rivals(settings)))


@functools.cache
def _numbers(settings: Settings) -> Codes:
    """Return the number of each rival among the different ones."""
    return np.array([different_rivals(settings).index(rival) for rival in _rivals(settings)])


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
