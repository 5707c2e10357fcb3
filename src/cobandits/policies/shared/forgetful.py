"""A prior that forgets, learned beside one that does not: it notices slow drift under strong noise.

Candidates of ``forgetting`` learn thetas alone, under a prior that has forgotten nothing. Where a
subspace turns slowly and noise is strong, that prior has the directions of all times, and thetas of
fewer rows under it are no better. So one half-life gets a prior of its own. It is compared with the
policy, and with a rival that has its own prior too, of rows that all weigh the same but no more in
all. Both are learned at each refit, from where the policy's prior is, and predict the rewards until
the next. Drift is persistent: the gain must be large in the rewards since the last refit, and in
those before. So one bad fit is no drift.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config, config
from cobandits.policies.shared.discount import discount_of
from cobandits.policies.shared.empirical_bayes import HyperparameterSelector, sharing_thetas
from cobandits.policies.shared.reader import Part, Reader, refused
from cobandits.policies.shared.row_store import RowStore

__all__ = ["ForgetfulPrior"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_TINY = float(np.finfo(float).tiny)
_PREDICTORS = 3  # the policy, the rival, and thetas under the prior that forgets


class _Sums(NamedTuple):
    """Sums over rewards, of losses of predictors in nats; all lose weight with later rewards."""

    weight: float
    losses: Doubles  # (3,)
    squares: Doubles  # (2,), of gains over the policy and over the rival
    squared_loss: float  # of the policy

    @classmethod
    def of(cls, numbers: Doubles) -> _Sums:
        """Return sums that are one array, (7,)."""
        return cls(float(numbers[0]), numbers[1:4], numbers[4:6], float(numbers[6]))

    @property
    def gain(self) -> float:
        """How much lower the loss with the prior that forgets is than each of the others."""
        return float((self.losses[:2] - self.losses[2]).min())

    @property
    def evidence(self) -> float:
        """Half the square of the mean gain over its standard error: see ``Forgetting``."""
        gains = self.losses[:2] - self.losses[2]
        return float((0.5 * gains * np.abs(gains) / np.maximum(self.squares, _TINY)).min())

    @property
    def tail(self) -> float:
        """Kurtosis of the policy's errors over that of Gaussian ones, at least 1."""
        squared = max(3 * float(self.losses[0]) ** 2, _TINY)
        return max(1.0, self.weight * self.squared_loss / squared)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForgetfulPrior:
    """Rows of the first tasks that lose weight, and how thetas learned from them predict."""

    store: RowStore
    sizes: Codes  # rows per slot of the policy's store when they were last read
    thetas: Doubles  # (slot, predictor, d + 1), of slots that are compared
    earlier: Doubles = field(default_factory=lambda: np.zeros(7))  # sums before the last refit
    latest: Doubles = field(default_factory=lambda: np.zeros(7))  # and since

    @classmethod
    def none(cls, dim: int) -> ForgetfulPrior:
        """Return it before there is anything to forget."""
        store = RowStore.empty(n_tasks=_most_tasks(dim), dim=dim)
        store = replace(store, discount=discount_of(change_config.PRIOR_HALF_LIFE))
        none = np.zeros((0, _PREDICTORS, dim + 1))
        return cls(store=store, sizes=np.zeros(0, np.int64), thetas=none)

    @property
    def drifts(self) -> bool:
        """Whether rewards have been predicted better by a prior that forgets, for long."""
        earlier, latest = _Sums.of(self.earlier), _Sums.of(self.latest)
        both = _Sums.of(self.earlier + self.latest)
        least = change_config.PRIOR_GAIN * both.tail
        steady = min(earlier.gain, latest.gain) > least
        return steady and both.evidence > change_config.PRIOR_EVIDENCE

    def scored(self, store: RowStore) -> ForgetfulPrior:
        """Return it with the rewards that a store of the policy has got since the last refit."""
        if not len(self.thetas):
            return self
        tasks, rows = self._news(store)
        slots = self.store.slots[tasks]
        known = (slots >= 0) & (slots < len(self.thetas))
        etas = np.einsum("mcd,md->mc", self.thetas[slots[known]], rows[known, :-1])
        kept = 0.5 ** (len(etas) / (change_config.FORGETTING_MEMORY * len(self.thetas)))
        earlier = kept * (self.earlier + self.latest)
        return replace(self, earlier=earlier, latest=_sums(etas, rows[known, -1]))

    def following(
        self,
        store: RowStore,
        after: RowStore,
        thetas: Doubles,
        selector: HyperparameterSelector,
        counts: Codes,
    ) -> ForgetfulPrior:
        """Return it after a refit, with thetas that were learned under priors of its own.

        ``store`` has the policy's rows as they came since the last refit, ``after`` as they are
        kept. ``thetas``, (T, d + 1), are those of the policy, and ``counts``, (T,), rewards.
        """
        some = counts[: self.n_tasks]
        age = float(some[some > 0].mean()) / change_config.PRIOR_HALF_LIFE if some.any() else 0.0
        if age < 1 or np.count_nonzero(some) < change_config.PRIOR_LEAST_TASKS:
            return ForgetfulPrior.none(store.width - 2)
        mine = self.store
        if len(self.sizes):  # else it begins with the rewards that come
            longest = int(config.COMPRESSION * store.width)
            mine = mine.snapshot().added(*self._news(store)).compressed(longest).sorted()
        found = replace(self, store=mine, sizes=after.sizes.copy(), thetas=self.thetas[:0])
        known = mine.used > 0 and age >= change_config.FORGETTING_AGES
        shares = known and selector.hyperparameters.shared
        return found.learned(after, thetas, selector) if shares else found

    def most_rewards(self, counts: Codes) -> int:
        """Return how many rewards may come before the next refit, given those per task, (T,).

        Drift is noticed at refits, which become rare.
        """
        n_tasks = int(np.count_nonzero(counts))
        if min(n_tasks, self.n_tasks) < change_config.PRIOR_LEAST_TASKS:
            return sys.maxsize
        fewest, per_feature = change_config.PRIOR_REWARDS
        return n_tasks * max(fewest, per_feature * (self.store.width - 2))

    @property
    def n_tasks(self) -> int:
        """How many tasks are followed, the first ones."""
        return len(self.store.slots)

    def _news(self, store: RowStore) -> tuple[Codes, Doubles]:
        """Return the tasks of rewards since the last refit, (m,), and their rows."""
        store = store.only(np.flatnonzero(store.tasks < self.n_tasks)).sorted()
        assert store.starts is not None
        known = np.zeros(len(store.sizes), np.int64)
        known[: len(self.sizes)] = self.sizes[: len(known)]
        owners, rows = store.flat
        new = np.arange(len(rows)) - store.starts[owners] >= known[owners]
        new &= rows[:, -2] > 0  # compressed ones are old
        return store.tasks[owners[new]], rows[new]

    def learned(
        self, after: RowStore, thetas: Doubles, selector: HyperparameterSelector
    ) -> ForgetfulPrior:
        """Return it with thetas of all predictors; without any where rows cannot be factorised."""
        mine, found = self.store, np.repeat(thetas[self.store.tasks, None], _PREDICTORS, axis=1)
        assert selector.priors is not None
        for number, store in ((1, self._rival(after)), (2, mine)):
            try:
                slots, learned = sharing_thetas(
                    store.sorted(),
                    selector.priors,
                    offset=selector.hyperparameters.offset,
                    least_noise=selector.least_noise,
                )
            except np.linalg.LinAlgError:
                return self
            found[mine.slots[store.tasks[slots]], number] = learned
        return replace(self, thetas=found)

    def _rival(self, after: RowStore) -> RowStore:
        """Return all rows of the tasks that are followed; they weigh the same, no more in all."""
        slots = after.slots[self.store.tasks]
        store = after.only(slots[slots >= 0])
        share = self.store.reward_products()[0, 0] / store.reward_products()[0, 0]
        owners, rows = store.flat
        return store.holding(owners, np.sqrt(share) * rows, sizes=store.sizes)

    def without(self, tasks: Codes, theirs: Codes) -> ForgetfulPrior:
        """Return it without the rows of some tasks, of which nothing that is known is right.

        ``theirs``, (m,), are the slots of these tasks in the policy's store.
        """
        sizes = self.sizes.copy()
        sizes[theirs[(theirs >= 0) & (theirs < len(sizes))]] = 0  # the rows that stay are new
        slots = self.store.slots[tasks[tasks < self.n_tasks]]
        slots = slots[slots >= 0]
        staying = np.delete(np.arange(len(self.store.sizes)), slots)
        store = self.store.only(staying)
        thetas = self.thetas.copy()
        thetas[slots[slots < len(thetas)]] = 0.0  # all predict alike
        return replace(self, store=store, sizes=sizes, thetas=thetas)

    def saved(self) -> Part:
        """Return what a checkpoint holds of it."""
        names = ("thetas", "earlier", "latest")
        arrays = {name: getattr(self, name) for name in names}
        return Part({}, {**self.store.saved().arrays, **arrays, "read": self.sizes})

    @classmethod
    def read(cls, reader: Reader, *, dim: int) -> ForgetfulPrior:
        """Read what :meth:`saved` returned."""
        none = cls.none(dim)
        store = RowStore.read(reader, n_tasks=none.n_tasks, dim=dim)
        thetas = reader.doubles("thetas", (None, _PREDICTORS, dim + 1))
        if len(thetas) > len(store.tasks):
            raise refused(f"forgetful.thetas of {len(thetas)} tasks, of {len(store.tasks)}")
        return replace(
            none,
            store=replace(store, discount=none.store.discount),
            sizes=reader.codes("read", (None,)),
            thetas=thetas,
            earlier=reader.doubles("earlier", none.earlier.shape),
            latest=reader.doubles("latest", none.latest.shape),
        )


def _most_tasks(dim: int) -> int:
    """Return how many tasks there is time to learn a prior of."""
    return int(change_config.PRIOR_NUMBERS / (dim + 2) ** 2)


def _sums(etas: Doubles, rewards: Doubles) -> Doubles:
    """Return sums of losses, (7,), of predictions, (m, predictor), moved to the line of rewards.

    Level and scale of predictions are mended as in ``recalibration``, by least squares here.
    """
    if len(etas) <= 2:
        return np.zeros(7)
    x, y = etas - etas.mean(axis=0), rewards - rewards.mean()
    slopes = (x * y[:, None]).sum(axis=0) / np.maximum((x**2).sum(axis=0), _TINY)
    squares = (y[:, None] - slopes * x) ** 2
    usual = max(float(squares[:, 0].mean()), _TINY)
    losses = np.minimum(squares, change_config.FORGETTING_CAP * usual) / (2 * usual)
    gains = losses[:, :2] - losses[:, 2:]
    squared = float((losses[:, 0] ** 2).sum())
    sums = losses.sum(axis=0), (gains**2).sum(axis=0)
    return np.concatenate([[len(etas)], *sums, [squared]])
