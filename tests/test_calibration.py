"""Intervals of expected rewards hold the truth about as often as they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.calibration import MOMENTS, NOISES, WORLDS, looks
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.policies import Shared
from cobandits.policies.shared.empirical_bayes import Coordinates, Prior, TaskBlock
from cobandits.policies.shared.empirical_bayes.calibration import Calibration, LeftOut, left_out
from cobandits.simulate import simulate
from tests.shared_states import state_of

Doubles = NDArray[np.float64]

P = 6


def some_prior(noise: float) -> Prior:
    """Return a prior with a wide direction, in coordinates of their own."""
    rng = np.random.default_rng(3)
    wide = rng.standard_normal((P, 1))
    return Prior(
        coordinates=Coordinates(matrix=np.eye(P)),
        covariance=wide @ wide.T + 0.1 * np.eye(P),
        mean=rng.standard_normal(P),
        offset=0.5,
        noise=noise,
        feature_second_moment=np.eye(P),
    )


def drawn(prior: Prior, n_tasks: int, n: int) -> TaskBlock:
    """Draw thetas from a prior, and n rows of each."""
    rng = np.random.default_rng(n)
    thetas = rng.multivariate_normal(prior.center, prior.covariance, size=n_tasks)
    Z = rng.standard_normal((n_tasks, n, P))
    Z[..., -1] = 1
    noise = np.sqrt(prior.noise) * rng.standard_normal((n_tasks, n))
    return TaskBlock(np.arange(n_tasks), Z, np.einsum("bnp,bp->bn", Z, thetas) + noise)


@pytest.mark.parametrize("n", [2, 5, 30])
def test_errors_of_rewards_left_out_are_what_the_true_prior_expects(n: int) -> None:
    """Of 4,000 tasks: within 5 %, and the noise is told apart from them."""
    prior = some_prior(0.5)
    found = left_out(prior, [drawn(prior, 4000, n)])
    assert found.error == pytest.approx(found.expected, rel=0.05)


@pytest.mark.parametrize(("wrong", "low", "high"), [(0.1, 2.0, 20.0), (10.0, 0.01, 0.5)])
def test_a_prior_with_a_wrong_noise_expects_other_errors(
    wrong: float, low: float, high: float
) -> None:
    prior = some_prior(0.5)
    found = left_out(replace(prior, noise=wrong * prior.noise), [drawn(prior, 2000, 12)])
    assert low < found.error / found.expected < high


def test_compressed_rows_and_padding_say_the_same() -> None:
    """The rows of a task are rotated, or have rows of zeros after them."""
    prior = some_prior(0.5)
    block = drawn(prior, 8, 20)
    whole = np.concatenate([block.features, block.rewards[..., None]], axis=2)
    R: Doubles = np.asarray(np.linalg.qr(whole, mode="r"))
    padded = np.concatenate([whole, np.zeros((8, 3, P + 1))], axis=1)
    for rows in (R, padded):
        found = left_out(prior, [TaskBlock(block.slots, rows[..., :-1], rows[..., -1])])
        np.testing.assert_allclose(found, left_out(prior, [block]), rtol=1e-9)


def calibrated(error: float, *, excess: float = 1.0, n_rewards: float = 1e6) -> Calibration:
    """Return the calibration of a prior that shares and expects errors of 1."""
    told = LeftOut(residual=0.5, error=error, expected=1.0)
    return Calibration(used=told, shared=told, shares=True, excess=excess, n_rewards=n_rewards)


def test_variances_are_scaled_by_what_errors_were_and_unknown_tasks_keep_the_prior() -> None:
    now, before = np.array([1.0, 8.0]), np.full(2, 8.0)  # of a known task, and of a new one
    for error, known, new in ((0.01, 0.01, 8.0), (2.0, 2.0, 8.0), (32.0, 32.0, 32.0)):
        left = now / before
        found = calibrated(error).honest(now, before, left=left, typical=8.0)
        np.testing.assert_allclose(found, [known, new], rtol=0.02 if error > 0.1 else 2.0)
    assert calibrated(0.01).honest(now, before, left=now / before, typical=8.0)[0] < 0.03


def test_few_rewards_move_variances_little() -> None:
    factors = [calibrated(9.0, n_rewards=n).factor for n in (1, 20, 1e6)]
    np.testing.assert_allclose(factors, [1, 3, 9], rtol=0.01)


def test_later_errors_move_the_excess_as_far_as_they_are_sure() -> None:
    """Errors of expected rewards are four times those of rewards left out, beside little noise."""
    known = replace(calibrated(1.0), shared=LeftOut(residual=1e-6, error=1.0, expected=1.0))
    found = [known.scored(n, 4.0 * n).latest_excess(1e-6) for n in (0, 4, 1000)]
    assert found[0] == 1 < found[1] < 3 < found[2]
    np.testing.assert_allclose(found[2], 4, rtol=0.05)
    smaller = known.scored(1000, 1.0)
    assert smaller.latest_excess(1e-6) == 1


def test_with_more_unknowns_than_rewards_errors_are_taken_to_stay() -> None:
    known = calibrated(1.0).scored(1000, 5000.0)
    tiny = LeftOut(residual=1e-9, error=1e-3, expected=1.0)
    assert 1e-3 * known.next_excess(tiny, 2.0) == pytest.approx(5, rel=0.01)
    assert known.next_excess(tiny, 0.1) < 6


def test_intervals_are_around_expected_rewards_and_as_wide_as_is_asked() -> None:
    rng = np.random.default_rng(0)
    policy, arms = Shared(dim=4), rng.standard_normal((3, 5, 4))
    low, high = policy.intervals([0, 1, 99], arms)
    assert np.isneginf(low).all()
    assert np.isposinf(high).all()
    for now in Synthetic(dim=4, n_tasks=3, rank=1, noise_std=0.3).rounds(20, seed=1):
        decided = policy.decide(now.tasks, now.arms, rng)
        policy.learn(now.tasks, now.arms, decided, now.rewards[now.tasks, decided.chosen])
    low, high = policy.intervals([0, 1, 99], arms)
    np.testing.assert_allclose((low + high) / 2, policy.expected_rewards([0, 1, 99], arms))
    wide = np.subtract(*policy.intervals([0, 1, 99], arms, confidence=0.99)[::-1])
    np.testing.assert_allclose(wide / (high - low), 2.5758 / 1.6449, rtol=1e-3)
    assert (high - low)[2].mean() > 2 * (high - low)[0].mean()  # of a task without rewards
    with pytest.raises(ConfigurationError, match="confidence must be between 0 and 1, got 1"):
        policy.intervals([0], arms[:1], confidence=1)


def test_one_reward_tells_no_interval() -> None:
    policy, arms = Shared(dim=3), np.ones((1, 2, 3))
    for n in range(2):
        low, high = policy.intervals([7], arms)
        assert np.isinf(low).all(), n
        assert np.isinf(high).all(), n
        policy.learn([7], arms, policy.decide([7], arms, np.random.default_rng(n)), [1.0 + n])
    assert np.isfinite(policy.intervals([7], arms)).all()


def test_errors_of_weighted_rows_do_not_scale_intervals() -> None:
    """Where outliers have less weight, intervals are those of the posteriors."""
    world = Synthetic(dim=5, n_tasks=6, rank=2, noise_std=0.3)
    kinds = [Shared(dim=5, rewards="robust"), Shared(dim=5, rewards="gaussian")]
    for policy in kinds:
        simulate(policy, world, 60, 0)
    assert [state_of(policy).selector.calibration is None for policy in kinds] == [True, False]


def test_what_is_explained_is_as_certain_as_intervals() -> None:
    """Mean squared standard deviations of many arms, and of typical ones."""
    rng, world = np.random.default_rng(0), Synthetic(dim=10, n_tasks=20, rank=2, noise_std=0.01)
    policy = Shared(dim=10)
    for now in world.rounds(20, seed=1):
        decided = policy.decide(now.tasks, now.arms, rng)
        policy.learn(now.tasks, now.arms, decided, now.rewards[now.tasks, decided.chosen])
    calibration = state_of(policy).selector.calibration
    assert calibration is not None
    assert not 0.8 < calibration.factor < 1.25
    low, high = policy.intervals([3], rng.standard_normal((1, 4000, 10)))
    std = np.sqrt(np.mean(((high - low) / 2 / 1.6449) ** 2))
    assert policy.explain(3).uncertainty == pytest.approx(std, rel=0.3)


def test_intervals_are_neither_too_narrow_nor_too_wide() -> None:
    """After 20 and 50 rewards per task with noise, in one world."""
    world = Synthetic(dim=10, n_tasks=20, rank=2, noise_std=0.3)
    shares = [look.coverage for look in looks(world, 0, (20, 50))]
    assert min(shares) > 0.8
    assert np.mean(shares) < 0.98


@pytest.mark.statistical
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", WORLDS)
def test_intervals_hold_the_truth(noise: float, name: str) -> None:
    """In the mean of eight worlds; 85 to 95 % are aimed at, docs/shared.md has what is reached."""
    world = replace(WORLDS[name], noise_std=noise)
    found = [[look.coverage for look in looks(world, seed)] for seed in range(500, 508)]
    shares = dict(zip(MOMENTS, np.mean(found, axis=0), strict=True))
    if noise == min(NOISES) and name in ("d=100, r=2", "d=20, r=2", "d=20, r=4"):
        del shares[world.dim]  # as many rewards as features: too narrow, see there
    assert min(shares.values()) > 0.8
    assert max(shares.values()) < 0.97
