"""How large the errors of expected rewards are, beside what a fitted prior expects of them.

Posteriors take the prior for known. Two things are wrong with that. What bounds the noise and the
isotropic variance from below keeps decisions safe, and makes posteriors too wide where there is
little noise. And L was fitted to the very rewards that it explains, which makes them too narrow
while there are few.

The first is told by leaving rewards out, one at a time, under the prior as it is
(:func:`left_out`): that takes no other fit. The second is told by rewards that came after a fit.
Their errors exceed those of rewards that were left out, by a factor which hardly changes from one
fit to the next: the *excess*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import calibration_config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock, precision_roots
from cobandits.policies.shared.empirical_bayes.prior import Prior
from cobandits.policies.shared.reader import Reader, refused

__all__ = ["Calibration", "LeftOut", "left_out"]

Doubles = NDArray[np.float64]


class LeftOut(NamedTuple):
    """Mean squares of a fit over the rewards that it was learned from; noise is in none but one."""

    residual: float  # of what the posterior means leave of rewards, with noise
    error: float  # of expected rewards, each without the reward itself
    expected: float  # what the prior expects of that error


def left_out(prior: Prior, blocks: Iterable[TaskBlock]) -> LeftOut:
    """Return the errors of rewards under a prior, each left out of its own task's posterior.

    By generalised cross-validation per task: with ``K = Z C Z' + s I`` and n rewards, the residuals
    are ``e = s K^-1 r``, their degrees of freedom ``f = s tr K^-1``, and a reward that is left out
    has the mean squared error ``n |e|^2 / f^2``, of which ``sum |e|^2 / sum f`` is noise. All of it
    is the same for rows that were compressed, which are fewer than the rewards.
    """
    s, sums = prior.noise, np.zeros(5)
    for _, Z, y in blocks:
        H = precision_roots(Z @ prior.covariance, Z, s)  # H'H = K^-1
        e = s * np.einsum("bji,bj->bi", H, np.einsum("bij,bj->bi", H, y - Z @ prior.center))
        held, squares = Z[..., -1] != 0, np.einsum("bn,bn->b", e, e)  # the others are padding
        rows = held.sum(axis=1)
        n = np.einsum("bn,bn->b", Z[..., -1], Z[..., -1])  # less than rows that are forgotten
        free = s * np.einsum("bij,bij,bj->b", H, H, held) + n - rows
        least = calibration_config.LEAST_FREE, calibration_config.LEAST_FREE_OF_AGED
        free = np.maximum(free, np.where(n < rows, least[1], least[0]) * n)
        unknown = s * (n - free) / free
        sums += [x.sum() for x in (n, squares, free, n**2 * squares / free**2, n * unknown)]
    n_rows, squares, free, errors, unknown = sums.tolist()
    error = max(0.0, errors / n_rows - squares / free)
    return LeftOut(residual=squares / n_rows, error=error, expected=unknown / n_rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What the errors of the last fits say about the variances of the one in use.

    Parameters
    ----------
    used, shared
        Of the prior in use, and of the one that shares.
    shares
        Whether these are the same.
    excess
        Factor by which errors under the prior that shares exceed those of rewards left out.
    n_rewards
        From which the fit was learned.
    validated
        Rewards since the fit, and squared errors of the prior that shares.
    """

    used: LeftOut
    shared: LeftOut
    shares: bool
    excess: float
    n_rewards: float
    validated: Doubles = field(default_factory=lambda: np.zeros(2))

    @classmethod
    def after(
        cls,
        before: Calibration | None,
        blocks: list[TaskBlock],
        *,
        used: Prior,
        sharing: Prior,
        n_rewards: float,
        n_unknowns: float,
    ) -> Calibration:
        """Return the calibration of a fit, by the rows of some tasks.

        Parameters
        ----------
        used, sharing
            The prior in use, and the one that shares; they may be the same.
        n_rewards, n_unknowns
            All rewards that the fit was learned from, and the numbers of L and of tasks' weights.
        """
        shared = left_out(sharing, blocks)
        return cls(
            used=shared if sharing is used else left_out(used, blocks),
            shared=shared,
            shares=sharing is used,
            excess=1.0 if before is None else before.next_excess(shared, n_unknowns / n_rewards),
            n_rewards=n_rewards,
        )

    def scored(self, count: float, squares: float) -> Calibration:
        """Return the calibration with squared errors of the prior that shares added."""
        return replace(self, validated=self.validated + np.array([count, squares]))

    def later_error(self, residual: float) -> float:
        """Return the mean squared error of expected rewards since the fit; 0 where there are none.

        The noise is taken to be the geometric mean of squared errors and residuals. It is where a
        share h of the rewards is fitted: residuals are ``1 - h`` times the noise, and errors
        ``1 / (1 - h)`` times.
        """
        count, squares = self.validated.tolist()
        error = squares / count if count else 0.0
        return float(error - np.sqrt(error * min(error, residual)))

    def latest_excess(self, residual: float) -> float:
        """Return the excess, at least 1, with the errors since the fit.

        Both are weighed by their variances, on a log scale.
        """
        if not (self.validated.all() and self.shared.error):
            return self.excess
        count, squares = self.validated.tolist()
        found = max(self.later_error(residual), self.shared.error)
        chance = 2 / count * (squares / count / found) ** 2
        weight = calibration_config.EXCESS_CHANGE**2 / (
            calibration_config.EXCESS_CHANGE**2 + chance
        )
        return float(self.excess ** (1 - weight) * (found / self.shared.error) ** weight)

    def next_excess(self, shared: LeftOut, unknowns: float) -> float:
        """Return the excess under the next prior that shares, which has so many per reward.

        The more rewards, the less of their noise is fitted. But with as many unknowns as rewards
        any of them are explained, so errors are then taken to be what they were before the fit.
        """
        excess = 1 + calibration_config.EXCESS_DECAY * (self.latest_excess(shared.residual) - 1)
        found = self.later_error(shared.residual)
        if not (found and shared.error):
            return excess
        same = min(1.0, unknowns**calibration_config.UNKNOWNS_POWER)
        return float(excess ** (1 - same) * max(1.0, found / shared.error) ** same)

    @property
    def error(self) -> float:
        """Mean squared error of an expected reward of tasks that were learned from."""
        excess = self.latest_excess(self.shared.residual) if self.shares else 1.0
        return excess * self.used.error

    @property
    def factor(self) -> float:
        """The same, over what the prior in use expects; few rewards move it little."""
        if not (self.used.error and self.used.expected):
            return 1.0
        sure = self.n_rewards**2 / (self.n_rewards**2 + calibration_config.FEW_REWARDS**2)
        least = calibration_config.LEAST_FACTOR
        return float(np.clip(self.error / self.used.expected, least, 1 / least) ** sure)

    def honest(
        self, variances: Doubles, before: Doubles, *, left: Doubles, typical: float
    ) -> Doubles:
        """Return posterior variances of expected rewards such that errors are as large as stated.

        Where they were too large, tasks of which nothing is known keep the prior's; where they
        were too small, the same share of all that was learned is taken back.

        Parameters
        ----------
        variances, before
            Of the same expected rewards under the prior in use: now, and before any reward.
        left
            Share of the variance of typical arms that the task's rewards have left.
        typical
            The mean of ``before`` over typical arms.
        """
        factor, expected = self.factor, self.used.expected
        if factor <= 1:
            return np.asarray(variances * (factor + (1 - factor) * left**2))
        known, wanted = max(typical - expected, 0.0), (factor - 1) * expected
        share = wanted / known if wanted < known else 1.0
        more = max(1.0, factor * expected / typical)
        return np.asarray(more * (variances + share * (before - variances)))

    @property
    def numbers(self) -> Doubles:
        """All that a checkpoint holds of it, (11,)."""
        told = float(self.shares), self.excess, self.n_rewards
        return np.array([*self.used, *self.shared, *told, *self.validated])

    @classmethod
    def read(cls, reader: Reader) -> Calibration | None:
        """Read :attr:`numbers`; files of the first policies of this version have none."""
        if not reader.has("calibration"):
            return None
        numbers = reader.doubles("calibration", (11,))
        if numbers.min() < 0:
            raise refused(f"{numbers.min()} in selector.calibration, the least is 0")
        shares, excess, n_rewards = numbers[6:9].tolist()
        return cls(
            used=LeftOut(*numbers[:3].tolist()),
            shared=LeftOut(*numbers[3:6].tolist()),
            shares=bool(shares),
            excess=excess,
            n_rewards=n_rewards,
            validated=numbers[9:],
        )
