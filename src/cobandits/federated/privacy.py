"""Differential privacy per task: what a node adds to its sums, and how much noise that takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, MissingExtraError

__all__ = ["Privacy", "noise_multiplier"]

Floats = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Privacy:
    """The Gaussian mechanism per task, inside of a node.

    Each task's share of an answer is divided by its number of rows and shortened to a length of
    ``clip`` at most (gradient and a tenth of the matrix together). Then noise of standard deviation
    ``noise_multiplier * clip`` is added to every entry of the sums. So what leaves the node says
    little of whether any single task is in it, whatever the server does with it.

    Parameters
    ----------
    clip : float
        About a tenth of the square of a theta's length, for features of variance 1. Too small a
        value hides how tasks differ, too large a one adds noise.
    noise_multiplier : float
        See :func:`noise_multiplier`.
    """

    clip: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < np.inf:
                raise ConfigurationError(f"{name} must be above 0 and finite, got {value}")

    def shares(self, *lengths: Floats) -> Floats:
        """Return the factor of each task, (T,), that shortens parts of these lengths together."""
        total = np.sqrt(np.sum([length**2 for length in lengths], axis=0))
        return np.asarray(np.minimum(1.0, self.clip / np.maximum(total, np.finfo(float).tiny)))

    def noisy(self, sums: Floats, rng: np.random.Generator) -> Floats:
        """Return sums over tasks with noise."""
        std = self.noise_multiplier * self.clip
        return np.asarray(sums + std * rng.standard_normal(sums.shape))


def noise_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """Return the noise that makes ``releases`` answers of a node (epsilon, delta)-private per task.

    By the privacy loss distributions of Google's ``dp-accounting`` (extra ``privacy``). Two sets
    of tasks are neighbours if one has one task more.
    """
    if not (epsilon > 0 and 0 < delta < 1 and releases >= 1):
        raise ConfigurationError(
            "privacy needs epsilon above 0, delta between 0 and 1 and releases from 1 on, got "
            f"{epsilon}, {delta} and {releases}"
        )
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    except ImportError as error:
        raise MissingExtraError("dp-accounting", "privacy") from error
    found: float = dp_accounting.calibrate_dp_mechanism(
        PLDAccountant,
        lambda sigma: dp_accounting.SelfComposedDpEvent(
            dp_accounting.GaussianDpEvent(sigma), releases
        ),
        epsilon,
        delta,
    )
    return found
