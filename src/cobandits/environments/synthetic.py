"""The synthetic tasks of section 6 of the paper, and variations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Round, Truth
from cobandits.environments.outcomes import Outcome, check_outcome, drawn, expected
from cobandits.errors import ConfigurationError
from cobandits.linalg import orthonormal
from cobandits.randomness import stream
from cobandits.tasks import TaskRows

__all__ = ["Problem", "Synthetic"]

Floats = NDArray[np.floating]

_SLOWEST = 0.1  # smallest share of rounds in which a task asks, with unequal rates


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem(Truth):
    """Rows of many tasks, and the truth that they were drawn from."""

    tasks: TaskRows
    noise_std: float


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Tasks with a common basis, as in section 6 of the paper.

    ``B*`` is an orthonormalised Gaussian matrix, ``W*`` and the features are standard
    Gaussian. The paper gives the noise as "variance 1e-6", a standard deviation of 1e-3.

    Parameters
    ----------
    condition : float, optional
        Spread the singular values of theta geometrically, from the largest of ``W*``
        down to that over ``condition``.
    correlation : float
        Features j and k have correlation ``correlation ** |j - k|``.
    shift : float
        Size of the features' mean, relative to their standard deviation. In rounds, each
        arm has a mean of its own: the paper's mu_{x,c}.
    n_arms : int
        Arms per decision, K.
    unrelated : bool
        Draw every task's theta independently, with the same expected squared norm.
    apart : float
        Share of the tasks, the last ones, whose theta is drawn so; the others share ``B*``.
    replaced : bool
        At half time another basis replaces ``B*``; the weights stay.
    changed : int
        So many tasks, the first ones, have other weights from half time on.
    turn : float
        Radians by which each direction of ``B*`` turns per round.
    late : float
        Share of the tasks, the last ones, that first ask at half time.
    unequal : bool
        Each task asks in its own share of the rounds, from 0.1 to 1.
    outcome : str
        Rewards of rounds: ``"gaussian"``; ``"clicks"``, 0 or 1; ``"counts"``; with noise of which
        1 % are ``"outliers"``, a hundred times as large; with ``"heavy-tails"``, Student's t with 2
        degrees of freedom; or with ``"own-noise"``, from 0.1 to 10 times ``noise_std`` by task.
    rate : float
        Expected reward of an arm whose features are 0: of clicks and counts.
    fixed : bool
        Every task has the same arms in all rounds.
    one_hot : int
        Arms are described by so many fields, with ``dim / one_hot`` values each, one of which is 1.
        Arms of a request differ in each field, as far as they can; 0: features are Gaussian.
    missing : float
        Share of the rewards of rounds that are never known.
    delay : int
        Rewards of a round are known so many rounds later.

    Examples
    --------
    >>> problem = Synthetic(dim=10, n_tasks=4, rank=2).problem(n_rows=5, seed=0)
    >>> problem.theta.shape, problem.tasks.n_rows
    ((10, 4), 20)
    >>> first, *_ = Synthetic(dim=10, n_tasks=4, rank=2).rounds(3, seed=0)
    >>> first.arms.shape, first.rewards.shape
    ((4, 5, 10), (4, 5))
    """

    name: ClassVar[str] = "synthetic"

    dim: int
    n_tasks: int
    rank: int
    noise_std: float = 1e-3
    condition: float | None = None
    correlation: float = 0.0
    shift: float = 0.0
    n_arms: int = 5
    unrelated: bool = False
    apart: float = 0.0
    replaced: bool = False
    changed: int = 0
    turn: float = 0.0
    late: float = 0.0
    unequal: bool = False
    outcome: Outcome = "gaussian"
    rate: float = 0.05
    fixed: bool = False
    one_hot: int = 0
    missing: float = 0.0
    delay: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= min(self.dim, self.n_tasks):
            raise ConfigurationError(
                f"rank must be from 1 to min(dim, tasks) = {min(self.dim, self.n_tasks)}, "
                f"got {self.rank}"
            )
        if not 0 <= self.noise_std < np.inf:
            raise ConfigurationError(f"noise-std must be finite and >= 0, got {self.noise_std}")
        if self.condition is not None and not 1 <= self.condition < np.inf:
            raise ConfigurationError(f"condition must be finite and >= 1, got {self.condition}")
        for name in ("shift", "turn"):
            if not np.isfinite(getattr(self, name)):
                raise ConfigurationError(f"{name} must be finite, got {getattr(self, name)}")
        if not 0 <= self.changed <= self.n_tasks:
            raise ConfigurationError(
                f"changed must be from 0 to tasks = {self.n_tasks}, got {self.changed}"
            )
        if self.turn and 2 * self.rank > self.dim:
            raise ConfigurationError(
                f"a basis can only turn if dim is at least 2 rank = {2 * self.rank}, "
                f"got dim = {self.dim}"
            )
        if self.turn and self.replaced:
            raise ConfigurationError("a basis can turn or be replaced, not both")
        has_basis = self.condition is not None or self.replaced or self.turn
        if (self.unrelated or self.apart) and has_basis:
            raise ConfigurationError(
                "unrelated tasks have no common basis: leave out condition, replaced and turn"
            )
        check_outcome(self.outcome, self.rate)
        self._check_rounds()

    def _check_rounds(self) -> None:
        for name, value, least in (("arms", self.n_arms, 1), ("delay", self.delay, 0)):
            if value < least:
                raise ConfigurationError(f"{name} must be at least {least}, got {value}")
        for name in ("correlation", "late", "apart", "missing"):
            if not 0 <= (share := getattr(self, name)) < 1:
                raise ConfigurationError(f"{name} must be in [0, 1), got {share}")
        if self.one_hot < 0 or (self.one_hot and self.dim % self.one_hot):
            raise ConfigurationError(
                f"one-hot must be a number of fields that divides dim = {self.dim}, "
                f"got {self.one_hot}"
            )
        if self.one_hot and (self.correlation or self.shift):
            raise ConfigurationError("one-hot features have no correlation and no shift")

    def problem(self, *, n_rows: int, seed: int, trial: int = 0, unequal: bool = False) -> Problem:
        """Draw the tasks and ``n_rows`` rows per task; the same for the same seed and trial.

        With ``unequal``, a task has from 0.2 to 1.8 times ``n_rows``.
        """
        if n_rows < 1:
            raise ConfigurationError(f"rows must be at least 1, got {n_rows}")
        if self.outcome != "gaussian":
            raise ConfigurationError(f"only rounds have {self.outcome}; leave out outcome for rows")
        truth = self._drawn_truth(seed, trial)
        rng = stream(seed, "rows", trial)
        counts = np.full(self.n_tasks, n_rows)
        if unequal:
            drawn = rng.uniform(0.2 * n_rows, 1.8 * n_rows, self.n_tasks)
            counts = np.maximum(1, np.rint(drawn).astype(np.int64))
        features = self._features(int(counts.sum()), rng)
        owners = np.repeat(np.arange(self.n_tasks), counts)
        rewards = np.einsum("nr,rn->n", features @ truth.basis, truth.weights[:, owners])
        rewards += self.noise_std * rng.standard_normal(len(rewards))
        tasks = TaskRows.from_arrays(features, rewards, owners)
        return Problem(
            tasks=tasks, basis=truth.basis, weights=truth.weights, noise_std=self.noise_std
        )

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield ``n_rounds`` rounds of drawn tasks; the same for the same seed and trial."""
        half = n_rounds // 2
        truth = self._drawn_truth(seed, trial)
        another = self._another(truth, seed, trial)
        asking, drawing = stream(seed, "asking", trial), stream(seed, "arms", trial)
        noise = stream(seed, "noise", trial)
        rates = self._rates(asking)
        means = self.shift * drawing.standard_normal((self.n_arms, self.dim))
        arms = self._arms(self.n_tasks, means, drawing) if self.fixed else None
        joined = self.n_tasks - round(self.late * self.n_tasks)
        for n in range(n_rounds):
            if self.replaced and n == half:
                truth = replace(truth, basis=another)
            if n == half:
                joined = self.n_tasks
                truth = self._with_changed(truth, seed, trial)
            tasks = np.flatnonzero(asking.random(self.n_tasks) < rates)
            tasks = tasks[tasks < joined]
            shown = self._arms(len(tasks), means, drawing) if arms is None else arms[tasks]
            yield self._round(tasks, self._turned(truth, another, n), shown, noise)

    def _arms(self, m: int, arm_means: Floats, rng: np.random.Generator) -> Floats:
        if self.one_hot:
            return self._one_hot_arms(m, rng)
        arms = self._correlated(m * self.n_arms, rng).reshape(m, self.n_arms, self.dim)
        if self.shift:
            arms += arm_means
        return arms

    def _one_hot_arms(self, m: int, rng: np.random.Generator) -> Floats:
        n_values = self.dim // self.one_hot
        shape = (m, self.one_hot, -(-self.n_arms // n_values), 1)  # of orders of all values
        orders = rng.permuted(np.tile(np.arange(n_values), shape), axis=3)
        values = orders.reshape(m, self.one_hot, -1)[..., : self.n_arms]
        arms = np.eye(n_values)[values.swapaxes(1, 2)]  # (m, K, fields, values)
        return np.asarray(arms.reshape(m, self.n_arms, self.dim))

    def _round(
        self, tasks: NDArray[np.int64], truth: Truth, arms: Floats, noise: np.random.Generator
    ) -> Round:
        values = np.einsum("mkr,rm->mk", arms @ truth.basis, truth.weights[:, tasks])
        means = expected(self.outcome, values, self.rate)
        rewards = drawn(self.outcome, means, tasks, self.noise_std, noise)
        if self.missing:
            rewards[noise.random(len(tasks)) < self.missing] = np.nan
        return Round(
            tasks=tasks, arms=arms, means=means, rewards=rewards, truth=truth, delay=self.delay
        )

    def _another(self, truth: Truth, seed: int, trial: int) -> Floats:
        """Return a basis independent of ``B*``, which replaces it or which it turns towards."""
        return orthonormal(stream(seed, "another basis", trial).standard_normal(truth.basis.shape))

    def _with_changed(self, truth: Truth, seed: int, trial: int) -> Truth:
        """Return the truth with other weights of some tasks, as large as those of all."""
        if not self.changed:
            return truth
        W, rng = truth.weights.copy(), stream(seed, "changed tasks", trial)
        size = np.sqrt((W**2).mean()) if self.unrelated or self.apart else 1.0
        W[:, : self.changed] = size * rng.standard_normal((len(W), self.changed))
        return replace(truth, weights=W)

    def _rates(self, rng: np.random.Generator) -> Floats:
        """Return the share of the rounds in which each task asks, (T,)."""
        if not self.unequal:
            return np.ones(self.n_tasks)
        return rng.permutation(np.geomspace(_SLOWEST, 1, self.n_tasks))

    def _turned(self, truth: Truth, another: Floats, n: int) -> Truth:
        """Return the truth after n turns: every direction turns towards one outside of ``B*``."""
        if not self.turn:
            return truth
        B = truth.basis
        outside = orthonormal(another - B @ (B.T @ another))
        return replace(truth, basis=np.cos(n * self.turn) * B + np.sin(n * self.turn) * outside)

    def _drawn_truth(self, seed: int, trial: int) -> Truth:
        rng, scale = stream(seed, "truth", trial), np.sqrt(self.rank / self.dim)
        if self.unrelated:
            B, W = np.linalg.qr(scale * rng.standard_normal((self.dim, self.n_tasks)))
        else:
            B, W = self._truth(rng)
        if n_apart := round(self.apart * self.n_tasks):
            Theta = B @ W
            Theta[:, -n_apart:] = scale * rng.standard_normal((self.dim, n_apart))
            B, W = np.linalg.qr(Theta)
        return Truth(basis=B, weights=W)

    def _truth(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        B = orthonormal(rng.standard_normal((self.dim, self.rank)))
        W = rng.standard_normal((self.rank, self.n_tasks))
        if self.condition is not None:
            U, s, Vt = np.linalg.svd(W, full_matrices=False)
            W = U * (s[0] * np.geomspace(1, 1 / self.condition, self.rank)) @ Vt
        return np.asarray(B, np.float64), W

    def _features(self, n_rows: int, rng: np.random.Generator) -> Floats:
        """Draw rows around one common mean."""
        features = self._correlated(n_rows, rng)
        if self.shift:
            features += self.shift * rng.standard_normal(self.dim)
        return features

    def _correlated(self, n_rows: int, rng: np.random.Generator) -> Floats:
        """Draw rows one coordinate after the other, each correlated with the one before."""
        features = rng.standard_normal((n_rows, self.dim))
        fresh = np.sqrt(1 - self.correlation**2)
        if self.correlation:
            for j in range(1, self.dim):
                features[:, j] *= fresh
                features[:, j] += self.correlation * features[:, j - 1]
        return features
