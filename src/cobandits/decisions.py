"""Rounds, decisions and rewards of many tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError
from cobandits.fast_checks import are_at_most, are_codes, take_rows
from cobandits.ragged import RaggedArms, as_rectangle

__all__ = [
    "LARGEST_VALUE",
    "Decisions",
    "Outcome",
    "Round",
    "Truth",
    "as_codes",
    "check_decisions",
    "check_offers",
    "check_rewards",
    "check_shape",
    "check_tasks",
    "check_values",
]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_DOUBLE, _CODE = np.dtype(np.float64), np.dtype(np.int64)
_LARGEST_CODE = 2**63 - 1
LARGEST_VALUE = 1e75  # of a feature or a reward: a product of two can still be squared


class Decisions:
    """One decision per request.

    Parameters
    ----------
    chosen : (m,)
        The number of the arm.
    probabilities : (m,)
        The probability with which the policy chose that arm; or a function that computes them
        when they are first read.
    policy : str
        The name of the policy.

    Examples
    --------
    >>> decided = Decisions(chosen=np.array([1]), probabilities=np.array([0.5]), policy="random")
    >>> decided.features(np.array([[[0.0, 1.0], [2.0, 3.0]]])).tolist()
    [[2.0, 3.0]]
    """

    def __init__(
        self, *, chosen: ArrayLike, probabilities: ArrayLike | Callable[[], Floats], policy: str
    ) -> None:
        self.chosen: Codes = np.asarray(chosen)
        if self.chosen.ndim != 1 or self.chosen.dtype.kind not in "iu":
            raise DataError(
                f"chosen must be numbers of arms, (m,), got shape {self.chosen.shape} "
                f"of {self.chosen.dtype}"
            )
        self.policy = policy
        self._compute = probabilities if callable(probabilities) else None
        if self._compute is None:
            self.probabilities = self._checked(np.asarray(probabilities))

    def __repr__(self) -> str:
        return f"Decisions(chosen={self.chosen!r}, policy={self.policy!r})"

    @cached_property
    def probabilities(self) -> Floats:
        """The probabilities with which the policy chose these arms, (m,)."""
        assert self._compute is not None
        return self._checked(self._compute())

    def _checked(self, probabilities: Floats) -> Floats:
        if self.chosen.shape != probabilities.shape:
            raise DataError(
                f"expected chosen (m,) and probabilities (m,), got {self.chosen.shape} "
                f"and {probabilities.shape}"
            )
        fine = (probabilities > 0) & (probabilities <= 1)
        if not fine.all():
            wrong = float(probabilities[~fine][0])
            advice = "divide percentages by 100" if wrong > 1 else "what has 0 was never made"
            raise DataError(
                f"probabilities must be above 0 and at most 1, got {wrong:g} in decision "
                f"{int((~fine).argmax())}; {advice}"
            )
        return probabilities

    def __len__(self) -> int:
        return len(self.chosen)

    @classmethod
    def concatenate(cls, parts: Sequence[Decisions]) -> Decisions:
        """Return several decisions as one batch."""
        if not parts:
            raise DataError("there are no decisions to put together; give at least one")
        return cls(
            chosen=np.concatenate([part.chosen for part in parts]),
            probabilities=lambda: np.concatenate([part.probabilities for part in parts]),
            policy=", ".join(dict.fromkeys(part.policy for part in parts)),
        )

    def select(self, rows: NDArray[np.bool_]) -> Decisions:
        """Return some of the decisions."""
        return Decisions(
            chosen=self.chosen[rows],
            probabilities=lambda: self.probabilities[rows],
            policy=self.policy,
        )

    def features(self, arms: Floats | RaggedArms) -> Floats:
        """Return the feature vectors of the chosen arms, (m, d), of ``arms``, (m, K, d)."""
        if isinstance(arms, RaggedArms):
            return np.asarray(arms.flat[arms.places(self.chosen)])
        m, K, _ = arms.shape
        if len(self) != m:
            raise DataError(f"{len(self)} decisions for {m} sets of arms; give one for each")
        if not are_codes(self.chosen.astype(np.int64, copy=False), K):
            wrong = int(self.chosen[(self.chosen < 0) | (self.chosen >= K)][0])
            raise DataError(f"arm {wrong} was never offered: arms are numbered 0 to {K - 1}")
        return take_rows(arms, self.chosen)


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """The true parameters of the tasks, where rewards are linear."""

    basis: Floats  # B*, (d, r)
    weights: Floats  # W*, (r, T)

    @property
    def theta(self) -> Floats:
        """``B* W*``, (d, T)."""
        return self.basis @ self.weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The decisions of a round with known rewards, which a policy can learn from."""

    tasks: Codes  # (m,)
    arms: Floats  # (m, K, d)
    decisions: Decisions
    rewards: Floats  # (m,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """The requests of a round: tasks, arms, and the reward that each arm would give.

    Policies see tasks and arms. A mean or a reward that is not known is NaN.
    """

    tasks: Codes  # (m,)
    arms: Floats  # (m, K, d)
    means: Floats  # (m, K), expected rewards
    rewards: Floats  # (m, K)
    truth: Truth | None = None
    delay: int = 0  # rewards are known so many rounds later

    def outcome(self, decisions: Decisions) -> Outcome:
        """Return the decisions with their rewards, without those whose reward is not known."""
        rewards = self.rewards[np.arange(len(self.tasks)), decisions.chosen]
        known = np.isfinite(rewards)
        if known.all():
            return Outcome(tasks=self.tasks, arms=self.arms, decisions=decisions, rewards=rewards)
        return Outcome(
            tasks=self.tasks[known],
            arms=self.arms[known],
            decisions=decisions.select(known),
            rewards=rewards[known],
        )

    def regrets(self, decisions: Decisions) -> Floats:
        """Return the expected reward of the best arm minus that of the chosen one, (m,)."""
        chosen = self.means[np.arange(len(self.tasks)), decisions.chosen]
        return np.asarray(self.means.max(axis=1, initial=-np.inf) - chosen)


def check_tasks(tasks: ArrayLike, n_tasks: int | None) -> Codes:
    """Return the task numbers, (m,); refuse those out of range, which None leaves open above."""
    codes = as_codes(tasks)
    most = _LARGEST_CODE if n_tasks is None else n_tasks
    if not are_codes(codes, most):
        wrong = int(codes[(codes < 0) | (codes >= most)][0])
        there = "tasks are" if n_tasks is None else f"there are {n_tasks},"
        advice = "make the policy for more tasks (n_tasks)" if wrong > 0 else "give its number"
        raise DataError(f"task {wrong}, but {there} numbered from 0; {advice}")
    return codes


def as_codes(tasks: ArrayLike) -> Codes:
    """Return tasks, (m,), as whole numbers; refuse what are none."""
    codes = np.asarray(tasks)
    if codes.ndim != 1 or (codes.dtype.kind not in "iu" and codes.size):
        texts = codes.dtype.kind in "OUS"
        raise DataError(
            f"tasks must be whole numbers, (m,), got shape {codes.shape} of {codes.dtype}; "
            + ("number them, or take Shared(labels=True)" if texts else "give one per request")
        )
    if codes.dtype is _CODE and codes.flags.c_contiguous:
        return codes
    return np.ascontiguousarray(codes, np.int64)


def check_offers(
    arms: ArrayLike | RaggedArms, n_asked: int, dim: int, available: ArrayLike | None = None
) -> Floats | RaggedArms:
    """Return the arms as :func:`check_shape` does, or ragged where requests differ in them.

    ``arms`` are (m, K, d), or (K, d) for each request; ``available`` are flags, (m, K), or (K,)
    for each request.
    """
    if available is None and type(arms) is np.ndarray:  # the fast way
        return check_shape(arms, n_asked, dim)
    if isinstance(arms, RaggedArms):
        given = arms
    elif (rectangle := as_rectangle(arms)) is None:
        given = RaggedArms.of(arms, available)
    else:
        phi = check_shape(rectangle, n_asked, dim)
        if available is None:
            return phi
        given = RaggedArms.of(phi, available)
    if len(given) != n_asked or (n_asked and given.dim != dim):
        raise DataError(
            f"expected arms of {n_asked} requests with {dim} features, "
            f"got {len(given)} with {given.dim}"
        )
    return given


def check_shape(arms: ArrayLike, n_asked: int, dim: int) -> Floats:
    """Return the arms, (m, K, d), as floats; refuse other shapes and types."""
    phi = np.asarray(arms)
    if phi.dtype.kind not in "biuf":
        raise DataError(f"arms must be real numbers, got values of type {phi.dtype}")
    if phi.ndim != 3 or len(phi) != n_asked or phi.shape[1] < 1:
        hint = "; one request's arms are arms[None]" if n_asked == 1 and phi.ndim == 2 else ""
        got = f"{phi.shape}{hint}"
        raise DataError(f"expected arms (m, K, d) for m = {n_asked} tasks, got shape {got}")
    if phi.shape[2] != dim:
        raise DataError(f"expected arms of {dim} features, got {phi.shape[2]}")
    kept = phi.dtype is _DOUBLE or phi.dtype == np.float32
    return phi if kept else phi.astype(np.float64, copy=False)


def check_values(phi: Floats) -> None:
    """Refuse features, (m, ...), that are NaN, infinite or too large to square."""
    if are_at_most(phi, LARGEST_VALUE):
        return
    finite = np.isfinite(phi)
    if not finite.all():
        row = int(np.argwhere(~finite)[0][0])
        raise DataError(
            f"arms hold a NaN or an infinite value, first in request {row}; fill it in or drop it"
        )
    raise DataError(
        f"arms hold {np.abs(phi).max():.3g}, at most {LARGEST_VALUE:g} can be squared; "
        "scale them to about 1"
    )


def check_decisions(decisions: object) -> None:
    """Refuse what :meth:`Policy.decide` does not return."""
    if not isinstance(decisions, Decisions):
        raise DataError(
            f"decisions must be what decide returned, got {type(decisions).__name__}; pass it as a "
            "whole, not its chosen arms, or make one with Decisions(chosen=..., probabilities=...)"
        )


def check_rewards(rewards: ArrayLike, n_asked: int) -> NDArray[np.float64]:
    """Return the rewards, (m,), as finite numbers; refuse others."""
    try:
        y: NDArray[np.float64] = np.asarray(rewards, np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"rewards must be numbers, (m,), got {rewards!r}; give a number for each decision"
        ) from None
    if y.shape != (n_asked,):
        raise DataError(f"expected a reward for each of {n_asked} decisions, got {y.shape}")
    if are_at_most(y, LARGEST_VALUE):
        return y if y.flags.c_contiguous else np.ascontiguousarray(y)
    if not np.isfinite(y).all():
        i = int(np.flatnonzero(~np.isfinite(y))[0])
        raise DataError(f"reward {i} is {y[i]}; leave out decisions whose reward is not known")
    raise DataError(
        f"a reward is {np.abs(y).max():.3g} in size, at most {LARGEST_VALUE:g} can be squared; "
        "scale rewards to about 1"
    )
