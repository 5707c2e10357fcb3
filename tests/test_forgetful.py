"""A prior that forgets: slow drift under strong noise is noticed, and nothing else is."""

from __future__ import annotations

from dataclasses import replace
from math import pi
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.errors import ModelFileError
from cobandits.policies import Shared
from cobandits.policies.shared import change_config
from cobandits.policies.shared.discount import discount_of
from cobandits.policies.shared.forgetful import ForgetfulPrior
from cobandits.policies.shared.row_store import RowStore
from cobandits.simulate import simulate
from tests.shared_states import assert_same, content, state_of, write

Doubles = NDArray[np.float64]

STILL = Synthetic(dim=10, n_tasks=12, rank=2, noise_std=1.0)
TURNING = replace(STILL, turn=pi / 2 / 600)


def played(rounds: int, *, world: Synthetic = STILL, seed: int = 0) -> Shared:
    """Return a policy that has played."""
    policy = Shared(dim=world.dim)
    simulate(policy, world, rounds, seed)
    return policy


def sums(gain: float, *, squares: float = 1.0, tail: float = 1.0) -> Doubles:
    """Return sums of 1,000 rewards with a gain over both others, and a kurtosis."""
    loss = 500.0
    losses = [loss, loss, loss - gain]
    return np.array([1000.0, *losses, squares, squares, 3 * loss**2 * tail / 1000])


def test_slow_drift_under_strong_noise_is_followed() -> None:
    """Regret is less than 0.7 of that of a policy that looks at thetas alone."""
    world = Synthetic(dim=20, n_tasks=25, rank=2, noise_std=1.0, turn=pi / 2 / 1000)
    alone = mock.patch.object(change_config, "PRIOR_EVIDENCE", np.inf)
    ours, theirs = [], []
    for seed in (500, 508):
        policy, other = Shared(dim=20), Shared(dim=20)
        ours.append(simulate(policy, world, 900, seed).regret_per_task)
        with alone:
            theirs.append(simulate(other, world, 900, seed).regret_per_task)
        assert policy.half_life < np.inf
    assert np.sum(ours) < 0.7 * np.sum(theirs)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0])
def test_tasks_that_stand_still_are_not_forgotten(noise: float) -> None:
    """The prior that forgets is learned and compared, but predicts no better."""
    policy = played(700, world=replace(STILL, noise_std=noise))
    forgetful = state_of(policy).forgetful
    assert policy.half_life == np.inf
    assert forgetful.store.used > 0
    assert forgetful.latest[0] > 0


@pytest.mark.parametrize(
    ("earlier", "latest", "expected"),
    [
        (sums(0.0), sums(0.0), False),
        (sums(20.0), sums(20.0), True),
        (sums(0.0), sums(100.0), False),  # one fit may be bad
        (sums(100.0), sums(0.0), False),  # it was
        (sums(20.0, tail=4.0), sums(20.0, tail=4.0), False),  # errors are far from Gaussian
        (sums(20.0, squares=99.0), sums(20.0, squares=99.0), False),  # few rewards decide
    ],
)
def test_drift_is_steady_large_and_sure(earlier: Doubles, latest: Doubles, expected: bool) -> None:
    one = replace(ForgetfulPrior.none(3), earlier=earlier, latest=latest)
    assert one.drifts == expected


def test_both_others_have_to_be_worse() -> None:
    better = sums(20.0)
    for other in (1, 2):
        equal = better.copy()
        equal[other] = equal[3]
        assert not replace(ForgetfulPrior.none(3), earlier=equal, latest=equal).drifts


def test_it_holds_the_rows_of_the_policy_since_it_began_with_their_weights() -> None:
    """The products of its rows are those of all rewards since, weighted by age."""
    policy = Shared(dim=10)
    rows: list[Doubles] = []  # of task 0
    rng, began, until = np.random.default_rng(0), 0, 0
    for asked in STILL.rounds(700, seed=3):
        decisions = policy.decide(asked.tasks, asked.arms, rng)
        phi = asked.arms[np.arange(len(asked.tasks)), decisions.chosen]
        rewards = phi.sum(axis=1) + rng.standard_normal(len(phi))
        before = state_of(policy).forgetful
        policy.learn(asked.tasks, asked.arms, decisions, rewards=rewards)
        mine = asked.tasks == 0
        rows.append(np.array([*phi[mine][0], 1.0, rewards[mine][0]]))
        if state_of(policy).forgetful is not before:  # a refit, with this reward
            began = began if len(before.sizes) else len(rows)
            until = len(rows)
    held = state_of(policy).forgetful.store
    slot, F = held.slots[0], np.array(rows[began:until])
    weights = discount_of(change_config.PRIOR_HALF_LIFE) ** np.arange(len(F))[::-1]
    found = held.sorted().rows(np.array([slot]), int(held.sizes[slot]))[0]
    assert len(F) > 100
    np.testing.assert_allclose(found.T @ found, (F.T * weights) @ F, rtol=1e-8, atol=1e-8)


def test_a_task_that_starts_again_is_no_longer_predicted() -> None:
    forgetful = state_of(played(500)).forgetful
    assert len(forgetful.thetas) == STILL.n_tasks
    gone = forgetful.without(np.array([3]), np.array([5]))
    slot = forgetful.store.slots[3]
    assert forgetful.store.sizes[slot] > 0 == gone.store.sizes[slot]
    assert not gone.thetas[slot].any()
    assert forgetful.sizes[5] > 0 == gone.sizes[5]
    others = np.delete(np.arange(STILL.n_tasks), slot)
    assert np.array_equal(gone.thetas[others], forgetful.thetas[others])


def test_many_features_leave_no_time_for_it() -> None:
    one = ForgetfulPrior.none(200)
    assert one.n_tasks < change_config.PRIOR_LEAST_TASKS
    store, counts = RowStore.empty(n_tasks=9, dim=200), np.full(9, 1000)
    found = one.following(store, store, np.zeros((9, 201)), state_of(played(3)).selector, counts)
    assert not found.store.used


def test_it_goes_on_after_it_was_saved(tmp_path: Path) -> None:
    policy = played(300, world=TURNING)
    assert len(state_of(policy).forgetful.thetas)
    policy.save(tmp_path / "policy")
    resumed = Shared.load(tmp_path / "policy")
    for one in (policy, resumed):
        simulate(one, TURNING, 150, 5)
    assert_same(policy, resumed)
    ours, theirs = state_of(policy).forgetful, state_of(resumed).forgetful
    assert np.array_equal(ours.latest, theirs.latest)
    assert np.array_equal(ours.thetas, theirs.thetas)


def test_files_from_before_there_was_one_are_read(tmp_path: Path) -> None:
    played(300).save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    del header["forgetful"]
    older = {name: x for name, x in arrays.items() if not name.startswith("forgetful.")}
    header["arrays"] = sorted(older)
    write(tmp_path / "older", header, older)
    assert not state_of(Shared.load(tmp_path / "older")).forgetful.store.used


def test_thetas_of_more_tasks_than_there_are_are_refused(tmp_path: Path) -> None:
    played(300).save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    twice = np.concatenate(2 * [arrays["forgetful.thetas"]])
    write(tmp_path / "bad", header, {**arrays, "forgetful.thetas": twice})
    with pytest.raises(ModelFileError, match=r"forgetful\.thetas"):
        Shared.load(tmp_path / "bad")
