"""The passes against a literal loop over tasks, compiled and in NumPy."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import scipy.optimize

from cobandits import kernels
from cobandits.kernels import Fit, RidgePenalty, batches
from cobandits.tasks import TaskFit, TaskRows
from tests.support import Floats, Real, of_type

Offsets = np.ndarray[tuple[int], np.dtype[np.int64]]
Sample = tuple[Floats, Floats, Offsets]

PATHS = ["compiled", "numpy"] if kernels.COMPILED else ["numpy"]
compiled_only = pytest.mark.skipif(not kernels.COMPILED, reason="the compiled pass is not built")
TOLERANCE: dict[Real, float] = {np.float64: 1e-9, np.float32: 2e-3}


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once compiled (where it is built) and once in NumPy."""
    monkeypatch.setattr(kernels.rows, "COMPILED", request.param == "compiled")
    return str(request.param)


def sample(d: int, counts: list[int], dtype: Real = np.float64, seed: int = 0) -> Sample:
    rng = np.random.default_rng([d, *counts, seed])
    n = sum(counts)
    rows = of_type(rng.standard_normal((n, d)), dtype)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return rows, of_type(rng.standard_normal(n), dtype), offsets


def ragged_counts(r: int) -> list[int]:
    """Return counts with empty tasks, short ones and long ones; none near r, for conditioning."""
    return [2 * r + 3, 0, r // 2, 3 * r + 8, 3 * r + 8, 1, 2 * r + 3, 0]


def basis(d: int, r: int, seed: int = 1) -> Floats:
    return np.linalg.qr(np.random.default_rng([d, r, seed]).standard_normal((d, r)))[0]


def tasks_of(rows: Floats, rewards: Floats, offsets: Offsets) -> Iterator[tuple[Floats, Floats]]:
    for first, last in itertools.pairwise(offsets):
        yield rows[first:last].astype(np.float64), rewards[first:last].astype(np.float64)


def literal(data: Sample, B: Floats, ridge: RidgePenalty) -> Fit:
    """Do the pass one task after the other, each by a pseudo-inverse in double precision."""
    (d, r) = B.shape
    W, costs, gradient = [], [], np.zeros((d, r))
    each = np.broadcast_to(ridge, d)  # a feature's own
    for Phi, y in tasks_of(*data):
        stacked = np.vstack([Phi @ B, np.sqrt(each)[:, None] * B])  # the ridge as rows
        w = np.linalg.pinv(stacked) @ np.concatenate([y, np.zeros(d)])
        e = Phi @ (B @ w) - y
        W.append(w)
        costs.append(e @ e + np.sum(each * (B @ w) ** 2))
        gradient += np.outer(Phi.T @ e + each * (B @ w), w)
    return Fit(np.column_stack(W), gradient, np.array(costs))


def check_fit(found: Fit | TaskFit, expected: Fit | TaskFit, tolerance: float) -> None:
    for name in ("weights", "gradient", "costs"):
        mine, right = getattr(found, name), getattr(expected, name)
        scale = max(1.0, float(np.abs(right).max()))
        np.testing.assert_allclose(mine, right, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("d", range(1, 41))
def test_least_squares_equals_a_literal_loop(path: str, d: int) -> None:
    for r in range(1, d + 1):
        data, B = sample(d, ragged_counts(r)), basis(d, r)
        for ridge in (0.0, 0.7, np.linspace(0.1, 2, d)):
            fit = kernels.least_squares(*data, B, ridge)
            check_fit(fit, literal(data, B, ridge), TOLERANCE[np.float64])


@pytest.mark.parametrize("basis_type", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 15, 16, 17, 31, 32, 33, 40, 100])
def test_least_squares_in_float32(path: str, d: int, basis_type: Real) -> None:
    for r in range(1, min(d, 9) + 1):
        data, B = sample(d, ragged_counts(r), np.float32), of_type(basis(d, r), basis_type)
        for ridge in (0.0, 0.7):
            fit = kernels.least_squares(*data, B, ridge)
            check_fit(fit, literal(data, B.astype(np.float64), ridge), TOLERANCE[np.float32])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", range(1, 41))
def test_residuals_equal_a_literal_loop(path: str, d: int, dtype: Real) -> None:
    counts = [9, 0, 1, 8, 23, 8, 0]
    data = sample(d, counts, dtype)
    Theta = of_type(np.random.default_rng(d).standard_normal((d, len(counts))), dtype)
    G, costs = kernels.residuals(*data, Theta)
    for t, (Phi, y) in enumerate(tasks_of(*data)):
        e = Phi @ Theta[:, t] - y
        tolerance = 1e-4 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(G[:, t], Phi.T @ e, atol=tolerance, rtol=tolerance)
        np.testing.assert_allclose(costs[t], e @ e, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_basis_that_is_not_orthonormal_or_contiguous(path: str, dtype: Real) -> None:
    data = sample(20, ragged_counts(3), dtype)
    B = of_type(np.random.default_rng(0).standard_normal((40, 6)), dtype)[::2, ::2]
    assert not B.flags.c_contiguous
    for ridge in (0.0, 0.7):
        fit = kernels.least_squares(*data, B, ridge)
        check_fit(fit, literal(data, B.astype(np.float64), ridge), TOLERANCE[dtype])
        fortran = kernels.least_squares(*data, np.asfortranarray(B), ridge)
        check_fit(fortran, fit, TOLERANCE[dtype])


@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "read-only"])
def test_rows_of_any_layout(path: str, layout: str) -> None:
    rows, rewards, _ = sample(18, [30])
    layouts: dict[str, Callable[[Floats], Floats]] = {
        "fortran": np.asfortranarray,
        "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
        "reversed": lambda a: a[::-1].copy()[::-1],
        "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    }
    B = basis(18, 2)
    labels = np.repeat(np.arange(3), 10)
    plain = TaskRows.from_arrays(rows, rewards, labels)
    other = TaskRows.from_arrays(layouts[layout](rows), layouts[layout](rewards), labels)
    check_fit(other.least_squares(B), plain.least_squares(B), 1e-14)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_gradient_is_that_of_the_variable_projection(path: str, ridge: float) -> None:
    """Half the derivative of ``min_W f(B, W)``, against finite differences."""
    d, r = 17, 3
    data = sample(d, [9, 0, 12, 20, 7])
    B = basis(d, r) + 0.1

    def half_cost(flat: Floats) -> float:
        return float(literal(data, flat.reshape(d, r), ridge).costs.sum()) / 2

    numeric = scipy.optimize.approx_fprime(B.ravel(), half_cost, 1e-6)
    fit = kernels.least_squares(*data, B, ridge)
    np.testing.assert_allclose(fit.gradient.ravel(), numeric, atol=2e-4 * np.abs(numeric).max())


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_task_that_does_not_determine_its_weights_gets_the_least(
    path: str, dtype: Real, count: int
) -> None:
    data, B = sample(24, [count, 30], dtype), basis(24, 6)
    fit = kernels.least_squares(*data, of_type(B, dtype))
    Phi, y = next(tasks_of(*data))
    np.testing.assert_allclose(fit.weights[:, 0], np.linalg.pinv(Phi @ B) @ y, atol=1e-3)
    assert fit.costs[0] < 1e-6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeated_rows_do_not_determine_the_weights_either(path: str, dtype: Real) -> None:
    rows, rewards, _ = sample(24, [1, 30], dtype)
    rows = np.concatenate([np.repeat(rows[:1], 12, axis=0), rows[1:]])
    rewards = np.concatenate([np.repeat(rewards[:1], 12), rewards[1:]])
    data, B = (rows, rewards, np.array([0, 12, 42])), basis(24, 4)
    for basis_type in (np.float32, np.float64):
        fit = kernels.least_squares(*data, of_type(B, basis_type))
        check_fit(fit, literal(data, B, 0.0), TOLERANCE[np.float32])


def test_all_tasks_empty(path: str) -> None:
    data = (np.empty((0, 20)), np.empty(0), np.zeros(4, np.int64))
    fit = kernels.least_squares(*data, basis(20, 2))
    assert not fit.weights.any()
    assert not fit.costs.any()
    G, costs = kernels.residuals(*data, np.ones((20, 3)))
    assert not G.any()
    assert not costs.any()


@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize("d", [1, 3, 16, 25])
def test_statistics_give_the_same_passes(d: int, ridge: float) -> None:
    data = sample(d, [40, 0, 55, 12, 30])
    B = basis(d, min(d, 4))
    grams = np.stack([Phi.T @ Phi for Phi, _ in tasks_of(*data)])
    moments = np.stack([Phi.T @ y for Phi, y in tasks_of(*data)])
    squares = np.array([y @ y for _, y in tasks_of(*data)])
    for penalty in (ridge, np.linspace(0.1, 2, d)):
        fit = kernels.gram_least_squares(grams, moments, squares, B, penalty)
        check_fit(fit, literal(data, B, penalty), 1e-9)
    Theta = np.random.default_rng(1).standard_normal((d, 5))
    G, costs = kernels.gram_residuals(grams, moments, squares, Theta)
    G_rows, costs_rows = kernels.residuals(*data, Theta)
    np.testing.assert_allclose(G, G_rows, atol=1e-9)
    np.testing.assert_allclose(costs, costs_rows, atol=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 5.0, np.geomspace(1e-3, 1e3, 6), np.eye(6)[2]])
