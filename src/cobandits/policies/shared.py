"""The policy to use: a slow prior that all tasks share, and fast heads."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate, Status
from cobandits.histories import Histories
from cobandits.policies import states
from cobandits.policies.alarm import Alarm
from cobandits.policies.base import Policy
from cobandits.policies.choice import draw, greedy, winning
from cobandits.policies.explained import Explanation, Explanations, explain, explain_all
from cobandits.policies.heads import Heads
from cobandits.priors import Contest, Prior, improved

__all__ = ["Shared"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Explore = Literal["needed", "always", "never"]
Beliefs = tuple[Doubles, Doubles, Doubles]
Unsettled = tuple[Codes, Doubles, Doubles, Doubles]  # tasks, rows, squared errors, expected ones

_EXPLORES = ("needed", "always", "never")
_GROWTH = 1.25  # of the rewards, after which the prior is learned again
_KNOWN = 6  # times the directions over the rewards: what is left unknown by diverse rewards
_A_FEW = 4  # rewards
_UNSETTLED = 64  # rewards that only heads have learned, at most, and no more than there are tasks


class Shared(Policy):
    """A prior for all tasks that is learned from all of them, and a posterior for each task.

    A task's theta is updated after every reward. The prior is learned again from all rewards
    so far whenever they have grown by a quarter: no rank, ridge or horizon is needed.
    Where tasks have nothing in common, the prior has no preferred direction, and each task is
    a ridge regression of its own; how far to go either way is decided by the errors in predicting
    rewards that were not learned from yet. An intercept is learned too.

    When errors become far larger than usual, the tasks are taken to have changed:
    all is forgotten, :attr:`changes` gets the number of rewards so far, and a warning is logged.

    Parameters
    ----------
    explore : "needed", "always" or "never"
        ``"always"`` is Thompson sampling: the best arm for a theta drawn from the posterior.
        ``"never"`` is greedy. ``"needed"`` is greedy, but samples the value of an arm if two
        things hold. More of it is unknown than the task's rewards would have left of any arm, had
        they come from diverse arms. And what it could gain, over as many rewards as the task has
        had, outweighs what one try is expected to lose. No gain beyond the highest reward so
        far is counted, and variances are taken smaller where errors were smaller than expected.
    floor : float
        Share of the decisions that are made at random, so that no arm's probability is 0.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> policy, arms = Shared(dim=3, n_tasks=2), rng.standard_normal((2, 4, 3))
    >>> decisions = policy.decide([0, 1], arms, rng)
    >>> policy.learn([0, 1], arms, decisions, rewards=[1.0, 2.0])
    """

    name: ClassVar[str] = "shared"

    def __init__(
        self, *, dim: int, n_tasks: int, explore: Explore = "needed", floor: float = 0.0
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        if explore not in _EXPLORES:
            raise ConfigurationError(
                f"explore must be one of {', '.join(_EXPLORES)}, got {explore!r}"
            )
        if not 0 <= floor <= 1:
            raise ConfigurationError(f"floor must be a share from 0 to 1, got {floor}")
        self.explore, self.floor = explore, float(floor)
        self.changes: tuple[int, ...] = ()
        self.rewards = 0
        self._forget()

    def _forget(self) -> None:
        """Begin as if nothing had been seen."""
        self._histories = Histories(n_tasks=self.n_tasks, dim=self.dim)
        self._contest, self._alarm = Contest(), Alarm(self.n_tasks)
        self._heads: Heads | None = None
        self._counts: Codes = np.zeros(self.n_tasks, np.int64)
        self._counts_whole = self._counts.copy()  # when a task's theta was last learned whole
        self._lowest, self._highest = np.inf, -np.inf  # reward
        self._unsettled: list[Unsettled] = []
        self._n_unsettled = 0  # rewards
        self._seen = 0  # rewards since all was forgotten
        self._due = 1  # rewards at which the prior is learned again
        self.estimate = None

    @property
    def prior(self) -> Prior | None:
        """What all tasks share, None before the first reward."""
        return None if self._heads is None else self._heads.prior

    def explain(self, task: int) -> Explanation:
        """Say what a task's predictions come from, and how sure they are; print it to read it."""
        return explain(self._heads, self._counts, task)

    def explain_all(self) -> Explanations:
        """Say the same of all tasks, in arrays: what :func:`cobandits.plots.sharing` draws."""
        return explain_all(self._heads, self._counts)

    def save(self, path: str | Path) -> None:
        """Write all that was learned to ``path``, whole or not at all; no pickle is used."""
        states.save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Shared:
        """Read what :meth:`save` wrote: a policy that goes on as the saved one, to the last bit.

        Random numbers are the caller's: save the state of the generator too, where decisions
        have to be the same.
        """
        return states.load(path, cls)

    def _choose(
        self, tasks: Codes, arms: Floats, rng: np.random.Generator
    ) -> tuple[Codes, Floats | Callable[[], Floats]]:
        heads, m, K = self._heads, len(tasks), arms.shape[1]
        if heads is None or self.explore == "never":
            return draw(self._probabilities(tasks, arms), rng)
        if self.explore == "always" or self._lowest == self._highest:
            best, others = np.full(m, -1), m > 0
        else:
            best, others = heads.greedy(tasks, arms, self._counts, _known(heads))
        chosen, beliefs = best, None
        if others:
            sampled = best < 0
            beliefs = self._beliefs(heads, tasks[sampled], arms[sampled])
            chosen = best.copy()
            chosen[sampled] = _drawn(*beliefs, rng).argmax(axis=1)
        if self.floor:
            chosen = np.where(rng.random(m) < self.floor, rng.integers(K, size=m), chosen)
        return chosen, partial(_chances, best, beliefs, chosen, self.floor, K)

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        m, K, _ = arms.shape
        if self._heads is None:
            return np.full((m, K), 1 / K)
        if self.explore == "never":
            return _floored(greedy(self._heads.values(tasks, arms)), self.floor, K)
        values, factors, own = self._beliefs(self._heads, tasks, arms)
        shares = np.stack([winning(values, factors, np.full(m, k), own) for k in range(K)], axis=1)
        return _floored(shares / shares.sum(axis=1, keepdims=True), self.floor, K)

    def _beliefs(self, heads: Heads, tasks: Codes, arms: Floats) -> Beliefs:
        """Return the values of the arms, (m, K), and what to sample with: see ``Heads.beliefs``."""
        values, factors, own, before = heads.beliefs(tasks, arms)
        if self.explore == "needed":
            variances = np.einsum("mkq,mkq->mk", factors, factors) + own**2
            shares = np.sqrt(self._need(tasks, heads, values, variances, before))
            factors, own = factors * shares[:, :, None], own * shares
        return values, factors, own

    def _need(
        self, tasks: Codes, heads: Heads, values: Doubles, variances: Doubles, before: Doubles
    ) -> Doubles:
        """Return the share of each arm's variance to sample with, (m, K); see the class."""
        n = self._counts[tasks, None]
        sure = self._alarm.calibration
        if self._lowest == self._highest:  # nobody knows yet what could be gained
            return np.full(values.shape, sure)
        variances = np.maximum(variances, np.finfo(float).tiny)
        known = np.where(n > 0, _known(heads) / np.maximum(n, 1), 0) * before
        best = values.max(axis=1, keepdims=True)
        most = np.maximum(best, self._highest - heads.thetas[tasks, -1:])
        std = np.sqrt(sure * variances)
        gains = _gain(values, std, best) - _gain(values, std, most)
        worth = (n == 0) | (n * gains > best - values)
        return np.asarray(sure * worth * np.maximum(0, 1 - known / variances))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if not len(tasks):
            return
        F = _with_intercept(rows, rewards)
        if self._heads is None or self._seen + len(tasks) >= self._due:
            self._learn_all(tasks, F)
        else:
            if self._n_unsettled >= min(_UNSETTLED, max(8, self.n_tasks)):
                self._heads.check(F)  # before anything changes
                self._settle()
            self._unsettled.append((tasks.copy(), F, *self._heads.learn(tasks, F)))
            self._n_unsettled += len(tasks)
            self._count(tasks, rewards)
        self.rewards += len(tasks)

    def _count(self, tasks: Codes, rewards: Floats) -> None:
        np.add.at(self._counts, tasks, 1)
        numbers = rewards.tolist()
        self._lowest = min(self._lowest, *numbers)
        self._highest = max(self._highest, *numbers)
        self._seen += len(numbers)

    @property
    def _n_active(self) -> int:
        """Tasks that have had rewards."""
        return int(np.count_nonzero(self._counts))

    def _settle(self) -> None:
        """Compare the rows that so far only heads have learned, and keep them; all or nothing.

        For one reward this takes far longer than learning it, so it is done for many at once.
        """
        tasks, F, squares, expected = _joined(self._unsettled)
        alarm = self._alarm.after(tasks, squares, expected, n_active=self._n_active)
        if alarm.raised:
            self._start_over(tasks, F)
            return
        errors = self._contest.errors_with(self._histories.slots[tasks], F)
        kept = self._histories.kept(tasks)
        self._histories.add(*((tasks, F) if kept.all() else (tasks[kept], F[kept])))
        self._unsettled, self._n_unsettled = [], 0
        self._histories.give_up(tasks[~kept])
        self._contest.errors, self._alarm = errors, alarm
        self._renew_grown(tasks)

    def _renew_grown(self, tasks: Codes) -> None:
        """Learn the thetas whole of tasks with a quarter more rewards, and a few, than last time.

        Where all tasks ask as often, the prior is learned before that.
        """
        assert self._heads is not None
        if not self._heads.are_narrow:
            return
        grown = self._counts[tasks] > _GROWTH * self._counts_whole[tasks] + _A_FEW
        if grown.any():
            slots = np.unique(self._histories.slots[tasks[grown]])
            slots = slots[slots >= 0]
            self._heads.renew(self._histories, slots)
            renewed = self._histories.tasks[slots]
            self._counts_whole[renewed] = self._counts[renewed]

    def _learn_all(self, tasks: Codes, F: Doubles) -> None:
        """Learn the prior and all posteriors from all rows and these new ones; all or nothing."""
        alarm, new = self._alarm, len(tasks)
        if self._heads is not None:
            last = (tasks, F, *self._heads.foresee(tasks, F))
            tasks, F, squares, expected = _joined([*self._unsettled, last])
            alarm = alarm.after(tasks, squares, expected, n_active=self._n_active)
        if alarm.raised:
            self._start_over(tasks, F)
            return
        errors = self._contest.errors_with(self._histories.slots[tasks], F)
        seen = self._seen + new
        due = int(np.ceil(seen * _GROWTH))
        self._refit(tasks, F, errors, new=new, room=due - seen)
        self._alarm, self._due = alarm, due
        self._unsettled, self._n_unsettled = [], 0
        self._count(tasks[-new:], F[-new:, -1])
        self._counts_whole = self._counts.copy()

    def _refit(self, tasks: Codes, F: Doubles, errors: Doubles, *, new: int, room: int) -> None:
        """Learn the prior from all rows and these, and every task's posterior under it.

        The last ``new`` of the rows are not known to the heads yet; ``room`` is how many rewards
        will come before the next time.
        """
        histories = copy.deepcopy(self._histories)
        kept = histories.kept(tasks)
        histories.add(tasks[kept], F[kept])
        histories.give_up(tasks[~kept])
        unkept = np.flatnonzero(histories.slots[tasks[-new:]] < 0) - new  # some may be given up
        histories.compress(2 * histories.width)
        histories.sort()
        settings = self._contest.winner(errors)
        try:
            learned = improved(histories, self._contest.prior, settings)
            contest = self._contest.next_round(settings, errors, learned)
            heads = Heads.of(histories, learned.under(settings), self._heads)
        except np.linalg.LinAlgError as error:
            raise DataError(
                f"features or rewards differ too much in size to be learned from ({error}); "
                "scale them to about 1"
            ) from error
        heads.learn(tasks[unkept], F[unkept])
        estimate = _estimated(heads)
        histories.make_room(room)
        self._histories, self._contest, self._heads = histories, contest, heads
        self.estimate = estimate

    def _start_over(self, tasks: Codes, F: Doubles) -> None:
        """Forget all but these rows; all or nothing."""
        before, settled = dict(self.__dict__), self.rewards - self._n_unsettled
        try:
            self._forget()
            self._learn_all(tasks, F)
        except BaseException:
            self.__dict__.update(before)
            raise
        self.changes = (*self.changes, settled)
        logging.getLogger("cobandits").warning(
            "after %d rewards the tasks are no longer what they were: starting over", settled
        )


