"""Choices among arms, and their probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2, multivariate_normal

from cobandits.decisions import Decisions
from cobandits.policies import Shared, propensities
from cobandits.policies.propensities import draw, greedy, normal_cdf, winning


def test_greedy_takes_the_best_and_shares_ties() -> None:
    values = np.array([[0.0, 2.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    expected = np.array([[0, 1, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(greedy(values), expected)


def test_draws_follow_the_probabilities() -> None:
    """A chi-square test at the level 1e-4."""
    p = np.array([0.5, 0.2, 0.0, 0.3])
    n = 20_000
    chosen, reported = draw(np.tile(p, (n, 1)), np.random.default_rng(5))
    counts = np.bincount(chosen, minlength=4)
    assert counts[2] == 0
    np.testing.assert_array_equal(reported, p[chosen])
    kept = p > 0
    assert ((counts[kept] - n * p[kept]) ** 2 / (n * p[kept])).sum() < 18.4  # chi2(2)


def test_the_normal_distribution_is_that_of_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any shape, of what is not contiguous, and far from 0."""
    values = np.concatenate([np.linspace(-37, 9, 998), [-np.inf, np.inf]]).reshape(20, 50)
    for asked in (values, values.T, values[::2, ::3], values[:0]):
        np.testing.assert_allclose(normal_cdf(asked), ndtr(asked), rtol=1e-12, atol=0)
    monkeypatch.setattr(propensities, "COMPILED", False)
    np.testing.assert_array_equal(normal_cdf(values), ndtr(values))


def test_two_arms_are_exact() -> None:
    rng = np.random.default_rng(0)
    values, factors = rng.standard_normal((20, 2)), rng.standard_normal((20, 2, 3))
    gap, spread = values[:, 0] - values[:, 1], np.linalg.norm(factors[:, 0] - factors[:, 1], axis=1)
    np.testing.assert_allclose(winning(values, factors, np.zeros(20, int)), ndtr(gap / spread))


@pytest.mark.parametrize("K", [3, 4, 5])
def test_more_arms_agree_with_scipys_orthant_probabilities(K: int) -> None:
    rng = np.random.default_rng(K)
    for _ in range(8):
        values, factors = rng.standard_normal(K), rng.standard_normal((K, 6))
        k = int(rng.integers(K))
        D = np.delete(np.eye(K)[k] - np.eye(K), k, axis=0)
        C = D @ factors @ factors.T @ D.T
        # P(D v > 0) = P(-D (v - mean) < D mean)
        exact = multivariate_normal(cov=C, seed=1).cdf(D @ values)
        found = winning(values[None], factors[None], np.array([k]))[0]
        assert found == pytest.approx(exact, abs=0.01, rel=0.05)


@pytest.mark.parametrize(("K", "most"), [(3, 0.002), (5, 0.005), (8, 0.02), (15, 0.03), (50, 0.06)])
def test_arms_that_are_alike_win_equally_often(K: int, most: float) -> None:
    share = winning(np.zeros((1, K)), np.eye(K)[None], np.array([0]))[0]
    assert share == pytest.approx(1 / K, rel=most)


def test_probabilities_of_all_arms_sum_to_one() -> None:
    rng = np.random.default_rng(2)
    values, factors = rng.standard_normal((30, 6)), rng.standard_normal((30, 6, 6))
    total = sum(winning(values, factors, np.full(30, k)) for k in range(6))
    np.testing.assert_allclose(total, 1, atol=0.02)


def test_without_uncertainty_the_best_wins_and_ties_go_to_the_first() -> None:
    values, factors = np.array([[1.0, 2.0, 0.0]]), np.zeros((1, 3, 2))
    found = [winning(values, factors, np.array([k]))[0] for k in range(3)]
    np.testing.assert_allclose(found, [0, 1, 0], atol=1e-11)
    tied = [winning(np.zeros((1, 3)), np.zeros((1, 3, 1)), np.array([k]))[0] for k in range(3)]
    np.testing.assert_allclose(tied, [1, 0, 0], atol=1e-11)


def test_equal_arms_do_not_disturb_the_others() -> None:
    factors = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])  # the first two are one arm
    share = winning(np.zeros((1, 3)), factors, np.array([2]))[0]
    assert share == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("K", [2, 3, 5, 7])
def test_what_is_independent_between_arms_is_as_factors_of_their_own(K: int) -> None:
    """``own`` is the diagonal of K more factors."""
    rng = np.random.default_rng(K)
    values, factors = rng.standard_normal((25, K)), rng.standard_normal((25, K, 3))
    own = rng.uniform(0, 2, (25, K))
    own[:5] = 0
    wide = np.concatenate([factors, own[:, :, None] * np.eye(K)], axis=2)
    for k in range(K):
        asked = np.full(25, k)
        found, told = winning(values, factors, asked, own), winning(values, wide, asked)
        np.testing.assert_allclose(found, told, rtol=1e-9, atol=1e-12)
    alone = winning(values, factors, np.zeros(25, int))
    np.testing.assert_allclose(winning(values, factors, np.zeros(25, int), own)[:5], alone[:5])


