"""The loop, the worlds it plays in, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.decisions import Decisions, Round
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.linalg import subspace_distance
from cobandits.policies import Policy, Random, Ridge, make
from cobandits.simulate import simulate

Floats = NDArray[np.floating]


def world(**more: object) -> Synthetic:
    """Return a small synthetic world."""
    options: dict[str, object] = {"dim": 8, "n_tasks": 6, "rank": 2, **more}
    return Synthetic(**options)  # type: ignore[arg-type]


def drawn(environment: Synthetic, n: int = 20, seed: int = 0, trial: int = 0) -> list[Round]:
    return list(environment.rounds(n, seed=seed, trial=trial))


# ---- the synthetic world


def test_rewards_are_linear_and_every_arm_of_a_decision_has_the_same_noise() -> None:
    for asked in drawn(world(noise_std=0.1)):
        assert asked.truth is not None
        theta = asked.truth.theta
        means = np.einsum("mkd,dm->mk", asked.arms, theta[:, asked.tasks])
        np.testing.assert_allclose(asked.means, means, atol=1e-12)
        noise = asked.rewards - asked.means
        np.testing.assert_allclose(noise, noise[:, :1].repeat(5, axis=1), atol=1e-12)
        assert np.linalg.matrix_rank(theta) == 2


def test_arms_and_noise_have_the_moments_they_should() -> None:
    """Means and variances over 60,000 numbers, within 5 standard errors."""
    rounds = drawn(world(noise_std=0.5), n=250)
    arms = np.concatenate([asked.arms.ravel() for asked in rounds])
    noise = np.concatenate([(asked.rewards - asked.means)[:, 0] for asked in rounds])
    assert abs(arms.mean()) < 5 / np.sqrt(arms.size)
    assert abs(arms.var() - 1) < 5 * np.sqrt(2 / arms.size)
    assert abs(noise.var() / 0.25 - 1) < 5 * np.sqrt(2 / noise.size)


def test_correlated_and_shifted_arms() -> None:
    rounds = drawn(world(correlation=0.8, shift=3.0, n_tasks=40), n=400)
    arms = np.concatenate([asked.arms for asked in rounds])  # (16000, 5, 8)
    means = arms.mean(axis=0)  # an own one for each arm
    assert np.linalg.norm(means[0] - means[1]) > 3
    around = (arms - means).reshape(-1, 8)
    expected = 0.8 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    np.testing.assert_allclose(np.corrcoef(around.T), expected, atol=0.03)


def test_streams_are_the_same_for_the_same_seed_and_trial_only() -> None:
    first, again = drawn(world()), drawn(world())
    other_trial, other_seed = drawn(world(), trial=1), drawn(world(), seed=1)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a.arms, b.arms)
        np.testing.assert_array_equal(a.rewards, b.rewards)
    for other in (other_trial, other_seed):
        assert not np.allclose(first[0].arms, other[0].arms)


def test_the_first_rounds_do_not_depend_on_how_many_follow() -> None:
    for short, long in zip(drawn(world(), n=5), drawn(world(), n=50)[:5], strict=True):
        np.testing.assert_array_equal(short.arms, long.arms)


def test_unrelated_tasks_have_full_rank_and_the_same_length() -> None:
    related, unrelated = world(n_tasks=300), world(n_tasks=300, unrelated=True)
    thetas = []
    for environment in (related, unrelated):
        truth = drawn(environment, n=1)[0].truth
        assert truth is not None
        thetas.append(truth.theta)
    assert np.linalg.matrix_rank(thetas[1]) == 8
    lengths = [np.mean(np.sum(theta**2, axis=0)) for theta in thetas]
    np.testing.assert_allclose(lengths, 2, rtol=0.25)


def test_tasks_apart_do_not_share_the_basis_of_the_others() -> None:
    (asked,) = drawn(world(n_tasks=300, apart=0.25), n=1)
    assert asked.truth is not None
    theta = asked.truth.theta
    assert np.linalg.matrix_rank(theta[:, :225]) == 2
    assert np.linalg.matrix_rank(theta[:, 225:]) == 8
    lengths = [np.mean(np.sum(part**2, axis=0)) for part in np.split(theta, [225], axis=1)]
    np.testing.assert_allclose(lengths, 2, rtol=0.35)


@pytest.mark.parametrize(("fields", "n_arms"), [(1, 8), (2, 3), (4, 5)])
def test_one_hot_arms_have_one_value_a_field_and_differ_as_far_as_they_can(
    fields: int, n_arms: int
) -> None:
    n_values = 8 // fields
    rounds = drawn(world(one_hot=fields, n_arms=n_arms), n=200)
    arms = np.concatenate([one.arms for one in rounds]).reshape(-1, n_arms, fields, n_values)
    assert set(np.unique(arms)) == {0.0, 1.0}
    np.testing.assert_array_equal(arms.sum(axis=3), 1)
    assert arms.sum(axis=1).max() == -(-n_arms // n_values)  # arms with the same value
    shares = arms.mean(axis=(0, 1))
    np.testing.assert_allclose(shares, 1 / n_values, atol=5 * np.sqrt(0.25 / len(arms)))


def test_missing_rewards_are_of_whole_requests_and_have_their_share() -> None:
    rewards = np.concatenate([one.rewards for one in drawn(world(missing=0.3), n=500)])
    missing = np.isnan(rewards)
    assert (missing.all(axis=1) == missing.any(axis=1)).all()
    assert abs(missing[:, 0].mean() - 0.3) < 5 * np.sqrt(0.21 / 3000)


def test_late_tasks_join_at_half_time() -> None:
    asked = [set(one.tasks.tolist()) for one in drawn(world(late=0.34), n=20)]
    assert all(tasks == {0, 1, 2, 3} for tasks in asked[:10])
    assert all(tasks == set(range(6)) for tasks in asked[10:])


def test_unequal_tasks_ask_at_rates_of_their_own() -> None:
    counts = np.zeros(6)
    for asked in drawn(world(unequal=True), n=600):
        counts[asked.tasks] += 1
    rates = np.sort(counts / 600)
    np.testing.assert_allclose(rates, np.geomspace(0.1, 1, 6), atol=0.08)


def test_a_replaced_basis_holds_from_half_time_on() -> None:
    rounds = drawn(world(replaced=True), n=20)
    bases = [asked.truth.basis for asked in rounds if asked.truth is not None]
    assert all(basis is bases[0] for basis in bases[:10])
    assert all(basis is bases[10] for basis in bases[10:])
    assert subspace_distance(bases[0], bases[10]) > 0.5
    assert rounds[0].truth is not None
    assert rounds[-1].truth is not None
    np.testing.assert_array_equal(rounds[0].truth.weights, rounds[-1].truth.weights)


def test_a_turning_basis_turns_by_its_angle_and_stays_orthonormal() -> None:
    rounds = drawn(world(turn=0.01), n=31)
    assert rounds[0].truth is not None
    for n in (1, 30):
        truth = rounds[n].truth
        assert truth is not None
        B = truth.basis
        np.testing.assert_allclose(B.T @ B, np.eye(2), atol=1e-12)
        cosines = np.linalg.svd(rounds[0].truth.basis.T @ B, compute_uv=False)
        np.testing.assert_allclose(cosines, np.cos(0.01 * n), atol=1e-12)


def test_worlds_that_cannot_be_are_refused() -> None:
    for options, message in (
        ({"n_arms": 0}, "arms must be at least 1"),
        ({"late": 1.0}, r"late must be in \[0, 1\)"),
        ({"missing": 1.0}, r"missing must be in \[0, 1\)"),
        ({"apart": -0.1}, r"apart must be in \[0, 1\)"),
        ({"delay": -1}, "delay must be at least 0"),
        ({"one_hot": 3}, "divides dim = 8, got 3"),
        ({"one_hot": 2, "shift": 1.0}, "no correlation and no shift"),
        ({"turn": float("nan")}, "turn must be finite"),
        ({"turn": 0.1, "rank": 6}, "dim is at least 2 rank = 12"),
        ({"turn": 0.1, "replaced": True}, "not both"),
        ({"unrelated": True, "condition": 3.0}, "no common basis"),
        ({"apart": 0.5, "turn": 0.1}, "no common basis"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            world(**options)


# ---- the loop


class Scripted(Policy):
    """Takes the arms it was told to, and remembers what it was given to learn."""

    name: ClassVar[str] = "scripted"

    def __init__(self, arms: list[int]) -> None:
        super().__init__(dim=1, n_tasks=2)
        self.arms, self.learned = arms, []  # type: ignore[var-annotated]

    def _probabilities(self, tasks: NDArray[np.int64], arms: Floats) -> Floats:
        return np.eye(arms.shape[1])[[self.arms[0]] * len(tasks)]

    def _learn_rows(self, tasks: NDArray[np.int64], rows: Floats, rewards: Floats) -> None:
        self.arms = self.arms[1:]
        self.learned.append((tasks.tolist(), rows.tolist(), rewards.tolist()))


class Listed:
    """A world of given rounds."""

    name: ClassVar[str] = "listed"
    dim = 1
    n_tasks = 2
    noise_std = 0.0

    def __init__(self, rounds: list[Round]) -> None:
        self._rounds = rounds

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        yield from self._rounds[:n_rounds]


def asked(tasks: list[int], means: list[list[float]], rewards: list[list[float]]) -> Round:
    arms = np.arange(2.0)[None, :, None].repeat(len(tasks), axis=0)
    return Round(tasks=np.array(tasks), arms=arms, means=np.array(means), rewards=np.array(rewards))


def test_a_simulation_by_hand() -> None:
    nan = np.nan
    rounds = [
        asked([0, 1], [[1.0, 3.0], [5.0, 4.0]], [[1.5, 3.5], [5.5, 4.5]]),
        asked([1], [[2.0, 2.5]], [[nan, nan]]),  # the reward never comes
        asked([0], [[0.0, 1.0]], [[0.0, 7.0]]),
    ]
    policy = Scripted([0, 0, 1])
    trace = simulate(policy, Listed(rounds), 3, seed=0)
    assert trace.regret.tolist() == [[2.0, 0.0], [0.0, 0.5], [0.0, 0.0]]
    assert trace.cumulative.tolist() == [1.0, 1.25, 1.25]
    assert trace.regret_per_task == 1.25
    assert trace.decisions == 4
    assert trace.rewarded.tolist() == [2, 0, 1]
    assert trace.mean_reward == pytest.approx((1.5 + 5.5 + 7.0) / 3)
    assert policy.learned == [
        ([0, 1], [[0.0], [0.0]], [1.5, 5.5]),
        ([], [], []),
        ([0], [[1.0]], [7.0]),
    ]


def test_rewards_are_learned_in_order_when_they_are_known() -> None:
    rounds = [
        replace(asked([n % 2], [[0.0, 1.0]], [[n, n]]), delay=delay)
        for n, delay in enumerate([2, 1, 0, 5])
    ]
    known: list[int] = []

    class Counting(Scripted):
        def _probabilities(self, tasks: NDArray[np.int64], arms: Floats) -> Floats:
            known.append(len(self.learned))
            return super()._probabilities(tasks, arms)

    policy = Counting([0] * 9)
    trace = simulate(policy, Listed(rounds), 4, seed=0)
    assert known == [0, 0, 0, 3]
    assert [rewards for _, _, rewards in policy.learned] == [[0.0], [1.0], [2.0]]
    assert trace.rewarded.tolist() == [1, 1, 1, 1]  # it is paid, though not known in time
    assert trace.regret_per_task == 2.0


def test_a_world_that_ends_early_ends_the_trace() -> None:
    trace = simulate(Scripted([0]), Listed([asked([0], [[1.0, 1.0]], [[1.0, 1.0]])]), 9, seed=0)
    assert trace.regret.shape == (1, 2)


def test_fits_are_noted_with_their_distance_from_the_truth() -> None:
    policy = make("lrrl", rounds=40, dim=8, n_tasks=6, rank=2)
    trace = simulate(policy, world(noise_std=1e-6), 40, seed=0)
    assert [fit.round for fit in trace.fits] == [10, 20, 30, 40]
    assert all(fit.error < 1e-4 and fit.distance < 1e-4 for fit in trace.fits)
    assert policy.estimate is not None
    assert trace.seconds_learning > 0
    assert trace.seconds_deciding > 0


def test_progress_is_told_after_every_round() -> None:
    told: list[tuple[int, int]] = []
    simulate(
        Random(dim=8, n_tasks=6), world(), 3, seed=0, progress=lambda n, N: told.append((n, N))
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_rounds_must_be_positive() -> None:
    with pytest.raises(ConfigurationError, match="rounds must be at least 1, got 0"):
        simulate(Random(dim=8, n_tasks=6), world(), 0, seed=0)


def test_policies_meet_the_same_arms_whatever_they_decide() -> None:
    class Spy(Random):
        def __init__(self) -> None:
            super().__init__(dim=8, n_tasks=6)
            self.seen: list[Floats] = []

        def _probabilities(self, tasks: NDArray[np.int64], arms: Floats) -> Floats:
            self.seen.append(arms)
            return self.shares(arms)

        def shares(self, arms: Floats) -> Floats:
            return np.full(arms.shape[:2], 1 / arms.shape[1])

    class First(Spy):
        def shares(self, arms: Floats) -> Floats:
            return np.eye(arms.shape[1])[[0] * len(arms)]

    spies = [Spy(), First()]
    for spy in spies:
        simulate(spy, world(unequal=True), 15, seed=3)
    for a, b in zip(spies[0].seen, spies[1].seen, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_log_entry_can_be_learned_by_a_policy_that_did_not_decide() -> None:
    policy = Ridge(dim=1, n_tasks=2, ridge=1.0)
    elsewhere = Decisions(chosen=np.array([1]), probabilities=np.array([0.3]), policy="other")
    policy.learn(np.array([1]), np.array([[[0.0], [1.0]]]), elsewhere, np.array([4.0]))
    assert policy.posteriors.means.tolist() == [[0.0], [2.0]]
