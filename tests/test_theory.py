"""The theorems as functions: values worked out by hand, invariance, and what is measured."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.errors import CobanditsError, ConfigurationError, DataError, RankError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, LowRank, spectral_start
from cobandits.linalg import orthonormal, subspace_distance
from cobandits.tasks import TaskRows
from cobandits.theory import Theory

Floats = NDArray[np.floating]


def by_hand() -> Theory:
    """Return d = 5, T = 4, r = 2, sigmas 3 and sqrt(3), |w_t| = 3 1 1 1, noise 0.1.

    So kappa^2 = 3 and mu^2 = 9 (4 / 2) / 9 = 2.
    """
    theta = np.zeros((5, 4))
    theta[:2] = [[3, 0, 0, 0], [0, 1, -1, 1]]
    return Theory.of(theta, noise_std=0.1)


def test_the_constants_of_a_problem() -> None:
    theory = by_hand()
    assert (theory.dim, theory.n_tasks, theory.rank) == (5, 4, 2)
    assert theory.sigma_max == pytest.approx(3)
    assert theory.condition == pytest.approx(math.sqrt(3))
    assert theory.incoherence == pytest.approx(math.sqrt(2))
    assert theory.nsr == pytest.approx(0.01)
    assert theory.noise_floor == pytest.approx(0.3)  # 3 * 0.1
    assert theory.parameters == 14  # 2 (5 + 4 - 2)
    assert theory.rounds == 4  # 14 / 4, rounded up


def test_incoherence_is_at_least_one() -> None:
    even = np.array([[2.0, 2, 2, 2], [1, -1, 1, -1]])  # |w_t|^2 = 5 below (r/T) 16 = 8
    assert Theory.of(even).incoherence == 1
    assert Theory.of(even).condition == pytest.approx(2)


def test_theorem_51_the_start() -> None:
    theory = by_hand()
    assert theory.start_noise(0.1, rows=10) == pytest.approx(0.1 / math.sqrt(360))
    size = theory.start_rows(0.5, failure=0.02)  # 288 (5 + log 100), log 4 + log 100
    assert size.total == pytest.approx(2766.289, rel=1e-6)
    assert size.per_task == pytest.approx(5.991465, rel=1e-6)
    assert size.rows == 692
    assert theory.start_probability(0.5, size.rows) >= 0.98
    assert theory.start_probability(0.5, size.rows // 3) == 0


def test_theorem_52_a_step() -> None:
    theory = by_hand()
    assert theory.contraction(0.4) == pytest.approx(1 - 0.5472 * 0.4 / 3)
    assert theory.contraction(0.5) == pytest.approx(0.9088)
    assert theory.basin == pytest.approx(0.02 / 6)
    assert theory.step_noise(0.003) == pytest.approx(0.003 * math.sqrt(1.5))
    size = theory.step_rows()  # 2 * 9 * 7 * 2, and 2 + log 4 + log 5
    assert size.total == pytest.approx(252)
    assert size.per_task == pytest.approx(4.995732, rel=1e-6)
    assert size.rows == 63


def test_theorem_53_a_fit() -> None:
    theory = by_hand()
    assert theory.fit_noise(10) == pytest.approx((math.sqrt(2) * 8 * 27 * 10) ** -0.5)
    size = theory.fit_rows(0.5)  # 1080 (12 + log 2), 3 * 4.995732 log 2
    assert size.total == pytest.approx(13708.599, rel=1e-6)
    assert size.per_task == pytest.approx(10.388332, rel=1e-6)
    assert size.rows == 3428
    assert theory.fit_iterations(0.5) == 3  # 3 log 2 = 2.08
    assert theory.fit_iterations(0.1) == 4  # the floor, 0.3: 3 log(1 / 0.3) = 3.61
    assert theory.fit_iterations(1e-9) == 4
    assert theory.fit_probability(0.1) == pytest.approx(1 - 4 * 5**-10, rel=1e-12)


def test_theorem_54_regret() -> None:
    theory = by_hand()
    by_parts = 2 * math.sqrt(2) * 3 * math.sqrt(2 * 256 * 4 * math.log(10)) * (1 + 3)
    assert theory.regret_bound(256, failure=0.1) == pytest.approx(by_parts)
    natural = by_parts / 4 * (1 + math.log(math.log(256)))
    assert theory.regret_bound(256, failure=0.1, base=math.e) == pytest.approx(natural)
    expected = 0.9 - 4 * 5**-10
    assert theory.regret_probability(failure=0.1, error=0.1) == pytest.approx(expected)


def test_open_constants_scale_the_bounds() -> None:
    theta = np.diag([2.0, 1.0, 1.0])
    one, other = Theory.of(theta, noise_std=1e-3), Theory.of(theta, noise_std=1e-3, C=3, c=0.25)
    assert other.noise_floor == pytest.approx(3 * one.noise_floor)
    assert other.step_rows().total == pytest.approx(3 * one.step_rows().total)
    assert other.start_rows(0.1, 0.1).total == pytest.approx(4 * one.start_rows(0.1, 0.1).total)
    assert other.fit_noise(5) == pytest.approx(0.5 * one.fit_noise(5))


def test_iterations_with_the_constant_of_the_contraction_reach_the_error() -> None:
    """C of L: with 1 / (0.4 * 0.5472), the contraction reaches the error from the basin."""
    theory = Theory.of(np.diag([3.0, 2.0, 1.0]), C=4.57)
    for error in (1e-1, 1e-3, 1e-8):
        assert theory.contraction(0.4) ** theory.fit_iterations(error) <= error


@given(st.integers(0, 10_000), st.integers(1, 3), st.floats(1e-6, 1e6))
def test_constants_depend_on_neither_rotation_nor_order_nor_scale(
    seed: int, rank: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((6, rank)) @ rng.standard_normal((rank, 8))
    rotation = orthonormal(rng.standard_normal((6, 6)))
    one = Theory.of(theta, noise_std=0.1)
    other = Theory.of(scale * rotation @ theta[:, rng.permutation(8)], noise_std=scale * 0.1)
    assert other.rank == one.rank == rank
    for name in ("condition", "incoherence", "nsr", "noise_floor", "basin"):
        assert getattr(other, name) == pytest.approx(getattr(one, name), rel=1e-6)
    assert other.oracle_error(9) == pytest.approx(one.oracle_error(9), rel=1e-6)


def test_a_lower_rank_is_the_best_approximation() -> None:
    theta = np.diag([4.0, 2.0, 1.0])
    theory = Theory.of(theta, rank=2, noise_std=0.1)
    assert (theory.rank, theory.sigma_min, theory.condition) == (2, 2, 2)
    assert theory.norm == pytest.approx(math.sqrt(20))
    assert theory.nsr == math.inf  # the third task has nothing at rank 2


def test_an_estimate_gives_nearly_the_constants_of_the_truth() -> None:
    problem = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=1e-3).problem(n_rows=20, seed=4)
    estimate = LowRank(rank=2).fit(problem.tasks)
    known = Theory.of(problem.theta, noise_std=1e-3)
    found = Theory.of(estimate.theta, rank=estimate.rank, noise_std=1e-3)
    assert known.rank == 2
    assert found.condition == pytest.approx(known.condition, rel=1e-2)
    assert found.incoherence == pytest.approx(known.incoherence, rel=1e-2)


@pytest.mark.parametrize("condition", [1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_altgdmin_contracts_at_least_as_fast_as_theorem_52(seed: int, condition: float) -> None:
    """Without noise, from the basin on, every iteration; step 0.4 and 0.5."""
    cell = Synthetic(dim=20, n_tasks=40, rank=2, noise_std=0, condition=condition)
    problem = cell.problem(n_rows=60, seed=seed)
    theory = Theory.of(problem.theta, rank=2)
    for step in (0.4, 0.5):
        distances = _distances(problem.tasks, problem.basis, step)
        inside = [d for d in distances if d <= theory.basin]
        factors = np.array(inside[1:]) / inside[:-1]
        assert len(factors) >= 10
        assert factors.max() <= theory.contraction(step)


def _distances(tasks: TaskRows, basis: Floats, step: float) -> list[float]:
    """Return the distance to the true basis by iteration, until it is 1e-8."""
    B = spectral_start(tasks, 2)
    once = AltGDMin(rank=2, step=step, iterations=1, tolerance=0)
    distances = [subspace_distance(B, basis)]
    while distances[-1] > 1e-8 and len(distances) < 500:
        start = Estimate(basis=B, weights=np.zeros((2, tasks.n_tasks)), labels=tasks.labels)
        B = once.fit(tasks, start=start).basis
        distances.append(subspace_distance(B, basis))
    return distances


@pytest.mark.parametrize("counts", [12, [6, 8, 10, 20, 40]])
def test_oracle_error_is_that_of_least_squares_in_the_true_basis(counts: int | list[int]) -> None:
    rng = np.random.default_rng(8)
    B = orthonormal(rng.standard_normal((7, 2)))
    W = rng.standard_normal((2, 5))
    theory = Theory.of(B @ W, noise_std=0.3)
    squares = []
    for _ in range(2000):
        error = 0.0
        for t, n in enumerate(np.broadcast_to(counts, 5)):
            A = rng.standard_normal((n, 7)) @ B
            y = A @ W[:, t] + 0.3 * rng.standard_normal(n)
            error += float(np.sum((np.linalg.lstsq(A, y)[0] - W[:, t]) ** 2))
        squares.append(error / np.sum(W**2))
    assert theory.oracle_error(counts) == pytest.approx(math.sqrt(np.mean(squares)), rel=0.04)


def test_a_task_of_zeros_has_no_signal() -> None:
    theta = np.array([[1.0, 0.0], [0.0, 0.0]])
    theory = Theory.of(theta, noise_std=0.1)
    assert theory.nsr == math.inf
    assert theory.noise_floor == math.inf
    assert theory.fit_iterations(0.01) == 0
    assert theory.start_noise(0.1, rows=3) == 0
    assert Theory.of(theta).nsr == 0  # without noise there is nothing to drown in


def test_too_few_rows_have_no_expected_error() -> None:
    theta = np.eye(4)[:, :2]
    assert Theory.of(theta, noise_std=0.1).oracle_error([20, 3]) == math.inf
    assert Theory.of(theta).oracle_error([20, 3]) == 0


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Theory.of(np.outer([1.0, 2], [1.0, 1]), rank=2), RankError, "rank of theta = 1"),
        (lambda: Theory.of(np.eye(3), rank=0), RankError, "got 0"),
        (lambda: Theory.of(np.zeros((2, 2))), RankError, "all zeros"),
        (lambda: Theory.of(np.ones(3)), DataError, "one column per task"),
        (lambda: Theory.of([[np.nan]]), DataError, "NaN"),
        (lambda: Theory.of(np.eye(2), noise_std=-1), ConfigurationError, "noise_std"),
        (lambda: Theory.of(np.eye(2), noise_std=math.inf), ConfigurationError, "noise_std"),
        (lambda: Theory.of(np.eye(2), C=0), ConfigurationError, "C must be"),
        (lambda: by_hand().contraction(0.6), ConfigurationError, "at most 0.5"),
        (lambda: by_hand().step_noise(0.5), ConfigurationError, "at most 0.00333"),
        (lambda: by_hand().fit_rows(0.0), ConfigurationError, "error must be above 0"),
        (lambda: by_hand().fit_noise(0), ConfigurationError, "rows must be at least 1"),
        (lambda: by_hand().regret_bound(1, 0.1), ConfigurationError, "n_rounds"),
        (lambda: by_hand().regret_bound(10, 1.0), ConfigurationError, "failure"),
        (lambda: by_hand().regret_bound(10, 0.1, base=1), ConfigurationError, "base"),
        (lambda: by_hand().regret_bound(10, 0.1, base=11), ConfigurationError, "n_rounds"),
        (lambda: by_hand().oracle_error([1, 2, 3]), DataError, "4 tasks"),
    ],
)
def test_what_cannot_be_is_refused(
    call: Callable[[], object], error: type[CobanditsError], says: str
) -> None:
    with pytest.raises(error, match=says):
        call()
