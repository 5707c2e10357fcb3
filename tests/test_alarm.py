"""The alarm: quiet while errors are what they were, loud soon after they are not."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.policies.alarm import Alarm

Floats = NDArray[np.floating]
Draw = Callable[[np.random.Generator, int], Floats]


def after(
    alarm: Alarm, squares: Floats, expected: Floats, *, n_tasks: int = 10, first: int = 0
) -> Alarm:
    """Return the alarm after the errors of tasks that take turns."""
    tasks = (first + np.arange(len(squares))) % n_tasks
    return alarm.after(tasks, np.asarray(squares), np.asarray(expected), n_active=n_tasks)


def raised_at(
    squares: Floats, expected: Floats, *, n_tasks: int = 10, batch: int = 10
) -> int | None:
    """Return after how many rewards the alarm is raised, None if it never is."""
    alarm = Alarm(n_tasks)
    for start in range(0, len(squares), batch):
        some = slice(start, start + batch)
        alarm = after(alarm, squares[some], expected[some], n_tasks=n_tasks, first=start)
        if alarm.raised:
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
def test_errors_of_any_shape_that_do_not_change_raise_none(
    name: str, n_tasks: int, batch: int
) -> None:
    """100,000 rewards and three seeds each."""
    for seed in range(3):
        errors = DRAWS[name](np.random.default_rng(seed), 100_000)
        expected = np.full(len(errors), errors.var())
        assert raised_at(errors**2, expected, n_tasks=n_tasks, batch=batch) is None


@pytest.mark.parametrize("wrong", [0.01, 100.0])
def test_a_model_that_is_far_too_sure_or_unsure_of_itself_raises_none(wrong: float) -> None:
    squares = np.random.default_rng(0).standard_normal(20_000) ** 2
    assert raised_at(squares, np.full(20_000, wrong)) is None


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("seed", range(10))
def test_errors_of_four_times_their_size_raise_it_soon(seed: int, batch: int) -> None:
    errors = np.random.default_rng(seed).standard_normal(4000)
    errors[3000:] *= 4
    when = raised_at(errors**2, np.ones(4000), batch=batch)
    assert when is not None
    assert 3000 < when <= 3060


def test_many_tasks_notice_errors_of_twice_their_size_too() -> None:
    for seed in range(10):
        errors = np.random.default_rng(seed).standard_normal(20_000)
        errors[15_000:] *= 2
        when = raised_at(errors**2, np.ones(20_000), n_tasks=100, batch=100)
        assert when is not None
        assert 15_000 < when <= 15_500


def test_new_tasks_with_large_errors_that_were_expected_raise_none() -> None:
    """From half time on, errors are ten times larger, and so is what is expected of them."""
    sizes = np.where(np.arange(20_000) < 10_000, 1.0, 10.0)
    for seed in range(3):
        errors = sizes * np.random.default_rng(seed).standard_normal(20_000)
        assert raised_at(errors**2, sizes**2) is None
        when = raised_at(errors**2, np.ones(20_000))  # the same errors, not expected
        assert when is not None
        assert 10_000 < when <= 10_060


def test_a_model_that_becomes_too_sure_of_itself_raises_none_while_errors_stay() -> None:
    squares = np.random.default_rng(0).standard_normal(20_000) ** 2
    assert raised_at(squares, np.where(np.arange(20_000) < 10_000, 1.0, 0.01)) is None


def test_one_reward_alone_cannot_raise_it_nor_become_usual() -> None:
    alarm, rng = Alarm(10), np.random.default_rng(0)
    for _ in range(20):
        alarm = after(alarm, rng.standard_normal(10) ** 2, np.ones(10))
    alarm = after(alarm, np.array([1e30]), np.ones(1))
    assert 0 < alarm.evidence < 10
    assert alarm.usual.max() < 2
    assert not alarm.raised


def test_nothing_is_unusual_in_the_first_rewards() -> None:
    squares = np.r_[np.full(10, 1e-6), np.full(10, 1.0)]  # 20 of 30 that are needed
    alarm = Alarm(1)
    for square in squares:
        alarm = after(alarm, np.array([square]), np.ones(1))
    assert alarm.evidence == 0


def test_what_follows_is_another_alarm() -> None:
    alarm = after(Alarm(3), np.ones(40), np.ones(40))
    before = copy.deepcopy(alarm.__dict__)
    assert after(alarm, np.full(40, 100.0), np.ones(40)).raised
    assert not alarm.raised
    np.testing.assert_equal(alarm.__dict__, before)


def test_rewards_that_were_exactly_as_predicted_and_then_are_not() -> None:
    """Such are the first rewards where a click is rare: what is usual is 0 until the first."""
    alarm = after(Alarm(2), np.zeros(40), np.ones(40))
    alarm = after(alarm, np.array([0.0, 100.0]), np.ones(2))
    assert 0 < alarm.evidence < 10
    np.testing.assert_allclose(alarm.usual, 100 / 42)
    assert not after(alarm, np.full(100, 0.01), np.ones(100)).evidence


@pytest.mark.parametrize(("n_active", "raises"), [(1, True), (2, False), (4, False), (50, False)])
def test_one_of_several_tasks_cannot_raise_it(n_active: int, raises: bool) -> None:
    alarm = after(Alarm(50), np.ones(100), np.ones(100))
    for _ in range(60):
        alarm = alarm.after(np.array([7]), np.array([50.0]), np.ones(1), n_active=n_active)
    assert alarm.raised == raises


def test_four_of_many_tasks_raise_it() -> None:
    alarm = after(Alarm(50), np.ones(100), np.ones(100))
    for _ in range(3):
        alarm = alarm.after(np.arange(4), np.full(4, 50.0), np.ones(4), n_active=50)
    assert alarm.raised