def _known(heads: Heads) -> int:
    """Return what, over a task's rewards, is the share that they would leave unknown of any arm."""
    return _KNOWN * heads.prior.coordinates.dim


def _with_intercept(rows: Floats, rewards: Floats) -> Doubles:
    """Return rows ``[phi, 1, y]``, (m, d + 2)."""
    F = np.empty((len(rows), rows.shape[1] + 2))
    F[:, :-2], F[:, -2], F[:, -1] = rows, 1, rewards
    return F


def _joined(parts: list[Unsettled]) -> Unsettled:
    """Return parts that followed each other as one."""
    if len(parts) == 1:
        return parts[0]
    tasks, F, squares, expected = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return tasks, F, squares, expected


def _drawn(values: Doubles, factors: Doubles, own: Doubles, rng: np.random.Generator) -> Doubles:
    """Draw the values of arms, (m, K)."""
    z = rng.standard_normal((len(values), factors.shape[2]))
    drawn = values + np.einsum("mkq,mq->mk", factors, z)
    return np.asarray(drawn + own * rng.standard_normal(own.shape) if own.any() else drawn)


def _floored(probabilities: Floats, floor: float, n_arms: int) -> Floats:
    return (1 - floor) * probabilities + floor / n_arms


def _chances(
    best: Codes, beliefs: Beliefs | None, chosen: Codes, floor: float, n_arms: int
) -> Floats:
    """Return the probabilities of chosen arms, (m,): the best one, or -1 where it is sampled."""
    chances = (chosen == best).astype(np.float64)
    if beliefs is not None:
        sampled = best < 0
        values, factors, own = beliefs
        chances[sampled] = winning(values, factors, chosen[sampled], own)
    return _floored(chances, floor, n_arms)


def _estimated(heads: Heads) -> Estimate:
    """Return the thetas of all tasks, without the intercept; the widest directions come first."""
    thetas = heads.thetas[:, :-1]
    basis, _ = np.linalg.qr(heads.prior.root(heads.most_directions)[:-1, ::-1])
    return Estimate(
        basis=basis,
        weights=basis.T @ thetas.T,
        labels=tuple(range(len(thetas))),
        status=Status(outcome="converged", message="prior learned", iterations=1),
    )


def _gain(values: Doubles, std: Doubles, level: Doubles) -> Doubles:
    """Return how much a Gaussian value is expected to be above a level: ``E max(v - level, 0)``."""
    u = (values - level) / std
    return np.asarray(std * (np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) + u * ndtr(u)))
