"""The policy that learns what tasks have in common: a slow shared prior and fast heads."""

from __future__ import annotations

import copy
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate, Status
from cobandits.kernels import blocks
from cobandits.linalg import factor
from cobandits.policies.base import Clock, Policy
from cobandits.policies.choice import greedy
from cobandits.posteriors import Posteriors
from cobandits.priors import Prior, improved
from cobandits.schedules import GrowingEpochs, Schedule
from cobandits.tasks import TaskStatistics

__all__ = ["Shared"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_ITERATIONS = 5  # of the prior, whenever an epoch ends


class Shared(Policy):
    """Greedy, with a prior for all tasks that is learned from all of them.

    A task's theta has a Gaussian posterior that is updated after every reward. The prior is that
    of :mod:`cobandits.priors`: it is learned from all rows so far whenever an epoch ends, and
    epochs grow, so neither a rank nor a ridge nor a horizon is needed. Where tasks
    have nothing in common, the prior has no preferred direction, and each task is a ridge
    regression of its own. An intercept is learned too. Of all rows only sums are kept.

    Parameters
    ----------
    schedule : Schedule, optional
        When the prior is learned again; growing epochs if not given.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> policy, arms = Shared(dim=3, n_tasks=2), rng.standard_normal((2, 4, 3))
    >>> decisions = policy.decide([0, 1], arms, rng)
    >>> policy.learn([0, 1], arms, decisions, rewards=[1.0, 2.0])
    """

    name: ClassVar[str] = "shared"

    def __init__(self, *, dim: int, n_tasks: int, schedule: Schedule | None = None) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        growing = GrowingEpochs(first=2, factor=1.25)
        self._clock = Clock(n_tasks, growing if schedule is None else schedule)
        self._sums = TaskStatistics(dim + 1)
        self._fresh: list[tuple[Codes, Floats, Floats]] = []  # rows of this epoch
        self.prior: Prior | None = None
        self._heads = Posteriors(n_tasks=n_tasks, dim=dim + 1, ridge=1.0)

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        z = self._whitened(_with_intercept(arms))
        return greedy(np.einsum("mkd,md->mk", z, self._heads.means[tasks]))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if not len(tasks):
            return
        X = _with_intercept(rows)
        if self._clock.ends_with(tasks):
            self._refit([*self._fresh, (tasks, X, rewards)])
            self._fresh = []
        else:
            std = 1.0 if self.prior is None else float(np.sqrt(self.prior.noise))
            self._heads.learn(tasks, self._whitened(X) / std, rewards / std)
            self._fresh.append((tasks.copy(), X, rewards.copy()))
        self._clock.count(tasks)

    def _whitened(self, features: Floats) -> Floats:
        """Return features for which the prior of the weights is N(0, I)."""
        return features if self.prior is None else features @ self.prior.root

    def _refit(self, fresh: list[tuple[Codes, Floats, Floats]]) -> None:
        """Learn the prior from all rows, and every task's posterior under it; all or nothing."""
        sums = copy.deepcopy(self._sums)
        tasks, X, rewards = (np.concatenate(parts) for parts in zip(*fresh, strict=True))
        sums.add(X, rewards, tasks)
        prior = improved(sums, self.prior, iterations=_ITERATIONS)
        heads = Posteriors(n_tasks=self.n_tasks, dim=self.dim + 1, ridge=1.0)
        seen = np.array(sums.labels)
        for block in blocks(sums.n_tasks, 3 * (self.dim + 1) ** 2 * 8):
            precisions = prior.precisions(sums.grams[block])
            heads.settle(seen[block], precisions, prior.whitened(sums.moments().T[block]))
        self._sums, self.prior, self._heads = sums, prior, heads
        self.estimate = self._estimated()

    def _estimated(self) -> Estimate:
        """Return the thetas of all tasks, without the intercept."""
        assert self.prior is not None
        Theta = (self._heads.means @ self.prior.root.T)[:, :-1].T  # (d, T)
        basis, weights = factor(Theta)
        done = Status(outcome="converged", message="prior learned", iterations=_ITERATIONS)
        return Estimate(
            basis=basis, weights=weights, labels=tuple(range(self.n_tasks)), status=done
        )


def _with_intercept(features: Floats) -> Floats:
    """Return features with one more that is 1."""
    wider = np.ones((*features.shape[:-1], features.shape[-1] + 1))
    wider[..., :-1] = features
    return wider
