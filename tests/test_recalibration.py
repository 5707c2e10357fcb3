"""Recalibration of predictions: level and scale are mended, the order of arms is not."""

from __future__ import annotations

import numpy as np

from cobandits.policies.shared import change_config
from cobandits.policies.shared.recalibration import Recalibration


def test_predictions_stay_before_there_are_rewards() -> None:
    values = np.random.default_rng(0).standard_normal((5, 3))
    assert np.array_equal(Recalibration.none(3).applied(values), values)


def test_level_and_scale_are_those_of_a_regression_on_rewards() -> None:
    """Drawn to no change by as many pseudo-rewards as the constant says."""
    rng = np.random.default_rng(1)
    values = rng.standard_normal((300, 2))
    rewards = 3 + 0.5 * values[:, 0] + 0.1 * rng.standard_normal(300)
    one = Recalibration.none(2)
    for start in range(0, 300, 50):
        some = slice(start, start + 50)
        one = one.after(values[some], rewards[some], kept=1.0, most=100.0)
    asked = np.array([[2.0, 2.0], [-1.0, 0.0]])
    share = 300 / (300 + change_config.LINE_PSEUDO_REWARDS)
    for column in range(2):
        line = np.polyfit(values[:, column], rewards, 1)
        expected = asked[:, column] + share * (
            np.polyval(line, asked[:, column]) - asked[:, column]
        )
        np.testing.assert_allclose(one.applied(asked)[:, column], expected, rtol=1e-9)


def test_rewards_that_lose_weight_are_those_of_a_weighted_regression() -> None:
    values, rewards = np.array([[0.0], [1.0], [2.0]]), np.array([5.0, 1.0, 3.0])
    one = Recalibration.none(1)
    for n in range(3):
        one = one.after(values[n : n + 1], rewards[n : n + 1], kept=0.5, most=100.0)
    line = np.polyfit(values[:, 0], rewards, 1, w=np.sqrt([0.25, 0.5, 1.0]))
    share = 1.75 / (1.75 + change_config.LINE_PSEUDO_REWARDS)
    assert one.weight == 1.75
    np.testing.assert_allclose(one.applied(np.zeros((1, 1))), share * line[1], rtol=1e-9)


def test_predictions_that_are_all_the_same_only_change_their_level() -> None:
    one = Recalibration.none(1).after(np.full((1000, 1), 1 / 3), np.ones(1000), kept=1.0, most=9.0)
    level = one.applied(np.full((1, 1), 1 / 3))[0, 0]
    share = 1000 / (1000 + change_config.LINE_PSEUDO_REWARDS)
    np.testing.assert_allclose(level, 1 / 3 + share * 2 / 3)


def test_no_outlier_moves_the_line() -> None:
    one = Recalibration.none(1).after(np.zeros((1, 1)), np.array([1e30]), kept=1.0, most=2.0)
    assert one.applied(np.zeros((1, 1)))[0, 0] < 2.0