@pytest.mark.parametrize("K", [2, 4, 6])
def test_what_is_independent_between_arms_wins_as_often_as_in_draws(K: int) -> None:
    """200,000 draws: within 4.5 standard errors and 1 % of the integration."""
    rng, n = np.random.default_rng(K), 200_000
    values, factors = np.linspace(0, 0.6, K)[None], 0.2 * rng.standard_normal((1, K, 2))
    own = rng.uniform(0.2, 1.5, (1, K))
    drawn = values + rng.standard_normal((n, 2)) @ factors[0].T + own * rng.standard_normal((n, K))
    shares = np.bincount(drawn.argmax(axis=1), minlength=K) / n
    without = [winning(values, factors, np.array([k]))[0] for k in range(K)]
    assert np.abs(np.array(without) - shares).max() > 0.03  # what is independent matters
    for k in range(K):
        found = winning(values, factors, np.array([k]), own)[0]
        error = 4.5 * np.sqrt(shares[k] * (1 - shares[k]) / n)
        assert found == pytest.approx(shares[k], abs=error + 0.01 * shares[k])


def test_with_nothing_in_common_two_arms_are_exact() -> None:
    rng = np.random.default_rng(0)
    values, own = rng.standard_normal((20, 2)), rng.uniform(0.1, 2, (20, 2))
    found = winning(values, np.zeros((20, 2, 1)), np.zeros(20, int), own)
    gap = values[:, 0] - values[:, 1]
    np.testing.assert_allclose(found, ndtr(gap / np.sqrt((own**2).sum(axis=1))))


def test_one_arm_is_certain() -> None:
    assert winning(np.zeros((2, 1)), np.ones((2, 1, 3)), np.zeros(2, int)).tolist() == [1, 1]


@pytest.mark.parametrize("K", [2, 5, 15, 50])
def test_logged_probabilities_agree_with_2000_redraws(K: int) -> None:
    """A chi-square test over 4 requests with what Thompson sampling logs, at the level 1 %.

    What is logged is read of the first 100 decisions; arms that are not among them count as one.
    """
    rng, n, total, freedom = np.random.default_rng(K), 2000, 0.0, 0
    policy = Shared(dim=12, n_tasks=1, explore="always")
    theta, zeros = rng.standard_normal(12), np.zeros(9, int)
    seen = rng.standard_normal((9, 1, 12))
    made = Decisions(chosen=zeros, probabilities=np.ones(9), policy="shared")
    policy.learn(zeros, seen, made, seen[:, 0] @ theta + 0.3 * rng.standard_normal(9))
    for _ in range(4):
        arms = np.tile(rng.standard_normal((1, K, 12)), (n, 1, 1))
        read = policy.decide(np.zeros(100, int), arms[:100], rng)
        others = policy.decide(np.zeros(n - 100, int), arms[100:], rng)
        logged = np.full(K, np.nan)
        logged[read.chosen] = read.probabilities
        counts = np.bincount(np.append(read.chosen, others.chosen), minlength=K)
        often = np.nan_to_num(logged) * n >= 5
        expected = np.append(logged[often], 1 - logged[often].sum()) * n
        found = np.append(counts[often], counts[~often].sum())
        kept = expected >= 5
        total += float(((found - expected) ** 2 / np.maximum(expected, 5))[kept].sum())
        freedom += max(1, int(kept.sum()) - 1)
    assert chi2.sf(total, freedom) > 0.01


@pytest.mark.skipif(not propensities.COMPILED, reason="the compiled half is not built")
@pytest.mark.parametrize("K", [2, 3, 6, 9, 20])
def test_the_compiled_pass_computes_the_same(K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of arms that are equal, certain, or that grow together."""
    rng, m = np.random.default_rng(K), 12
    values, factors = rng.standard_normal((m, K)), rng.standard_normal((m, K, 4))
    own, asked = rng.uniform(0, 1, (m, K)), rng.integers(K, size=m)
    factors[0, 1], values[0, 1], own[0] = factors[0, 0], values[0, 0], 0
    factors[1], own[1] = 0, 0
    factors[2], own[2] = 1, 0
    values[3] = 0
    found = winning(values, factors, asked, own), winning(values, factors, asked)
    monkeypatch.setattr(propensities, "COMPILED", False)
    plain = winning(values, factors, asked, own), winning(values, factors, asked)
    np.testing.assert_allclose(found, plain, rtol=1e-7, atol=1e-11)


@pytest.mark.skipif(not propensities.COMPILED, reason="the compiled half is not built")
def test_the_compiled_pass_refuses_what_does_not_fit() -> None:
    from cobandits.compiled import _propensity

    values, factors, none, out = np.zeros((2, 3)), np.zeros((2, 3, 4)), np.zeros(0), np.zeros(2)
    arms, points = np.zeros(2, np.int64), np.zeros((2, 8))
    for wrong in (
        (values, np.zeros(23), none, arms, points, out),
        (values, factors, np.zeros(5), arms, points, out),
        (values, factors, none, arms + 3, points, out),
        (values, factors, none, arms, np.zeros(0), out),
        (values, factors, none, arms, points, np.zeros(1)),
        (values[:, :1].copy(), factors[:, :1].copy(), none, arms, points, out),
    ):
        v, f, o, a, p, found = wrong
        with pytest.raises(ValueError, match=r"expected|arm"):
            _propensity.winning(v, f, o, a, p, found, 1e-12)
