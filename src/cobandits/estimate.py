"""What a fit returns: the shared basis, the weights per task, and the status."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.archives import Archive, Arrays, Header
from cobandits.errors import DataError, UnknownTaskError
from cobandits.frames import Frame, features_of
from cobandits.linalg import procrustes
from cobandits.tasks.checks import check_finite

__all__ = ["Estimate", "History", "Status", "check_labels", "decoded_label", "encoded_label"]

Floats = NDArray[np.floating]

_FILE = Archive(holds="estimate", version=1, advice="fit and save it again")
_SHOWN = 5  # labels named in a message
_TIMES = {"datetime": datetime.datetime, "date": datetime.date}  # labels saved as ISO text


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

    def __post_init__(self) -> None:
        d_r, r_T = self.basis.shape, self.weights.shape
        fits = len(d_r) == len(r_T) == 2 and (d_r[1], len(self.labels)) == r_T
        if not fits:
            raise DataError(
                f"expected basis (d, r), weights (r, T) and T labels, got {self.basis.shape}, "
                f"{self.weights.shape} and {len(self.labels)}"
            )
        for name in ("basis", "weights"):
            if not np.isfinite(getattr(self, name)).all():
                raise DataError(
                    f"the {name} must be finite, got a NaN or an infinite value; "
                    "if a fit gave it, scale the features and rewards to about 1"
                )
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

    def codes(self, tasks: Iterable[Hashable]) -> NDArray[np.int64]:
        """Return the column of each label; refuse labels that were not fitted."""
        if isinstance(tasks, str):
            raise DataError(f"give a label for each row, such as [{tasks!r}], not one string")
        labels = tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks)
        known = self._codes
        unknown = [label for label in labels if not (_is_hashable(label) and label in known)]
        if unknown:
            names = list(dict.fromkeys(map(repr, unknown)))
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise UnknownTaskError(
                f"not among the {len(known)} fitted tasks: {', '.join(names[:_SHOWN])}{more}; "
                "fit again with rows of these tasks, or leave them out"
            )
        return np.array([known[label] for label in labels], np.int64)

    def predict(
        self, features: ArrayLike | Frame, tasks: Iterable[Hashable]
    ) -> NDArray[np.float64]:
        """Return the expected reward of each row, (m, d), for the task of each label, (m,).

        Columns of a frame are taken by name, and an intercept is added if there was one.
        """
        Phi = self._features(features)
        codes = self.codes(tasks)
        if Phi.ndim != 2 or Phi.shape != (len(codes), self.dim):
            raise DataError(
                f"expected features ({len(codes)}, {self.dim}), one row per label, got {Phi.shape}"
            )
        check_finite(Phi, "features")
        predicted = np.einsum("nr,rn->n", Phi @ self.basis, self.weights[:, codes])
        return np.asarray(predicted, np.float64)

    def _features(self, features: ArrayLike | Frame) -> NDArray[np.float64]:
        """Return features as an array; columns of a frame are taken by name."""
        if not isinstance(features, Frame):
            return np.asarray(features, dtype=np.float64)
        if self.feature_names is None:
            raise DataError("the estimate has no feature names; give the features as an array")
        return features_of(features, self.feature_names)

    def theta_of(self, labels: Sequence[Hashable]) -> Floats:
        """Return theta for ``labels``, (d, len(labels)); zero for labels that were not fitted."""
        known = [i for i, label in enumerate(labels) if label in self._codes]
        Theta = np.zeros((self.dim, len(labels)))
        Theta[:, known] = self.basis @ self.weights[:, self.codes([labels[i] for i in known])]
        return Theta

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


def check_labels(labels: Iterable[Hashable]) -> None:
    """Refuse labels that :meth:`Estimate.save` cannot write.

    >>> check_labels(["Oslo", 7, ("Oslo", 7)])
    """
    for label in labels:
        encoded_label(label)


def encoded_label(label: Hashable) -> Any:
    """Return a label as JSON; tuples and times as {kind: content}."""
    if isinstance(label, tuple):
        return {"tuple": [encoded_label(part) for part in label]}
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, datetime.date):
        kind, text = _kind_of(label), label.isoformat()
        if _TIMES[kind].fromisoformat(text) == label:  # not so with nanoseconds
            return {kind: text}
    if label is None or isinstance(label, (str, int, float, bool)):
        return label
    raise DataError(
        f"a task label of type {type(label).__name__} cannot be saved; "
        "use strings, numbers, booleans, dates, datetimes, None or tuples of them"
    )


def _kind_of(label: datetime.date) -> str:
    return "datetime" if isinstance(label, datetime.datetime) else "date"


def decoded_label(label: Any) -> Hashable:
    """Return the label that :func:`encoded_label` returned as JSON."""
    if isinstance(label, dict):
        ((kind, content),) = label.items()
        if kind in _TIMES:
            return _TIMES[kind].fromisoformat(content)
        return tuple(decoded_label(part) for part in label["tuple"])
    value: Hashable = label
    hash(value)  # a list is no label
    return value
