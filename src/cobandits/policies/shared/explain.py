"""Explain predictions: how much of them tasks share, which tasks are alike, how certain they are.

A typical arm is one of those that tasks have learned from: its features have the second moment
``feature_second_moment`` of the prior. Variances are over typical arms. A constant that all arms
of a task share is no part of them, since no choice depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import HyperparameterSelector, Prior
from cobandits.policies.shared.honesty import honest_typical
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.task_index import TaskIndex

__all__ = ["Explanation", "Explanations", "Neighbour", "explain", "explain_all"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]

_NEAREST = 3  # tasks that are named
_AXES = 2  # of the picture of the tasks


class Neighbour(NamedTuple):
    """Another task, and how alike the predictions of the two are."""

    task: Hashable  # its number or label
    likeness: float  # correlation over typical arms: 1 is the same choices, 0 unrelated


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a task's predictions come from, and how certain they are.

    Parameters
    ----------
    task, rewards
        The task's number or label, and how many rewards it has learned from.
    rank
        How many directions tasks share: :attr:`DecomposedPrior.rank`, without those in which
        typical arms do not differ.
    shared
        Share of the predictions that is due to what tasks share. Theta is the sum of two parts: the
        mean of all tasks with the task's deviation from it in the shared directions, and the rest
        of its deviation. This is the variance of what the first part predicts, over the sum of both
        parts' variances. For a task that predicts nothing yet, it is the share that the prior
        expects.
    nearest
        The tasks with rewards whose predictions are most alike, the nearest first.
    uncertainty, uncertainty_before
        Standard deviation of the expected reward of a typical arm, in units of reward: of the
        posterior now, and of the prior, before the task's first reward. Noise is no part of it.
        Of clicks and counts it is that of :attr:`scale`.
    scale
        What thetas predict: the expected reward, or its log-odds or log.

    Examples
    --------
    >>> print(
    ...     Explanation(
    ...         task=4,
    ...         rewards=20,
    ...         rank=2,
    ...         shared=0.9,
    ...         nearest=(Neighbour(task=1, likeness=0.8),),
    ...         uncertainty=0.1,
    ...         uncertainty_before=0.5,
    ...     )
    ... )
    task 4, after 20 rewards
      shared with other tasks: 90 % of what it predicts (2 directions); its own: 10 %
      nearest tasks, by correlation of predictions: 1 (0.80)
      uncertainty of an expected reward: 0.1, before any reward 0.5: 20 % is left
    """

    task: Hashable
    rewards: int
    rank: int
    shared: float
    nearest: tuple[Neighbour, ...]
    uncertainty: float
    uncertainty_before: float
    scale: str = "expected reward"

    @property
    def own(self) -> float:
        """Share of the predictions that is the task's own: ``1 - shared``."""
        return 1 - self.shared

    @property
    def left(self) -> float:
        """The uncertainty, as a share of that before any reward."""
        return self.uncertainty / self.uncertainty_before

    def __str__(self) -> str:
        expected = "" if self.rewards else ", as other tasks suggest"
        near = ", ".join(f"{one.task} ({one.likeness:.2f})" for one in self.nearest)
        common = _counted(self.rank, "direction") if self.rank else "a mean, no direction"
        return (
            f"task {self.task}, after {_counted(self.rewards, 'reward')}\n"
            f"  shared with other tasks: {_percent(self.shared)} of what it predicts "
            f"({common}); its own: {_percent(self.own)}{expected}\n"
            f"  nearest tasks, by correlation of predictions: {near or 'none yet'}\n"
            f"  uncertainty of {_with_article(self.scale)}: {self.uncertainty:.3g}, "
            f"before any reward {self.uncertainty_before:.3g}: {_percent(self.left)} is left"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanations:
    """The numbers of :class:`Explanation` for all T tasks, and those that plots show."""

    tasks: tuple[Hashable, ...]  # numbers or labels, in the order of their first rewards
    rewards: Codes  # (T,)
    rank: int
    spectrum: Doubles  # (p,), variances of the directions in which typical arms differ, falling
    weights: Doubles  # (T, 2), of theta in the two widest of them
    shared: Doubles  # (T,)
    uncertainty: Doubles  # (T,)
    uncertainty_before: float

    @property
    def own(self) -> Doubles:
        """Share of each task's predictions that is its own, (T,)."""
        return 1 - self.shared

    @property
    def left(self) -> Doubles:
        """Each task's uncertainty, as a share of that before any reward, (T,)."""
        return self.uncertainty / self.uncertainty_before


def explain(
    posteriors: TaskPosteriors | None,
    selector: HyperparameterSelector,
    counts: Codes,
    task: Hashable,
    index: TaskIndex,
    scale: str = "expected reward",
) -> Explanation:
    """Explain one task, in O(T d^2) for T tasks of d features."""
    posteriors, asked = _learned(posteriors), index.find(np.fromiter([task], object, 1))
    place = int(asked[0])
    after, before = honest_typical(posteriors, selector, asked)
    return Explanation(
        task=task,
        rewards=int(counts[place]),
        rank=_rank(posteriors),
        shared=float(_shares(posteriors, asked)[0]),
        nearest=_nearest(posteriors, counts, place, index.tasks),
        uncertainty=float(np.sqrt(after[0])),
        uncertainty_before=float(np.sqrt(before)),
        scale=scale,
    )


def explain_all(
    posteriors: TaskPosteriors | None,
    selector: HyperparameterSelector,
    counts: Codes,
    index: TaskIndex,
) -> Explanations:
    """Explain all tasks, in O(T (d^2 + q^3)) for posteriors of q directions, a few at a time."""
    posteriors, everyone = _learned(posteriors), np.arange(len(index))
    seen = np.flatnonzero(_seen(posteriors))[::-1]  # the widest first
    after, before = honest_typical(posteriors, selector, everyone)
    return Explanations(
        tasks=index.tasks,
        rewards=counts[: len(index)].copy(),
        rank=_rank(posteriors),
        spectrum=posteriors.prior.variances[seen],
        weights=_weights(posteriors, everyone)[:, seen[:_AXES]],
        shared=_shares(posteriors, everyone),
        uncertainty=np.sqrt(after),
        uncertainty_before=float(np.sqrt(before)),
    )


def _learned(posteriors: TaskPosteriors | None) -> TaskPosteriors:
    """Return the posteriors, or refuse where there are none yet."""
    if posteriors is None:
        raise DataError(
            "there is nothing to explain before the first reward; call learn with one first"
        )
    return posteriors


def _weights(posteriors: TaskPosteriors, tasks: Codes) -> Doubles:
    """Return the weights of some thetas in the prior's directions, (m, p), the widest last."""
    thetas = posteriors.thetas[tasks]
    thetas[:, -1] -= posteriors.prior.offset
    return np.asarray(thetas @ posteriors.prior.to_directions.T)


def _shares(posteriors: TaskPosteriors, tasks: Codes) -> Doubles:
    """Return the share of each task's predictions that is due to what tasks share, (m,).

    Shared are the mean of all tasks, and what deviates from it in the shared directions.
    """
    G, prior = _covariance(posteriors), posteriors.prior
    mean = prior.vectors.T @ prior.mean
    parts = _weights(posteriors, tasks) - mean
    own = len(G) - prior.rank  # the shared directions come last
    alone = _squares(parts[:, :own], G[:own, :own])
    parts[:, :own] = 0
    shared = _squares(parts + mean, G)
    total = shared + alone
    variances = posteriors.prior.spectrum[::-1] * np.diag(G)  # expected where nothing is known
    expected = variances[own:].sum() / (variances.sum() or 1.0)
    shares: Doubles = np.full(len(tasks), expected)
    return np.divide(shared, total, out=shares, where=total > 0)


def _nearest(
    posteriors: TaskPosteriors, counts: Codes, place: int, tasks: tuple[Hashable, ...]
) -> tuple[Neighbour, ...]:
    """Return the tasks whose predictions are most alike."""
    others = np.flatnonzero(counts > 0)
    others = others[others != place]
    G, weights = _covariance(posteriors), _weights(posteriors, np.append(others, place))
    squares = _squares(weights, G)
    lengths = np.sqrt(squares[:-1] * squares[-1])
    along = weights[:-1] @ (G @ weights[-1])
    others, along, lengths = others[lengths > 0], along[lengths > 0], lengths[lengths > 0]
    likeness = np.clip(along / lengths, -1, 1)
    nearest = np.argsort(-likeness, kind="stable")[:_NEAREST]
    return tuple(Neighbour(tasks[others[i]], float(likeness[i])) for i in nearest)


def _covariance(posteriors: TaskPosteriors) -> Doubles:
    """Return the covariance of typical arms in the prior's directions, (p, p)."""
    vectors = posteriors.prior.vectors
    return np.asarray(vectors.T @ _centred(posteriors.prior) @ vectors)


def _seen(posteriors: TaskPosteriors) -> Mask:
    """Return in which of the prior's directions typical arms differ, (p,), the widest last.

    In the others, such as hours at which nobody asks, the prior stays as wide as it began. Where
    arms differ in too few to draw, all directions count.
    """
    variances = np.diag(_covariance(posteriors))
    seen = variances > config.CONSTANT_VARIANCE * variances.max()
    return np.asarray(seen if seen.sum() >= _AXES else np.ones_like(seen))


def _rank(posteriors: TaskPosteriors) -> int:
    """Return how many of the shared directions are seen; the shared ones come last."""
    return int(_seen(posteriors)[len(posteriors.prior.vectors) - posteriors.prior.rank :].sum())


def _centred(prior: Prior) -> Doubles:
    """Return the covariance of typical arms in the prior's coordinates, (p, p)."""
    mean = prior.feature_second_moment[-1]  # the last coordinate is always 1
    covariance = prior.feature_second_moment - np.outer(mean, mean)
    squares = np.diag(prior.feature_second_moment)
    constant = np.diag(covariance) <= config.CONSTANT_VARIANCE * squares
    covariance[constant] = 0
    covariance[:, constant] = 0
    return covariance


def _squares(weights: Doubles, G: Doubles) -> Doubles:
    """Return the variances, (m,), of what weights, (m, q), predict for typical arms."""
    return np.asarray(np.maximum(np.einsum("mq,mq->m", weights @ G, weights), 0))


def _counted(count: int, what: str) -> str:
    """Return a count with its noun."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _with_article(noun: str) -> str:
    """Return a noun with its article.

    >>> _with_article("expected reward"), _with_article("log-odds of a reward")
    ('an expected reward', 'the log-odds of a reward')
    """
    return f"an {noun}" if noun.startswith("e") else f"the {noun}"


def _percent(share: float) -> str:
    """Return a share in whole percent; only 0 is called 0 %, and only 1 is called 100 %.

    >>> _percent(0.123), _percent(0.0012), _percent(0.9996), _percent(0.0)
    ('12 %', 'under 1 %', 'over 99 %', '0 %')
    """
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"
