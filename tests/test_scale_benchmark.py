"""The benchmark of many tasks measures what it says, at a tiny size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import fleet, scale

TINY = scale.Size(T=40, d=6, r=2, K=3, batch=20, rewards=20)


@pytest.fixture(scope="module")
def found() -> scale.Found:
    return scale.measure(TINY)


def test_a_tiny_case_is_measured(found: scale.Found) -> None:
    assert found.size.batches == 40
    assert 1 < found.refits < found.size.batches
    assert 0 < found.refit <= found.refits_seconds
    assert min(found.decide, found.learn) > 0
    assert found.directions == 6  # all
    assert found.peak >= 0


def test_the_policy_and_the_oracle_learn_and_random_choices_do_not(found: scale.Found) -> None:
    first, last = (
        dict(zip(found.regret, ends, strict=True))
        for ends in zip(*found.regret.values(), strict=True)
    )
    assert last["shared"] < 0.5 * first["shared"]
    assert last["oracle"] < 0.5 * first["random"]
    assert last["random"] == pytest.approx(first["random"], rel=0.3)


def test_some_tasks_are_asked_often_and_most_seldom() -> None:
    world = scale.World(replace(TINY, T=1000, d=1, r=1, batch=50_000), np.random.default_rng(0))
    counts = np.sort(np.bincount(world.ask()[0], minlength=1000))[::-1]
    shares = counts.cumsum() / counts.sum()
    assert shares[9] == pytest.approx(0.1, abs=0.01)
    assert shares[499] == pytest.approx(np.sqrt(0.5), abs=0.01)


def test_rewards_are_those_of_thetas_in_the_subspace() -> None:
    world = scale.World(TINY, np.random.default_rng(0))
    tasks, arms, values = world.ask()
    mine = tasks == tasks[0]
    theta = np.linalg.lstsq(arms[mine].reshape(-1, 6) @ world.B, values[mine].ravel())[0]
    np.testing.assert_allclose(arms[mine] @ world.B @ theta, values[mine], atol=1e-9)


def test_growth_is_held_against_the_number_of_tasks(found: scale.Found) -> None:
    linear = [replace(found, size=replace(TINY, T=T), refit=T / 10, peak=T) for T in (40, 120, 400)]
    steep = [replace(f, refit=f.refit**1.5) for f in linear]
    for several, met in ((linear, [True] * 4), (steep, [True, True, False, True])):
        table, targets = scale._growth(several)
        assert [target.met for target in targets] == met
        assert len(table.rows) == len(targets)


def test_the_section_shows_every_number_of_tasks(
    monkeypatch: pytest.MonkeyPatch, found: scale.Found
) -> None:
    sizes = iter(scale.N_TASKS)
    monkeypatch.setattr(
        scale,
        "in_fresh_process",
        lambda _: replace(found, size=replace(TINY, T=next(sizes)), peak=1),
    )
    shown = str(scale.section())
    assert all(f"\n  {T} " in shown for T in scale.N_TASKS)
    assert "d x d matrices" in shown
    assert "scale" in command.DEFAULT


def test_a_shard_s_waits_are_those_of_a_queue_that_pauses_once() -> None:
    costs = fleet.Costs(evaluation=0, head=1e-3, rows=0, posterior=0, prior=0)
    some = fleet.Fleet(n_tasks=80_000, n_shards=2, costs=costs, answer=0.1, daily=2.0)
    assert some.gap == pytest.approx(1.08)  # 80,000 decisions a day
    median, tail, most = fleet.waits(some, n=20_000)
    assert median == 0  # it is busy for a tenth of the time
    assert 0 < tail < 45
    assert some.pause == 40
    assert 36 < most < 44  # what is left of the pause when the next one asks


def test_priors_from_more_tasks_predict_fresh_ones_better(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"D": 12, "R": 2, "ROWS": 5, "FRESH": 40}.items():
        monkeypatch.setattr(fleet, name, value)
    errors = fleet.errors_by_sample((10, 100), fits=2)
    assert errors["known"] < errors["100"] < errors["10"] < 1
    costs = fleet.measured_costs(20)
    assert costs.rows == 5 * 14 * 8
    assert min(costs) > 0
