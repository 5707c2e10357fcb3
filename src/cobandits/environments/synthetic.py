"""The synthetic tasks of section 6 of the paper, and harder ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.linalg import orthonormal
from cobandits.randomness import stream
from cobandits.tasks import TaskRows

__all__ = ["Problem", "Synthetic"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Rows of many tasks, and the truth that they were drawn from."""

    tasks: TaskRows
    basis: Floats  # B*, (d, r)
    weights: Floats  # W*, (r, T)
    noise_std: float

    @property
    def theta(self) -> Floats:
        """``B* W*``, (d, T)."""
        return self.basis @ self.weights


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Tasks with a common basis, as in section 6 of the paper.

    ``B*`` is an orthonormalised Gaussian matrix, ``W*`` and the features are standard
    Gaussian. The paper gives the noise as "variance 1e-6", a standard deviation of 1e-3.

    Parameters
    ----------
    condition : float, optional
        Spread the singular values of theta geometrically, from the largest of ``W*``
        down to that over ``condition``.
    correlation : float
        Features j and k have correlation ``correlation ** |j - k|``.
    shift : float
        Size of the features' common mean, relative to their standard deviation.

    Examples
    --------
    >>> problem = Synthetic(dim=10, n_tasks=4, rank=2).problem(n_rows=5, seed=0)
    >>> problem.theta.shape, problem.tasks.n_rows
    ((10, 4), 20)
    """

    dim: int
    n_tasks: int
    rank: int
    noise_std: float = 1e-3
    condition: float | None = None
    correlation: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= min(self.dim, self.n_tasks):
            raise ConfigurationError(
                f"rank must be from 1 to min(dim, tasks) = {min(self.dim, self.n_tasks)}, "
                f"got {self.rank}"
            )
        if not 0 <= self.noise_std < np.inf:
            raise ConfigurationError(f"noise-std must be finite and >= 0, got {self.noise_std}")
        if self.condition is not None and not 1 <= self.condition < np.inf:
            raise ConfigurationError(f"condition must be finite and >= 1, got {self.condition}")
        if not np.isfinite(self.shift):
            raise ConfigurationError(f"shift must be finite, got {self.shift}")
        if not 0 <= self.correlation < 1:
            raise ConfigurationError(f"correlation must be in [0, 1), got {self.correlation}")

    def problem(self, *, n_rows: int, seed: int, trial: int = 0, unequal: bool = False) -> Problem:
        """Draw the tasks and ``n_rows`` rows of each; the same for the same seed and trial.

        With ``unequal``, a task has from 0.2 to 1.8 times ``n_rows``.
        """
        if n_rows < 1:
            raise ConfigurationError(f"rows must be at least 1, got {n_rows}")
        B, W = self._truth(stream(seed, "truth", trial))
        rng = stream(seed, "rows", trial)
        counts = np.full(self.n_tasks, n_rows)
        if unequal:
            drawn = rng.uniform(0.2 * n_rows, 1.8 * n_rows, self.n_tasks)
            counts = np.maximum(1, np.rint(drawn).astype(np.int64))
        features = self._features(int(counts.sum()), rng)
        owners = np.repeat(np.arange(self.n_tasks), counts)
        rewards = np.einsum("nr,rn->n", features @ B, W[:, owners])
        rewards += self.noise_std * rng.standard_normal(len(rewards))
        tasks = TaskRows.from_arrays(features, rewards, owners)
        return Problem(tasks=tasks, basis=B, weights=W, noise_std=self.noise_std)

    def _truth(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        B = orthonormal(rng.standard_normal((self.dim, self.rank)))
        W = rng.standard_normal((self.rank, self.n_tasks))
        if self.condition is not None:
            U, s, Vt = np.linalg.svd(W, full_matrices=False)
            W = U * (s[0] * np.geomspace(1, 1 / self.condition, self.rank)) @ Vt
        return np.asarray(B, np.float64), W

    def _features(self, n_rows: int, rng: np.random.Generator) -> Floats:
        """Draw rows one coordinate after the other, each correlated with the one before."""
        features = rng.standard_normal((n_rows, self.dim))
        fresh = np.sqrt(1 - self.correlation**2)
        if self.correlation:
            for j in range(1, self.dim):
                features[:, j] *= fresh
                features[:, j] += self.correlation * features[:, j - 1]
        if self.shift:
            features += self.shift * rng.standard_normal(self.dim)
        return features
