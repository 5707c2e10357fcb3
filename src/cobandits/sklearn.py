"""LowRank as a scikit-learn regressor: one column of ``X`` holds the task of each row."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import ConfigurationError, DataError, MissingExtraError
from cobandits.estimators.independent import Pooled
from cobandits.estimators.lowrank import LowRank
from cobandits.frames import INTERCEPT
from cobandits.tasks import TaskRows

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data
except ImportError as error:
    raise MissingExtraError("scikit-learn", "sklearn") from error

__all__ = ["LowRankRegressor"]

Floats = NDArray[np.floating]


class LowRankRegressor(RegressorMixin, BaseEstimator):
    """Linear regression of many tasks with a shared basis, for scikit-learn.

    Fits :class:`cobandits.LowRank` to the rows of ``X``. One column of ``X`` holds the
    task of each row, as numbers or any other labels; the others are features.

    Parameters
    ----------
    rank : int or "auto"
        Number of columns of the basis; ``"auto"`` chooses it from the rows.
    task_column : int or str
        The column of ``X`` that holds the task: its position, or its name in a data frame.
    ridge : float or "auto"
        Adds ``ridge |theta_t|^2`` to each task's cost, the intercept included; ``"auto"``
        chooses it from the rows, see :class:`cobandits.LowRank`.
    fit_intercept : bool
        Add a last feature that is 1 in every row.
    unseen : "pooled" or "error"
        Whether a task without rows in the fit is predicted by one theta for all tasks, that
        of :class:`cobandits.Pooled` with the same ridge (none for ``"auto"``), or refused.
    iterations : int
        The most steps to take.
    tolerance : float
        Stop when the predicted decrease of the cost is below this share of it.

    Attributes
    ----------
    estimate_ : Estimate
        Basis, weights, labels, status and history of the fit.
    pooled_ : Estimate
        The fit that unseen tasks are predicted with.
    task_index_ : int
        Position of the task column.
    n_features_in_ : int
        Columns of ``X``, the task column included.
    feature_names_in_ : (n,)
        Names of the columns, where all are strings.

    Examples
    --------
    >>> X = [["a", 1.0], ["a", 2.0], ["b", 1.0], ["b", 3.0]]
    >>> model = LowRankRegressor(fit_intercept=False).fit(X, [2.0, 4.0, -1.0, -3.0])
    >>> model.predict([["b", 10.0], ["a", 10.0]]).round(6).tolist()
    [-10.0, 20.0]
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        task_column: int | str = 0,
        ridge: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        unseen: Literal["pooled", "error"] = "pooled",
        iterations: int = 500,
        tolerance: float = 1e-10,
    ) -> None:
        self.rank = rank
        self.task_column = task_column
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.unseen = unseen
        self.iterations = iterations
        self.tolerance = tolerance

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit rows, (n, 1 + features) with the task column, and their rewards, (n,)."""
        if self.unseen not in ("pooled", "error"):
            raise ConfigurationError(f"unseen must be 'pooled' or 'error', got {self.unseen!r}")
        estimator = LowRank(
            rank=self.rank, ridge=self.ridge, iterations=self.iterations, tolerance=self.tolerance
        )
        labels, features = self._split(X, reset=True)
        if self.n_features_in_ == 1 and not self.fit_intercept:
            raise DataError("X has 1 feature(s), the task; add features or set fit_intercept=True")
        features, rewards = check_X_y(features, y, y_numeric=True, **self._accepted())
        tasks = TaskRows.from_arrays(
            self._with_intercept(features), rewards, labels, feature_names=self._names()
        )
        self.estimate_ = estimator.fit(tasks)
        self.pooled_ = Pooled(ridge=0.0 if self.ridge == "auto" else self.ridge).fit(tasks)
        if self.estimate_.status.outcome != "converged":
            warnings.warn(str(self.estimate_.status), ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the expected reward of each row, (n,)."""
        check_is_fitted(self)
        labels, features = self._split(X, reset=False)
        Phi = self._with_intercept(check_array(features, input_name="X", **self._accepted()))
        if self.unseen == "error":
            return self.estimate_.predict(Phi, labels)
        fitted = set(self.estimate_.labels)
        known = np.flatnonzero([label in fitted for label in labels])
        rewards = np.asarray(Phi @ self.pooled_.theta[:, 0], np.float64)
        rewards[known] = self.estimate_.predict(Phi[known], [labels[row] for row in known])
        return rewards

    @property
    def rank_(self) -> int:
        """The rank that was given or chosen."""
        return self.estimate_.rank

    @property
    def basis_(self) -> Floats:
        """The shared basis, (features, rank), with the intercept last."""
        return self.estimate_.basis

    @property
    def coef_(self) -> Floats:
        """Theta per task without the intercept, (T, features), in the order of the labels."""
        return self.estimate_.theta.T[:, : self.n_features_in_ - 1]

    @property
    def intercept_(self) -> Floats:
        """Intercept per task, (T,); zeros without one."""
        theta = self.estimate_.theta
        return theta[-1] if self.fit_intercept else np.zeros(theta.shape[1])

    def _split(self, X: Any, *, reset: bool) -> tuple[list[Hashable], Any]:
        """Return the label of each row, and the other columns as given."""
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")  # of pandas or polars
        X = validate_data(
            self,
            X,
            reset=reset,
            skip_check_array=is_frame,  # its columns have types of their own
            dtype=None if hasattr(X, "dtype") else object,  # a list may mix text and numbers
            ensure_all_finite=False,
        )
        names = list(X.columns if is_frame else getattr(self, "feature_names_in_", []))
        if reset:
            self.task_index_ = self._find_task_column(names)
        task = self.task_index_
        if not is_frame:
            return _checked_labels(X[:, task]), np.delete(X, task, axis=1)
        if len(set(names)) < len(names):
            raise DataError("X has several columns of the same name; rename or drop them")
        others = names[:task] + names[task + 1 :]
        features = X[others] if others else np.empty((len(X), 0))  # a frame would lose its rows
        return _checked_labels(X[names[task]]), features

    def _find_task_column(self, names: list[Hashable]) -> int:
        column: object = self.task_column
        n: int = self.n_features_in_
        if isinstance(column, str) and column in names:
            return names.index(column)
        if isinstance(column, (int, np.integer)) and -n <= column < n:
            return int(column) % n
        raise ConfigurationError(
            f"task_column must be the name of a column or a position from {-n} to {n - 1}, "
            f"got {column!r}; X has {', '.join(map(str, names)) or 'no column names'}"
        )

    def _accepted(self) -> dict[str, Any]:
        """Return what scikit-learn's checks accept as features."""
        return {
            "dtype": (np.float64, np.float32),
            "ensure_min_features": 0,  # an intercept can be alone
            "estimator": self,
        }

    def _with_intercept(self, features: Floats) -> Floats:
        if not self.fit_intercept:
            return features
        return np.column_stack([features, np.ones(len(features), features.dtype)])

    def _names(self) -> list[str] | None:
        if not hasattr(self, "feature_names_in_"):
            return None
        names = np.delete(self.feature_names_in_, self.task_index_).tolist()
        return [*names, INTERCEPT] if self.fit_intercept else names


def _checked_labels(column: ArrayLike) -> list[Hashable]:
    """Return the labels of a column, (n,); refuse missing ones."""
    labels: list[Hashable] = np.asarray(column).tolist()
    try:
        missing = any(map(_is_missing, set(labels)))
    except TypeError as error:
        raise TypeError(
            f"a task label argument must be hashable, such as a string or a number; {error}"
        ) from error
    if missing:
        row = next(row for row, label in enumerate(labels) if _is_missing(label))
        raise DataError(
            f"the task column holds NaN, None or an infinite number, first in row {row}; "
            "drop such rows or name their task"
        )
    return labels


def _is_missing(label: Hashable) -> bool:
    """Return whether a label is None, NaN, infinite, or the NaT or NA of pandas."""
    if isinstance(label, float):
        return not math.isfinite(label)
    try:
        return label is None or bool(label != label)
    except TypeError:  # NA is neither equal nor unequal to itself
        return True
