"""CommonMean: a theta that tasks have in common, and what each task deviates from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, solved_directly
from cobandits.estimators.checks import check_ridge
from cobandits.kernels import Marginal
from cobandits.linalg import factor, solve_semidefinite
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["CommonMean"]

Floats = NDArray[np.floating]
Place = tuple[int, int]  # of the variances of constant and of other features, on the grid

_PER_DECADE = 2  # variances tried: closer ones predict alike
_LEAST_WEIGHT = 1e-2  # rows per task times the least variance tried: as good as no deviation
_LARGEST = 1e8  # variance tried, in units of the noise: as good as no shrinkage
_FIRST = 0.1  # variance tried first, in the same units
_MEANS = 10.0 ** np.arange(-6, 5)  # variances of the common mean tried, in the same units
_NO_MEAN = np.array([1e-12])  # variance of a common mean that is as good as 0
_FREE = 1e8  # variance of the common mean's entry of a constant feature: not shrunken
_CONSTANT = 1e-3  # weight in a penalty, as a share of the mean square: only constant ones are below
_ENOUGH = 150  # tasks, to 299, that tell the variances: their standard error is 12 % at most
_ENOUGH_LONG = 75  # the same for tasks with more rows than features: 16 %, a third of a step
_RESOLVED = 1e-14  # relative precision of the precision matrix, per feature


@dataclass(frozen=True, kw_only=True)
class CommonMean(Estimator):
    """A common mean and own deviations: ``theta_t = m + delta_t`` (partial pooling).

    The minimum over ``m`` and all ``delta_t`` of
    ``sum_t |y_t - Phi_t (m + delta_t)|^2 + sum_j ridge_j delta_tj^2``. It is the mean of theta
    given the rewards if thetas are drawn from ``N(m, noise / ridge)``: a random-coefficients
    model. A task without rows gets ``m``. The solution is in closed form: ``start`` and
    ``rng`` of a fit have no effect.

    Parameters
    ----------
    ridge : float or "auto"
        The penalty on deviations. ``"auto"`` chooses three variances by the likelihood of the
        rewards: of deviations in constant features (an intercept), of those in all others,
        and of the mean's entries for all others; each for features divided by their root
        mean squares, so that units do not matter. 0 is each task's least squares.
    mean : "all" or "constant"
        With ``"constant"`` only constant features have an entry in the common mean: each
        task's own mean and slopes, shrunken to the mean of all tasks and to 0.

    Examples
    --------
    >>> from cobandits.tasks import TaskRows
    >>> tasks = TaskRows.from_arrays([[1.0], [1.0], [1.0]], [1.0, 3.0, 5.0], ["a", "a", "b"])
    >>> CommonMean(ridge=2.0).fit(tasks).theta.round(3).tolist()
    [[2.6, 3.8]]
    """

    name: ClassVar[str] = "common"

    ridge: float | Literal["auto"] = "auto"
    mean: Literal["all", "constant"] = "all"

    def __post_init__(self) -> None:
        if self.mean not in ("all", "constant"):
            raise ConfigurationError(f"mean must be 'all' or 'constant', got {self.mean!r}")
        if self.ridge != "auto":
            check_ridge(self.ridge, "a number or 'auto'")

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        if self.ridge == 0:
            return _solved(tasks, np.zeros(tasks.dim), None, history)
        tasks = tasks.compact()
        if self.ridge == "auto":
            is_long = tasks.n_rows > tasks.dim * tasks.n_tasks
            enough = _ENOUGH_LONG if is_long else _ENOUGH
            sample = tasks.every(max(1, tasks.n_tasks // enough))
            prior = _Search(
                sample if sample.n_rows else tasks, _MEANS if self.mean == "all" else _NO_MEAN
            ).best()
        else:
            constant = _constant(tasks) | (self.mean == "all")
            barred = np.where(constant, 0.0, tasks.mean_squares() / _NO_MEAN)
            prior = _Prior(np.full(tasks.dim, float(self.ridge)), barred)
        m = _mean(tasks.marginal(1 / prior.ridge), prior.mean_ridge)
        return _solved(tasks, prior.ridge, m, history, prior.mean_ridge)


class _Prior(NamedTuple):
    """Penalties on deviations and on the common mean, (d,) each: noise over prior variance."""

    ridge: Floats
    mean_ridge: Floats


def _constant(tasks: TaskData) -> NDArray[np.bool_]:
    """Return which features are constant, (d,)."""
    return tasks.penalty_scale() < _CONSTANT * tasks.mean_squares()


def _mean(sums: Marginal, mean_ridge: Floats) -> Floats:
    """Return the common mean by generalised least squares with a penalty, (d,)."""
    M = sums.precision + np.diag(mean_ridge)
    tolerance = len(M) * _RESOLVED
    return np.asarray(solve_semidefinite(M[None], sums.moments[None], tolerance)[0])


def _solved(
    tasks: TaskData,
    ridge: Floats,
    mean: Floats | None,
    history: HistoryWriter,
    mean_ridge: Floats | float = 0.0,
) -> Solution:
    Theta = tasks.kept(tasks.ridge(ridge, mean).astype(np.float64))
    B, W = factor(Theta)
    m = np.zeros(tasks.dim) if mean is None else mean
    shrinkage = (ridge[:, None] * (Theta - m[:, None]) ** 2).sum() + np.sum(mean_ridge * m**2)
    cost = float(tasks.residuals(Theta)[1].sum() + shrinkage)
    sizes = f"ridge {ridge.min():.3g} to {ridge.max():.3g}"
    return solved_directly(B, W, cost, history, f", with {sizes}")


class _Search:
    """The variances with the greatest likelihood, by steps on a grid.

    For given variances of deviations one pass over the data gives the likelihood for every
    variance of the mean; so the first two are searched, and the third is the best one.
    """

    def __init__(self, tasks: TaskData, means: Floats) -> None:
        squares = tasks.mean_squares()
        self._tasks, self._means = tasks, means
        self._constant = _constant(tasks)
        self._squares = np.where(squares > 0, squares, 1.0)
        least = _LEAST_WEIGHT * tasks.n_tasks / tasks.n_rows
        decades = np.arange(np.log10(least), np.log10(_LARGEST), 1 / _PER_DECADE)
        self._grid = 10.0**decades
        self._known: dict[Place, tuple[float, _Prior]] = {}

    def best(self) -> _Prior:
        """Return the penalties at the best place that single steps lead to."""
        first = int(np.searchsorted(self._grid, _FIRST).clip(max=len(self._grid) - 1))
        place = (first, first)
        steps = [s for s, used in zip(((1, 0), (0, 1)), self._used, strict=True) if used]
        stride = 4
        while stride:
            tried = [
                (place[0] + sign * stride * i, place[1] + sign * stride * j)
                for i, j in steps
                for sign in (-1, 1)
            ]
            better = min(tried, key=self._score)
            if self._score(better) < self._score(place):
                place = better
            else:
                stride //= 2
        return self._known[place][1]

    @property
    def _used(self) -> tuple[bool, bool]:
        return bool(self._constant.any()), bool((~self._constant).any())

    def _score(self, place: Place) -> float:
        """Return minus twice the log likelihood at a place, up to a constant."""
        if not all(0 <= i < len(self._grid) for i in place):
            return np.inf
        if place not in self._known:
            v = np.where(self._constant, *self._grid[list(place)]) / self._squares
            self._known[place] = self._with_mean(v)
        return self._known[place][0]

    def _with_mean(self, v: Floats) -> tuple[float, _Prior]:
        """Return the score of variances v with the best variance of the mean."""
        sums, n = self._tasks.marginal(v), self._tasks.n_rows
        units = np.sqrt(self._squares)
        S, b = sums.precision / np.outer(units, units), sums.moments / units
        best = (np.inf, np.ones_like(v))
        for variance in self._means if self._used[1] else self._means[:1]:
            p = 1 / np.where(self._constant, _FREE, variance)
            L = np.linalg.cholesky(S + np.diag(p))
            z = np.linalg.solve(L, b)
            left = max(sums.square - float(z @ z), self._tasks.rounding, 1e-300)
            spread = 2 * np.log(np.diagonal(L)).sum() - np.log(p).sum()
            score = n * np.log(left) + sums.log_determinant + float(spread)
            best = min(best, (score, p * self._squares), key=lambda one: one[0])
        return best[0], _Prior(1 / v, best[1])
