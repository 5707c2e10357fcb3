"""CommonMean: a theta that tasks have in common, and what each task deviates from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators.base import (
    Estimator,
    HistoryWriter,
    Solution,
    estimate_of,
    solved_directly,
)
from cobandits.estimators.checks import check_ridge, check_rows
from cobandits.kernels import Marginal
from cobandits.linalg import factor, solve_semidefinite
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["CommonMean", "common_and_own"]

Floats = NDArray[np.floating]
Mean = Literal["all", "constant"]
Place = tuple[int, int]  # of the variances of constant and of other features, on the grid

_PER_DECADE = 2  # variances tried: closer ones predict alike
_LEAST_WEIGHT = 1e-2  # rows per task times the least variance tried: as good as no deviation
_LARGEST = 1e8  # variance tried, in units of the noise: as good as no shrinkage
_FIRST = 0.1  # variance tried first, in the same units
_NO_MEAN = 1e-12  # variance of a common mean that is as good as 0, in the same units
_MEANS: dict[Mean, Floats] = {  # variances of the common mean tried
    "all": 10.0 ** np.arange(-6, 5),
    "constant": np.array([_NO_MEAN]),
}
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
    mean: Mean = "all"

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
            return _shrunken(tasks, _Search.of(tasks).best(self.mean), history)
        constant = _constant(tasks) | (self.mean == "all")
        barred = np.where(constant, 0.0, tasks.mean_squares() / _NO_MEAN)
        return _shrunken(tasks, _Prior(np.full(tasks.dim, float(self.ridge)), barred), history)


def common_and_own(tasks: TaskData) -> tuple[Estimate, Estimate]:
    """Fit ``CommonMean()`` and ``CommonMean(mean="constant")``.

    The same as two fits, and faster: what the likelihood needs of the data is computed once.
    """
    check_rows(tasks)
    tasks = tasks.compact()
    search = _Search.of(tasks)
    common, own = (
        estimate_of(tasks, _shrunken(tasks, search.best(mean), HistoryWriter()), "CommonMean")
        for mean in _MEANS
    )
    return common, own


class _Prior(NamedTuple):
    """Penalties on deviations and on the common mean, (d,) each: noise over prior variance."""

    ridge: Floats
    mean_ridge: Floats


def _constant(tasks: TaskData) -> NDArray[np.bool_]:
    """Return which features are constant, (d,)."""
    return tasks.penalty_scale() < _CONSTANT * tasks.mean_squares()


def _shrunken(tasks: TaskData, prior: _Prior, history: HistoryWriter) -> Solution:
    """Return the common mean and the deviations with these penalties."""
    m = _mean(tasks.marginal(1 / prior.ridge), prior.mean_ridge)
    return _solved(tasks, prior.ridge, m, history, prior.mean_ridge)


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

    def __init__(self, tasks: TaskData) -> None:
        squares = tasks.mean_squares()
        self._constant = _constant(tasks)
        self._squares = np.where(squares > 0, squares, 1.0)
        self._n_rows, self._rounding = tasks.n_rows, tasks.rounding
        least = _LEAST_WEIGHT * tasks.n_tasks / tasks.n_rows
        decades = np.arange(np.log10(least), np.log10(_LARGEST), 1 / _PER_DECADE)
        self._grid = 10.0**decades
        self._variances = tasks.variances(self._constant, np.sqrt(self._squares))
        self._known: dict[tuple[Place, Mean], tuple[float, _Prior]] = {}
        self._sums: dict[Place, Marginal] = {}

    @classmethod
    def of(cls, tasks: TaskData) -> _Search:
        """Return the search on as many tasks as tell the variances."""
        is_long = tasks.n_rows > tasks.dim * tasks.n_tasks
        sample = tasks.every(max(1, tasks.n_tasks // (_ENOUGH_LONG if is_long else _ENOUGH)))
        return cls(sample if sample.n_rows else tasks)

    def best(self, mean: Mean) -> _Prior:
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
            better = min(tried, key=lambda one: self._score(one, mean))
            if self._score(better, mean) < self._score(place, mean):
                place = better
            else:
                stride //= 2
        return self._known[place, mean][1]

    @property
    def _used(self) -> tuple[bool, bool]:
        return bool(self._constant.any()), bool((~self._constant).any())

    def _score(self, place: Place, mean: Mean) -> float:
        """Return minus twice the log likelihood at a place, up to a constant."""
        if not all(0 <= i < len(self._grid) for i in place):
            return np.inf
        if (place, mean) not in self._known:
            self._known[place, mean] = self._with_mean(place, _MEANS[mean])
        return self._known[place, mean][0]

    def _with_mean(self, place: Place, means: Floats) -> tuple[float, _Prior]:
        """Return the score of variances with the best variance of the mean."""
        one, other = self._grid[list(place)].tolist()
        if place not in self._sums:
            self._sums[place] = self._variances.at(one, other)
        sums = self._sums[place]
        best = (np.inf, np.ones(len(self._squares)))
        for variance in means if self._used[1] else means[:1]:
            p = 1 / np.where(self._constant, _FREE, variance)
            L = np.linalg.cholesky(sums.precision + np.diag(p))
            z, _ = scipy.linalg.lapack.dtrtrs(L.T, sums.moments, trans=1)
            left = max(sums.square - float(z @ z), self._rounding, 1e-300)
            spread = 2 * np.log(np.diagonal(L)).sum() - np.log(p).sum()
            score = self._n_rows * np.log(left) + sums.log_determinant + float(spread)
            best = min(best, (score, p * self._squares), key=lambda found: found[0])
        return best[0], _Prior(self._squares / np.where(self._constant, one, other), best[1])
