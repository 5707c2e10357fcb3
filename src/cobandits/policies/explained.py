"""What predictions come from: from what tasks share, or from a task alone; and how sure they are.

A typical arm is drawn from those that tasks have learned from: ``prior.spread`` is the second
moment of its features in the prior's coordinates. Variances are over such arms; a constant that all
arms of a task share is no part of them, for no choice depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import check_tasks
from cobandits.errors import DataError
from cobandits.kernels import blocks
from cobandits.policies.heads import Heads
from cobandits.priors import Prior

__all__ = ["Explanation", "Explanations", "Neighbour", "explain", "explain_all"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_NEAREST = 3  # tasks that are named
_AXES = 2  # of the picture of the tasks
_CONSTANT = 1e-12  # variance of a coordinate, as a share of its mean square


class Neighbour(NamedTuple):
    """Another task, and how alike the predictions of the two are."""

    task: int
    likeness: float  # correlation over typical arms: 1 is the same choices, 0 unrelated


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a task's predictions come from, and how sure they are.

    Parameters
    ----------
    task, rewards
        The task's number, and the rewards that it has learned from.
    rank
        How many directions tasks share: :attr:`Prior.rank`.
    shared
        Theta is the sum of its part in the shared directions and of the rest. This is the variance
        that the first part predicts, as a share of the sum of both parts' variances.
        Where a task predicts nothing yet, it is what the prior expects of it.
    nearest
        The tasks with rewards whose predictions are most alike, the nearest first.
    uncertainty, uncertainty_before
        Standard deviation of the expected reward of a typical arm, in units of reward: of the
        posterior now, and of the prior, before the task's first reward. Noise is no part of it.

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

    task: int
    rewards: int
    rank: int
    shared: float
    nearest: tuple[Neighbour, ...]
    uncertainty: float
    uncertainty_before: float

    @property
    def own(self) -> float:
        """The share of the prediction that is the task's own: the rest."""
        return 1 - self.shared

    @property
    def left(self) -> float:
        """The uncertainty, as a share of that before any reward."""
        return self.uncertainty / self.uncertainty_before

    def __str__(self) -> str:
        expected = "" if self.rewards else ", as other tasks suggest"
        near = ", ".join(f"{one.task} ({one.likeness:.2f})" for one in self.nearest)
        return (
            f"task {self.task}, after {_counted(self.rewards, 'reward')}\n"
            f"  shared with other tasks: {_percent(self.shared)} of what it predicts "
            f"({_counted(self.rank, 'direction')}); its own: {_percent(self.own)}{expected}\n"
            f"  nearest tasks, by correlation of predictions: {near or 'none yet'}\n"
            f"  uncertainty of an expected reward: {self.uncertainty:.3g}, before any reward "
            f"{self.uncertainty_before:.3g}: {_percent(self.left)} is left"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanations:
    """What :class:`Explanation` says of one task, for all T tasks; and what pictures show."""

    rewards: Codes  # (T,)
    rank: int
    spectrum: Doubles  # (p,), variances of the prior's directions, falling
    weights: Doubles  # (T, 2), of theta in the two widest directions
    shared: Doubles  # (T,)
    uncertainty: Doubles  # (T,)
    uncertainty_before: float

    @property
    def own(self) -> Doubles:
        """The share of each task's prediction that is its own, (T,)."""
        return 1 - self.shared

    @property
    def left(self) -> Doubles:
        """Each task's uncertainty, as a share of that before any reward, (T,)."""
        return self.uncertainty / self.uncertainty_before


def explain(heads: Heads | None, counts: Codes, task: int) -> Explanation:
    """Explain one task, in O(T d^2) for T tasks of d features."""
    (code,) = check_tasks([task], len(counts)).tolist()
    heads = _learned(heads)
    asked = np.array([code])
    return Explanation(
        task=code,
        rewards=int(counts[code]),
        rank=heads.prior.rank,
        shared=float(_shares(heads, asked)[0]),
        nearest=_nearest(heads, counts, code),
        uncertainty=float(_uncertainty(heads, asked)[0]),
        uncertainty_before=_uncertainty_before(heads),
    )


def explain_all(heads: Heads | None, counts: Codes) -> Explanations:
    """Explain all tasks, in O(T (d^2 + q^3)) for posteriors of q directions, a few at a time."""
    heads, everyone = _learned(heads), np.arange(len(counts))
    spectrum = heads.prior.spectrum
    return Explanations(
        rewards=counts.copy(),
        rank=heads.prior.rank,
        spectrum=spectrum.copy(),
        weights=_weights(heads, everyone)[:, : -_AXES - 1 : -1],
        shared=_shares(heads, everyone),
        uncertainty=_uncertainty(heads, everyone),
        uncertainty_before=_uncertainty_before(heads),
    )


def _learned(heads: Heads | None) -> Heads:
    """Return what was learned, or refuse where nothing was."""
    if heads is None:
        raise DataError(
            "there is nothing to explain before the first reward; call learn with one first"
        )
    return heads


def _weights(heads: Heads, tasks: Codes) -> Doubles:
    """Return the weights of some thetas in the prior's directions, (m, p), the widest last."""
    thetas = heads.thetas[tasks]
    thetas[:, -1] -= heads.prior.offset
    return np.asarray(thetas @ heads.prior.to_directions.T)


def _shares(heads: Heads, tasks: Codes) -> Doubles:
    """Return the share of each prediction's variance that is shared, (m,)."""
    G, weights = _covariance(heads), _weights(heads, tasks)
    own = len(G) - heads.prior.rank  # the shared directions come last
    shared = _squares(weights[:, own:], G[own:, own:])
    total = shared + _squares(weights[:, :own], G[:own, :own])
    variances = heads.prior.spectrum[::-1] * np.diag(G)  # expected where nothing is known
    expected = variances[own:].sum() / (variances.sum() or 1.0)
    shares: Doubles = np.full(len(tasks), expected)
    return np.divide(shared, total, out=shares, where=total > 0)


def _nearest(heads: Heads, counts: Codes, task: int) -> tuple[Neighbour, ...]:
    """Return the tasks whose predictions are most alike."""
    others = np.flatnonzero(counts > 0)
    others = others[others != task]
    G, weights = _covariance(heads), _weights(heads, np.append(others, task))
    squares = _squares(weights, G)
    lengths = np.sqrt(squares[:-1] * squares[-1])
    along = weights[:-1] @ (G @ weights[-1])
    others, along, lengths = others[lengths > 0], along[lengths > 0], lengths[lengths > 0]
    likeness = np.clip(along / lengths, -1, 1)
    nearest = np.argsort(-likeness, kind="stable")[:_NEAREST]
    return tuple(Neighbour(int(others[i]), float(likeness[i])) for i in nearest)


def _uncertainty(heads: Heads, tasks: Codes) -> Doubles:
    """Return the standard deviations of a typical arm's expected reward, (m,)."""
    q, prior = heads.posteriors.dim, heads.prior
    M = heads.second_moment
    variances = heads.noises[tasks] - prior.noise  # outside of the posteriors' directions
    for block in blocks(len(tasks), 8 * q * q):
        S = heads.posteriors.unpacked(tasks[block])  # (b, q, q), S S' is the covariance
        variances[block] += np.einsum("bij,bij->b", S, M @ S)
    return np.asarray(np.sqrt(variances))


def _uncertainty_before(heads: Heads) -> float:
    """Return the same before a task's first reward."""
    return float(np.sqrt(np.trace(heads.second_moment) + heads.elsewhere))


def _covariance(heads: Heads) -> Doubles:
    """Return that of a typical arm in the prior's directions, (p, p)."""
    vectors = heads.prior.vectors
    return np.asarray(vectors.T @ _centred(heads.prior) @ vectors)


def _centred(prior: Prior) -> Doubles:
    """Return the covariance of typical arms in the prior's coordinates, (p, p)."""
    mean = prior.spread[-1]  # the last coordinate is always 1
    covariance = prior.spread - np.outer(mean, mean)
    constant = np.diag(covariance) <= _CONSTANT * np.diag(prior.spread)
    covariance[constant] = 0
    covariance[:, constant] = 0
    return covariance


def _squares(weights: Doubles, G: Doubles) -> Doubles:
    """Return the variances that weights predict, (m,)."""
    return np.asarray(np.maximum(np.einsum("mq,mq->m", weights @ G, weights), 0))


def _counted(count: int, what: str) -> str:
    """Return how many there are.

    >>> _counted(1, "reward"), _counted(0, "reward")
    ('1 reward', '0 rewards')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _percent(share: float) -> str:
    """Return a share in whole percent; what is little is not nothing.

    >>> _percent(0.123), _percent(0.0012), _percent(0.9996), _percent(0.0)
    ('12 %', 'under 1 %', 'over 99 %', '0 %')
    """
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{100 * share:.0f} %"
