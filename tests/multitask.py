"""Tasks that share a low-rank basis, their rows, and the textbook posterior of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared.empirical_bayes import Hyperparameters, Prior, PriorFit, fit_priors
from cobandits.policies.shared.row_store import RowStore

__all__ = ["ALONE", "SHARED", "drawn", "fitted", "normal_equations", "rows", "stored"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


ALONE, SHARED = Hyperparameters(shared=False), Hyperparameters(shared=True)


def fitted(
    store: RowStore,
    times: int = 1,
    *,
    least_noise: float | None = None,
    noise: float | None = None,
) -> PriorFit:
    """Return a fit that started from vague priors, and was repeated some times."""
    fit = fit_priors(store, None, ALONE, least_noise=least_noise, noise=noise)
    for _ in range(times - 1):
        start = fit.following(SHARED)
        fit = fit_priors(store, start, ALONE, least_noise=least_noise, noise=noise)
    return fit


def drawn(
    *, d: int = 5, T: int = 8, n: int = 6, rank: int = 2, noise: float = 0.3, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Draw features, (T, n, d), rewards, (T, n), and the thetas behind them, (d, T)."""
    rng = np.random.default_rng(seed)
    Theta = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, T))
    Phi = rng.standard_normal((T, n, d))
    y = np.einsum("tnd,dt->tn", Phi, Theta) + noise * rng.standard_normal((T, n))
    return Phi, y, Theta


def rows(Phi: Floats, y: Floats) -> Doubles:
    """Return rows ``[phi, 1, y]``, (T, n, d + 2)."""
    return np.concatenate([Phi, np.ones((*y.shape, 1)), y[..., None]], axis=2, dtype=np.float64)


def stored(Phi: Floats, y: Floats) -> RowStore:
    """Return a store that was given a row of every task at a time."""
    T, n, d = Phi.shape
    store, F = RowStore.empty(n_tasks=T, dim=d), rows(Phi, y)
    for i in range(n):
        store = store.added(np.arange(T), F[:, i]).compressed(2 * store.width)
    return store


def normal_equations(Z: Floats, y: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """Return the posterior mean, less the prior mean, and covariance by normal equations."""
    P = np.linalg.inv(np.linalg.inv(prior.covariance) + Z.T @ Z / prior.noise)
    return P @ Z.T @ (y - Z @ prior.center) / prior.noise, P
