"""The theta and the posterior of every task under the shared prior."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.fast_checks import are_at_most, is_plain
from cobandits.policies.gaussian import COMPILED, SQUARE_LIMIT, TOO_LARGE, GaussianPosteriors
from cobandits.policies.shared import config, exploration_config
from cobandits.policies.shared.beliefs import Beliefs, neglected_arms, worth_trying
from cobandits.policies.shared.empirical_bayes import DecomposedPrior, TaskBlock, task_blocks
from cobandits.policies.shared.reader import Part, Reader, refused
from cobandits.policies.shared.reduced import (
    Learned,
    affordable_directions,
    basis_of,
    useful_directions,
)
from cobandits.policies.shared.row_store import RowStore

if COMPILED:
    from cobandits.compiled import _posterior

__all__ = ["BatchPosterior", "PosteriorPart", "TaskPosteriors"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class PosteriorPart(NamedTuple):
    """Posteriors of some tasks, learned in all directions."""

    tasks: Codes  # (b,)
    thetas: Doubles  # (b, d + 1)
    learned: Learned


class BatchPosterior:
    """Posteriors of tasks from all of their rows, in as many directions as there is memory for.

    For few tasks these are all directions of the prior. For very many the narrowest are left out,
    and what is unknown in them counts as noise. ``[phi, 1] root`` are the features whose weights
    have the prior ``N(0, I)``.
    """

    def __init__(self, *, prior: DecomposedPrior, directions: int) -> None:
        self.prior, self.dim = prior, directions
        self.noise = prior.noise + prior.residual_variance(directions)
        self.root = prior.root(directions)  # (d + 1, Q)
        self._whitening = L = prior.whitening(directions)  # (p, Q)
        self.second_moment = L.T @ prior.feature_second_moment @ L  # of a typical arm, (Q, Q)

    def whitened(self, block: TaskBlock) -> tuple[Doubles, Doubles]:
        """Return features in all directions, (m, n, Q), and rewards, (m, n), with noise 1."""
        std = np.sqrt(self.noise)
        residuals = block.rewards - block.features @ self.prior.center
        return block.features @ (self._whitening / std), residuals / std

    @cached_property
    def weights_of_theta(self) -> Doubles:
        """The matrix from thetas, less the prior mean, to weights of the features, (Q, d + 1).

        Where some directions are left out, the weights are those of the regression on the features:
        they include what is predicted of features in the other directions.
        """
        prior = self.prior
        if self.dim == prior.coordinates.dim:
            widths = np.sqrt(prior.variances[-self.dim :])
            return np.asarray(prior.to_directions[-self.dim :] / widths[:, None])
        across = self._whitening.T @ prior.feature_second_moment  # (Q, p)
        weights = np.linalg.lstsq(self.second_moment, across, rcond=config.CORRELATION_CUTOFF)[0]
        return np.asarray(weights @ np.linalg.pinv(prior.coordinates.matrix))

    def thetas(self, deviations: Doubles) -> Doubles:
        """Return thetas with the intercept, (m, d + 1), of weights in all directions, (m, Q)."""
        return np.asarray(deviations @ self.root.T + self.prior.theta)


class TaskPosteriors:
    """Thetas of all tasks, and their posteriors in the widest directions of the prior.

    Thetas are learned from all rows, in all directions, at every refit and when a task has had
    half as many rewards again. In between, rewards move them in the basis alone. It has the widest
    directions of the prior: twice as many as tasks share and eight more, or all of them where
    tasks share none. Until the next refit, what is unknown outside of the basis counts as noise.
    A theta is kept besides its weights in the basis, since decisions are far faster with it.
    """

    def __init__(
        self,
        *,
        n_tasks: int,
        prior: DecomposedPrior,
        directions: int | None = None,
        most: int | None = None,
    ) -> None:
        most = affordable_directions(n_tasks, prior.coordinates.dim) if most is None else most
        q = useful_directions(prior.rank, most) if directions is None else directions
        self.prior, self.batch = prior, BatchPosterior(prior=prior, directions=max(q, most))
        self.basis = basis_of(self.batch.root, self.batch.second_moment, q)
        self.directions = self.basis.directions  # (q, d + 1)
        self.weights = GaussianPosteriors(n_tasks=n_tasks, dim=q, ridge=1.0)
        self.thetas: Doubles = np.tile(prior.theta, (n_tasks, 1))  # with the intercept
        # Variances of what the basis does not explain: noise, and what is unknown outside of it.
        self._prior_noise = self.batch.noise + self.basis.residual_variance
        self.noises: Doubles = np.full(n_tasks, self._prior_noise)
        self.residual_variance = float(self._prior_noise - prior.noise)  # before any reward

    @classmethod
    def of(
        cls, store: RowStore, prior: DecomposedPrior, blocks: Sequence[TaskBlock] = ()
    ) -> TaskPosteriors:
        """Return the posteriors of all tasks, learned from the rows of a store.

        ``blocks`` are rows of some of the tasks, if these are at hand in the prior's coordinates.
        """
        found = cls(n_tasks=len(store.slots), prior=prior)
        left = store.sizes > 0
        for block in blocks:
            found.set_part(found.learned(store.tasks[block.slots], block))
            left[block.slots] = False
        found.relearn(store, np.flatnonzero(left))
        return found

    def grow(self, n_tasks: int) -> None:
        """Make room for so many tasks in all; new ones have the prior."""
        more = n_tasks - len(self.thetas)
        thetas = np.concatenate([self.thetas, np.tile(self.prior.theta, (more, 1))])
        noises = np.concatenate([self.noises, np.full(more, self._prior_noise)])
        self.weights.grow(n_tasks)
        self.thetas, self.noises = thetas, noises

    def fresh(self, n_tasks: int) -> TaskPosteriors:
        """Return posteriors of so many tasks without rewards, under the same prior."""
        found = copy.copy(self)
        found.thetas = np.tile(self.prior.theta, (n_tasks, 1))
        found.noises = np.full(n_tasks, self._prior_noise)
        found.weights = GaussianPosteriors(n_tasks=n_tasks, dim=self.weights.dim, ridge=1.0)
        return found

    def copy(self) -> TaskPosteriors:
        """Return a copy that later learning does not change."""
        twin, twin_posteriors = copy.copy(self), copy.copy(self.weights)
        twin.thetas, twin.noises = self.thetas.copy(), self.noises.copy()
        twin_posteriors.means = self.weights.means.copy()
        twin_posteriors.roots = self.weights.roots.copy()
        twin_posteriors.log_volumes = self.weights.log_volumes.copy()
        twin.weights = twin_posteriors
        return twin

    def saved(self, n_tasks: int) -> Part:
        """Return what a checkpoint holds of the first tasks, besides the prior."""
        arrays = {
            "thetas": self.thetas,
            "noises": self.noises,
            "means": self.weights.means,
            "roots": self.weights.roots,
            "log_volumes": self.weights.log_volumes,
        }
        first = {name: values[:n_tasks] for name, values in arrays.items()}
        return Part({"all_directions": self.batch.dim}, {"directions": self.directions, **first})

    @classmethod
    def read(cls, reader: Reader, *, n_tasks: int, prior: DecomposedPrior) -> TaskPosteriors:
        """Read what :meth:`saved` returned."""
        directions = reader.doubles("directions", (None, len(prior.coordinates.matrix)))
        if not 0 < len(directions) <= prior.coordinates.dim:
            raise refused(f"{len(directions)} directions, there are {prior.coordinates.dim}")
        most = reader.plain("all_directions")  # None in older files, where it follows from n_tasks
        if most is not None and not len(directions) <= int(most) <= prior.coordinates.dim:
            raise refused(f"{most} as posteriors.all_directions")
        found = cls(n_tasks=n_tasks, prior=prior, directions=len(directions), most=most)
        found.directions = directions
        found.thetas = reader.doubles("thetas", found.thetas.shape)
        found.noises = reader.doubles("noises", found.noises.shape)
        if not found.noises.min(initial=np.inf) >= prior.noise > 0:
            raise refused(f"{found.noises.min()} in noises, the least is {prior.noise}, above 0")
        held = found.weights
        held.means = reader.doubles("means", held.means.shape)
        held.roots = reader.doubles("roots", held.roots.shape)
        held.log_volumes = reader.doubles("log_volumes", held.log_volumes.shape)
        return found

    @property
    def is_reduced(self) -> bool:
        """Whether thetas have parts outside of the basis, which only :meth:`relearn` moves."""
        return self.weights.dim < self.batch.dim

    def relearn(self, store: RowStore, slots: Codes) -> None:
        """Learn the thetas of some slots in all directions, from all of their rows in the store."""
        for part in self.relearned(store, slots):
            self.set_part(part)

    def relearned(self, store: RowStore, slots: Codes) -> Iterator[PosteriorPart]:
        """Yield what :meth:`relearn` sets, for a few tasks at a time; nothing changes yet."""
        order = slots[np.argsort(-store.sizes[slots], kind="stable")]
        for block in task_blocks(store, order, self.prior.coordinates):
            yield self.learned(store.tasks[block.slots], block)

    def learned(self, tasks: Codes, block: TaskBlock) -> PosteriorPart:
        """Return the posteriors of tasks from the rows of a block, in the same order."""
        learned = self.basis.learn(*self.batch.whitened(block))
        return PosteriorPart(tasks, self.batch.thetas(learned.deviations), learned)

    def set_part(self, part: PosteriorPart) -> None:
        """Set the posteriors of some tasks."""
        tasks, learned = part.tasks, part.learned
        self.thetas[tasks] = part.thetas
        self.weights.means[tasks] = learned.means
        self.weights.roots[tasks] = learned.roots
        self.weights.log_volumes[tasks] = learned.log_volumes
        self.noises[tasks] = self.batch.noise + learned.residual_variances

    def values(self, tasks: Codes, arms: Floats) -> Doubles:
        """Return the expected rewards of the arms, (m, K), up to a constant per task."""
        return np.asarray(np.einsum("mkd,md->mk", arms, self.thetas[tasks, :-1]))

    def greedy(
        self, tasks: Codes, arms: Floats, counts: Codes, seen: int, highest: float
    ) -> tuple[Codes, bool]:
        """Return the best arm of each request, (m,), or -1 where arms may have to be sampled.

        That is where a task has no rewards, or where greedy decisions neglect an arm that is worth
        trying. Of arms that are equally good the first is taken. The second result tells whether
        any is -1.

        Parameters
        ----------
        counts : (T,)
            Rewards per task, of all tasks.
        seen : int
            Rewards of all tasks.
        highest : float
            Highest reward so far.
        """
        if COMPILED:
            chosen = np.empty(len(tasks), np.int64)
            phi = arms if is_plain(arms) else np.ascontiguousarray(arms, np.float64)
            left = _posterior.greedy(
                *(self.weights.roots, self.thetas, self.noises, self.directions),
                *(counts, tasks, phi, chosen),
                *(exploration_config.REPEAT_RATIO, self.prior.noise, self.residual_variance),
                *(highest, seen),
            )
            return chosen, left > 0
        beliefs, n = self.beliefs(tasks, arms), counts[tasks]
        variances, tops = beliefs.variances, highest - self.thetas[tasks, -1]
        tried = worth_trying(beliefs.values, variances, n, tops)
        tried &= neglected_arms(beliefs, variances, np.minimum(1, n / max(1, seen)))
        left = (n == 0) | tried.any(axis=1)
        return np.where(left, -1, beliefs.values.argmax(axis=1)), bool(left.any())

    def beliefs(self, tasks: Codes, arms: Floats) -> Beliefs:
        """Return the beliefs about the values of arms, (m, K, d)."""
        Z = arms @ self.directions.T[:-1] + self.directions[:, -1]
        residual = np.sqrt(np.maximum(0, self.noises[tasks] - self.prior.noise))
        before = np.einsum("mkq,mkq->mk", Z, Z) + self.residual_variance
        factors = self.weights.covariance_factors(tasks, Z)
        return Beliefs(
            values=self.values(tasks, arms),
            factors=factors,
            residual_std=np.broadcast_to(residual[:, None], before.shape).copy(),
            prior_variances=before,
            unseen_variances=self.weights.unseen_variances(tasks, factors) + residual[:, None] ** 2,
        )

    def predict_errors(self, tasks: Codes, F: Doubles) -> tuple[Doubles, Doubles]:
        """Return squared errors of predicting rows ``[phi, 1, y]``, (m,), and the expected ones."""
        Z = F[:, None, :-1] @ self.directions.T
        A = self.weights.covariance_factors(tasks, Z)
        errors = F[:, -1] - np.einsum("md,md->m", F[:, :-1], self.thetas[tasks])
        return errors**2, np.einsum("mkq,mkq->m", A, A) + self.noises[tasks]

    def learn(self, tasks: Codes, F: Doubles) -> tuple[Doubles, Doubles]:
        """Learn rows ``[phi, 1, y]`` one after the other, all or none.

        Returns squared errors before each row was learned, and the expected ones.
        """
        self.check(F)
        return self.weights.learn_in_directions(self.directions, self.thetas, self.noises, tasks, F)

    def check(self, F: Doubles) -> None:
        """Refuse rows that :meth:`learn` would refuse."""
        if not are_at_most(F, self.largest_value):
            raise DataError(TOO_LARGE)

    @cached_property
    def largest_value(self) -> float:
        """The largest feature or reward whose square can be computed in the directions."""
        scale = self.directions.size * (self.directions**2).sum() / self.prior.noise
        return float(np.sqrt(SQUARE_LIMIT / max(1.0, scale)))
