"""A conservative mode: never earn much less than a baseline would have, with high probability."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import Decisions, as_codes, check_shape
from cobandits.errors import ConfigurationError, DataError
from cobandits.kernels import turns
from cobandits.policies.propensities import draw
from cobandits.policies.shared import Shared
from cobandits.policies.task_index import as_labels

__all__ = ["Conservative"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Conservative:
    """Lets a shared policy decide where that is safe, and takes the baseline's arm elsewhere.

    For each task, the expected rewards of all decisions together are at least ``1 - alpha`` times
    those of the baseline's arms, with probability ``confidence``. Expected rewards must not be
    negative, or less than all is more.

    Rewards are linear in theta, so what was earned beyond that share is ``z' theta``, where ``z``
    is the sum of ``phi(chosen) - (1 - alpha) phi(baseline)`` over all decisions of a task. An arm
    is safe if, with it, ``z' theta`` is not negative for any theta in the confidence set of the
    task (Kazerouni et al. 2017). Decisions of the baseline earn a share ``alpha`` to explore with.

    A decision is counted when it is made, so it must be acted on. What was counted is not saved
    with the policy: the promise holds from the time on at which this object was made.

    Parameters
    ----------
    policy : Shared
        With ``rewards="gaussian"`` or ``"robust"``: others are not linear in theta.
    alpha : float
        Share of the baseline's rewards that may be lost.
    confidence : float
        Probability with which the promise is kept, for each task.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> careful = Conservative(Shared(dim=3, rewards="gaussian"), alpha=0.1)
    >>> arms = rng.standard_normal((2, 4, 3))
    >>> careful.decide([0, 1], arms, rng, baseline=[2, 3]).chosen.tolist()
    [2, 3]
    """

    def __init__(self, policy: Shared, *, alpha: float = 0.1, confidence: float = 0.95) -> None:
        for name, share in (("alpha", alpha), ("confidence", confidence)):
            if not 0 < share < 1:
                raise ConfigurationError(f"{name} must be between 0 and 1, got {share}")
        if (kind := policy.reward_kind) not in ("gaussian", "robust"):
            raise ConfigurationError(
                "a conservative policy needs rewards='gaussian' or 'robust', which are linear in "
                f"theta, got {kind!r}"
            )
        self.policy, self.alpha, self.confidence = policy, float(alpha), float(confidence)
        self._sums: dict[Hashable, Doubles] = {}  # z by task, with the intercept, (d + 1,)
        self._lock = Lock()

    def decide(
        self, tasks: ArrayLike, arms: ArrayLike, rng: np.random.Generator, *, baseline: ArrayLike
    ) -> Decisions:
        """Choose one of the arms, (m, K, d), for each task, (m,), and count what was chosen.

        ``baseline``, (m,), is the arm that would be taken without a policy.
        """
        asked = as_labels(tasks) if self.policy.labels else as_codes(tasks)
        offers = np.asarray(check_shape(arms, len(asked), self.policy.dim), np.float64)
        usual = self._check_baseline(baseline, offers)
        chances = np.asarray(self.policy.probabilities(tasks, offers), np.float64)
        with self._lock:
            chosen, found, counted = self._chosen(asked, offers, usual, chances, rng)
            self._sums |= counted  # all of them, or none if one could not be made
        return Decisions(chosen=chosen, probabilities=found, policy="conservative")

    def _chosen(
        self,
        asked: NDArray[Any],
        offers: Doubles,
        usual: Codes,
        chances: Doubles,
        rng: np.random.Generator,
    ) -> tuple[Codes, Doubles, dict[Hashable, Doubles]]:
        """Return the chosen arms and their probabilities, (m,), and z of the tasks with them."""
        chosen, found, turn = np.empty(len(asked), np.int64), np.empty(len(asked)), _turns(asked)
        counted = {task: self._sums[task] for task in asked.tolist() if task in self._sums}
        for n in range(int(turn.max(initial=-1)) + 1):
            some = np.flatnonzero(turn == n)  # each task once, as each decision counts for the next
            sums = self._sums_with(counted, asked[some], offers[some], usual[some])
            safe = self._is_safe(asked[some], sums, usual[some])
            shares = _moved(chances[some], safe, usual[some])
            chosen[some], found[some] = draw(shares, rng)
            for i, task in enumerate(asked[some].tolist()):
                counted[task] = sums[i, chosen[some][i]]
        return chosen, found, counted

    def learn(
        self, tasks: ArrayLike, arms: ArrayLike, decisions: Decisions, rewards: ArrayLike
    ) -> None:
        """Let the policy learn from the rewards, (m,), of decisions."""
        self.policy.learn(tasks, arms, decisions, rewards)

    def _check_baseline(self, baseline: ArrayLike, arms: Doubles) -> Codes:
        """Return the baseline's arms, (m,), or refuse them."""
        given = np.asarray(baseline)
        m, K = arms.shape[:2]
        if given.shape != (m,) or (m and given.dtype.kind not in "iu"):
            raise DataError(
                f"baseline must be the number of an arm for each of {m} requests, got shape "
                f"{given.shape} of type {given.dtype}"
            )
        if m and not 0 <= given.min() <= given.max() < K:
            raise DataError(
                f"baseline must be from 0 to {K - 1}, the last arm, got {given.min()} to "
                f"{given.max()}"
            )
        return given.astype(np.int64)

    def _sums_with(
        self,
        counted: Mapping[Hashable, Doubles],
        tasks: NDArray[Any],
        arms: Doubles,
        usual: Codes,
    ) -> Doubles:
        """Return z of each task with each of its arms added, (m, K, d + 1)."""
        m, K, d = arms.shape
        rows = np.concatenate([arms, np.ones((m, K, 1))], axis=2)
        before = np.stack([counted.get(t, np.zeros(d + 1)) for t in tasks.tolist()])
        lost = (1 - self.alpha) * rows[np.arange(m), usual]
        return np.asarray(rows + (before - lost)[:, None])

    def _is_safe(self, tasks: NDArray[Any], sums: Doubles, usual: Codes) -> NDArray[np.bool_]:
        """Tell which arms, (m, K), keep the promise for all thetas in the confidence sets.

        The intercept of z is ``alpha`` times the number n of decisions, above 0, so that z over it
        is a row ``[phi, 1]``. The n-th decision may fail with a probability in proportion to
        ``1 / n^2``, so that all together keep the promise. The baseline's arm is taken for safe:
        there is none that is safer.
        """
        n = sums[:, 0, -1] / self.alpha
        failing = (1 - self.confidence) * 6 / (np.pi * n) ** 2
        sure = np.minimum(1 - failing, np.nextafter(1, 0))  # after many decisions it rounds to 1
        lower, _ = self.policy.bounds(tasks, sums[..., :-1] / sums[..., -1:], confidence=sure)
        safe = lower >= 0
        safe[np.arange(len(usual)), usual] = True
        return np.asarray(safe)


def _turns(tasks: NDArray[Any]) -> Codes:
    """Return how often the task of each request came before it, (m,)."""
    numbers: dict[Hashable, int] = {}
    return turns(np.array([numbers.setdefault(t, len(numbers)) for t in tasks.tolist()], np.int64))


def _moved(chances: Doubles, safe: NDArray[np.bool_], usual: Codes) -> Doubles:
    """Return probabilities, (m, K), with those of arms that are not safe moved to the baseline."""
    shares = np.where(safe, chances, 0.0)
    shares[np.arange(len(usual)), usual] += (chances - shares).sum(axis=1)
    return np.minimum(shares, 1.0)  # beyond it is rounding
