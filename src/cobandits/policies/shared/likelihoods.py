"""What rewards are, given the linear predictor of an arm: any numbers, 0 and 1, or counts.

Posteriors are Gaussian, so every likelihood is made Gaussian where it matters: near the linear
predictor ``eta = [phi, 1]' theta``. There a reward y counts as a working reward
``z = eta + (y - mu) / w`` with noise of variance ``1 / w``. Here ``mu`` is the expected reward, and
``w`` its derivative by eta. So the row ``sqrt(w) [phi, 1, z]`` has noise of variance 1. At the mode
of a task's posterior this is the Laplace approximation, and repeating it is Newton's method, known
as iteratively reweighted least squares. The reward can be recovered from its row, so a row is
weighted again when thetas have changed, and nothing else has to be kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.policies.shared import reward_config

__all__ = [
    "LIKELIHOODS",
    "Binary",
    "Count",
    "Gaussian",
    "Likelihood",
    "Rewards",
    "Robust",
    "Working",
    "check_admitted",
    "mode",
]

Doubles = NDArray[np.float64]

Rewards = Literal["auto", "gaussian", "robust", "binary", "count"]


class Working(NamedTuple):
    """Working rewards and their weights, of m rewards."""

    rewards: Doubles  # (m,), z
    weights: Doubles  # (m,), w


class Likelihood(ABC):
    """The distribution of a reward, given the linear predictor eta."""

    name: ClassVar[Rewards]  # in files, and as the policy's parameter
    scale: ClassVar[str]  # what the linear predictor is
    needed: ClassVar[str]  # what rewards have to be
    noise: ClassVar[float | None] = 1.0  # variance, of weighted rows; None where it is learned
    weighs: ClassVar[bool] = True  # whether rows have weights

    @abstractmethod
    def nearest(self, rewards: Doubles) -> Doubles:
        """Return the nearest rewards, (m,), that the likelihood admits."""

    @abstractmethod
    def mean(self, etas: Doubles) -> Doubles:
        """Return the expected rewards."""

    @abstractmethod
    def slope(self, means: Doubles) -> Doubles:
        """Return the derivatives by eta of expected rewards, as a function of these."""

    @abstractmethod
    def losses(self, etas: Doubles, rewards: Doubles) -> Doubles:
        """Return negative log-likelihoods, up to a constant per reward."""

    @abstractmethod
    def recovered(self, working: Working) -> Doubles:
        """Return the rewards, (m,), that :meth:`working` was given."""

    @abstractmethod
    def link(self, mean: float) -> float:
        """Return the eta of an expected reward."""

    @abstractmethod
    def top(self, highest: float) -> float:
        """Return the highest eta that is worth hoping for, given the highest reward so far."""

    def admits(self, rewards: Doubles) -> bool:
        """Tell whether rewards, (m,), can be such."""
        return bool((self.nearest(rewards) == rewards).all())

    def working(self, etas: Doubles, rewards: Doubles, variances: Doubles | None = None) -> Working:
        """Return working rewards and weights of rewards, (m,), near linear predictors, (m,).

        ``variances``, (m,), of the errors, are asked for by :class:`Robust` alone.
        """
        near = np.clip(etas, -reward_config.LARGEST_PREDICTOR, reward_config.LARGEST_PREDICTOR)
        means = self.mean(near)
        weights = self.slope(means)
        return Working(near + (rewards - means) / weights, weights)


class Gaussian(Likelihood):
    """Any numbers, with noise of unknown variance: a working reward is the reward itself."""

    name: ClassVar[Rewards] = "gaussian"
    scale = "expected reward"
    needed = "finite numbers"
    noise = None
    weighs = False

    def nearest(self, rewards: Doubles) -> Doubles:
        """Return the rewards."""
        return rewards

    def mean(self, etas: Doubles) -> Doubles:
        """Return eta."""
        return etas

    def slope(self, means: Doubles) -> Doubles:
        """Return 1."""
        return np.ones_like(means)

    def losses(self, etas: Doubles, rewards: Doubles) -> Doubles:
        """Return squared errors: the variance is not known."""
        return np.asarray((rewards - etas) ** 2)

    def recovered(self, working: Working) -> Doubles:
        """Return the working rewards."""
        return working.rewards

    def link(self, mean: float) -> float:
        """Return the expected reward."""
        return mean

    def top(self, highest: float) -> float:
        """Return the highest reward."""
        return highest

    def working(self, etas: Doubles, rewards: Doubles, variances: Doubles | None = None) -> Working:
        """Return the rewards, with weights of 1."""
        return Working(rewards, np.ones_like(rewards))


class Robust(Gaussian):
    """Numbers with noise that has outliers or heavy tails, or that differs by task.

    Errors beyond a few standard deviations count as if they were as large as these: their weight is
    the ratio of the squares.
    """

    name: ClassVar[Rewards] = "robust"
    weighs = True

    def working(self, etas: Doubles, rewards: Doubles, variances: Doubles | None = None) -> Working:
        """Return the rewards; where errors are too large for their variances, with less weight."""
        if variances is None:
            return super().working(etas, rewards)
        squares = np.maximum((rewards - etas) ** 2, reward_config.LEAST_RESOLVED * variances)
        return Working(rewards, np.minimum(1, reward_config.OUTLIER_SIZE**2 * variances / squares))


class Binary(Likelihood):
    """0 or 1: logistic regression. The linear predictor is the log-odds of 1.

    >>> near = Binary().working(np.array([0.0, 2.0]), np.array([1.0, 0.0]))
    >>> near.weights.round(3).tolist(), Binary().recovered(near).tolist()
    ([0.25, 0.105], [1.0, 0.0])
    """

    name: ClassVar[Rewards] = "binary"
    scale = "log-odds of a reward"
    needed = "0 or 1"

    def nearest(self, rewards: Doubles) -> Doubles:
        """Return 0 or 1."""
        return np.asarray(rewards >= 0.5, np.float64)

    def mean(self, etas: Doubles) -> Doubles:
        """Return the probabilities of 1."""
        return np.asarray(scipy.special.expit(etas))

    def slope(self, means: Doubles) -> Doubles:
        """Return the variances of rewards that are 1 with these probabilities."""
        return np.asarray(means * (1 - means))

    def losses(self, etas: Doubles, rewards: Doubles) -> Doubles:
        """Return ``log(1 + exp(eta)) - y eta``."""
        return np.asarray(np.logaddexp(0, etas) - rewards * etas)

    def recovered(self, working: Working) -> Doubles:
        """Return 1 where z is above 0: ``eta + 1 / mu`` is, ``eta - 1 / (1 - mu)`` never is."""
        return np.asarray(working.rewards > 0, np.float64)

    def link(self, mean: float) -> float:
        """Return the log-odds of a probability."""
        return float(np.log(mean / (1 - mean)))

    def top(self, highest: float) -> float:
        """Return log-odds that are as good as certain."""
        return reward_config.CERTAIN_LOG_ODDS


class Count(Likelihood):
    """0, 1, 2, ...: Poisson regression. The linear predictor is the log of the expected count.

    >>> near = Count().working(np.array([0.0, 2.0]), np.array([3.0, 0.0]))
    >>> near.weights.round(3).tolist(), Count().recovered(near).tolist()
    ([1.0, 7.389], [3.0, 0.0])
    """

    name: ClassVar[Rewards] = "count"
    scale = "log of the expected reward"
    needed = "whole numbers of at least 0"

    def nearest(self, rewards: Doubles) -> Doubles:
        """Return whole numbers of at least 0."""
        return np.asarray(np.rint(np.maximum(rewards, 0)))

    def mean(self, etas: Doubles) -> Doubles:
        """Return the expected counts."""
        return np.asarray(np.exp(np.minimum(etas, reward_config.LARGEST_PREDICTOR)))

    def slope(self, means: Doubles) -> Doubles:
        """Return the expected counts, which are the variances of counts too."""
        return means

    def losses(self, etas: Doubles, rewards: Doubles) -> Doubles:
        """Return ``exp(eta) - y eta``."""
        return np.asarray(self.mean(etas) - rewards * etas)

    def recovered(self, working: Working) -> Doubles:
        """Return ``w (1 + z - log(w))``: weights are expected counts, and their logs are eta."""
        z, w = working
        return np.asarray(np.rint(w * (1 + z - np.log(w))))

    def link(self, mean: float) -> float:
        """Return the log of an expected count."""
        return float(np.log(mean))

    def top(self, highest: float) -> float:
        """Return the log of the highest count."""
        return float(np.log(max(highest, 1.0)))


LIKELIHOODS: dict[str, Likelihood] = {
    one.name: one for one in (Gaussian(), Robust(), Binary(), Count())
}


def check_admitted(kind: Rewards, rewards: Doubles) -> None:
    """Refuse rewards, (m,), that are not what they were said to be."""
    if kind == "auto" or (said := LIKELIHOODS[kind]).admits(rewards):
        return
    wrong = rewards[said.nearest(rewards) != rewards][0]
    raise DataError(
        f"rewards must be {said.needed} with rewards={kind!r}, got {wrong:g}; make a policy with "
        "rewards='gaussian' to learn from other numbers"
    )


def mode(likelihood: Likelihood, means: Doubles, variances: Doubles, rewards: Doubles) -> Doubles:
    """Return the most likely linear predictors, (m,), given a reward each.

    Before it they are ``N(mean, variance)``. The mode is the root of
    ``mu(eta) + (eta - mean) / variance - y``, which rises. Newton's method; where it leaves the
    bracket of the root, or steps do not halve, the bracket is halved.

    >>> mode(Binary(), np.zeros(1), np.ones(1), np.ones(1)).round(3).tolist()
    [0.401]
    """
    eta = means
    other = means + variances * (rewards - likelihood.mean(means))  # on the other side of the root
    low, high = np.minimum(means, other), np.maximum(means, other)
    step = before = high - low
    for _ in range(reward_config.MODE_STEPS):
        expected = likelihood.mean(eta)
        height = expected + (eta - means) / variances - rewards
        low, high = np.where(height < 0, eta, low), np.where(height < 0, high, eta)
        newton = height / (likelihood.slope(expected) + 1 / variances)
        good = (eta - newton >= low) & (eta - newton <= high) & (2 * np.abs(newton) <= before)
        before, step = np.abs(step), np.where(good, newton, eta - (low + high) / 2)
        eta = eta - step
        if not (np.abs(step) > reward_config.MODE_TOLERANCE).any():
            break
    return np.asarray(eta)
