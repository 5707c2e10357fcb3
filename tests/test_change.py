"""What a shared policy does when its tasks have changed, or seem to have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.policies import Shared
from cobandits.policies.shared import change_config
from cobandits.policies.shared.change import OnChange, return_evidence
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.transitions import undone
from tests.shared_states import state_of

Doubles = NDArray[np.float64]

T, D = 12, 6
WORLD = Synthetic(dim=D, n_tasks=T, rank=2, noise_std=0.1)


def regrets_of(
    policy: Shared, rounds: int, seed: int, *, constant: float | None = None
) -> Iterator[float]:
    """Play so many rounds, all rewards of which may be the same; yield the regret of each."""
    rng, everyone = np.random.default_rng(seed), np.arange(T)
    for now in WORLD.rounds(rounds, seed=3):
        chosen = policy.decide(now.tasks, now.arms, rng)
        y = now.rewards[everyone, chosen.chosen]
        y = y if constant is None else np.full(T, constant)
        policy.learn(now.tasks, now.arms, chosen, y)
        yield float((now.means.max(axis=1) - now.means[everyone, chosen.chosen]).sum())


def play(policy: Shared, rounds: int, seed: int, *, constant: float | None = None) -> float:
    """Play so many rounds and return the regret."""
    return sum(regrets_of(policy, rounds, seed, constant=constant))


def played(on_change: OnChange = "adapt") -> Shared:
    policy = Shared(dim=D, n_tasks=T, on_change=on_change)
    play(policy, 40, seed=0)
    assert not policy.changes
    return policy


def values(policy: Shared) -> Doubles:
    """Return what a policy thinks of some arms, as probabilities of Thompson sampling."""
    arms = np.random.default_rng(9).standard_normal((T, 4, D))
    policy.explore = "always"
    shares = policy.probabilities(np.arange(T), arms)
    policy.explore = "needed"
    return np.asarray(shares, np.float64)


def test_rewards_that_were_broken_for_a_while_destroy_nothing() -> None:
    """All are 0 for 20 rounds: decisions stay as good, and afterwards the policy is as it was."""
    policy, careless = played(), played("start-over")
    assert play(policy, 20, seed=1, constant=0.0) < 0.1 * play(careless, 20, seed=1, constant=0.0)
    assert policy.changes == careless.changes
    (change,) = policy.changes
    assert 40 * T <= change <= 41 * T
    assert play(policy, 20, seed=2) < 0.5 * play(careless, 20, seed=2)
    assert policy.changes[0] == change
    assert 60 * T <= policy.changes[-1] <= 63 * T
    assert policy.rewards == 80 * T


def test_a_change_that_lasts_is_learned_as_by_a_policy_that_starts_over() -> None:
    """The kept state never predicts better, and is dropped after as many rewards."""
    world = Synthetic(dim=15, n_tasks=20, rank=2, noise_std=0.1, replaced=True)
    regrets = []
    careful = Shared(dim=15, n_tasks=20)
    for policy in (careful, Shared(dim=15, n_tasks=20, on_change="start-over")):
        rng, regret = np.random.default_rng(0), 0.0
        rounds = list(world.rounds(90, seed=1))
        for now in [*rounds, *rounds[45:]]:  # the basis is replaced at half time
            chosen = policy.decide(now.tasks, now.arms, rng)
            means = now.means[now.tasks, chosen.chosen]
            regret += float((now.means.max(axis=1) - means).sum())
            policy.learn(now.tasks, now.arms, chosen, now.rewards[now.tasks, chosen.chosen])
        regrets.append(regret)
        assert len(policy.changes) == 1
    assert regrets[0] == regrets[1]
    with pytest.raises(ConfigurationError, match="nothing to return to"):
        careful.undo_change()


def test_a_stand_in_returns_to_what_was_before_whatever_the_policy_has_made_of_it() -> None:
    policy = played()
    play(policy, 3, seed=1, constant=50.0)
    stand_in = policy.stand_in()
    policy.undo_change()
    before = values(policy)
    play(policy, 10, seed=2)
    assert not np.array_equal(values(policy), before)
    stand_in.undo_change()
    np.testing.assert_array_equal(values(stand_in), before)


def test_a_change_can_be_undone(tmp_path: Path) -> None:
    """What is known then is what was known before, and it goes on learning."""
    policy = played()
    policy.save(tmp_path / "before")
    play(policy, 3, seed=1, constant=50.0)
    (change,) = policy.changes
    assert change == 40 * T  # else a few of the rewards would have been learned
    policy.undo_change()
    assert policy.changes == (change, 43 * T)
    assert policy.rewards == 43 * T
    np.testing.assert_allclose(values(policy), values(Shared.load(tmp_path / "before")), atol=1e-6)
    assert play(policy, 10, seed=2) < 2
    with pytest.raises(ConfigurationError, match="nothing to return to"):
        policy.undo_change()


def test_changes_of_tasks_that_came_later_are_undone_too(tmp_path: Path) -> None:
    """The state that is returned to has no place for them."""
    policy, twin = played(), Shared(dim=D, n_tasks=T)
    play(policy, 3, seed=1, constant=50.0)
    before = undone(replace(state_of(policy), task_changes=((5, 0), (9, T))))
    assert before is not None
    twin.restore(before)
    assert twin.task_changes == ((5, 0),)
    twin.save(tmp_path / "policy")
    assert Shared.load(tmp_path / "policy").task_changes == ((5, 0),)


def test_an_alert_changes_nothing_of_what_is_learned(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and counted, once, and all rewards are learned."""
    policy = played("alert")
    play(policy, 4, seed=1, constant=0.0)
    assert len(policy.changes) == 1
    assert "learning goes on" in caplog.text
    assert policy.explain(0).rewards == 44
    with pytest.raises(ConfigurationError, match="nothing to return to"):
        policy.undo_change()


