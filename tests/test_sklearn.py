"""The scikit-learn regressor: scikit-learn's own checks, and what they do not cover."""

from __future__ import annotations

import doctest
import importlib
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from cobandits import LowRank, Synthetic, TaskRows
from cobandits.errors import ConfigurationError, MissingExtraError, UnknownTaskError
from cobandits.frames import INTERCEPT
from cobandits.sklearn import LowRankRegressor
from tests.support import warnings_as_errors

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats, NDArray[np.int64]]  # features, rewards, task numbers

DIM, N_TASKS, RANK = 4, 12, 2
FEATURES = [f"x{j}" for j in range(DIM)]


def drawn(seed: int = 0, **changes: Any) -> Rows:
    """Draw features (n, d), rewards (n,) and task numbers (n,), in random order."""
    settings = {"dim": DIM, "n_tasks": N_TASKS, "rank": RANK, "noise_std": 0.1, **changes}
    tasks = Synthetic(**settings).problem(n_rows=15, seed=seed).tasks
    order = np.random.default_rng(seed).permutation(tasks.n_rows)
    return np.asarray(tasks.rows[order]), np.asarray(tasks.rewards[order]), tasks.owners[order]


def table(features: Floats, tasks: NDArray[Any]) -> NDArray[Any]:
    """Put the task in front of the features."""
    return np.column_stack([tasks, features])


def frame(features: Floats, tasks: NDArray[Any]) -> pd.DataFrame:
    """Make a data frame with the task in the middle."""
    columns = pd.DataFrame(features, columns=FEATURES)
    columns.insert(2, "city", [f"city {task}" for task in tasks])
    return columns


