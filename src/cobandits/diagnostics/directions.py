"""How many directions tasks share, how strong they are, and the noise that is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate
from cobandits.estimators.base import free_parameters
from cobandits.estimators.lowrank import LowRank
from cobandits.tasks import TaskData

__all__ = ["Spectrum", "spectrum"]

Floats = NDArray[np.floating]

_MORE_DIRECTIONS = 4  # in a spectrum, beyond the rank
_ROUGH = 1e-4  # tolerance of the fit that only shows singular values
_LARGEST_SHARE = 0.9  # most parameters per row


@dataclass(frozen=True, kw_only=True, eq=False)
class Spectrum:
    """The strength of the directions that tasks share, and the noise that is left."""

    singular_values: Floats  # of theta fitted at a generous rank, falling
    rank: int  # chosen, or given
    noise_std: float  # NaN where there are not more rows than parameters

    @property
    def energy(self) -> Floats:
        """The share of each direction in ``|Theta|_F^2``; zeros if theta is zero."""
        squares = self.singular_values**2
        return squares / (squares.sum() or 1.0)

    def __str__(self) -> str:
        shares = ", ".join(f"{share:.1%}" for share in self.energy)
        return f"rank {self.rank}, energy by direction {shares}; noise std {self.noise_std:.3g}"


def spectrum(tasks: TaskData, rank: int | None = None, *, fit: Estimate | None = None) -> Spectrum:
    """Return the singular values of theta beyond its rank, and the noise at its rank.

    Both come from :class:`LowRank` with ``ridge="auto"``, which keeps the weights of tasks with
    few rows bounded. The singular values are those of a fit at a rank up to 4 above ``rank``
    with fewer parameters than 0.9 times the rows: if the rank is right, those after it are at
    the level of noise. They depend on the units of the features. The noise std is
    ``sqrt(residuals / (n - p))`` at ``rank``, with ``p = r (d - r) + sum_t min(r, n_t)``
    parameters.

    Parameters
    ----------
    tasks
        Rows or statistics.
    rank : int, optional
        By default the one of :meth:`LowRank.choose_rank`.
    fit : Estimate, optional
        A fit of these tasks with ``rank``, so that none is made.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=0.1).problem(n_rows=40, seed=1)
    >>> found = spectrum(problem.tasks)
    >>> found.rank, len(found.singular_values), round(found.noise_std, 2)
    (2, 6, 0.1)
    """
    if fit is None:
        fit = LowRank(rank="auto" if rank is None else rank, ridge="auto").fit(tasks)
    residuals = float(tasks.residuals(fit.theta)[1].sum())
    spare = tasks.n_rows - free_parameters(tasks, fit.rank)
    return Spectrum(
        singular_values=_generous(tasks, fit).singular_values,
        rank=fit.rank,
        noise_std=float(np.sqrt(residuals / spare)) if spare > 0 else float("nan"),
    )


def _generous(tasks: TaskData, fit: Estimate) -> Estimate:
    """Return a fit with more directions than ``fit``, if there are rows for them."""
    rank = _generous_rank(tasks, fit.rank)
    if rank == fit.rank:
        return fit
    return LowRank(rank=rank, ridge="auto", tolerance=_ROUGH).fit(tasks)


def _generous_rank(tasks: TaskData, rank: int) -> int:
    """Return a rank up to 4 above ``rank`` whose parameters are below 0.9 of the rows."""
    most = min(rank + _MORE_DIRECTIONS, tasks.dim, tasks.n_tasks)
    room = _LARGEST_SHARE * tasks.n_rows
    return max((r for r in range(rank, most + 1) if free_parameters(tasks, r) < room), default=rank)
