"""What users get wrong, one test each: refused or fitted, with a message that says what to do."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

from cobandits.errors import CobanditsError, DataError, ModelFileError, RankError, UnknownTaskError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, LowRank
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows, TaskStatistics
from tests.support import Floats, Real, drawn, flat, of_type

kinds = pytest.mark.parametrize("kind", [TaskRows, TaskStatistics])
Kind = type[TaskRows] | type[TaskStatistics]


def rows(n: int = 4, d: int = 3) -> tuple[Floats, Floats, list[str]]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)), rng.standard_normal(n), ["a", "b"] * (n // 2)


# ---- values that are no numbers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["features", "rewards"])
def test_nan_and_infinite_values_are_found(where: str, value: float, dtype: Real) -> None:
    Phi, y, labels = rows()
    Phi, y = of_type(Phi, dtype), of_type(y, dtype)
    (Phi if where == "features" else y)[2:] = value
    message = f"{where} hold a NaN or an infinite value, first in row 2; fill it in or drop the row"
    with pytest.raises(DataError, match=message):
        TaskRows.from_arrays(Phi, y, labels)
    stacked = np.stack([Phi, Phi]), np.stack([y, y])
    with pytest.raises(DataError, match=message):
        TaskRows.from_stacked(*stacked)


def test_infinite_values_of_both_signs_are_found() -> None:
    """Their sum is not a number, which must not surface as a warning of NumPy."""
    Phi, y, labels = rows()
    Phi[1, 0], Phi[1, 1] = np.inf, -np.inf
    with pytest.raises(DataError, match=r"features hold .* first in row 1; fill it in or drop"):
        TaskRows.from_arrays(Phi, y, labels)


@pytest.mark.parametrize(("size", "dtype"), [(1e300, np.float64), (3e38, np.float32)])
def test_large_values_are_not_taken_for_infinite_ones(size: float, dtype: Real) -> None:
    Phi, y, labels = rows()
    Phi = np.full_like(Phi, size, dtype=dtype)
    tasks = TaskRows.from_arrays(Phi, y, labels)
    assert tasks.n_rows == 4


def test_rewards_too_large_for_single_precision_are_refused() -> None:
    Phi, y, labels = rows()
    y[2] = 1e300
    with pytest.raises(DataError, match=r"rewards hold .* first in row 2"):
        TaskRows.from_arrays(Phi.astype(np.float32), y, labels)


@pytest.mark.parametrize("values", [[["x", "y", "z"]], [[1 + 2j, 0, 0]], [[None, 1, 2]]])
def test_values_that_are_no_real_numbers_are_refused(values: list[list[object]]) -> None:
    with pytest.raises(DataError, match="features must be real numbers, got values of type"):
        TaskRows.from_arrays(np.array(values), [1.0], ["a"])
    with pytest.raises(DataError, match="rewards must be real numbers, got values of type"):
        TaskRows.from_arrays([[1.0, 2.0]], np.array(values)[0, :1], ["a"])


# ---- no rows, and rows that do not fit together


@kinds
def test_no_rows(kind: Kind) -> None:
    with pytest.raises(DataError, match="no rows; give at least one"):
        kind(3).add(np.empty((0, 3)), np.empty(0), [])
    with pytest.raises(DataError, match="no rows to fit; add rows first"):
        LowRank().fit(kind(3))


def test_no_rows_left_after_a_selection() -> None:
    tasks = drawn().tasks
    nothing = tasks.select(np.zeros(tasks.n_rows, bool))
    for estimator in (LowRank(), LowRank(rank=2), AltGDMin(rank=2)):
        with pytest.raises(DataError, match="no rows to fit; add rows first"):
            estimator.fit(nothing)


@pytest.mark.parametrize(
    ("Phi", "y", "message"),
    [
        (np.ones((4, 3)), np.ones(3), r"expected features \(n, d\) and rewards \(n,\), got \(4, 3"),
        (np.ones(4), np.ones(4), r"expected features \(n, d\) and rewards \(n,\), got \(4,\)"),
        (np.ones((4, 3)), np.ones((4, 1)), r"expected features \(n, d\) and rewards \(n,\), got"),
        (np.ones((4, 0)), np.ones(4), "a row needs at least 1 feature, got 0"),
    ],
)
def test_arrays_that_do_not_fit_together(Phi: Floats, y: Floats, message: str) -> None:
    with pytest.raises(DataError, match=message):
        TaskRows.from_arrays(Phi, y, ["a"] * 4)


def test_labels_that_do_not_fit_the_rows() -> None:
    Phi, y, _ = rows()
    with pytest.raises(DataError, match="3 task labels for 4 rows; give one label per row"):
        TaskRows.from_arrays(Phi, y, "abc")
    with pytest.raises(DataError, match=r"task labels must be hashable.*list"):
        TaskRows.from_arrays(Phi, y, [["a"]] * 4)  # type: ignore[list-item]
    with pytest.raises(DataError, match="task label is NaN; drop those rows or give them a label"):
        TaskRows.from_arrays(Phi, y, [1.0, float("nan"), 2.0, 1.0])
    with pytest.raises(DataError, match="expected rows of 3 features, got 2"):
        TaskRows.from_arrays(Phi, y, "abab").add(Phi[:, :2], y, "abab")


# ---- too little for the rank


@pytest.mark.parametrize("estimator", [LowRank(rank=4), AltGDMin(rank=4)])
def test_task_with_fewer_rows_than_rank(estimator: LowRank | AltGDMin) -> None:
    """It is fitted with the weights of least norm, and the status says so."""
    problem = drawn(d=20, T=15, r=4, n=30, noise=0.0)
    tasks = problem.tasks
    short = tasks.select((tasks.owners != 2) | (np.arange(tasks.n_rows) < tasks.offsets[2] + 2))
    estimate = estimator.fit(short)
    assert estimate.status.outcome == "converged"
    assert np.linalg.norm(estimate.theta[:, 2]) <= np.linalg.norm(problem.theta[:, 2]) * (1 + 1e-6)
    Phi, y = short.rows[short.owners == 2], short.rewards[short.owners == 2]
    np.testing.assert_allclose(Phi @ estimate.theta[:, 2], y, atol=1e-6)
    assert "fewer rows than rank" in estimate.status.message
    assert "add rows" in estimate.status.message


@pytest.mark.parametrize("estimator", [LowRank(rank=2), AltGDMin(rank=2)])
def test_one_task_only(estimator: LowRank | AltGDMin) -> None:
    tasks = drawn(d=5, T=1, r=1, n=30).tasks
    message = r"min\(d, T\) = min\(5, 1\) = 1, got 2; lower rank or add tasks"
    with pytest.raises(RankError, match=message):
        estimator.fit(tasks)
    assert LowRank().fit(tasks).rank == 1


@pytest.mark.parametrize(("d", "T"), [(3, 10), (10, 3)])
@pytest.mark.parametrize("kind", [LowRank, AltGDMin])
def test_rank_over_features_or_tasks(kind: type[LowRank] | type[AltGDMin], d: int, T: int) -> None:
    tasks = drawn(d=d, T=T, r=1, n=12).tasks
    message = rf"rank must be from 1 to min\(d, T\) = min\({d}, {T}\) = 3, got 4; lower rank or add"
    with pytest.raises(RankError, match=message):
        kind(rank=4).fit(tasks)
    kind(rank=3, iterations=50).fit(tasks)


@pytest.mark.parametrize("rank", [2.5, "two", None, "auto"])
def test_rank_that_is_no_whole_number(rank: object) -> None:
    tasks = drawn(d=5, T=6, n=12).tasks
    with pytest.raises(CobanditsError, match="rank must be"):
        AltGDMin(rank=rank).fit(tasks)  # type: ignore[arg-type]


# ---- features and rewards that say nothing


def with_columns(tasks: TaskRows, added: Floats) -> TaskRows:
    return flat(np.column_stack([tasks.rows, added]), tasks.rewards, tasks.owners)


@pytest.mark.parametrize("copies", [1, 3])
def test_duplicate_feature_columns(copies: int) -> None:
    """Their common effect is right, and is spread evenly: the least norm."""
    problem = drawn(d=10, T=20, r=2, n=14, noise=0.0)
    tasks = with_columns(problem.tasks, np.repeat(problem.tasks.rows[:, :1], copies, axis=1))
    estimate = LowRank(rank=2).fit(tasks)
    assert estimate.status.outcome == "converged"
    together = np.vstack(
        [estimate.theta[[0]] + estimate.theta[10:].sum(axis=0), estimate.theta[1:10]]
    )
    assert relative_error(together, problem.theta) < 1e-6
    assert np.abs(estimate.theta).max() < 10 * np.abs(problem.theta).max()


@pytest.mark.parametrize("value", [0.0, 1.0, -1e3])
def test_constant_feature(value: float) -> None:
    problem = drawn(d=10, T=20, r=2, n=14, noise=0.0)
    tasks = with_columns(problem.tasks, np.full((problem.tasks.n_rows, 1), value))
    estimate = LowRank(rank=2).fit(tasks)
    assert estimate.status.outcome == "converged"
    assert relative_error(estimate.theta[:10], problem.theta) < 1e-6
    assert np.abs(estimate.theta[10] * value).max() < 1e-5


def test_features_that_are_all_zero_or_all_constant() -> None:
    for value in (0.0, 2.0):
        tasks = flat(np.full((12, 3), value), np.arange(12.0), np.repeat([0, 1, 2], 4))
        for estimator in (LowRank(), LowRank(rank=2), AltGDMin(rank=2)):
            estimate = estimator.fit(tasks)
            assert np.isfinite(estimate.theta).all()


@pytest.mark.parametrize("estimator", [LowRank(), LowRank(rank=2), AltGDMin(rank=2)])
def test_all_zero_rewards(estimator: LowRank | AltGDMin) -> None:
    tasks = drawn().tasks
    estimate = estimator.fit(flat(tasks.rows, np.zeros(tasks.n_rows), tasks.owners))
    assert not estimate.theta.any()
    assert estimate.status.outcome == "converged"
    assert "all rewards are 0" in estimate.status.message
    assert "check" in estimate.status.message


@pytest.mark.parametrize("estimator", [LowRank(), LowRank(rank=2), AltGDMin(rank=2)])
def test_constant_rewards(estimator: LowRank | AltGDMin) -> None:
    tasks = drawn().tasks
    estimate = estimator.fit(flat(tasks.rows, np.ones(tasks.n_rows), tasks.owners))
    assert np.isfinite(estimate.theta).all()


# ---- predictions and files


def test_labels_unseen_at_predict() -> None:
    estimate = LowRank(rank=2).fit(drawn(d=4, n=9).tasks)
    message = (
        r"not among the 12 fitted tasks: 'Rome'; fit again with rows of these tasks, or predict"
    )
    with pytest.raises(UnknownTaskError, match=message):
        estimate.predict(np.ones((2, 4)), [0, "Rome"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_at_predict(value: float) -> None:
    estimate = LowRank(rank=2).fit(drawn(d=4, n=9).tasks)
    features = np.ones((2, 4))
    features[1, 2] = value
    with pytest.raises(DataError, match="first in row 1; fill it in or drop the row"):
        estimate.predict(features, [0, 1])


def test_truncated_model_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    LowRank(rank=2).fit(drawn(d=4, n=9).tasks).save(path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ModelFileError, match=r"may be truncated .*: fit and save it again"):
        Estimate.load(path)


def test_foreign_model_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(ModelFileError, match="of another program: fit and save it again"):
        Estimate.load(path)


# ---- all of it


def test_every_error_is_of_one_family() -> None:
    """A caller can catch one class, or the built-in one that fits."""
    assert issubclass(DataError, CobanditsError)
    assert issubclass(DataError, ValueError)
    assert issubclass(RankError, ValueError)
    assert issubclass(UnknownTaskError, KeyError)
    assert str(UnknownTaskError("no task 'x'")) == "no task 'x'"


def test_bad_values_raise_no_warnings_of_numpy() -> None:
    Phi, y, labels = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (np.nan, np.inf, -np.inf):
            spoiled = Phi.copy()
            spoiled[0] = [value, -value, 0]
            with pytest.raises(DataError):
                TaskRows.from_arrays(spoiled, y, labels)
