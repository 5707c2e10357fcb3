"""Requests that differ in their number of arms, and arms that are excluded, for all policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.environments.replay import Replay
from cobandits.errors import DataError
from cobandits.evaluation import evaluate, relearn
from cobandits.logs import Log, LogWriter
from cobandits.policies import Policy, Random, Ridge, Shared
from cobandits.ragged import RaggedArms
from tests.test_policies import NAMES, fresh, played

Floats = NDArray[np.floating]

ALONE = sorted(set(NAMES) - {"oracle", "mtlr-oful"})  # decide for each request by itself
COUNTS = [3, 1, 4, 3, 2]


def ragged(arms: Floats) -> list[Floats]:
    """Return the first arms of each of five requests."""
    return [arms[n, :count] for n, count in enumerate(COUNTS)]


def mask() -> NDArray[np.bool_]:
    """Return flags of four arms for five requests; one has one arm left."""
    return np.array([[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 0, 0]], bool)


# ---- the contract


@pytest.mark.parametrize("name", ALONE)
def test_requests_with_different_numbers_are_decided_as_each_alone(name: str) -> None:
    policy = fresh(name)
    asked = played(policy)
    given = ragged(asked.arms)
    together = policy.probabilities(asked.tasks, given)
    assert together.shape == (5, 4)
    for n, arms in enumerate(given):
        alone = policy.probabilities(asked.tasks[n : n + 1], arms[None])[0]
        np.testing.assert_allclose(together[n, : len(arms)], alone, atol=1e-12)
        assert not together[n, len(arms) :].any()


@pytest.mark.parametrize("name", ALONE)
def test_excluding_is_leaving_out(name: str) -> None:
    policy = fresh(name)
    asked = played(policy)
    shares = policy.probabilities(asked.tasks, asked.arms, available=mask())
    assert (shares[~mask()] == 0).all()
    left = [arms[flags] for arms, flags in zip(asked.arms, mask(), strict=True)]
    apart = policy.probabilities(asked.tasks, left)
    for n, flags in enumerate(mask()):
        np.testing.assert_array_equal(shares[n, flags], apart[n, : flags.sum()])


@pytest.mark.parametrize("name", NAMES)
def test_excluded_arms_are_never_chosen_and_chances_are_those_reported(name: str) -> None:
    policy, rng = fresh(name), np.random.default_rng(0)
    asked = played(policy, n=3)
    shares = policy.probabilities(asked.tasks, asked.arms, available=mask())
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    counts, rows, draws = np.zeros((5, 4)), np.arange(5), 400
    for _ in range(draws):
        decided = policy.decide(asked.tasks, asked.arms, rng, available=mask())
        counts[rows, decided.chosen] += 1
        np.testing.assert_allclose(decided.probabilities, shares[rows, decided.chosen], atol=0.03)
    assert not counts[~mask()].any()
    error = 4.5 * np.sqrt(shares * (1 - shares) / draws) + 0.02
    assert (np.abs(counts / draws - shares) <= error).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_of_ragged_arms_is_what_was_chosen(name: str) -> None:
    plain, other = fresh(name), fresh(name)
    asked = played(plain)
    played(other)
    decided = Decisions(chosen=[2, 0, 3, 1, 1], probabilities=np.ones(5), policy="")
    plain.learn(asked.tasks, asked.arms, decided, np.arange(5.0))
    other.learn(asked.tasks, ragged(asked.arms), decided, np.arange(5.0))
    np.testing.assert_array_equal(
        plain.probabilities(asked.tasks, asked.arms), other.probabilities(asked.tasks, asked.arms)
    )


@pytest.mark.parametrize("name", ["oracle", "mtlr-oful"])
def test_arms_that_all_others_beat_can_be_excluded_without_a_change(name: str) -> None:
    """These two look at all requests together."""
    policy = fresh(name)
    asked = played(policy)
    shares = policy.probabilities(asked.tasks, asked.arms)
    kept = shares > 0
    kept[:, 0] = True
    found = policy.probabilities(asked.tasks, asked.arms, available=kept)
    np.testing.assert_allclose(found, shares, atol=1e-12)


@pytest.mark.parametrize("explore", ["needed", "always", "never"])
def test_the_floor_is_shared_by_the_arms_that_are_available(explore: Any) -> None:
    policy, rng = Shared(dim=2, floor=0.3, explore=explore), np.random.default_rng(0)
    arms = rng.standard_normal((5, 4, 2))
    decided = policy.decide(range(5), arms, rng)
    policy.learn(range(5), arms, decided, rng.standard_normal(5))
    shares = policy.probabilities(range(5), arms, available=mask())
    least = np.repeat(0.3 / mask().sum(axis=1)[:, None], 4, axis=1)
    assert (shares[mask()] >= least[mask()] - 1e-12).all()
    assert (shares[~mask()] == 0).all()


# ---- what is refused


def test_what_cannot_be_chosen_from_is_refused() -> None:
    policy, rng = Ridge(dim=2), np.random.default_rng(0)
    arms, flags = np.ones((2, 3, 2)), np.array([[True] * 3, [False] * 3])
    cases: list[tuple[Any, Any, str]] = [
        (arms, flags, "request 1 has no arm that is available"),
        (arms, flags[:, :2], "for each arm"),
        (arms, flags.astype(int), "of bool"),
        ([arms[0], arms[1, :0]], None, "in request 1, K at least 1"),
        ([arms[0], arms[1, :2, :1]], None, "features"),
        ([arms[0], [[1.0, 2.0], [3.0]]], None, "request 1.*as many features"),
        ([arms[0], arms[1, :2], arms[1]], None, "expected arms of 2 requests"),
        ([arms[0], np.full((2, 2), np.nan)], None, "NaN"),
    ]
    for given, available, message in cases:
        with pytest.raises(DataError, match=message):
            policy.decide([0, 1], given, rng, available=available)
    made = Decisions(chosen=[2, 2], probabilities=[1.0, 1.0], policy="")
    with pytest.raises(DataError, match="arm 2 was never offered in request 1"):
        policy.learn([0, 1], [arms[0], arms[1, :2]], made, [1.0, 1.0])


# ---- logs


def logged(policy: Policy, n: int = 40) -> Log:
    """Return a log of requests with 2 to 5 arms, one of which is excluded in every third."""
    writer, rng = LogWriter(), np.random.default_rng(0)
    for i in range(n):
        arms: Any = [rng.standard_normal((int(rng.integers(2, 6)), 3)) for _ in range(2)]
        flags: Any = [np.arange(len(part)) != (1 if i % 3 == 0 else 9) for part in arms]
        tasks = [i % 4, 4]
        decided = policy.decide(tasks, arms, rng, available=flags)
        writer.add(tasks, arms, decided, rng.standard_normal(2), available=flags)
    return writer.log()


def test_a_ragged_log_is_saved_as_it_is(tmp_path: Path) -> None:
    log = logged(Random(dim=3))
    log.save(tmp_path / "log")
    again = Log.load(tmp_path / "log")
    assert isinstance(log.arms, RaggedArms)
    assert isinstance(again.arms, RaggedArms)
    for name in ("flat", "counts", "numbers", "offered"):
        np.testing.assert_array_equal(getattr(again.arms, name), getattr(log.arms, name))
    np.testing.assert_array_equal(again.features, log.features)
    part = again.select(np.arange(5, 9))
    np.testing.assert_array_equal(part.features, log.features[5:9])


def test_one_request_with_very_many_arms_takes_no_room_for_the_others() -> None:
    arms: Any = [np.ones((500 if n == 7 else 3, 2)) for n in range(100)]
    log = Log(
        tasks=np.zeros(100, int),
        arms=arms,
        chosen=np.zeros(100, int),
        probabilities=np.ones(100),
        rewards=np.zeros(100),
    )
    assert isinstance(log.arms, RaggedArms)
    assert log.arms.flat.shape == (500 + 99 * 3, 2)


def test_a_ragged_log_is_relearned() -> None:
    log = logged(Random(dim=3))
    first, second = Ridge(dim=3), Ridge(dim=3)
    relearn(first, log)
    second.learn(log.codes, log.features[:, None], made_first(len(log)), log.rewards)
    np.testing.assert_allclose(first.posteriors.means, second.posteriors.means, atol=1e-12)


def made_first(n: int) -> Decisions:
    return Decisions(chosen=np.zeros(n, int), probabilities=np.ones(n), policy="")


def test_a_replay_shows_what_was_available_and_pays_for_what_was_chosen() -> None:
    log = logged(Random(dim=3))
    assert isinstance(log.arms, RaggedArms)
    n = 0
    for asked in Replay(log=log).rounds(10**6, seed=0):
        for row in range(len(asked.tasks)):
            part = log.arms[np.array([n])]
            np.testing.assert_array_equal(asked.arms[row], part.flat)
            paid = np.flatnonzero(np.isfinite(asked.rewards[row]))
            assert part.numbers[paid].tolist() in ([], [log.chosen[n]])
            n += 1
    assert n == len(log)


def test_a_policy_is_evaluated_on_a_ragged_log() -> None:
    """Inverse propensities by hand, decision by decision."""
    log, target = logged(Random(dim=3), 60), Ridge(dim=3)
    relearn(target, log)
    assert isinstance(log.arms, RaggedArms)
    terms = []
    for n in range(len(log)):
        part = log.arms[np.array([n])]
        shares = target.probabilities(log.codes[n : n + 1], part.flat[None])[0]
        mine = shares[part.numbers == log.chosen[n]][0]
        terms.append(mine / log.probabilities[n] * log.rewards[n])
    found = evaluate(target, log, methods=("ips", "dm"))
    assert found["ips"].value == pytest.approx(np.mean(terms))
    assert np.isfinite(found["dm"].value)
    table = target.probabilities(log.codes, log.arms)
    assert evaluate(table, log, methods=("ips",))["ips"] == found["ips"]
    wrong = np.roll(table, 1, axis=1)
    with pytest.raises(DataError, match="it was not available; give it 0"):
        evaluate(wrong, log)
