"""The likelihood of :mod:`cobandits.kernels.marginal` for many pairs of variances."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels.batches import chunks
from cobandits.kernels.marginal import Marginal

__all__ = ["GramVariances", "PlainVariances", "Variances"]

Floats = NDArray[np.floating]
Mask = NDArray[np.bool_]


class Variances(Protocol):
    """The sums of :class:`Marginal` for features that are divided by their units."""

    def at(self, apart: float, rest: float) -> Marginal:
        """Return them for one variance of the features set apart and one of all others."""
        ...


class PlainVariances:
    """One pass over the data for each pair of variances."""

    def __init__(self, marginal: Callable[[Floats], Marginal], apart: Mask, units: Floats) -> None:
        self._marginal, self._apart, self._units = marginal, apart, units

    def at(self, apart: float, rest: float) -> Marginal:
        """Return the sums."""
        units = self._units
        found = self._marginal(np.where(self._apart, apart, rest) / units**2)
        return found._replace(
            precision=found.precision / np.outer(units, units), moments=found.moments / units
        )


class _Rest(NamedTuple):
    """What depends on the variance v of the other features alone, with ``A = I + v Phi Phi'``."""

    total: Floats  # sum of Phi' A^-1 Phi, (o, o)
    sides: Floats  # Phi' A^-1 [c y], (T, o, k + 1)
    corners: Floats  # [c y]' A^-1 [c y], (T, k + 1, k + 1)
    log_determinant: float  # sum of log |A|


class GramVariances:
    """The same from statistics, with one eigendecomposition per task.

    With ``Phi`` the o features that are not set apart, ``c`` the k that are, and
    ``Phi'Phi = Q diag(l) Q'``, all that depends on ``A = I + v Phi Phi'`` is diagonal in ``Q``. The
    covariance of rewards is then ``A + u c c'``, whose inverse takes a (k, k) matrix per task.
    """

    def __init__(
        self, grams: Floats, moments: Floats, squares: Floats, apart: Mask, units: Floats
    ) -> None:
        rest, cut = np.flatnonzero(~apart), np.flatnonzero(apart)
        scaled = moments / units  # (T, d)
        among = grams[:, rest[:, None], rest] / np.outer(units[rest], units[rest])
        across = grams[:, rest[:, None], cut] / np.outer(units[rest], units[cut])
        self._rest, self._cut = rest, cut
        values, self._vectors = np.linalg.eigh(among)
        self._values = np.maximum(values, 0)  # (T, o)
        sides = np.concatenate([across, scaled[:, rest, None]], axis=2)
        self._sides = self._vectors.transpose(0, 2, 1) @ sides  # (T, o, k + 1)
        k = len(cut)
        self._corners = np.empty((len(grams), k + 1, k + 1))
        self._corners[:, :k, :k] = grams[:, cut[:, None], cut] / np.outer(units[cut], units[cut])
        self._corners[:, :k, k] = self._corners[:, k, :k] = scaled[:, cut]
        self._corners[:, k, k] = squares
        self._known: dict[float, _Rest] = {}

    def at(self, apart: float, rest: float) -> Marginal:
        """Return the sums."""
        if rest not in self._known:
            self._known[rest] = self._with_rest(rest)
        total, sides, corners, log_determinant = self._known[rest]
        o, k = len(self._rest), len(self._cut)
        M = np.eye(k) + apart * corners[:, :k, :k]
        F = apart * np.linalg.inv(M)
        both = np.concatenate([sides, corners], axis=1)  # (T, o + k + 1, k + 1)
        U = np.empty((o + k + 1, o + k + 1))
        U[:o, :o], U[:, o:] = total, both.sum(axis=0)
        U[o:, :o] = U[:o, o:].T
        columns = both[:, :, :k]
        U -= np.tensordot(columns @ F, columns, axes=([0, 2], [0, 2]))
        order = np.argsort(np.r_[self._rest, self._cut])
        return Marginal(
            precision=U[np.ix_(order, order)],
            moments=U[order, -1],
            square=float(U[-1, -1]),
            log_determinant=log_determinant + float(np.linalg.slogdet(M)[1].sum()),
        )

    def _with_rest(self, v: float) -> _Rest:
        shrink = 1 / (1 + v * self._values)  # (T, o)
        o = self._values.shape[1]
        total = np.zeros((o, o))
        for chunk in chunks(len(shrink), o * o * 8):
            weights = np.sqrt(self._values[chunk] * shrink[chunk])
            roots = (self._vectors[chunk] * weights[:, None, :]).transpose(0, 2, 1)
            stacked = roots.reshape(weights.size, o)
            total += stacked.T @ stacked
        shrunk = shrink[..., None] * self._sides
        corners = self._corners - v * self._sides.transpose(0, 2, 1) @ shrunk
        return _Rest(total, self._vectors @ shrunk, corners, -float(np.log(shrink).sum()))
