"""What is expected of the thetas of all tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cobandits.histories import Histories

__all__ = ["Coordinates", "Prior"]

Doubles = NDArray[np.float64]

_MOST_DIRECTIONS = 256  # of features, that a prior is learned for
_CONSTANT = 1e-12  # variance of a feature, as a share of its mean square
_FIRST_NOISE = 0.1  # share of the rewards' variance, before anything is known
_DISTINCT = 10.0  # times the variance of a narrow direction: above it tasks share one
_NARROWEST = 1e-12  # variance of a direction, as a share of the widest


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """Features as a prior sees them: of mean square 1, and with an intercept.

    A feature whose mean is larger than its standard deviation is centred. A smaller mean stays:
    that of chosen arms is not 0 even where that of all arms is, and then tells of theta. Of more
    than 256 features their principal directions are taken.
    """

    matrix: Doubles  # (d + 1, p): [phi, 1] @ matrix

    @classmethod
    def of(cls, histories: Histories) -> Coordinates:
        """Return those of all rows that are kept."""
        products = histories.products()[:-1, :-1]  # of [phi, 1]
        n, d = products[-1, -1], len(products) - 1
        means, squares = products[-1, :d] / n, np.diag(products)[:d] / n
        variances = squares - means**2
        means[means**2 <= variances] = 0
        sizes = squares - means**2
        scales = np.sqrt(np.where(sizes <= _CONSTANT * squares, 1.0, sizes))
        matrix = np.zeros((d + 1, d + 1))
        matrix[:d, :d] = np.diag(1 / scales)
        matrix[d, :d] = -means / scales
        matrix[d, d] = 1.0
        if d > _MOST_DIRECTIONS:
            moved = matrix.T @ products @ matrix / n
            vectors = np.linalg.eigh(moved[:d, :d])[1][:, -_MOST_DIRECTIONS:]
            matrix = np.hstack([matrix[:, :d] @ vectors, matrix[:, d:]])
        return cls(matrix=matrix)

    @property
    def dim(self) -> int:
        """Coordinates, p."""
        return int(self.matrix.shape[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """Where thetas are expected, and how far rewards are from what they predict."""

    coordinates: Coordinates
    covariance: Doubles  # (p, p), of thetas in these coordinates
    offset: float  # reward that is expected before features are looked at
    noise: float  # variance of the noise
    spread: Doubles  # (p, p), second moment of the features in these coordinates, as far as known

    @classmethod
    def vague(cls, histories: Histories) -> Prior:
        """Return one with no preferred direction, as wide as the rewards are."""
        coordinates = Coordinates.of(histories)
        p, products = coordinates.dim, histories.products()[-2:, -2:]
        offset = products[0, 1] / products[0, 0]
        square = products[1, 1] / products[0, 0]
        variance = square - offset**2
        if variance <= _CONSTANT * square:
            variance = square or 1.0
        return cls(
            coordinates=coordinates,
            covariance=np.eye(p) * variance / p,
            offset=float(offset),
            noise=_FIRST_NOISE * variance,
            spread=np.eye(p),
        )

    def seen_in(self, coordinates: Coordinates) -> Prior:
        """Return the same prior in other coordinates."""
        M = np.linalg.lstsq(coordinates.matrix, self.coordinates.matrix, rcond=None)[0]
        return replace(self, coordinates=coordinates, covariance=M @ self.covariance @ M.T)

    @cached_property
    def _directions(self) -> tuple[Doubles, Doubles]:
        """Variances, rising, and directions of the covariance."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.maximum(values, _NARROWEST * values[-1]), vectors

    @property
    def spectrum(self) -> Doubles:
        """The variances of the prior's directions, (p,), falling."""
        return self._directions[0][::-1]

    @property
    def rank(self) -> int:
        """How many directions tasks share: those that are far wider than the narrow ones."""
        narrow = self._directions[0][len(self.covariance) // 4]
        return int((self.spectrum > _DISTINCT * narrow).sum())

    def remember(self, variances: Doubles, vectors: Doubles) -> None:
        """Take the directions as they were computed before: their signs are a matter of chance."""
        self.__dict__["_directions"] = variances, vectors

    @property
    def variances(self) -> Doubles:
        """The variances of the prior's directions, (p,), rising."""
        return self._directions[0]

    @property
    def vectors(self) -> Doubles:
        """The prior's directions in the coordinates, (p, p), the widest last."""
        return self._directions[1]

    @cached_property
    def to_directions(self) -> Doubles:
        """What turns a theta without its offset into weights of the directions, (p, d + 1)."""
        return np.asarray(self.vectors.T @ np.linalg.pinv(self.coordinates.matrix))

    def whitening(self, directions: int) -> Doubles:
        """Return ``L``, (p, q), with theta ``L omega`` in the coordinates, the widest last."""
        values, vectors = self._directions
        return np.asarray(vectors[:, -directions:] * np.sqrt(values[-directions:]))

    def root(self, directions: int) -> Doubles:
        """Return ``R``, (d + 1, q): theta is ``R omega`` with ``omega ~ N(0, I)``."""
        return np.asarray(self.coordinates.matrix @ self.whitening(directions))

    def outside(self, directions: int) -> float:
        """Return the variance of rewards that is due to all but so many directions."""
        values, vectors = self._directions
        rest = vectors[:, :-directions]
        return float(values[:-directions] @ np.einsum("pj,pq,qj->j", rest, self.spread, rest))
