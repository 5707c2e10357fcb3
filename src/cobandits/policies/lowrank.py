"""The paper's policy and similar ones: greedy, and refitted when an epoch ends."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, Estimator, MethodOfMoments, TraceNorm
from cobandits.policies.refitted import Refitted
from cobandits.policies.schedules import Schedule
from cobandits.tasks import TaskRows

__all__ = ["LRRL", "Moments", "TraceNormGreedy"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_MOST = 2000  # most iterations of a fit, the paper's L
_GAP = 1e-4  # tolerance of the duality gap: decides as 1e-6 does, in two thirds of the time


class LRRL(Refitted):
    """Algorithm 1 of the paper, LRRL-AltGDMin, with any estimator.

    In an epoch every task takes the best arm by the theta that was fitted at the end of the epoch
    before. In the first epoch theta is 0, so all arms are equally good. When an epoch ends, theta
    is fitted to the rows of that epoch, starting from the last basis (lines 6 to 15). A task
    without rows in an epoch keeps its theta.

    Parameters
    ----------
    schedule : Schedule
        When epochs end.
    rank : int
        Columns of the basis, if no estimator is given.
    estimator : Estimator, optional
        If not given, AltGDMin of this rank, with at most the paper's L = 2000 iterations.
    memory : "epoch" or "all"
        Fit to the last epoch's rows alone, as the paper does, or to all rows so far.
    basis : "refitted" or "fixed"
        Fit basis and weights at the end of every epoch, as the paper does; or the basis after the
        first epoch alone and then, by least squares in it, only the weights.
    """

    name: ClassVar[str] = "lrrl"
    default_schedule: ClassVar[str | None] = "equal-4"

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int,
        schedule: Schedule,
        rank: int = 1,
        estimator: Estimator | None = None,
        memory: Literal["epoch", "all"] = "epoch",
        basis: Literal["refitted", "fixed"] = "refitted",
    ) -> None:
        if basis not in ("refitted", "fixed"):
            raise ConfigurationError(f"basis must be 'refitted' or 'fixed', got {basis!r}")
        self.rank, self.basis = rank, basis
        super().__init__(
            dim=dim,
            n_tasks=n_tasks,
            schedule=schedule,
            estimator=self._default_estimator() if estimator is None else estimator,
            memory=memory,
        )

    def _default_estimator(self) -> Estimator:
        return AltGDMin(rank=self.rank, iterations=_MOST)

    def _fitted(self, rows: TaskRows) -> Estimate:
        if self._estimate is None or self.basis == "refitted":
            return super()._fitted(rows)
        B = self._estimate.basis
        weights = rows.least_squares(B).weights
        return replace(self._estimate, weights=weights, labels=rows.labels)


class Moments(LRRL):
    """Explore, then commit (Yang et al. 2020): one fit, by the method of moments.

    That is so for a schedule of one epoch; with more it fits again whenever one ends.
    """

    name: ClassVar[str] = "moments"
    default_schedule: ClassVar[str | None] = "first-4"

    def _default_estimator(self) -> Estimator:
        return MethodOfMoments(rank=self.rank)


class TraceNormGreedy(Refitted):
    """Greedy with the trace-norm relaxation (Cella et al. 2023), which needs no rank.

    Parameters
    ----------
    schedule, memory
        As in :class:`LRRL`.
    noise_std : float, optional
        Standard deviation of the noise, from which the penalty follows; estimated if not given.
    """

    name: ClassVar[str] = "tracenorm"
    default_schedule: ClassVar[str | None] = "equal-4"

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int,
        schedule: Schedule,
        noise_std: float | None = None,
        memory: Literal["epoch", "all"] = "epoch",
    ) -> None:
        super().__init__(
            dim=dim,
            n_tasks=n_tasks,
            schedule=schedule,
            estimator=TraceNorm(noise_std=noise_std, iterations=_MOST, tolerance=_GAP),
            memory=memory,
        )
