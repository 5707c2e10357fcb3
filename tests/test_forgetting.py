"""Forgetting: its rate is decided by predictions, and nothing is forgotten without evidence."""

from __future__ import annotations

from dataclasses import replace
from math import pi
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.environments.pairs import DigitPairs
from cobandits.errors import ModelFileError
from cobandits.policies import Shared
from cobandits.policies.shared import change_config
from cobandits.policies.shared.discount import discount_of
from cobandits.policies.shared.forgetting import Forgetting
from cobandits.policies.shared.likelihoods import LIKELIHOODS
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.simulate import simulate
from tests.shared_states import assert_same, content, state_of, write

Doubles = NDArray[np.float64]

N = len(change_config.HALF_LIVES)
STILL = Synthetic(dim=8, n_tasks=12, rank=2, noise_std=0.1)
TURNING = replace(STILL, turn=pi / 2 / 100)


def drifting(rounds: int = 150, seed: int = 0) -> Shared:
    """Return a policy that has played while a subspace turned."""
    policy = Shared(dim=8)
    simulate(policy, TURNING, rounds, seed)
    return policy


def store_of(n_rows: int, *, dim: int = 3) -> tuple[RowStore, Doubles]:
    """Return the rows of one task, and the same as they came."""
    F = np.random.default_rng(n_rows).standard_normal((n_rows, dim + 2))
    F[:, -2] = 1
    store = RowStore.empty(n_tasks=1, dim=dim).added(np.zeros(n_rows, np.int64), F)
    return store, F


def known(gains: list[float], *, half_life: float = np.inf) -> Forgetting:
    """Return what is known where half-lives have an evidence of half their gains."""
    losses = np.concatenate([np.full(N + 1, 1000.0), 1000 - np.array(gains)])
    return Forgetting(half_life=half_life, losses=losses, squares=np.abs([gains, gains]) + 1e-9)


def test_rows_weigh_half_after_each_half_life() -> None:
    store, F = store_of(7)
    weighted = replace(store, discount=discount_of(2.0)).rows(np.array([0]), 7)[0]
    weights = 0.5 ** (np.arange(7)[::-1] / 2)
    np.testing.assert_allclose(weighted, np.sqrt(weights)[:, None] * F, rtol=1e-14)
    assert np.array_equal(store.rows(np.array([0]), 7)[0], F)


def test_rows_that_are_compressed_on_the_way_have_the_same_products() -> None:
    """Forgetting composes: what was compressed is as old as when it was."""
    store, F = store_of(40)
    first = replace(RowStore.empty(n_tasks=1, dim=3), discount=discount_of(6.0))
    first = first.added(np.zeros(25, np.int64), F[:25]).compressed(5)
    both = first.added(np.zeros(15, np.int64), F[25:]).compressed(5)
    assert both.used == 5
    found = both.rows(np.array([0]), 5)[0]
    whole = replace(store, discount=discount_of(6.0)).rows(np.array([0]), 40)[0]
    np.testing.assert_allclose(found.T @ found, whole.T @ whole, rtol=1e-10)


def test_candidates_have_the_thetas_of_posteriors_that_learn_weighted_rows() -> None:
    policy = Shared(dim=8)
    simulate(policy, STILL, 30, 1)
    state = state_of(policy)
    assert state.posteriors is not None
    store = state.store.sorted()
    found = Forgetting().following(store, state.posteriors, state.counts)
    tried = [h for h in change_config.HALF_LIVES if 2 * h <= 30]
    assert found.thetas.shape == (12, 1 + 2 * len(tried), 9)
    for n, half_life in enumerate([np.inf, *tried]):
        aged = replace(store, discount=discount_of(half_life))
        expected: TaskPosteriors = state.posteriors.copy()
        expected.relearn(aged, np.arange(12))
        mine = found.thetas[found.places, n if n == 0 else len(tried) + n]
        np.testing.assert_allclose(
            mine, expected.thetas[store.tasks[:12].argsort()][:12], rtol=1e-6
        )


