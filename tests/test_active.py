"""Passes over statistics of the features that tasks use, against least squares by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.estimators import AltGDMin
from cobandits.kernels import COMPILED, active_least_squares, active_statistics
from cobandits.tasks import TaskRows, TaskStatistics
from cobandits.tasks.prepared import PackedPasses

pytestmark = pytest.mark.skipif(not COMPILED, reason="the pass is compiled")

DIM = 60


def sparse_tasks(
    counts: list[int], seed: int, used: int = 21, dtype: type = np.float32
) -> TaskRows:
    """Return tasks whose rows use few of the features each, and not the same ones."""
    rng = np.random.default_rng(seed)
    rows, tasks = [], []
    for task, count in enumerate(counts):
        Phi = np.zeros((count, DIM))
        columns = rng.choice(DIM, used, replace=False)
        Phi[:, columns] = rng.standard_normal((count, used))
        rows.append(Phi)
        tasks += [task] * count
    X: NDArray[Any] = np.concatenate(rows).astype(dtype)
    theta = rng.standard_normal((DIM, 2)) @ rng.standard_normal((2, len(counts)))
    y = np.einsum("nd,dn->n", X, theta[:, tasks]) + 0.1 * rng.standard_normal(len(X))
    return TaskRows.from_arrays(X, y.astype(dtype), tasks)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("used", [1, 8, 21, 24])
def test_it_solves_least_squares_of_every_task(rank: int, used: int) -> None:
    tasks = sparse_tasks([90, 200, 61], seed=rank, used=used)
    rng = np.random.default_rng(rank)
    B = np.linalg.qr(rng.standard_normal((DIM, rank)))[0]
    active = active_statistics(tasks.rows, tasks.rewards, tasks.offsets)
    assert active is not None
    fit = active_least_squares(active, B)
    if used < rank:
        assert fit is None  # a task has no single solution
        return
    assert fit is not None
    gradient = np.zeros((DIM, rank))
    for t in range(3):
        own = slice(*tasks.offsets[t : t + 2])
        Phi, y = tasks.rows[own].astype(float), tasks.rewards[own].astype(float)
        w, (cost,), *_ = np.linalg.lstsq(Phi @ B, y)
        np.testing.assert_allclose(fit.weights[:, t], w, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(fit.costs[t], cost, rtol=1e-9)
        gradient += np.outer(Phi.T @ (Phi @ B @ w - y), w)
    np.testing.assert_allclose(fit.gradient, gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 3.0, np.linspace(0.1, 5, DIM)], ids=["no", "one", "some"])
@pytest.mark.parametrize("rank", [1, 2, 3, 5, 8])
@pytest.mark.parametrize(("used", "fewest"), [(8, 61), (21, 61), (DIM, 61), (21, 3)])
def test_packed_statistics_give_the_pass_over_rows(
    rank: int, used: int, fewest: int, ridge: float | NDArray[Any]
) -> None:
    """Also where a task has fewer rows than weights, which are then of least norm."""
    tasks = sparse_tasks([90, 200, fewest], seed=rank, used=used, dtype=np.float64)
    statistics = tasks.statistics()
    packed = statistics.packed()
    assert isinstance(packed, PackedPasses)
    assert packed.packed.grams.nbytes < statistics.grams.nbytes / 1.5
    B = np.linalg.qr(np.random.default_rng(rank).standard_normal((DIM, rank)))[0]
    found, expected = packed.least_squares(B, ridge), tasks.least_squares(B, ridge)
    for name in ("weights", "gradient", "costs", "cost", "weighted"):
        one, other = getattr(found, name), getattr(expected, name)
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-7, err_msg=name)
    assert found.determined == (fewest >= rank or bool(np.any(ridge)))


@pytest.mark.parametrize("seed", range(8))
def test_weights_are_of_least_norm_where_a_task_has_few_rows(seed: int) -> None:
    """A pivot that should be 0 is rounding error, which may be far above its usual size."""
    tasks = sparse_tasks([90, 90] + [3] * 30, seed=seed, used=9, dtype=np.float64)
    packed = tasks.statistics().packed()
    assert isinstance(packed, PackedPasses)
    B = np.linalg.qr(np.random.default_rng(seed).standard_normal((DIM, 4)))[0]
    found = packed.least_squares(B)
    for t in range(2, 32):
        own = slice(*tasks.offsets[t : t + 2])
        w = np.linalg.lstsq(tasks.rows[own] @ B, tasks.rewards[own], rcond=1e-7)[0]
        np.testing.assert_allclose(found.weights[:, t], w, rtol=1e-5, atol=1e-5 * np.abs(w).max())


def test_statistics_of_few_features_are_not_packed() -> None:
    rng = np.random.default_rng(0)
    few = TaskRows.from_arrays(rng.standard_normal((40, 5)), rng.standard_normal(40), [0, 1] * 20)
    statistics = few.statistics()
    assert statistics.packed() is statistics
    assert few.packed() is few
    for nothing in (TaskStatistics(3), TaskRows.from_arrays(np.zeros((4, 3)), [1.0] * 4, [0] * 4)):
        assert nothing.packed() is nothing
    zeros = TaskRows.from_arrays(np.zeros((400, 3)), np.ones(400), [0, 1] * 200).statistics()
    assert zeros.packed() is zeros


@pytest.mark.parametrize(
    ("counts", "used", "dtype"),
    [([90, 90], 21, np.float64), ([20, 20], DIM, np.float32), ([3, 3], 21, np.float32)],
    ids=["double precision", "dense and few", "few rows"],
)
def test_rows_stay_rows_where_statistics_would_gain_nothing(
    counts: list[int], used: int, dtype: type
) -> None:
    tasks = sparse_tasks(counts, seed=1, used=used, dtype=dtype)
    assert tasks.prepared() is tasks


def test_a_task_that_has_no_single_solution_is_solved_over_rows() -> None:
    tasks = sparse_tasks([90, 200, 61], seed=3, used=2)
    prepared = tasks.prepared()
    assert prepared is not tasks
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, 4)))[0]
    for found, expected in zip(prepared.least_squares(B), tasks.least_squares(B), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_task_without_rows_is_left_at_zero() -> None:
    tasks = sparse_tasks([90, 200, 61], seed=4).select(np.arange(351) >= 90)
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, 2)))[0]
    fit = tasks.prepared().least_squares(B)
    assert not fit.weights[:, 0].any()
    assert fit.weights[:, 1:].all()


@pytest.mark.parametrize("seed", range(5))
def test_the_papers_estimator_finds_what_it_finds_in_double_precision(seed: int) -> None:
    single = sparse_tasks([200] * 6, seed=seed)
    double = TaskRows.from_arrays(
        single.rows.astype(float), single.rewards.astype(float), single.owners
    )
    assert single.prepared() is not single
    found, expected = (AltGDMin(rank=2, iterations=200).fit(rows) for rows in (single, double))
    np.testing.assert_allclose(
        found.theta, expected.theta, atol=2e-5 * np.abs(expected.theta).max()
    )


def test_wrong_arrays_are_refused() -> None:
    from cobandits.compiled import _pass

    tasks = sparse_tasks([90, 200], seed=5)
    active = active_statistics(tasks.rows, tasks.rewards, tasks.offsets)
    assert active is not None
    B, W, gradient, costs = np.zeros((DIM, 2)), np.zeros((2, 2)), np.zeros((DIM, 2)), np.zeros(2)

    def call(**changed: Any) -> None:
        _pass.gram_least_squares(
            *active._replace(**changed)[:5], B, np.zeros((2, 2)), W, gradient, costs, DIM, 2, 0.0
        )

    call()
    for changed, what in [
        (
            {"features": np.where(active.features == active.features[0], DIM, active.features)},
            "out of range",
        ),
        ({"starts": active.starts + np.array([0, 1, 0])}, "out of range"),
        ({"grams": active.grams[:-1]}, "grams"),
        ({"moments": active.moments[:-1]}, "moments"),
        ({"squares": active.squares[:-1]}, "squares"),
    ]:
        with pytest.raises(ValueError, match=what):
            call(**changed)
