"""The Gaussian prior of all thetas, and the coordinates in which it is learned."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.reader import Part, Reader

__all__ = ["Coordinates", "DecomposedPrior", "Prior", "Products"]

Doubles = NDArray[np.float64]


class Products(Protocol):
    """Rows ``[phi, 1, y]`` of which the products are known: a store, or the sum of several."""

    def products(self) -> Doubles:
        """Return ``F'F`` of all rows, (d + 2, d + 2)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Coordinates:
    """Features scaled to mean square 1, as far as rows tell it, with an intercept.

    A feature whose mean is surely larger than its standard deviation is centred. A smaller mean
    stays, since it may carry information about theta: the mean of chosen arms is not 0 even where
    that of all arms is. More than 256 features are reduced to their principal directions.
    """

    matrix: Doubles  # (d + 1, p): [phi, 1] @ matrix

    @classmethod
    def of(cls, store: Products) -> Coordinates:
        """Return the coordinates for the rows of a store."""
        products = store.products()[:-1, :-1]  # of [phi, 1]
        n, d = float(products[-1, -1]), len(products) - 1
        first, squares = products[-1, :d] / n, np.diag(products)[:d] / n
        means = _large_means(first, squares, n)
        scales = np.sqrt(_pooled_sizes(squares - means**2, squares, n))
        matrix = np.zeros((d + 1, d + 1))
        matrix[:d, :d] = np.diag(1 / scales)
        matrix[d, :d] = -means / scales
        matrix[d, d] = 1.0
        if d > config.MOST_FEATURES:
            across = np.outer(means, first - means / 2)
            moved = (products[:d, :d] / n - across - across.T) / np.outer(scales, scales)
            vectors = np.linalg.eigh(moved)[1][:, -config.MOST_FEATURES :]
            matrix = np.hstack([matrix[:, :d] @ vectors, matrix[:, d:]])
        return cls(matrix=matrix)

    def applied(self, rows: Doubles) -> Doubles:
        """Return rows ``[phi, 1]``, (..., d + 1), in the coordinates, (..., p)."""
        if not self._is_scaling:
            return np.asarray(rows @ self.matrix)
        found, shifts = rows * self.matrix.diagonal(), self.matrix[-1, :-1]
        if shifts.any():
            found[..., :-1] += rows[..., -1:] * shifts
        return found

    @cached_property
    def _is_scaling(self) -> bool:
        """Whether every feature is scaled and shifted by itself: no product of matrices then."""
        above = self.matrix[:-1]
        return self.dim == len(self.matrix) and not np.any(above - np.eye(*above.shape) * above)

    def from_others(self, others: Coordinates) -> Doubles:
        """Return the matrix from vectors in other coordinates to those in these, (p, q)."""
        if self.matrix.shape[0] == self.dim:
            return np.asarray(np.linalg.solve(self.matrix, others.matrix))
        return np.asarray(np.linalg.lstsq(self.matrix, others.matrix, rcond=None)[0])

    @property
    def dim(self) -> int:
        """The number of coordinates, p."""
        return int(self.matrix.shape[1])


def _large_means(first: Doubles, squares: Doubles, n: float) -> Doubles:
    """Return the means of features, (d,), where they are surely larger than the deviation, else 0.

    ``first`` and ``squares`` are mean and mean square of n rows.
    """
    variances = np.maximum(squares - first**2, 0.0)
    sure = max(n - 1, config.SURE_MEAN**2)  # of the square of Student's t
    return np.where((n - 1) * first**2 > sure * variances, first, 0.0)


def _pooled_sizes(sizes: Doubles, squares: Doubles, n: float) -> Doubles:
    """Return the mean squares of features, (d,), drawn to what they have in common.

    Logarithms are shrunken to their mean, the more the less they vary beyond what those of n
    Gaussian rows do by chance (James and Stein), while these are few. So features in other units
    keep their sizes, and what is alike is not told apart. A constant feature has the size 1.
    """
    varies = sizes > config.CONSTANT_VARIANCE * squares
    logs = np.log(sizes[varies])
    if len(logs) > 1 and n < config.OWN_SIZES:
        chance = 2 / n + 2 / n**2 + 4 / (3 * n**3)  # trigamma(n / 2), nearly
        share = 1 - chance / max(float(logs.var(ddof=1)), chance)
        logs = logs.mean() + share * (logs - logs.mean())
    found = np.ones_like(sizes)
    found[varies] = np.exp(logs)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Prior:
    """``theta ~ N(m, C)`` in some coordinates, with the offset and the noise of rewards."""

    coordinates: Coordinates
    covariance: Doubles  # C, (p, p)
    mean: Doubles  # m, (p,), without the offset; 0 where tasks have no mean in common
    offset: float  # expected reward before features are known
    noise: float  # variance of the noise
    feature_second_moment: Doubles  # (p, p), of the features in these coordinates

    @classmethod
    def vague(cls, store: Products) -> Prior:
        """Return a prior with no preferred direction, as wide as the rewards of a store."""
        coordinates = Coordinates.of(store)
        p, products = coordinates.dim, store.products()[-2:, -2:]
        offset = products[0, 1] / products[0, 0]
        square = products[1, 1] / products[0, 0]
        variance = square - offset**2
        if variance <= config.CONSTANT_VARIANCE * square:
            variance = square or 1.0
        return cls(
            coordinates=coordinates,
            covariance=np.eye(p) * variance / p,
            mean=np.zeros(p),
            offset=float(offset),
            noise=config.FIRST_NOISE * variance,
            feature_second_moment=np.eye(p),
        )

    def in_coordinates(self, coordinates: Coordinates, M: Doubles) -> Prior:
        """Return the same prior in other coordinates, where a vector is ``M`` times as it was."""
        return replace(
            self, coordinates=coordinates, covariance=M @ self.covariance @ M.T, mean=M @ self.mean
        )

    @property
    def center(self) -> Doubles:
        """The mean with the offset, (p,)."""
        total = self.mean.copy()
        total[-1] += self.offset
        return total

    @property
    def theta(self) -> Doubles:
        """The expected theta of a task, with its intercept, (d + 1,)."""
        return np.asarray(self.coordinates.matrix @ self.center)