@pytest.mark.parametrize(
    ("gains", "now", "expected"),
    [
        ([0.0, 0.0, 0.0, 0.0, 0.0], np.inf, np.inf),
        ([0.0, 0.0, 19.0, 19.0, 0.0], np.inf, np.inf),  # not enough evidence
        ([0.0, 0.0, 21.0, 100.0, 0.0], np.inf, 12.0),
        ([0.0, 0.0, 99.5, 100.0, 0.0], np.inf, 36.0),  # as good as the best, and slower
        ([0.0, 0.0, 1.0, 2.0, 9.0], 36.0, 4.0),  # at once to faster
        ([9.0, 0.0, 0.0, 0.0, -9.0], 4.0, 12.0),  # but to slower step by step
        ([0.0, 0.0, -5.0, 0.0, 0.0], 36.0, 36.0),  # against it, but by too little
        ([-9.0, -9.0, -9.0, -9.0, -9.0], 324.0, np.inf),
    ],
)
def test_the_half_life_follows_the_evidence(
    gains: list[float], now: float, expected: float
) -> None:
    assert known(gains, half_life=now).best == expected


def test_less_weight_alone_is_no_evidence_of_drift() -> None:
    """Half-lives that predict better than no forgetting, but not than rows that weigh as little."""
    one = known([0.0, 0.0, 0.0, 100.0, 100.0])
    losses = one.losses.copy()
    losses[1 : N + 1] = losses[N + 1 :]
    assert one.best == 12.0
    assert replace(one, losses=losses).best == np.inf


@pytest.mark.parametrize(("gain", "expected"), [(6.0, np.inf), (8.0, 12.0)])
def test_a_gain_that_is_sure_must_be_large_too(gain: float, expected: float) -> None:
    one = known([0.0, 0.0, 0.0, gain, 0.0])
    sure = replace(one, squares=one.squares / 100)
    assert sure.evidence.max() > change_config.FORGETTING_EVIDENCE
    assert sure.best == expected


@pytest.mark.parametrize("heavy", [False, True])
def test_heavy_tails_need_a_larger_gain(heavy: bool) -> None:
    """Errors of the same mean square, Gaussian or one in sixteen, with a gain of 20 nats."""
    rng = np.random.default_rng(0)
    errors = rng.standard_normal(5000)
    if heavy:
        errors = np.where(rng.random(5000) < 1 / 16, 4 * np.sign(errors), 0.0)
    rows = np.column_stack([np.zeros(5000), np.ones(5000), errors])
    news = Pending(np.zeros(5000, np.int64), rows, np.ones(5000), np.ones(5000))
    one = Forgetting(places=np.zeros(1, np.int64), thetas=np.zeros((1, 3, 2)))
    found = one.scored(LIKELIHOODS["gaussian"], news, 1.0)
    assert found.tail == pytest.approx(16 / 3 if heavy else 1.0, rel=0.15)
    losses = found.losses.copy()
    losses[-2] -= 20
    gaining = replace(found, losses=losses, squares=found.squares + 1.0)
    assert gaining.best == (np.inf if heavy else 12.0)


