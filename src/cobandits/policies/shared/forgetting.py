"""Forgetting: how fast rewards lose weight is decided by how well that predicts new ones.

A row weighs half as much as one of the same task that came a half-life later, counted in rewards of
that task. Half-lives from a few rewards on predict rewards with the thetas that they would have had
at the last refit, and so do two rivals: nothing is forgotten, and all rows of a task weigh the same
but no more in all than with the half-life. Without the second rival, less weight alone would look
like forgetting, since it shrinks thetas. Nothing is forgotten without evidence, and less weight is
given to evidence the further errors are from Gaussian ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config, config
from cobandits.policies.shared.discount import age_weights, discount_of
from cobandits.policies.shared.likelihoods import Likelihood
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.posteriors import BatchPosterior, TaskPosteriors
from cobandits.policies.shared.reader import Part, Reader, refused
from cobandits.policies.shared.recalibration import Recalibration
from cobandits.policies.shared.row_store import RowStore

__all__ = ["Forgetting"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, kw_only=True, eq=False)
class Forgetting:
    """The half-life in use, and how candidates predict rewards before they are learned.

    Losses are negative log-likelihoods of Gaussian errors, discounted, with the mean squared error
    of late as their variance: of no forgetting, of each half-life's rival, of each half-life. Each
    of these predictors is recalibrated first; see ``recalibration``.
    """

    half_life: float = np.inf  # in rewards of a task
    losses: Doubles = field(default_factory=lambda: np.zeros(_n_losses()))
    squares: Doubles = field(default_factory=lambda: np.zeros((2, _n_losses() // 2)))
    squared_loss: float = 0.0  # the same sum as the first loss, of squares
    lines: Recalibration = field(default_factory=lambda: Recalibration.none(_n_losses()))
    places: Codes = field(default_factory=lambda: np.zeros(0, np.int64))  # by task, -1 for none
    thetas: Doubles = field(default_factory=lambda: np.zeros((0, 0, 0)))  # (place, candidate, d+1)

    def scored(self, likelihood: Likelihood, news: Pending, usual: float) -> Forgetting:
        """Return it with the losses of new rewards added; ``usual`` is the mean squared error."""
        if not self.thetas.size or not usual > 0:
            return self
        known = news.tasks < len(self.places)
        known[known] = self.places[news.tasks[known]] >= 0
        rows, places = news.rows[known], self.places[news.tasks[known]]
        etas = _of_all(np.einsum("mcd,md->mc", self.thetas[places], rows[:, :-1]))
        least, per_task = change_config.FORGETTING_LEAST, change_config.FORGETTING_MEMORY
        kept = 0.5 ** (len(rows) / max(least, per_task * len(self.thetas)))
        lines = self.lines
        if likelihood.noise is None:
            most = change_config.FORGETTING_CAP * usual
            lines = lines.after(etas, rows[:, -1], kept=kept, most=np.sqrt(most))
            losses = likelihood.losses(self.lines.applied(etas), rows[:, -1:])
            losses = np.minimum(losses, most) / (2 * usual)
        else:
            losses = likelihood.losses(etas, rows[:, -1:])
        return replace(
            self,
            losses=kept * self.losses + losses.sum(axis=0),
            squares=kept * self.squares + (_gains(losses) ** 2).sum(axis=1),
            squared_loss=kept * self.squared_loss + float((losses[:, 0] ** 2).sum()),
            lines=lines,
        )

    @property
    def gains(self) -> Doubles:
        """How much lower the loss of each half-life is than its rivals' losses, in nats, (2, n)."""
        return _gains(self.losses[None])[:, 0]

    @property
    def evidence(self) -> Doubles:
        """Evidence for each half-life, against the better of its rivals, in nats, (n,).

        It is half the square of the mean gain over its standard error: a log-likelihood ratio, were
        gains Gaussian. So it is the same on any scale, and few large errors are none.
        """
        found = 0.5 * self.gains * np.abs(self.gains) / np.maximum(self.squares, _TINY)
        return np.asarray(found.min(axis=0))

    @property
    def tail(self) -> float:
        """Kurtosis of errors without forgetting over that of Gaussian ones, at least 1.

        The further errors are from Gaussian ones, the less a likelihood ratio says.
        """
        weight, loss = self.lines.weight, float(self.losses[0])
        return max(1.0, weight * self.squared_loss / max(3 * loss**2, _TINY))

    @property
    def best(self) -> float:
        """The half-life to use next: the longest of those that are about as good as the best.

        One is good if it predicts better than both of its rivals: clearly and by much, where
        nothing is forgotten yet. A longer one than that in use is reached step by step.
        """
        known = (np.inf, *change_config.HALF_LIVES)
        now, losses = known.index(self.half_life), self.losses[len(known) :]
        good = self.evidence > (0.0 if now else change_config.FORGETTING_EVIDENCE)
        if now:
            good[now - 1] = self.evidence[now - 1] > -change_config.FORGETTING_RETURN
        else:
            good &= self.gains.min(axis=0) > change_config.FORGETTING_GAIN * self.tail
        if not good.any():
            return known[max(0, now - 1)]
        good &= losses <= losses[good].min() + change_config.FORGETTING_TIE
        return known[max(1 + int(np.argmax(good)), now - 1)]

    @property
    def is_late(self) -> bool:
        """Whether rewards should be forgotten far faster, so that a refit must not wait."""
        return self.best < self.half_life / 2

    def taken(self, *, drifts: bool = False) -> Forgetting:
        """Return it with the best half-life in use; where it is said that tasks drift, with one."""
        best = self.best
        slow = drifts and best == self.half_life == np.inf
        return replace(self, half_life=change_config.PRIOR_HALF_LIFE if slow else best)

    def following(self, store: RowStore, posteriors: TaskPosteriors, counts: Codes) -> Forgetting:
        """Return it after a refit, with thetas that candidates learn from the rows of a store.

        ``counts``, (T,), are rewards per task.
        """
        slots = _some_slots(store)
        tasks = store.tasks[slots]
        enough = float(counts[tasks].mean()) / change_config.FORGETTING_AGES
        tried = [half_life for half_life in change_config.HALF_LIVES if half_life <= enough]
        fewest = min(change_config.FORGETTING_TASKS, int(np.count_nonzero(store.sizes)))
        if not tried or len(tasks) < fewest:
            return self.without_thetas
        places = np.full(tasks.max() + 1, -1)
        places[tasks] = np.arange(len(tasks))
        raw = replace(store.only(slots), discount=1.0).sorted()
        return replace(self, places=places, thetas=_thetas(raw, slots, posteriors.batch, tried))

    def without(self, tasks: Codes) -> Forgetting:
        """Return it without some tasks, of which nothing that was learned is right any more."""
        known, places = tasks[tasks < len(self.places)], self.places.copy()
        places[known] = -1
        staying = np.sort(places[places >= 0])
        places[places >= 0] = np.searchsorted(staying, places[places >= 0])
        return replace(self, places=places, thetas=self.thetas[staying])

    @property
    def without_thetas(self) -> Forgetting:
        """The same before anything is predicted."""
        return replace(self, places=np.zeros(0, np.int64), thetas=np.zeros((0, 0, 0)))

    def saved(self) -> Part:
        """Return what a checkpoint holds of it."""
        half_life = None if self.half_life == np.inf else self.half_life
        names = ("losses", "squares", "places", "thetas")
        arrays = {name: getattr(self, name) for name in names}
        numbers = {"half_life": half_life, "squared_loss": self.squared_loss}
        return Part(numbers, {**arrays, "lines": self.lines.sums})

    @classmethod
    def read(cls, reader: Reader, *, n_tasks: int, width: int) -> Forgetting:
        """Read what :meth:`saved` returned; ``width`` is that of thetas, with intercept."""
        given = reader.plain("half_life")
        half_life = np.inf if given is None else float(given)
        if half_life not in (np.inf, *change_config.HALF_LIVES):
            raise refused(f"{given} as forgetting.half_life")
        if not reader.has("lines"):  # losses of predictions as they were: not those of now
            return cls(half_life=half_life)
        losses = reader.doubles("losses", (_n_losses(),))
        squares = reader.doubles("squares", (2, _n_losses() // 2))
        lines = Recalibration(sums=reader.doubles("lines", (5, _n_losses())))
        places = reader.codes("places", (None,), least=-1)
        thetas = reader.doubles("thetas", (None, None, width if len(places) else 0))
        there = np.sort(places[places >= 0])
        if len(places) > n_tasks or not np.array_equal(there, np.arange(len(thetas))):
            raise refused(f"forgetting.places that are not those of {len(thetas)} thetas")
        if thetas.shape[1] > _n_losses() or (thetas.size and not thetas.shape[1] % 2):
            raise refused(f"forgetting.thetas of {thetas.shape[1]} candidates")
        return cls(
            half_life=half_life,
            losses=losses,
            squares=squares,
            squared_loss=reader.number("squared_loss"),
            lines=lines,
            places=places,
            thetas=thetas,
        )


def _n_losses() -> int:
    return 1 + 2 * len(change_config.HALF_LIVES)


def _of_all(etas: Doubles) -> Doubles:
    """Return predictions of all candidates, (m, candidate), given those that were tried.

    These are the shortest half-lives. Those that are longer than what there is to forget predict
    as none does.
    """
    tried = etas.shape[1] // 2
    more = np.repeat(etas[:, :1], len(change_config.HALF_LIVES) - tried, axis=1)
    parts = [etas[:, :1], more, etas[:, 1 : tried + 1], more, etas[:, tried + 1 :]]
    return np.concatenate(parts, axis=1)


def _gains(losses: Doubles) -> Doubles:
    """Return how much lower losses of half-lives are than with none and their rivals', (2, m, n).

    ``losses`` are of rewards and of all candidates, (m, candidate).
    """
    n = len(change_config.HALF_LIVES)
    rivals = np.stack([np.repeat(losses[:, :1], n, axis=1), losses[:, 1 : n + 1]])
    return np.asarray(rivals - losses[:, n + 1 :])


def _some_slots(store: RowStore) -> Codes:
    """Return the slots with most rows, so many that they have few numbers; at least one."""
    order = np.argsort(-store.sizes, kind="stable")
    order = order[store.sizes[order] > 0]
    numbers = np.cumsum(store.sizes[order]) * store.width
    return order[: max(1, int(np.searchsorted(numbers, change_config.FORGETTING_NUMBERS)))]


def _thetas(
    store: RowStore, slots: Codes, batch: BatchPosterior, half_lives: list[float]
) -> Doubles:
    """Return the thetas that candidates learn from the rows of slots, (m, candidate, d + 1).

    Slots are ordered by their number of rows, most first.
    """
    found, start = [], 0
    while start < len(slots):
        n = int(store.sizes[slots[start]])
        some = slots[start : start + max(1, config.BLOCK_BYTES // (8 * n * max(n, store.width)))]
        F = store.rows(some, n)
        found.append(_learned(batch, F, _weights(F, half_lives)))
        start += len(some)
    return np.concatenate(found)


def _weights(F: Doubles, half_lives: list[float]) -> list[Doubles]:
    """Return the weights of rows of tasks, (m, n), for each candidate."""
    ones, counts = np.ones(F.shape[:2]), F[..., -2] ** 2
    aged = [age_weights(F, discount_of(half_life)) for half_life in half_lives]
    total = np.maximum(counts.sum(axis=1), _TINY)
    shares = [(counts * weights).sum(axis=1) / total for weights in aged]
    return [ones, *(ones * share[:, None] for share in shares), *aged]


def _learned(batch: BatchPosterior, F: Doubles, weights: Sequence[Doubles]) -> Doubles:
    """Return posterior means of thetas, (m, candidate, d + 1), with the weights of each candidate.

    Rows ``[phi, 1, y]`` are (m, n, d + 2), and weights (m, n).
    """
    Z = F[..., :-1] @ batch.root  # (m, n, Q), whose weights have the prior N(0, I)
    y = F[..., -1] - F[..., :-1] @ batch.prior.theta
    roots = [np.sqrt(one) for one in weights]
    means = [_ridge(Z * root[..., None], y * root, batch.noise) for root in roots]
    return batch.thetas(np.stack(means, axis=1))


def _ridge(Z: Doubles, y: Doubles, ridge: float) -> Doubles:
    """Return ridge regressions of tasks, (m, Q), on features, (m, n, Q), of rewards, (m, n)."""
    n, Q = Z.shape[1:]
    across, diagonal = Z.transpose(0, 2, 1), np.arange(min(n, Q))
    A = Z @ across if n < Q else across @ Z
    A[:, diagonal, diagonal] += ridge
    if n < Q:
        return np.asarray((across @ np.linalg.solve(A, y[..., None]))[..., 0])
    return np.asarray(np.linalg.solve(A, across @ y[..., None])[..., 0])