class SeveralRowsATask(LowRankRegressor):
    """Makes the checks draw small whole numbers, so that tasks have several rows.

    Without the tag they draw real numbers, and every row is a task of its own.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags


CHECKED = [
    LowRankRegressor(),
    LowRankRegressor(rank=1, ridge=0.1, task_column=-1),
    LowRankRegressor(fit_intercept=False),
    SeveralRowsATask(),
    SeveralRowsATask(rank=1, ridge=0.1, fit_intercept=False),
]


CHECKS = [
    (estimator, check)
    for checked in CHECKED
    for estimator, check in estimator_checks_generator(checked)
    if check.func.__name__ != "check_array_api_input"  # below
]


@pytest.mark.parametrize(
    ("estimator", "check"),
    CHECKS,
    ids=lambda part: part.func.__name__ if isinstance(part, partial) else repr(part),
)
def test_scikit_learns_own_checks(
    estimator: LowRankRegressor, check: Callable[[LowRankRegressor], None]
) -> None:
    check(estimator)


def test_scikit_learns_check_of_array_api_dispatch() -> None:
    code = (
        "from sklearn.utils.estimator_checks import check_array_api_input as check\n"
        "from cobandits.sklearn import LowRankRegressor\n"
        "check('', LowRankRegressor(), 'numpy')"
    )
    environment = {**warnings_as_errors(), "SCIPY_ARRAY_API": "1"}  # SciPy reads it when imported
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("rank", ["auto", 1, 3])
@pytest.mark.parametrize("ridge", ["auto", 0.0, 2.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_predicts_what_lowrank_predicts(rank: Any, ridge: Any, fit_intercept: bool) -> None:
    features, rewards, tasks = drawn()
    X = table(features, tasks)
    model = LowRankRegressor(rank, ridge=ridge, fit_intercept=fit_intercept).fit(X, rewards)
    Phi = np.column_stack([features, np.ones(len(features))]) if fit_intercept else features
    data = TaskRows.from_arrays(Phi, rewards, tasks)
    estimate = LowRank(rank=rank, ridge=ridge).fit(data)
    np.testing.assert_allclose(model.predict(X), estimate.predict(Phi, tasks), rtol=1e-12)
    assert model.rank_ == estimate.rank


def test_recovers_a_known_theta_and_intercept() -> None:
    features, _, tasks = drawn()
    slopes = np.outer(1.0 + np.arange(N_TASKS), [1.0, -2.0, 0.0, 3.0])  # (T, d)
    intercepts = 5.0 * slopes[:, 0]
    rewards = np.einsum("nd,nd->n", features, slopes[tasks]) + intercepts[tasks]
    model = LowRankRegressor(ridge=0).fit(table(features, tasks), rewards)
    order = np.array(model.estimate_.labels, np.int64)
    assert model.rank_ == 1
    assert model.basis_.shape == (DIM + 1, 1)
    np.testing.assert_allclose(model.coef_, slopes[order], atol=1e-9)
    np.testing.assert_allclose(model.intercept_, intercepts[order], atol=1e-9)


def test_without_intercept_the_intercepts_are_zero() -> None:
    features, rewards, tasks = drawn()
    model = LowRankRegressor(fit_intercept=False).fit(table(features, tasks), rewards)
    assert model.coef_.shape == (N_TASKS, DIM)
    assert not model.intercept_.any()


def test_task_column_alone_gives_the_means_of_tasks() -> None:
    _, rewards, tasks = drawn()
    for X in (tasks[:, None], pd.DataFrame({"t": tasks}), pl.DataFrame({"t": tasks})):
        predicted = LowRankRegressor(ridge=0).fit(X, rewards).predict(X)
        means = np.bincount(tasks, rewards) / np.bincount(tasks)
        np.testing.assert_allclose(predicted, means[tasks])


def test_without_a_ridge_tasks_of_one_row_are_fitted_exactly() -> None:
    rng = np.random.default_rng(3)
    X, rewards = rng.standard_normal((40, 5)), rng.standard_normal(40)
    model = LowRankRegressor(ridge=0).fit(X, rewards)
    assert len(model.estimate_.labels) == 40
    np.testing.assert_allclose(model.predict(X), rewards, atol=1e-8)


# ---- kinds of X


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda X: X,
    "pandas category": lambda X: X.astype({"city": "category"}),
    "polars": lambda X: pl.DataFrame(X.to_dict("list")),
    "polars categorical": lambda X: pl.DataFrame(X.to_dict("list")).cast({"city": pl.Categorical}),
    "arrow": pa.Table.from_pandas,
    "objects": lambda X: X.to_numpy(),
    "lists": lambda X: X.to_numpy().tolist(),
    "names that are numbers": lambda X: X.set_axis(range(X.shape[1]), axis=1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_x_give_the_same(kind: str) -> None:
    features, rewards, tasks = drawn()
    expected = LowRankRegressor().fit(table(features, tasks), rewards)
    X = KINDS[kind](frame(features, tasks))
    model = LowRankRegressor(task_column=2).fit(X, rewards)
    np.testing.assert_allclose(
        model.predict(X), expected.predict(table(features, tasks)), rtol=1e-10
    )
    assert set(model.estimate_.labels) == {f"city {task}" for task in range(N_TASKS)}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_names_of_columns_are_kept_and_found(kind: str) -> None:
    features, rewards, tasks = drawn()
    X = KINDS[kind](frame(features, tasks))
    model = LowRankRegressor(task_column="city").fit(X, rewards)
    assert model.task_index_ == 2
    assert model.feature_names_in_.tolist() == ["x0", "x1", "city", "x2", "x3"]
    assert model.n_features_in_ == DIM + 1
    assert model.estimate_.feature_names == (*FEATURES, INTERCEPT)
    assert model.score(X, rewards) > 0.9


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_large_whole_numbers_stay_different_tasks(make: Callable[..., Any]) -> None:
    first = 2**53  # first and first + 1 are the same as floats
    X = make({"id": [first, first, first + 1, first + 1], "x": [1.0, 2.0, 1.0, 2.0]})
    model = LowRankRegressor(fit_intercept=False).fit(X, [1.0, 2.0, -1.0, -2.0])
    assert model.estimate_.labels == (first, first + 1)


def test_single_precision_predicts_nearly_the_same() -> None:
    features, rewards, tasks = drawn()
    X = table(features, tasks)
    narrow = LowRankRegressor().fit(X.astype(np.float32), rewards).predict(X)
    wide = LowRankRegressor().fit(X, rewards).predict(X)
    np.testing.assert_allclose(narrow, wide, atol=1e-3)  # a hundredth of the noise


# ---- with the rest of scikit-learn


def test_clone_keeps_parameters() -> None:
    parameters: dict[str, Any] = {
        "rank": 3,
        "task_column": "city",
        "ridge": 0.5,
        "fit_intercept": False,
        "unseen": "error",
        "iterations": 7,
        "tolerance": 1e-3,
    }
    features, rewards, tasks = drawn()
    model = LowRankRegressor(**parameters).fit(frame(features, tasks), rewards)
    copy = clone(model)
    assert copy.get_params() == parameters
    with pytest.raises(NotFittedError):
        copy.predict(frame(features, tasks))


@pytest.mark.parametrize("seed", range(5))
def test_grid_search_finds_the_true_rank(seed: int) -> None:
    features, rewards, tasks = drawn(seed, dim=8, n_tasks=20, rank=3, noise_std=0.5)
    search = GridSearchCV(
        LowRankRegressor(),
        {"rank": np.arange(1, 6), "ridge": [0.0, 1000.0]},
        cv=KFold(5, shuffle=True, random_state=seed),
        error_score="raise",
    ).fit(table(features, tasks), rewards)
    assert search.best_params_ == {"rank": 3, "ridge": 0.0}


def test_grid_search_in_processes_gives_the_same() -> None:
    features, rewards, tasks = drawn()
    X = pl.DataFrame(frame(features, tasks).to_dict("list"))
    grid = {"rank": [1, 2], "ridge": [0.0, 1.0]}
    scores = [
        GridSearchCV(LowRankRegressor(task_column="city"), grid, cv=3, n_jobs=n_jobs)
        .fit(X, rewards)
        .cv_results_["mean_test_score"]
        for n_jobs in (1, 2)
    ]
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores[0], scores[1])


@pytest.mark.parametrize("seed", range(5))
def test_the_default_predicts_new_rows_better_than_no_ridge(seed: int) -> None:
    features, rewards, tasks = drawn(seed, dim=8, n_tasks=40, rank=2, noise_std=1.0)
    few = np.concatenate([np.flatnonzero(tasks == t)[:5] for t in range(40)])
    rest = np.setdiff1d(np.arange(len(tasks)), few)
    X = table(features, tasks)
    default, plain = (
        LowRankRegressor(2, ridge=ridge).fit(X[few], rewards[few]).score(X[rest], rewards[rest])
        for ridge in ("auto", 0.0)
    )
    assert default > plain + 0.1


def scaled(features: Floats) -> Floats:
    """Return the features with mean 0 and variance 1."""
    return np.asarray((features - features.mean(axis=0)) / features.std(axis=0))


def test_pipeline_scales_the_features_and_passes_the_task() -> None:
    features, rewards, tasks = drawn(shift=3.0)
    X = frame(features, tasks)
    scaler = ColumnTransformer([("scale", StandardScaler(), FEATURES)], remainder="passthrough")
    model = make_pipeline(scaler, LowRankRegressor(RANK, task_column=-1)).fit(X, rewards)
    by_hand = table(scaled(features), tasks)
    expected = LowRankRegressor(RANK).fit(by_hand, rewards).predict(by_hand)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_pipeline_of_frames_finds_the_task_by_name(container: str) -> None:
    features, rewards, tasks = drawn(shift=3.0)
    X = KINDS[container](frame(features, tasks))
    scaler = ColumnTransformer(
        [("scale", StandardScaler(), FEATURES)],
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    model = make_pipeline(scaler, LowRankRegressor(RANK, task_column="city"))
    model.set_output(transform=container).fit(X, rewards)
    by_hand = table(scaled(features), tasks)
    expected = LowRankRegressor(RANK).fit(by_hand, rewards).predict(by_hand)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-8)
    assert model[-1].estimate_.feature_names == (*FEATURES, INTERCEPT)


# ---- tasks that had no rows in the fit


@pytest.mark.parametrize(("ridge", "pooled_ridge"), [("auto", 0.0), (0.0, 0.0), (4.0, 4.0)])
def test_unseen_tasks_get_the_pooled_prediction(ridge: Any, pooled_ridge: float) -> None:
    features, rewards, tasks = drawn()
    seen = tasks < 8
    X = table(features, tasks)
    model = LowRankRegressor(ridge=ridge).fit(X[seen], rewards[seen])
    Phi = np.column_stack([features, np.ones(len(features))])
    gram = Phi[seen].T @ Phi[seen] + pooled_ridge * np.eye(DIM + 1)
    pooled = np.linalg.solve(gram, Phi[seen].T @ rewards[seen])
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted[~seen], Phi[~seen] @ pooled, rtol=1e-9)
    np.testing.assert_allclose(predicted[seen], model.predict(X[seen]), rtol=1e-12)
    np.testing.assert_allclose(predicted[~seen], model.predict(X[~seen]), rtol=1e-12)


def test_unseen_tasks_can_be_refused() -> None:
    features, rewards, tasks = drawn()
    seen = tasks < 8
    model = LowRankRegressor(unseen="error").fit(table(features, tasks)[seen], rewards[seen])
    assert np.isfinite(model.predict(table(features, tasks)[seen])).all()
    with pytest.raises(UnknownTaskError, match="not among the 8 fitted tasks"):
        model.predict(table(features, tasks))


def test_cross_validation_over_whole_tasks_gives_scores() -> None:
    features, _, tasks = drawn()
    rng = np.random.default_rng(0)
    common = features @ rng.standard_normal(DIM)
    rewards = common * (1 + 0.1 * rng.standard_normal(N_TASKS))[tasks]  # tasks that are alike
    scores = cross_val_score(
        LowRankRegressor(), table(features, tasks), rewards, groups=tasks, cv=GroupKFold(4)
    )
    assert (scores > 0.9).all()


# ---- what is refused, and what is warned of


@pytest.mark.parametrize("column", ["town", 5, -6, 1.5, None])
def test_task_column_that_is_not_there_is_refused(column: Any) -> None:
    features, rewards, tasks = drawn()
    with pytest.raises(ConfigurationError, match=r"task_column .* X has x0, x1, city, x2, x3"):
        LowRankRegressor(task_column=column).fit(frame(features, tasks), rewards)
    with pytest.raises(ConfigurationError, match=r"task_column .* X has no column names"):
        LowRankRegressor(task_column=column).fit(table(features, tasks), rewards)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 6}, "rank must be from 1 to"),
        ({"rank": 1.5}, "rank must be a whole number"),
        ({"ridge": -1.0}, "ridge must be at least 0 and finite, got -1.0"),
        ({"iterations": 0}, "iterations must be at least 1 and finite, got 0"),
        ({"tolerance": -1.0}, "tolerance must be at least 0 and finite, got -1.0"),
        ({"unseen": "mean"}, "unseen must be"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    features, rewards, tasks = drawn()
    with pytest.raises(ValueError, match=message):
        LowRankRegressor(**parameters).fit(table(features, tasks), rewards)


MISSING: dict[str, Any] = {
    "None": pd.Series(["a", None, "b"], dtype=object),
    "NaN": pd.Series([1.0, np.nan, 2.0]),
    "infinity": pd.Series([1.0, np.inf, 2.0]),
    "NA": pd.Series(["a", pd.NA, "b"], dtype="string"),
    "NaT": pd.Series([pd.Timestamp("2020-01-01"), pd.NaT, pd.Timestamp("2020-01-02")]),
}


@pytest.mark.parametrize("kind", MISSING)
def test_rows_without_a_task_are_refused(kind: str) -> None:
    X = pd.DataFrame({"task": MISSING[kind], "x": [1.0, 2.0, 3.0]})
    whole = X.drop(index=1)
    with pytest.raises(ValueError, match="NaN, None or an infinite number, first in row 1"):
        LowRankRegressor().fit(X, [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="first in row 1"):
        LowRankRegressor(rank=1).fit(whole, [1.0, 3.0]).predict(X)


def test_labels_must_be_hashable() -> None:
    X = pd.DataFrame({"task": [["a"], ["b"]], "x": [1.0, 2.0]})
    with pytest.raises(TypeError, match="must be hashable"):
        LowRankRegressor().fit(X, [1.0, 2.0])


def test_features_must_be_finite_numbers() -> None:
    features, rewards, tasks = drawn()
    X = frame(features, tasks)
    with pytest.raises(ValueError, match="could not convert string to float"):
        LowRankRegressor(task_column=0).fit(X, rewards)
    X.loc[3, "x1"] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LowRankRegressor(task_column="city").fit(X, rewards)


def test_columns_of_one_name_are_refused() -> None:
    X = pd.DataFrame([[0, 1.0, 2.0], [0, 3.0, 4.0]], columns=[0, 1, 1])
    with pytest.raises(ValueError, match=r"columns of the same name|unique column names"):
        LowRankRegressor().fit(X, [1.0, 2.0])


def test_no_features_and_no_intercept_is_refused() -> None:
    with pytest.raises(ValueError, match="add features or set fit_intercept=True"):
        LowRankRegressor(fit_intercept=False).fit([["a"], ["b"]], [1.0, 2.0])


def test_a_fit_that_hits_its_limit_warns() -> None:
    features, rewards, tasks = drawn()
    with pytest.warns(ConvergenceWarning, match="raise iterations"):
        LowRankRegressor(RANK, iterations=1).fit(table(features, tasks), rewards)


def test_without_scikit_learn_the_message_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "cobandits.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[sklearn\]'"):
        importlib.import_module("cobandits.sklearn")


def test_the_documented_example_runs() -> None:
    page = Path(__file__).parents[1] / "docs" / "sklearn.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 5
    assert results.failed == 0