def test_predictions_of_high_rewards_alone_are_no_evidence_of_drift() -> None:
    """All rewards are 1 once decisions are good, and rows of late say only that."""
    rng, n = np.random.default_rng(0), 400
    thetas = np.zeros((1, 3, 2))
    thetas[0, :2] = [0.1, 0.9]  # of no forgetting, and of the rival
    thetas[0, 2] = [0.0, 1.0]  # of the shortest half-life
    one = Forgetting(places=np.zeros(1, np.int64), thetas=thetas)
    for _ in range(n // 10):
        rows = np.column_stack([rng.standard_normal(10), np.ones(10), np.ones(10)])
        news = Pending(np.zeros(10, np.int64), rows, np.ones(10), np.ones(10))
        one = one.scored(LIKELIHOODS["gaussian"], news, 0.02)
    plain = 0.5 * 0.02 / 0.02 * n  # nats, of predictions as they are
    assert 0 < one.gains[:, -1].min() < 0.1 * plain
    assert one.best == np.inf


def test_pixels_that_a_linear_model_errs_on_are_not_forgotten() -> None:
    """Pairs of digits do not change, though rows of late predict rewards of good arms better."""
    for trial in (5, 8):
        policy, world = Shared(dim=64), DigitPairs(n_tasks=10)
        regret = simulate(policy, world, 800, 0, trial=trial).regret_per_task
        assert policy.half_life == np.inf
        assert not policy.changes
        assert regret < 6


@pytest.mark.parametrize("n", [1, 300])
def test_an_outlier_is_no_evidence(n: int) -> None:
    """One error that decides all is none; the same gain from many rewards is."""
    thetas = np.zeros((1, 3, 2))
    thetas[0, 2, 0] = 0.5  # of the shortest half-life
    rows = np.tile([1.0, 1.0, 0.5], (n, 1))
    news = Pending(np.zeros(n, np.int64), rows, np.ones(n), np.ones(n))
    one = Forgetting(places=np.zeros(1, np.int64), thetas=thetas)
    found = one.scored(LIKELIHOODS["gaussian"], news, 0.001 if n == 1 else 1.0)
    assert (found.evidence[-1] > change_config.FORGETTING_EVIDENCE) == (n > 1)
    assert found.evidence[0] == 0  # longer than what there is to forget


def test_a_turning_subspace_is_followed_and_a_still_one_is_not_forgotten() -> None:
    """Regret is less than half of that without forgetting; still tasks keep their bits."""
    never = mock.patch.object(change_config, "FORGETTING_EVIDENCE", np.inf)
    ours, deaf = [], []
    for seed in range(3):
        for world in (STILL, TURNING):
            policy, other = Shared(dim=8), Shared(dim=8)
            trace = simulate(policy, world, 250, seed)
            with never:
                without = simulate(other, world, 250, seed)
            if world is STILL:
                assert policy.half_life == np.inf
                assert np.array_equal(trace.regret, without.regret)
            else:
                assert policy.half_life < 50
                ours.append(trace.regret_per_task)
                deaf.append(without.regret_per_task)
    assert np.sum(ours) < 0.5 * np.sum(deaf)


def test_a_policy_that_forgets_goes_on_after_it_was_saved(tmp_path: Path) -> None:
    policy = drifting()
    assert policy.half_life < np.inf
    policy.save(tmp_path / "policy")
    resumed = Shared.load(tmp_path / "policy")
    assert_same(policy, resumed)
    assert resumed.half_life == policy.half_life
    assert state_of(resumed).store.discount == state_of(policy).store.discount
    for one in (policy, resumed):
        simulate(one, TURNING, 20, 5)
    assert_same(policy, resumed)


def test_files_from_before_there_was_forgetting_are_read(tmp_path: Path) -> None:
    policy = Shared(dim=8)
    simulate(policy, STILL, 30, 0)
    policy.save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    del header["forgetting"]
    older = {name: x for name, x in arrays.items() if not name.startswith("forgetting.")}
    header["arrays"] = sorted(older)
    write(tmp_path / "older", header, older)
    assert Shared.load(tmp_path / "older").half_life == np.inf


def test_files_with_losses_that_were_not_recalibrated_begin_to_compare_anew(
    tmp_path: Path,
) -> None:
    policy = drifting()
    policy.save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    del header["forgetting"]["squared_loss"]
    older = {name: x for name, x in arrays.items() if name != "forgetting.lines"}
    header["arrays"] = sorted(older)
    write(tmp_path / "older", header, older)
    found = Shared.load(tmp_path / "older")
    assert found.half_life == policy.half_life < np.inf
    assert not state_of(found).forgetting.losses.any()


@pytest.mark.parametrize("half_life", [5.0, -1.0])
def test_a_half_life_that_there_is_not_is_refused(tmp_path: Path, half_life: float) -> None:
    drifting().save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    header["forgetting"]["half_life"] = half_life
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match="half_life"):
        Shared.load(tmp_path / "bad")


def test_places_beyond_the_thetas_are_refused(tmp_path: Path) -> None:
    drifting().save(tmp_path / "policy")
    header, arrays = content(tmp_path / "policy")
    arrays["forgetting.places"] = arrays["forgetting.places"] + 1
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match=r"forgetting\.places"):
        Shared.load(tmp_path / "bad")


def test_few_of_many_tasks_decide_nothing() -> None:
    """Where rows are so many that few tasks can be compared, none are."""
    policy = Shared(dim=8)
    simulate(policy, STILL, 30, 1)
    state = state_of(policy)
    assert state.posteriors is not None
    few = 3 * int(state.store.sizes.max()) * state.store.width + 1
    for numbers, expected in ((few, 0), (2 * few, change_config.FORGETTING_TASKS)):
        with mock.patch.object(change_config, "FORGETTING_NUMBERS", numbers):
            found = Forgetting().following(state.store, state.posteriors, state.counts)
        assert len(found.thetas) >= expected
        assert bool(len(found.thetas)) == (expected > 0)
