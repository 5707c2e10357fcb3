"""Leave-one-out errors of ridge regression, without fitting again for each row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy  # its parts are loaded when they are first used

from cobandits.kernels import chunks
from cobandits.tasks.checks import Floats

__all__ = ["ridge_errors"]


def ridge_errors(Phi: Floats, y: Floats, penalties: Floats) -> Floats:
    """Return the sum of squared leave-one-out errors for each penalty, (len(penalties),).

    With the hat matrix ``H = Phi (Phi'Phi + penalty I)^-1 Phi'`` the error of row i is
    ``(y - H y)_i / (1 - H_ii)``.

    >>> float(ridge_errors(np.ones((2, 1)), np.array([1.0, 3.0]), np.zeros(1))[0])
    8.0
    """
    totals = np.zeros(len(penalties))
    for e, slack in _residuals(np.asarray(Phi, np.float64), np.asarray(y, np.float64), penalties):
        totals += np.sum((e / slack) ** 2, axis=1)
    return totals


def _residuals(Phi: Floats, y: Floats, penalties: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield ``y - H y`` and ``1 - diag(H)`` for chunks of the rows, (penalty, row) each.

    Both come from the eigenvectors of the smaller Gram matrix. With ``Phi Phi'`` both are
    multiplied by ``1 / penalty``, so that no digits are lost at small penalties.
    """
    n, d = Phi.shape
    if n < d:
        values, Q = scipy.linalg.eigh(Phi @ Phi.T, overwrite_a=True)
        inverses = 1 / (np.maximum(values, 0) + penalties[:, None])  # (penalty, n)
        yield (inverses * (y @ Q)) @ Q.T, inverses @ (Q**2).T
        return
    values, V = scipy.linalg.eigh(Phi.T @ Phi, overwrite_a=True)  # needs less memory
    inverses = 1 / (np.maximum(values, 0) + penalties[:, None])  # (penalty, d)
    coordinates = inverses * (y @ Phi @ V)
    for chunk in chunks(n, (d + len(penalties)) * Phi.itemsize):
        A = Phi[chunk] @ V  # (chunk, d)
        slack = 1 - inverses @ (A**2).T
        yield y[chunk] - coordinates @ A.T, np.maximum(slack, np.finfo(np.float64).eps)
