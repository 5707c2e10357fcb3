"""One participant: tasks whose rows stay here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.estimate import Estimate
from cobandits.federated.messages import Answer, Ask
from cobandits.federated.privacy import Privacy
from cobandits.linalg import orthonormal
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskData

__all__ = ["Node"]

Floats = NDArray[np.floating]

# Of the matrix beside the gradient, where both are clipped together. Only its largest eigenvalue is
# used, for the length of a step, so it may have more noise.
_WEIGHT = 0.1


class Node:
    """The tasks of one participant, and what it tells of them.

    It answers for one rank only, and only if at least rank + 1 of its tasks have rows. A gradient
    of fewer tasks has a rank below that of the basis, and from it and the (r, r) matrix thetas
    could be told: with one task exactly.

    Parameters
    ----------
    tasks
        Rows or statistics; they stay here.
    rank : int
        Columns of the basis.
    privacy : Privacy, optional
        Differential privacy per task. Without it sums are exact, and what they say of single tasks
        is not bounded.
    rng
        Of the noise; a secret of the node.
    """

    def __init__(
        self,
        tasks: TaskData,
        *,
        rank: int,
        privacy: Privacy | None = None,
        rng: RandomSource = None,
    ) -> None:
        active = int((tasks.counts > 0).sum())
        if active < rank + 1:
            raise DataError(
                f"a node needs at least rank + 1 = {rank + 1} tasks with rows, so that no theta "
                f"can be told from its sums, got {active}; add tasks, or join another node's"
            )
        self._tasks, self._rank, self._privacy = tasks, rank, privacy
        self._rng = generator(rng)

    def answer(self, ask: Ask) -> Answer:
        """Return the sums that a step needs; refuse a basis of another shape."""
        expected = (self._tasks.dim, self._rank)
        if ask.basis.shape != expected or not np.isfinite(ask.basis).all():
            raise DataError(
                f"this node answers for a finite basis {expected}, got {ask.basis.shape}"
            )
        B = np.asarray(ask.basis, np.float64)
        return self._product(B) if ask.kind == "start" else self._step(orthonormal(B))

    def estimate(self, basis: Floats) -> Estimate:
        """Return the estimate of the tasks here, with this basis; it is the node's own."""
        fit = self._tasks.least_squares(basis)
        return Estimate(basis=basis, weights=fit.weights, labels=self._tasks.labels)

    def _product(self, Q: Floats) -> Answer:
        """Return ``M M' Q`` with ``M = [Phi_t' y_t / n_t]_t`` (Algorithm 2)."""
        M = self._tasks.moments() / np.maximum(self._tasks.counts, 1)  # (d, T)
        P = Q.T @ M  # (r, T)
        unused = np.zeros((self._rank, self._rank))
        if self._privacy is None:
            return Answer(M @ P.T, unused)
        lengths = np.linalg.norm(M, axis=0) * np.linalg.norm(P, axis=0)
        shares = self._privacy.shares(lengths)
        return Answer(self._privacy.noisy((M * shares) @ P.T, self._rng), unused)

    def _step(self, B: Floats) -> Answer:
        """Return the gradient and ``W diag(n) W'`` (lines 6 to 8 of Algorithm 3)."""
        fit = self._tasks.least_squares(B)
        if self._privacy is None:
            return Answer(fit.gradient, fit.weighted)
        W = fit.weights
        R = self._tasks.residuals(B @ W)[0] / np.maximum(self._tasks.counts, 1)  # (d, T)
        sizes = np.linalg.norm(W, axis=0)
        shares = self._privacy.shares(np.linalg.norm(R, axis=0) * sizes, _WEIGHT * sizes**2)
        gradient = self._privacy.noisy((R * shares) @ W.T, self._rng)
        weighted = self._privacy.noisy(_WEIGHT * (W * shares) @ W.T, self._rng) / _WEIGHT
        return Answer(gradient, (weighted + weighted.T) / 2)
