"""The drift detector: quiet while errors keep to their baseline, raised soon after they do not."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.errors import ModelFileError
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.reader import Part, Reader

Floats = NDArray[np.floating]
Draw = Callable[[np.random.Generator, int], Floats]


def after(
    detector: DriftDetector, squares: Floats, expected: Floats, *, n_tasks: int = 10, first: int = 0
) -> DriftDetector:
    """Return the detector after the errors of tasks that take turns."""
    tasks = (first + np.arange(len(squares))) % n_tasks
    return detector.after(tasks, np.asarray(squares), np.asarray(expected), n_active=n_tasks)


def raised_at(
    squares: Floats, expected: Floats, *, n_tasks: int = 10, batch: int = 10
) -> int | None:
    """Return after how many rewards drift is detected, None if it never is."""
    detector = DriftDetector()
    for start in range(0, len(squares), batch):
        some = slice(start, start + batch)
        detector = after(detector, squares[some], expected[some], n_tasks=n_tasks, first=start)
        if detector.raised:
            return start + batch
    return None


DRAWS: dict[str, Draw] = {
    "gaussian": lambda rng, n: rng.standard_normal(n),
    "t with 3 degrees": lambda rng, n: rng.standard_t(3, n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "a click in 20": lambda rng, n: (rng.random(n) < 0.05) - 0.05,
    "a click in 3": lambda rng, n: (rng.random(n) < 0.33) - 0.33,
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize(("n_tasks", "batch"), [(1, 50), (10, 50), (100, 100)])
def test_stationary_errors_of_any_distribution_raise_no_alarm(
    name: str, n_tasks: int, batch: int
) -> None:
    """100,000 rewards and three seeds each."""
    for seed in range(3):
        errors = DRAWS[name](np.random.default_rng(seed), 100_000)
        expected = np.full(len(errors), errors.var())
        assert raised_at(errors**2, expected, n_tasks=n_tasks, batch=batch) is None


@pytest.mark.parametrize("wrong", [0.01, 100.0])
def test_an_overconfident_or_underconfident_model_raises_no_alarm(wrong: float) -> None:
    squares = np.random.default_rng(0).standard_normal(20_000) ** 2
    assert raised_at(squares, np.full(20_000, wrong)) is None


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("seed", range(10))
def test_errors_of_four_times_their_size_are_detected_within_60_rewards(
    seed: int, batch: int
) -> None:
    errors = np.random.default_rng(seed).standard_normal(4000)
    errors[3000:] *= 4
    when = raised_at(errors**2, np.ones(4000), batch=batch)
    assert when is not None
    assert 3000 < when <= 3060


def test_many_tasks_detect_errors_of_twice_their_size_too() -> None:
    for seed in range(10):
        errors = np.random.default_rng(seed).standard_normal(20_000)
        errors[15_000:] *= 2
        when = raised_at(errors**2, np.ones(20_000), n_tasks=100, batch=100)
        assert when is not None
        assert 15_000 < when <= 15_500


def test_large_errors_of_new_tasks_raise_no_alarm_where_they_are_expected() -> None:
    """From half time on, errors are ten times larger, and so is what is expected of them."""
    sizes = np.where(np.arange(20_000) < 10_000, 1.0, 10.0)
    for seed in range(3):
        errors = sizes * np.random.default_rng(seed).standard_normal(20_000)
        assert raised_at(errors**2, sizes**2) is None
        when = raised_at(errors**2, np.ones(20_000))  # the same errors, not expected
        assert when is not None
        assert 10_000 < when <= 10_060


def test_a_model_that_becomes_overconfident_raises_no_alarm_while_errors_stay() -> None:
    squares = np.random.default_rng(0).standard_normal(20_000) ** 2
    assert raised_at(squares, np.where(np.arange(20_000) < 10_000, 1.0, 0.01)) is None


def test_one_outlier_neither_raises_an_alarm_nor_moves_the_baseline() -> None:
    detector, rng = DriftDetector(), np.random.default_rng(0)
    for _ in range(20):
        detector = after(detector, rng.standard_normal(10) ** 2, np.ones(10))
    detector = after(detector, np.array([1e30]), np.ones(1))
    assert 0 < detector.evidence < 10
    assert detector.baseline.max() < 2
    assert not detector.raised


def test_there_is_no_evidence_before_there_is_a_baseline() -> None:
    squares = np.r_[np.full(10, 1e-6), np.full(10, 1.0)]  # 20 of 30 that are needed
    detector = DriftDetector()
    for square in squares:
        detector = after(detector, np.array([square]), np.ones(1))
    assert detector.evidence == 0


def test_the_baseline_is_the_mean_of_squares_and_of_ratios_until_memory_is_full() -> None:
    rng = np.random.default_rng(0)
    squares, expected = rng.random(30), 1 + rng.random(30)
    detector = DriftDetector()
    for start in range(0, 30, 6):
        some = slice(start, start + 6)
        detector = after(detector, squares[some], expected[some], n_tasks=2)
    means = squares.mean(), (squares / expected).mean()
    np.testing.assert_allclose(detector.baseline, means, rtol=1e-12)
    assert detector.rows == 30


def test_calibration_is_below_1_where_errors_are_smaller_than_expected() -> None:
    """It is 1 before there is a baseline, and where errors are larger than expected."""
    few = after(DriftDetector(), np.full(29, 0.5), np.full(29, 2.0))
    assert few.calibration == 1
    assert after(few, np.array([0.5]), np.array([2.0])).calibration == pytest.approx(0.25)
    assert after(DriftDetector(), np.full(40, 8.0), np.full(40, 2.0)).calibration == 1
    assert after(DriftDetector(), np.zeros(40), np.ones(40)).calibration == 1e-6


def test_a_detector_is_unchanged_by_what_follows_from_it() -> None:
    detector = after(DriftDetector(), np.ones(40), np.ones(40))
    before = copy.deepcopy(vars(detector))
    assert after(detector, np.full(40, 100.0), np.ones(40)).raised
    assert not detector.raised
    np.testing.assert_equal(vars(detector), before)


def test_the_first_error_that_is_not_0_sets_the_baseline() -> None:
    """Such are the first rewards where a click is rare: the baseline is 0 until the first."""
    detector = after(DriftDetector(), np.zeros(40), np.ones(40))
    detector = after(detector, np.array([0.0, 100.0]), np.ones(2))
    assert 0 < detector.evidence < 10
    np.testing.assert_allclose(detector.baseline, [100 / 42, 16 / 42])
    assert not after(detector, np.full(100, 0.01), np.ones(100)).evidence


def test_a_change_is_noticed_soon_after_the_model_was_overconfident() -> None:
    """Its noise may be taken for next to nothing for a while, until the next refit."""
    detector = after(DriftDetector(), np.ones(100), np.ones(100))
    detector = after(detector, np.ones(100), np.full(100, 1e-9))
    assert not detector.evidence
    detector = after(detector, np.ones(400), np.ones(400))
    assert after(detector, np.full(40, 50.0), np.ones(40)).raised


@pytest.mark.parametrize(("n_active", "raises"), [(1, True), (2, False), (4, False), (50, False)])
def test_one_of_several_active_tasks_cannot_raise_an_alarm(n_active: int, raises: bool) -> None:
    detector, ever = after(DriftDetector(), np.ones(100), np.ones(100)), False
    for _ in range(60):
        detector = detector.after(np.array([7]), np.array([1e4]), np.ones(1), n_active=n_active)
        ever = ever or detector.raised
    assert ever == raises


def test_four_of_many_active_tasks_raise_an_alarm() -> None:
    detector = after(DriftDetector(), np.ones(100), np.ones(100))
    for _ in range(3):
        detector = detector.after(np.arange(4), np.full(4, 50.0), np.ones(4), n_active=50)
    assert detector.raised


# ---- saved and read


def with_evidence() -> DriftDetector:
    detector = after(DriftDetector(), np.ones(100), np.ones(100), n_tasks=9)
    return after(detector, np.full(3, 9.0), np.ones(3), n_tasks=9, first=6)


def read(part: Part) -> DriftDetector:
    arrays = {f"drift.{name}": values for name, values in part.arrays.items()}
    return DriftDetector.read(Reader("drift", {"drift": part.numbers}, arrays), n_tasks=9)


def test_a_detector_that_was_saved_goes_on_with_the_same_evidence() -> None:
    detector = with_evidence()
    assert sorted(detector.task_evidence) == [6, 7, 8]
    again = read(detector.saved())
    np.testing.assert_equal(vars(again), vars(detector))
    following = [after(each, np.full(5, 9.0), np.ones(5), n_tasks=9) for each in (detector, again)]
    np.testing.assert_equal(vars(following[1]), vars(following[0]))


def test_evidence_that_names_a_task_twice_is_refused() -> None:
    part = with_evidence().saved()
    part.arrays["evidence_tasks"] = np.array([6, 7, 6])
    with pytest.raises(ModelFileError, match=r"drift\.evidence_tasks that are not different"):
        read(part)
