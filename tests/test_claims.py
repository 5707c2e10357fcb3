"""Verdicts on constructed records, for which the answer is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from cobandits.environments import Synthetic
from cobandits.lab import Estimation, Record
from cobandits.lab.claims import Case, Claim, Duel, Evidence, beyond, check, judge
from cobandits.lab.claims.evidence import Setting
from cobandits.lab.claims.regret import corrected
from tests.constructed import fit, of_series, play, simulation

BY_EPOCH = {"schedule": "equal-4"}
Regret = Callable[[str, int, int], float]  # of policy, T and r


def verdict(key: str, records: Sequence[Record]) -> Claim:
    return next(claim for claim in check(Evidence(of_series(records))) if claim.key == key)


def played(
    regret: Regret,
    *,
    tasks: Sequence[int] = (10, 20),
    ranks: Sequence[int] = (2,),
    trials: int = 6,
    environment: str = "synthetic",
) -> list[Record]:
    """Three policies; a trial shifts all of them by the same large amount."""
    policies = {"lrrl": BY_EPOCH, "moments": {"schedule": "first-4"}, "thompson": BY_EPOCH}
    return [
        play(
            simulation(
                policy, trial, n_tasks=T, rank=r, parameters=parameters, environment=environment
            ),
            regret(policy, T, r) + 50 * trial + 0.01 * math.sin(trial + T + r + len(policy)),
        )
        for policy, parameters in policies.items()
        for T in tasks
        for r in ranks
        for trial in range(trials)
    ]


def fitted(
    errors: Callable[[int], Sequence[float]],
    *,
    estimator: str = "altgdmin",
    floor: float = 1e-4,
    dim: int = 20,
    noise: float = 1e-3,
    trials: int = 4,
) -> list[Record]:
    drawn = {"dim": dim, "n_tasks": 30, "rank": 3, "noise_std": noise}
    cells = [
        Estimation(trial=trial, environment_parameters=drawn, n_rows=10, estimator=estimator)
        for trial in range(trials)
    ]
    return [fit(cell, errors(cell.trial), floor) for cell in cells]


def falling(rate: float, floor: float = 1e-4, steps: int = 400) -> list[float]:
    return [max(floor, rate**step) for step in range(steps)]


# ---- regret


def test_lowest_holds_by_pairs_though_trials_differ_more_than_policies() -> None:
    claim = verdict("lowest", played(lambda policy, *_: 10 if policy == "lrrl" else 11))
    assert claim.verdict == "holds"
    assert "lower in 4 of 4 comparisons" in claim.numbers
    assert claim.basis == "6 trials a setting"


def test_lowest_only_where_it_was_never_lost() -> None:
    on_synthetic = played(lambda policy, *_: 10 if policy == "lrrl" else 11)
    on_digits = played(lambda policy, *_: 12 if policy == "lrrl" else 11, environment="digits")
    claim = verdict("lowest", on_synthetic + on_digits)
    assert claim.outcome == "holds only if the environment is synthetic"
    assert "higher in 4" in claim.numbers


def test_lowest_does_not_hold_where_all_is_lost() -> None:
    assert verdict("lowest", played(lambda policy, *_: -len(policy))).verdict == "does not hold"


def test_many_comparisons_are_corrected_together() -> None:
    def duel(ours: Sequence[float]) -> Duel:
        regrets = np.array(ours)
        return Duel(setting=setting, against="moments", ours=regrets, theirs=np.zeros_like(regrets))

    setting = Setting(
        environment="digits", parameters_json="{}", rounds=9, rank=2, n_tasks=5, seed=0
    )
    close, sure = duel([0.1, 0.8, 1.5, 2.2, 0.2, 1.2]), duel([-9.0, -9.1, -8.9, -9.2, -9.0, -8.8])
    assert 0.01 < scipy.stats.ttest_1samp(close.ours, 0).pvalue < 0.05  # alone, it is lost
    assert corrected([close]) == [-1]
    assert corrected([close] * 5 + [sure]) == [0] * 5 + [1]
    assert corrected([duel([1.0, 2.0])] * 5) == [-1] * 5  # too few trials: the mean decides


def test_what_is_too_close_is_not_lost_and_said() -> None:
    same = played(lambda *_: 10)
    claim = verdict("lowest", same)
    assert "lower in 0 of 4" in claim.numbers
    assert "too close to tell in 4" in claim.numbers


def test_a_told_rank_does_not_hide_the_pairs_on_digits() -> None:
    records = played(lambda *_: 10, ranks=(2, 4), environment="digits")
    assert "of 8 comparisons" in verdict("lowest", records).numbers


@pytest.mark.parametrize(
    ("lead", "said"), [(math.log2, "holds"), (lambda _: 5.0, "does not hold")], ids=["log", "flat"]
)
def test_lead_grows(lead: Callable[[float], float], said: str) -> None:
    regret: Regret = lambda policy, T, _: 10 if policy == "lrrl" else 11 + lead(T)  # noqa: E731
    assert verdict("tasks", played(regret, tasks=(10, 20, 40))).verdict == said


@pytest.mark.parametrize(
    ("power", "said"), [(0, "holds"), (1, "holds only if"), (2, "does not hold")]
)
def test_thompson_by_rank(power: int, said: str) -> None:
    records = []
    for r, trial in itertools.product((2, 4, 8), range(3)):
        truth = Synthetic(dim=20, n_tasks=10, rank=r).problem(n_rows=1, seed=0, trial=trial)
        length = float(np.linalg.norm(truth.theta, axis=0).mean())
        cell = simulation("thompson", trial, rank=r, parameters=BY_EPOCH)
        records.append(play(cell, 10 * length**power))
    assert verdict("thompson-rank", records).verdict == said


@pytest.mark.parametrize(("share", "said"), [(0.9, "holds"), (1.1, "does not hold")])
def test_regret_against_its_bound(share: float, said: str) -> None:
    r, T, N, delta = 2, 10, 40, 0.05
    size = Synthetic(dim=20, n_tasks=T, rank=r)
    records = []
    for trial in range(3):
        theta = size.problem(n_rows=1, seed=0, trial=trial).theta
        sigma = np.linalg.norm(theta, 2)
        mu = max(1, np.linalg.norm(theta, axis=0).max() / sigma * math.sqrt(T / r))
        bound = 2 * mu * sigma * math.sqrt(r * N * T * math.log(1 / delta))
        bound *= 1 + math.log2(math.log2(N))
        cell = simulation("lrrl", trial, parameters=BY_EPOCH)
        records.append(play(cell, share * float(bound) / T))
    assert verdict("bound", records).verdict == said


def test_policies_that_learn_after_every_reward_are_apart() -> None:
    records = played(lambda policy, *_: 10 if policy == "lrrl" else 20, tasks=(10,))
    cells = [simulation("ridge", trial, parameters={"ridge": 0.1}) for trial in range(6)]
    records += [play(cell, 3 + 50 * cell.trial + 0.01 * cell.trial**2) for cell in cells]
    duels = beyond(Evidence(of_series(records)))
    assert [(duel.against, duel.lost) for duel in duels] == [("ridge, every round", True)]
    claim = verdict("lowest", records)
    assert claim.verdict == "holds"
    assert "after every reward it is lower in 0 of 1 and higher in 1" in claim.numbers


def test_of_several_parameters_the_best_counts() -> None:
    ours = [play(simulation("lrrl", trial, parameters=BY_EPOCH), 10.0) for trial in (0, 1)]
    theirs = [
        play(simulation("ridge", trial, parameters={"ridge": ridge}), regret)
        for trial in (0, 1)
        for ridge, regret in ((0.1, 5.0), (1.0, 50.0))
    ]
    (duel,) = beyond(Evidence(of_series(ours + theirs)))
    assert duel.theirs.tolist() == [5.0, 5.0]


def test_tuning_trials_are_left_out() -> None:
    records = [
        play(simulation(policy, trial, parameters=parameters), 1.0)
        for policy, parameters in (("lrrl", BY_EPOCH), ("ridge", {}))
        for trial in (-1, 0)
    ]
    (duel,) = beyond(Evidence(of_series(records)))
    assert duel.trials == 1


# ---- errors


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (falling(0.8), "holds"),
        (falling(0.8) + falling(0.8), "does not hold"),  # does not stay
        (falling(0.8, floor=3e-4), "does not hold"),  # stops above
        ((1.0 / np.arange(1, 20_000)).tolist(), "does not hold"),  # a power of the iteration
    ],
    ids=["exponential", "leaves", "above", "polynomial"],
)
def test_exponential_to_the_floor(errors: list[float], said: str) -> None:
    assert verdict("exponential", fitted(lambda _: errors)).verdict == said


def test_the_policys_own_fits_count_where_rows_are_few() -> None:
    records = fitted(lambda _: falling(0.8))  # 300 rows and 141 parameters
    for n_tasks, error in ((10, 3.0), (100, 1e-3)):  # 100 and 1000 rows; 56 and 236 parameters
        cells = [simulation("lrrl", t, n_tasks=n_tasks, parameters=BY_EPOCH) for t in range(3)]
        records += [play(cell, 1.0, [error, 1e-3, 1e-3, 1e-3]) for cell in cells]
    claim = verdict("exponential", records)
    assert claim.verdict == "holds only if"
    assert claim.condition == "the ratio of rows to parameters is at least 2"
    assert "in 3 of 6 runs" in claim.numbers


@pytest.mark.parametrize(("rate", "said"), [(0.9, "holds"), (0.7, "does not hold")])
def test_faster_than_altgd(rate: float, said: str) -> None:
    records = fitted(lambda _: falling(0.8)) + fitted(lambda _: falling(rate), estimator="altgd")
    claim = verdict("faster", records)
    assert claim.verdict == said
    steps = [math.ceil(math.log(1.05e-4) / math.log(x)) for x in (0.8, rate)]
    assert f"{steps[0]} to {steps[1]} (d = 20, r = 3, noise std 1e-3; fewer in" in claim.numbers


@pytest.mark.parametrize(("wins", "said"), [(16, "holds"), (12, "does not hold")])
def test_faster_means_in_more_than_half_of_all_trials(wins: int, said: str) -> None:
    """Of 20 trials, 15 are more than half at the level 5 % (binomial, 0.021), 14 are not."""
    other = fitted(
        lambda trial: falling(0.9 if trial < wins else 0.7), estimator="altgd", trials=20
    )
    claim = verdict("faster", fitted(lambda _: falling(0.8), trials=20) + other)
    assert claim.verdict == said
    assert f"fewer in {wins} of 20" in claim.numbers


def test_one_that_never_arrives_is_slower() -> None:
    late = falling(0.999, steps=50)
    claim = verdict(
        "faster", fitted(lambda _: falling(0.8)) + fitted(lambda _: late, estimator="altgd")
    )
    assert claim.verdict == "holds"
    assert "to not in 50" in claim.numbers


@pytest.mark.parametrize(("last", "said"), [(0.7, "holds"), (0.1, "does not hold")])
def test_trace_norm_improves_little(last: float, said: str) -> None:
    records = fitted(lambda _: [1.0, last], estimator="tracenorm")
    assert verdict("trace-norm", records).verdict == said


def test_contraction_against_each_trials_own_bound() -> None:
    def bound(trial: int) -> float:
        problem = Synthetic(dim=20, n_tasks=30, rank=3).problem(n_rows=1, seed=0, trial=trial)
        sigmas = np.linalg.svd(problem.theta, compute_uv=False)
        return float(1 - 0.5472 * 0.4 * (sigmas[2] / sigmas[0]) ** 2)

    assert len({bound(trial) for trial in range(4)}) == 4
    kept = fitted(lambda trial: falling(bound(trial) - 0.001))
    assert verdict("contraction", kept).verdict == "holds"
    broken = fitted(lambda trial: falling(bound(trial) + 0.001))
    assert verdict("contraction", broken).verdict == "does not hold"
    stuck = fitted(lambda _: [1.0, *falling(0.5)])  # one iteration gains nothing
    claim = verdict("contraction", stuck)
    assert claim.outcome == "holds only if the iterations are averaged"
    assert "in 4 of 4 fits, by every iteration in 0" in claim.numbers


def test_saturation_tells_which_noise_the_paper_had() -> None:
    written = fitted(lambda _: falling(0.8, 2e-4), floor=2e-4, dim=100)
    small = fitted(lambda _: falling(0.8, 2e-7), floor=2e-7, dim=100, noise=1e-6)
    claim = verdict("saturation", small + written)
    assert claim.outcome == (
        "holds only if 1e-6 is the standard deviation of the noise, not its variance"
    )
    assert "2e-4 with a noise std of 1e-3 and 2e-7 with a noise std of 1e-6" in claim.numbers
    assert verdict("saturation", written).verdict == "does not hold"


def test_names_of_panels_and_series_do_not_matter() -> None:
    records = played(lambda policy, T, r: len(policy) * T / r) + fitted(lambda _: falling(0.8))
    renamed = {f"panel {i}": {"x": [record]} for i, record in enumerate(reversed(records))}
    said = [(claim.outcome, claim.numbers) for claim in check(Evidence(of_series(records)))]
    assert [(claim.outcome, claim.numbers) for claim in check(Evidence(renamed))] == said


def test_a_record_in_two_panels_counts_once() -> None:
    records = played(lambda policy, *_: len(policy))
    twice = {"one": {"a": records}, "two": {"a": records}}
    assert check(Evidence(twice)) == check(Evidence(of_series(records)))


# ---- conditions


def test_a_condition_may_take_two_things() -> None:
    cases = [
        Case(holds=place == "here" and T > 10, where={"the place": place, "T": str(T)})
        for place in ("here", "there")
        for T in (10, 25, 50, 75, 100)
    ]
    assert judge(cases) == ("holds only if", "the place is here and T is at least 25")


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.integers(1, 3)), min_size=1))
def test_a_verdict_never_hides_a_failure(drawn: list[tuple[bool, str, int]]) -> None:
    cases = [Case(holds=holds, where={"x": x, "n": str(n)}) for holds, x, n in drawn]
    verdict, condition = judge(cases)
    assert (verdict == "holds") == all(case.holds for case in cases)
    assert bool(condition) == (verdict == "holds only if")
    if not any(case.holds for case in cases):
        assert verdict == "does not hold"