@pytest.mark.parametrize("rounds", [3, 8])
def test_a_policy_that_keeps_a_state_can_be_saved_and_resumed(tmp_path: Path, rounds: int) -> None:
    """After the change and before the return; then both go on, to the last bit."""
    policy = played()
    play(policy, rounds, seed=1, constant=0.0)
    policy.save(tmp_path / "policy")
    twin = Shared.load(tmp_path / "policy")
    assert twin.on_change == "adapt"
    np.testing.assert_array_equal(values(twin), values(policy))
    theirs, ours = (list(regrets_of(each, 8, seed=4)) for each in (twin, policy))
    assert theirs == ours
    assert twin.changes == policy.changes
    assert len(policy.changes) >= 2


def test_the_better_of_two_bad_states_is_kept() -> None:
    """Rewards are broken in one way, then in another: the good state is still returned to."""
    policy = played()
    play(policy, 10, seed=1, constant=0.0)
    rng = np.random.default_rng(5)
    for now in WORLD.rounds(10, seed=6):  # rewards of another arm
        chosen = policy.decide(now.tasks, now.arms, rng)
        policy.learn(now.tasks, now.arms, chosen, 9 * rng.standard_normal(T))
    broken = len(policy.changes)
    assert broken == 2
    regrets = list(regrets_of(policy, 20, seed=2))
    assert len(policy.changes) == broken + 1  # the return
    assert sum(regrets[2:]) < regrets[0]  # 18 rounds of what is known
    assert sum(regrets[13:]) < 0.5  # and what was learned of broken rewards fades


def test_evidence_of_a_return_is_a_log_likelihood_ratio_less_a_margin() -> None:
    rng, std = np.random.default_rng(0), 0.7
    now, kept = rng.uniform(-2, 2, 9), rng.uniform(-2, 2, 9)
    ratio = (norm(0, std).logpdf(kept) - norm(0, std).logpdf(now)).sum()
    found = return_evidence(now**2, kept**2, std**2)
    assert found == pytest.approx(ratio - 9 * change_config.RETURN_MARGIN)
    most = return_evidence(np.array([1e9]), np.zeros(1), std**2)
    assert most == pytest.approx(change_config.DRIFT_CAP / 2 - change_config.RETURN_MARGIN)
    assert return_evidence(np.ones(3), np.ones(3), 0.0) == -3 * change_config.RETURN_MARGIN


def test_the_onset_is_where_a_change_explains_most() -> None:
    """By all sums: small errors come first, then large ones, with a small one among them."""
    detector, everyone = DriftDetector(), np.arange(40) % 4
    detector = detector.after(everyone, np.ones(40), np.ones(40), n_active=4)
    squares = np.array([0.5, 1.0, 1.5, 30.0, 0.1, 12.0, 40.0])
    larger = np.minimum(squares, change_config.DRIFT_CAP)
    gains = 0.5 * (larger * (1 - 1 / change_config.DRIFT_RATIO) - np.log(change_config.DRIFT_RATIO))
    sums = [gains[i:].sum() for i in range(7)]
    assert detector.onset(squares, np.ones(7)) == int(np.argmax(sums)) == 3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rewards_without_noise_are_no_change(seed: int) -> None:
    """Errors are rounding, and the noise stays next to none."""
    rng, everyone = np.random.default_rng(seed), np.arange(4)
    thetas = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 8))
    policy = Shared(dim=8, n_tasks=4)
    for _ in range(500):
        arms = rng.standard_normal((4, 4, 8))
        made = policy.decide(everyone, arms, rng)
        rewards = np.einsum("td,td->t", made.features(arms), thetas)
        policy.learn(everyone, arms, made, rewards)
    assert policy.changes == ()
    posteriors = state_of(policy).posteriors
    assert posteriors is not None
    assert posteriors.prior.noise < 1e-6


def test_what_to_do_on_a_change_has_three_names() -> None:
    with pytest.raises(ConfigurationError, match="on_change must be one of adapt, start-over, al"):
        Shared(dim=2, on_change=cast("OnChange", "forget"))