@dataclass(frozen=True, kw_only=True, eq=False)
class DecomposedPrior(Prior):
    """A prior with its eigenvectors; these are kept, since their signs are a matter of chance.

    Parameters
    ----------
    variances : (p,)
        Of the directions, rising.
    vectors : (p, p)
        The directions in the coordinates, the widest last.
    """

    variances: Doubles
    vectors: Doubles

    @classmethod
    def of(cls, prior: Prior) -> DecomposedPrior:
        """Decompose a prior."""
        values, vectors = np.linalg.eigh(prior.covariance)
        variances = np.maximum(values, config.NARROWEST_VARIANCE * values[-1])
        return cls(**vars(prior), variances=variances, vectors=vectors)

    @property
    def spectrum(self) -> Doubles:
        """The variances of the prior's directions, (p,), falling."""
        return self.variances[::-1]

    @property
    def rank(self) -> int:
        """How many directions tasks share: those that are far wider than the narrow ones."""
        narrow = self.variances[len(self.covariance) // config.NARROW_QUANTILE]
        least = max(config.DISTINCT_RATIO * narrow, config.LEAST_COLUMN * self.variances[-1])
        return int((self.variances > least).sum())

    @cached_property
    def to_directions(self) -> Doubles:
        """The matrix from thetas, less the offset, to weights of the directions, (p, d + 1)."""
        return np.asarray(self.vectors.T @ np.linalg.pinv(self.coordinates.matrix))

    def whitening(self, directions: int) -> Doubles:
        """Return ``L``, (p, q): in the coordinates theta is ``L omega``, ``omega ~ N(0, I)``."""
        return np.asarray(self.vectors[:, -directions:] * np.sqrt(self.variances[-directions:]))

    def root(self, directions: int) -> Doubles:
        """Return ``R``, (d + 1, q): of features theta is ``R omega``, ``omega ~ N(0, I)``."""
        return np.asarray(self.coordinates.matrix @ self.whitening(directions))

    def residual_variance(self, directions: int) -> float:
        """Return the variance of a typical arm's reward outside of the widest directions."""
        values, rest = self.variances[:-directions], self.vectors[:, :-directions]
        M = self.feature_second_moment
        return float(values @ np.einsum("pj,pq,qj->j", rest, M, rest))

    def saved(self) -> Part:
        """Return what a checkpoint holds of the prior."""
        arrays = {
            "coordinates": self.coordinates.matrix,
            "covariance": self.covariance,
            "mean": self.mean,
            "variances": self.variances,
            "vectors": self.vectors,
            "feature_second_moment": self.feature_second_moment,
        }
        return Part({"offset": self.offset, "noise": self.noise}, arrays)

    @classmethod
    def read(cls, reader: Reader, *, dim: int) -> DecomposedPrior:
        """Read what :meth:`saved` returned."""
        matrix = reader.doubles("coordinates", (dim + 1, None))
        square = (matrix.shape[1], matrix.shape[1])
        return cls(
            coordinates=Coordinates(matrix=matrix),
            covariance=reader.doubles("covariance", square),
            mean=reader.doubles("mean", square[:1]),
            offset=reader.number("offset"),
            noise=reader.variance("noise"),
            feature_second_moment=reader.doubles("feature_second_moment", square),
            variances=reader.doubles("variances", square[:1], above=0.0),
            vectors=reader.doubles("vectors", square),
        )

    @property
    def plain(self) -> Prior:
        """The prior without its directions."""
        return Prior(**{one.name: getattr(self, one.name) for one in fields(Prior)})
