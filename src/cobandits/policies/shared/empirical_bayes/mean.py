"""The mean that the thetas of all tasks have in common, as far as there is evidence of one.

With ``theta_t ~ N(m, C)`` and ``m ~ N(0, k S)``, all rewards say ``G m = g``, and the mean is
``(G + (k S)^-1)^-1 g``: generalised least squares, shrunken by k. Two shapes S are tried: C, where
the mean is one more draw of what tasks have of their own, and I, where tasks hardly differ and C
says nothing of the mean. Where tasks have no mean in common, any k above 0 would fit noise, above
all with fewer tasks than features. So the mean is averaged over shapes and k with the likelihood of
the rewards as weights. That there is none has a weight too, and more of it while there are few
tasks: a mean with little evidence is next to 0, but says already which arms are better for a task
that nothing else is known of. What is not known of the mean is unknown of every task.

Where rewards have no offset, the intercept is one of the mean's coordinates: else arms that nobody
has tried would be predicted by what centred features leave of the others, which may be anything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config

__all__ = ["CommonMean", "common_mean"]

Doubles = NDArray[np.float64]


class CommonMean(NamedTuple):
    """The mean of all thetas, and its posterior covariance."""

    mean: Doubles  # (p,)
    covariance: Doubles  # (p, p)

    @classmethod
    def none(cls, p: int) -> CommonMean:
        """Return a mean of 0 that counts as known."""
        return cls(np.zeros(p), np.zeros((p, p)))

    def with_known_intercept(self) -> CommonMean:
        """Return the mean with one more coordinate, which is known to be 0."""
        return CommonMean(np.append(self.mean, 0.0), np.pad(self.covariance, (0, 1)))


class _Shape(NamedTuple):
    """A shape ``S = R R'`` of the mean's covariance, decomposed with what rewards say, ``R'GR``."""

    values: Doubles  # (p,), eigenvalues l of R'GR
    basis: Doubles  # (p, p), R times its eigenvectors

    @classmethod
    def of(cls, R: Doubles, G: Doubles) -> _Shape:
        """Decompose ``R'GR``."""
        values, vectors = np.linalg.eigh(R.T @ G @ R)
        return cls(np.maximum(values, 0), R @ vectors)


class _Candidates(NamedTuple):
    """Posteriors of the mean under ``m ~ N(0, k S)``, for every k that is tried."""

    evidence: Doubles  # (k,), log of the likelihood ratio to no mean at all
    means: Doubles  # (k, p)
    variances: Doubles  # (k, p), in the basis
    basis: Doubles  # (p, p), in which all covariances are diagonal

    def around(self, mean: Doubles, weights: Doubles) -> Doubles:
        """Return the weighted sum of second moments around a mean, (p, p)."""
        apart = self.means - mean
        known = (apart.T * weights) @ apart
        return np.asarray(known + (self.basis * (weights @ self.variances)) @ self.basis.T)


def common_mean(C: Doubles, G: Doubles, g: Doubles, *, n_tasks: int) -> CommonMean:
    """Return the mean of all thetas under their covariance, averaged over what it may be.

    Parameters
    ----------
    C : (p, p)
        The covariance of thetas.
    G : (p, p)
        The sum of ``Z_t' K_t^-1 Z_t`` over tasks, with ``K_t`` the covariance of their rewards.
    g : (p,)
        The sum of ``Z_t' K_t^-1 y_t``, without the offset.
    n_tasks : int
        With as many as coordinates or fewer, a mean needs ``MEAN_EVIDENCE``. One task has none.
    """
    if n_tasks == 1:
        return CommonMean.none(len(g))
    tried = [_candidates(shape, g) for shape in _shapes(C, G)]
    evidence = np.array([one.evidence for one in tried])  # (2, k)
    least = config.MEAN_EVIDENCE / 2 if n_tasks <= len(g) else 0.0
    none = np.log(evidence.size) + least  # as likely at first as all others, or more so
    shares = np.exp(np.append(evidence, none) - max(none, evidence.max()))
    shares /= shares.sum()
    weights = shares[:-1].reshape(evidence.shape)
    mean = np.sum([w @ one.means for w, one in zip(weights, tried, strict=True)], axis=0)
    covariance = shares[-1] * np.outer(mean, mean)
    covariance += sum(one.around(mean, w) for w, one in zip(weights, tried, strict=True))
    return CommonMean(mean, (covariance + covariance.T) / 2)


def _shapes(C: Doubles, G: Doubles) -> tuple[_Shape, _Shape]:
    """Return both shapes of the mean's covariance, that of thetas and the isotropic one."""
    values, vectors = np.linalg.eigh(G)
    isotropic = _Shape(np.maximum(values, 0), vectors)
    if np.count_nonzero(C) == len(C) and (C.diagonal() == C[0, 0]).all():  # it is isotropic too
        return _Shape(C[0, 0] * isotropic.values, np.sqrt(C[0, 0]) * isotropic.basis), isotropic
    return _Shape.of(_root(C), G), isotropic


def _candidates(shape: _Shape, g: Doubles) -> _Candidates:
    """Return what the mean may be under ``m ~ N(0, k R R')``.

    In the eigenbasis of ``R'GR`` with eigenvalues l, and with ``b = R'g`` in it, the log of the
    evidence is half of ``sum_i [b_i^2 k / (1 + k l_i) - log(1 + k l_i)]``. Were all l the same,
    ``mean(b^2) / l^2`` would be about the mean square of m.
    """
    values, basis = shape
    b = basis.T @ g
    size = values.mean() ** 2  # 0 too where it underflows
    unit = np.mean(b**2) / size if size > 0 else 0.0
    scales = unit * np.array(config.MEAN_SCALES)[:, None]
    variances = scales / (1 + scales * values)
    evidence = (b**2 * variances - np.log1p(scales * values)).sum(axis=1) / 2
    return _Candidates(evidence, (variances * b) @ basis.T, variances, basis)


def _root(C: Doubles) -> Doubles:
    """Return a root R of a semidefinite matrix, ``R R' = C``."""
    try:
        return np.asarray(np.linalg.cholesky(C))  # a twentieth of the time of the other
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(C)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))
