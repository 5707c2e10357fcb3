"""What a fit returns: the shared basis, the weights per task, and the status."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.archives import Archive, Arrays, Header
from cobandits.errors import DataError, UnknownTaskError
from cobandits.frames import INTERCEPT, Frame, features_of
from cobandits.labels import decoded_label, encoded_label
from cobandits.linalg import procrustes
from cobandits.schema import Schema
from cobandits.tasks import TaskData
from cobandits.tasks.checks import check_finite

__all__ = ["Estimate", "History", "Status", "check_finite_factor"]

Floats = NDArray[np.floating]


def _upgraded(header: Header, arrays: Arrays) -> tuple[Header, Arrays]:
    """Return a file of version 1 as one of version 2, which may have a schema."""
    return {**header, "schema": None, "task_name": None}, arrays


_FILE = Archive(
    holds="estimate", version=2, advice="fit and save it again", upgrades={1: _upgraded}
)
_SHOWN = 5  # labels named in a message


@dataclass(frozen=True, kw_only=True)
class Status:
    """How a fit ended.

    ``converged``: the stopping rule was met. ``limit``: the iterations ran out first.
    ``refused``: a step would have diverged, so the last good state was kept.
    """

    outcome: Literal["converged", "limit", "refused"]
    message: str
    iterations: int

    def __str__(self) -> str:
        return f"{self.outcome} after {self.iterations} iterations: {self.message}"


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """Cost and error by iteration; entry 0 is the start."""

    costs: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    errors: NDArray[np.float64] | None = None  # relative, where the truth was given


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """A shared basis and every task's weights in it: ``Theta = B W``.

    >>> weights = np.array([[2.0, -1.0]])
    >>> estimate = Estimate(basis=np.eye(3)[:, :1], weights=weights, labels=("a", "b"))
    >>> estimate.predict([[5.0, 0.0, 0.0], [5.0, 0.0, 0.0]], ["b", "a"]).tolist()
    [-5.0, 10.0]
    """

    basis: Floats  # (d, r), orthonormal columns
    weights: Floats  # (r, T)
    labels: tuple[Hashable, ...]
    status: Status = Status(outcome="converged", message="given", iterations=0)
    history: History = field(default_factory=History)
    estimator: str = ""
    feature_names: tuple[str, ...] | None = None
    schema: Schema | None = None  # encodes the columns of a frame
    task_name: str | None = None  # the column of a frame that has the labels

    def __post_init__(self) -> None:
        d_r, r_T = self.basis.shape, self.weights.shape
        fits = len(d_r) == len(r_T) == 2 and (d_r[1], len(self.labels)) == r_T
        if not fits:
            raise DataError(
                f"expected basis (d, r), weights (r, T) and T labels, got {self.basis.shape}, "
                f"{self.weights.shape} and {len(self.labels)}"
            )
        check_finite_factor("basis", self.basis)
        check_finite_factor("weights", self.weights)
        if len(self._codes) < len(self.labels):
            raise DataError(
                f"expected {len(self.labels)} different labels, one per task, "
                f"got {len(self._codes)}; give each task its own"
            )

    @property
    def rank(self) -> int:
        """The number of columns of the basis."""
        return int(self.basis.shape[1])

    @property
    def dim(self) -> int:
        """The number of features."""
        return int(self.basis.shape[0])

    @cached_property
    def theta(self) -> Floats:
        """``B W``, (d, T)."""
        return self.basis @ self.weights

    @cached_property
    def singular_values(self) -> Floats:
        """Singular values of theta, (r,), in falling order."""
        return np.asarray(np.linalg.svd(self.weights, compute_uv=False))

    @cached_property
    def _codes(self) -> dict[Hashable, int]:
        return {label: code for code, label in enumerate(self.labels)}

    def codes(self, tasks: Iterable[Hashable], *, strict: bool = True) -> NDArray[np.int64]:
        """Return the column of each label; refuse those not fitted, or give -1 for them."""
        if isinstance(tasks, str):
            raise DataError(f"give a label for each row, such as [{tasks!r}], not one string")
        labels = tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks)
        known = self._codes
        unknown = [label for label in labels if not (_is_hashable(label) and label in known)]
        if unknown and strict:
            names = list(dict.fromkeys(map(repr, unknown)))
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise UnknownTaskError(
                f"not among the {len(known)} fitted tasks: {', '.join(names[:_SHOWN])}{more}; "
                "fit again with rows of these tasks, or predict them by the mean of all with "
                "strict=False"
            )
        found = (known.get(label, -1) if _is_hashable(label) else -1 for label in labels)
        return np.fromiter(found, np.int64, len(labels))

    def predict(
        self, features: ArrayLike | Frame, tasks: Iterable[Hashable], *, strict: bool = True
    ) -> NDArray[np.float64]:
        """Return the expected reward of each row, (m, d), for the task of each label, (m,).

        A label that was not fitted is refused or, if not ``strict``, predicted by the mean of
        the fitted tasks; :meth:`spread` says how far single tasks are from it.

        Columns of a frame are taken by name and encoded by the schema, if there is one, and
        an intercept is added if there was one. A missing value in a column that had none is
        refused or, if not ``strict``, taken as the column's mean.
        """
        Phi = self._features(features, strict)
        codes = self.codes(tasks, strict=strict)
        if Phi.ndim != 2 or Phi.shape != (len(codes), self.dim):
            raise DataError(
                f"expected features ({len(codes)}, {self.dim}), one row per label, got {Phi.shape}"
            )
        check_finite(Phi, "features")
        weights = np.column_stack([self.weights, self.weights.mean(axis=1)])  # the last: -1
        predicted = np.einsum("nr,rn->n", Phi @ self.basis, weights[:, codes])
        return np.asarray(predicted, np.float64)

    def spread(self, features: ArrayLike | Frame) -> NDArray[np.float64]:
        """Return the standard deviation of a new task's expected reward for each row, (m,).

        It is that of the fitted tasks' predictions for the row, around their mean, and includes
        the uncertainty of that mean; the noise of a reward comes on top. NaN for one task.
        """
        T = len(self.labels)
        if T == 1:
            return np.full(len(self._features(features, strict=False)), np.nan)
        centred = self.weights - self.weights.mean(axis=1, keepdims=True)
        covariance = centred @ centred.T * ((1 + 1 / T) / (T - 1))
        projected = self._features(features, strict=False) @ self.basis  # (m, r)
        variances = np.einsum("nr,rs,ns->n", projected, covariance, projected)
        return np.asarray(np.sqrt(np.maximum(variances, 0.0)))

    def _features(self, features: ArrayLike | Frame, strict: bool) -> NDArray[np.float64]:
        """Return features as an array; columns of a frame are taken by name."""
        if not isinstance(features, Frame):
            return np.asarray(features, dtype=np.float64)
        if self.feature_names is None:
            raise DataError("the estimate has no feature names; give the features as an array")
        if self.schema is None:
            return features_of(features, self.feature_names)
        encoded = self.schema.encode(features, strict=strict)
        ones = np.ones((len(encoded), int(INTERCEPT in self.feature_names)))
        return np.concatenate([encoded, ones], axis=1)

    def theta_of(self, labels: Sequence[Hashable]) -> Floats:
        """Return theta for ``labels``, (d, len(labels)); zero for labels that were not fitted."""
        known = [i for i, label in enumerate(labels) if label in self._codes]
        Theta = np.zeros((self.dim, len(labels)))
        Theta[:, known] = self.basis @ self.weights[:, self.codes([labels[i] for i in known])]
        return Theta

    def theta_for(self, tasks: TaskData) -> Floats:
        """Return theta for the labels of ``tasks``, (d, T); zero for those not fitted."""
        return self.basis @ tasks.columns_of(self.labels, self.weights)

    def aligned_to(self, other: Estimate) -> Estimate:
        """Return the same theta in the basis nearest to that of ``other`` (Procrustes).

        The weights of the two can then be compared entry by entry.
        """
        if other.basis.shape != self.basis.shape:
            raise DataError(
                f"bases of shapes {self.basis.shape} and {other.basis.shape} cannot be aligned; "
                "fit both with the same features and rank"
            )
        R = procrustes(self.basis, other.basis)
        return replace(self, basis=self.basis @ R, weights=R.T @ self.weights)

    def save(self, path: str | Path) -> None:
        """Write the estimate to ``path``, atomically and without pickle."""
        arrays: dict[str, NDArray[Any]] = {
            "basis": self.basis,
            "weights": self.weights,
            "costs": self.history.costs,
        }
        if self.history.errors is not None:
            arrays["errors"] = self.history.errors
        header = {
            "estimator": self.estimator,
            "labels": [encoded_label(label) for label in self.labels],
            "feature_names": self.feature_names,
            "schema": None if self.schema is None else self.schema.to_dict(),
            "task_name": self.task_name,
            "status": vars(self.status),
        }
        _FILE.save(path, header, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Estimate:
        """Read what :meth:`save` wrote."""
        return _FILE.load(path, _made)


def _made(header: Header, arrays: Arrays) -> Estimate:
    names = header["feature_names"]
    errors = arrays.get("errors")
    return Estimate(
        basis=arrays["basis"].astype(np.float64),
        weights=arrays["weights"].astype(np.float64),
        labels=tuple(decoded_label(label) for label in header["labels"]),
        status=Status(**header["status"]),
        history=History(
            costs=_series(arrays["costs"]), errors=None if errors is None else _series(errors)
        ),
        estimator=header["estimator"],
        feature_names=None if names is None else tuple(names),
        schema=None if header["schema"] is None else Schema.from_dict(header["schema"]),
        task_name=header["task_name"],
    )


def _series(values: NDArray[Any]) -> NDArray[np.float64]:
    (_,) = values.shape
    return values.astype(np.float64)


def _is_hashable(label: object) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def check_finite_factor(name: str, values: Floats) -> None:
    """Refuse a basis or weights that are not finite."""
    if not np.isfinite(values).all():
        raise DataError(
            f"the {name} must be finite, got a NaN or an infinite value; "
            "if a fit gave it, scale the features and rewards to about 1"
        )