def test_ridge_equals_stacked_least_squares(penalty: RidgePenalty) -> None:
    d = 6
    data = sample(d, [3, 0, 6, 20, 20])
    Theta = kernels.ridge(*data, penalty)
    grams = np.stack([Phi.T @ Phi for Phi, _ in tasks_of(*data)])
    moments = np.stack([Phi.T @ y for Phi, y in tasks_of(*data)])
    from_statistics = kernels.gram_ridge(grams, moments, penalty)
    for t, (Phi, y) in enumerate(tasks_of(*data)):
        stacked = np.vstack([Phi, np.diag(np.broadcast_to(np.sqrt(penalty), d))])
        theta = np.linalg.pinv(stacked) @ np.concatenate([y, np.zeros(d)])
        np.testing.assert_allclose(Theta[:, t], theta, atol=1e-9)
        np.testing.assert_allclose(from_statistics[:, t], theta, atol=1e-6)


def test_chunks_cover_everything_once() -> None:
    for length, size in ((0, 8), (1, 1 << 30), (10, 1 << 23), (1000, 1 << 20), (7, 0)):
        covered = [i for chunk in kernels.chunks(length, size) for i in range(length)[chunk]]
        assert covered == list(range(length))


def test_many_tasks_pass_in_chunks(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, B = sample(6, [5, 8, 5, 5, 8, 0, 5]), basis(6, 2)
    whole = kernels.least_squares(*data, B)
    monkeypatch.setattr(batches, "_CHUNK_BYTES", 300)  # two tasks at a time
    check_fit(kernels.least_squares(*data, B), whole, 1e-13)


def test_extensions_that_are_built_are_used() -> None:
    """One that is there but cannot be imported would leave everything to NumPy, unseen."""
    names = [
        f"cobandits.compiled.{name}"
        for name in ("_pass", "_posterior", "_fast_checks", "_propensity", "_requests")
    ]
    built = [name for name in names if importlib.util.find_spec(name)]
    assert built == (names if kernels.COMPILED else [])  # all of them, or none
    for name in built:
        importlib.import_module(name)


Changes = dict[str, object]
WRONG_LEAST_SQUARES: list[Changes] = [
    {"rows": np.zeros((9, 20))},
    {"rows": np.zeros((10, 20), np.float32)},
    {"rewards": np.zeros(11)},
    {"offsets": np.array([0, 5, 11])},
    {"offsets": np.array([-1, 5, 10])},
    {"offsets": np.array([0, 8, 5])},
    {"offsets": np.array([0, 5], np.int64)},
    {"offsets": np.array([0, 5, 10], np.int32)},
    {"offsets": np.empty(0, np.int64)},
    {"B": np.zeros((20, 3))},
    {"penalty": np.zeros((2, 3))},
    {"W": np.zeros((1, 2))},
    {"grad": np.zeros((2, 19))},
    {"costs": np.zeros(1)},
    {"dim": 19},
    {"dim": -20},
    {"rank": 3},
    {"rank": 0},
    {"rank": -2},
    {"is_double": False},
]


@compiled_only
@pytest.mark.parametrize("change", WRONG_LEAST_SQUARES, ids=str)
def test_compiled_least_squares_refuses_wrong_lengths(change: Changes) -> None:
    right: Changes = {
        "rows": np.zeros((10, 20)),
        "rewards": np.zeros(10),
        "offsets": np.array([0, 5, 10]),
        "B": np.zeros((20, 2)),
        "penalty": np.zeros((2, 2)),
        "W": np.zeros((2, 2)),
        "grad": np.zeros((2, 20)),
        "costs": np.zeros(2),
        "dim": 20,
        "rank": 2,
        "is_double": True,
        "tolerance": 1e-12,
    }
    from cobandits.compiled import _pass

    call: Callable[..., object] = _pass.least_squares
    call(*right.values())
    with pytest.raises(ValueError, match=r"expected|out of range"):
        call(*{**right, **change}.values())


WRONG_RESIDUALS: list[Changes] = [
    {"rows": np.zeros((9, 20))},
    {"rewards": np.zeros(9)},
    {"offsets": np.array([0, 11, 10])},
    {"offsets": np.array([0, 5, 11])},
    {"thetas": np.zeros((3, 20))},
    {"G": np.zeros((2, 21))},
    {"costs": np.zeros(3)},
    {"dim": 10},
    {"is_double": False},
]


@compiled_only
@pytest.mark.parametrize("change", WRONG_RESIDUALS, ids=str)
def test_compiled_residuals_refuse_wrong_lengths(change: Changes) -> None:
    right: Changes = {
        "rows": np.zeros((10, 20)),
        "rewards": np.zeros(10),
        "offsets": np.array([0, 5, 10]),
        "thetas": np.zeros((2, 20)),
        "G": np.zeros((2, 20)),
        "costs": np.zeros(2),
        "dim": 20,
        "is_double": True,
    }
    from cobandits.compiled import _pass

    call: Callable[..., None] = _pass.residuals
    call(*right.values())
    with pytest.raises(ValueError, match=r"expected|out of range"):
        call(*{**right, **change}.values())


@compiled_only
def test_compiled_passes_write_only_into_their_outputs() -> None:
    """Guards around every output stay untouched, for widths around the vector's."""
    from cobandits.compiled import _pass

    for d in range(1, 50):
        for dtype in (np.float32, np.float64):
            rows, rewards, offsets = sample(d, [9, 0, 3, 17], dtype)
            outputs = [np.full(n + 32, 7.0, kind) for n, kind in ((4 * d, dtype), (4, np.float64))]
            G, costs = (buffer[16:-16] for buffer in outputs)
            thetas = np.ones((4, d), dtype)
            _pass.residuals(rows, rewards, offsets, thetas, G, costs, d, dtype == np.float64)
            for buffer in outputs:
                assert (buffer[:16] == 7).all()
                assert (buffer[-16:] == 7).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 15, 16, 17, 33, 100])
def test_pull_backs_equal_a_literal_loop(path: str, d: int, dtype: type) -> None:
    counts = [9, 0, 1, 8, 23, 8, 0]
    rows, rewards, offsets = sample(d, counts, dtype)
    values = np.column_stack([np.ones_like(rewards), rewards, rewards**2])
    found = kernels.pull_backs(rows, values, offsets)
    assert found.shape == (len(counts), 3, d)
    for t in range(len(counts)):
        own = slice(offsets[t], offsets[t + 1])
        tolerance = 1e-4 if dtype == np.float32 else 1e-12
        expected = values[own].T @ rows[own]
        np.testing.assert_allclose(found[t], expected, atol=tolerance, rtol=tolerance)


@compiled_only
def test_compiled_pull_backs_refuse_wrong_lengths() -> None:
    from cobandits.compiled import _pass

    rows, values, offsets = np.ones((4, 3)), np.ones((4, 2)), np.array([0, 2, 4])
    out = np.empty((2, 2, 3))
    call: Callable[..., None] = _pass.pull_backs
    call(rows, values, offsets, out, 3, 2, True)
    assert (out == 2).all()
    for wrong in (
        (rows[:3].copy(), values, offsets, out, 3, 2),
        (rows, values, np.array([0, 2, 5]), out, 3, 2),
        (rows, values, offsets, out[:1].copy(), 3, 2),
        (rows, values, offsets, out, 3, 0),
        (rows, values, offsets, out, 2, 2),
    ):
        with pytest.raises(ValueError, match=r"expected|out of range"):
            call(*wrong, True)
