"""Whether sharing helps, told honestly; and the spectrum of theta with its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from cobandits.diagnostics import Sharing, sharing, spectrum
from cobandits.diagnostics.few_rows import shared_fit
from cobandits.diagnostics.held_out import ROUGH
from cobandits.diagnostics.verdict import ALL
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError, DataError, RankError
from cobandits.estimators.common import CommonMean
from cobandits.estimators.lowrank import LowRank
from cobandits.tasks import TaskRows, TaskStatistics
from tests.tables import KINDS, constructed

Floats = NDArray[np.floating]
BETTER = "predicts better than each task's own mean by more than chance"


def related(seed: int, n_rows: int = 12) -> TaskRows:
    """Return 25 tasks of rank 2 in 20 features."""
    cell = Synthetic(dim=20, n_tasks=25, rank=2, noise_std=0.3)
    return cell.problem(n_rows=n_rows, seed=seed).tasks


def unrelated(seed: int, n_rows: int = 100) -> TaskRows:
    """Return 10 tasks that have nothing in common, with many rows each."""
    cell = Synthetic(dim=8, n_tasks=10, rank=8, noise_std=1.0)
    return cell.problem(n_rows=n_rows, seed=seed).tasks


# ---- what the report says


@pytest.mark.parametrize("seed", range(8))
def test_sharing_helps_tasks_of_low_rank_with_few_rows(seed: int) -> None:
    report = sharing(related(seed), rng=seed)
    assert report.helps
    assert not report.hurts
    assert report.r_squared("shared") > 0.7
    assert report.r_squared("shared") > report.r_squared("independent") + 0.15
    assert report.r_squared("shared") > report.r_squared("pooled") + 0.5
    assert len(report.gaining) > len(report.losing)
    assert np.median(report.ranks) == 2
    assert report.verdict.startswith("sharing helps")
    assert report.verdict in str(report)


@pytest.mark.parametrize("seed", range(8))
def test_sharing_does_not_help_unrelated_tasks_with_many_rows(seed: int) -> None:
    report = sharing(unrelated(seed), rng=seed)
    assert not report.helps
    assert report.r_squared("shared") < report.r_squared("independent") + 0.002
    assert "sharing helps" not in str(report)
    if not report.hurts:
        assert "neither helps nor hurts" in str(report)


@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_rank_is_seen_to_hurt(seed: int) -> None:
    report = sharing(unrelated(seed), rank=2, rng=seed)
    assert report.hurts
    assert not report.helps
    assert len(report.losing) > len(report.gaining)
    assert report.verdict.startswith("sharing hurts")


def test_few_of_the_tasks_without_a_difference_are_named() -> None:
    reports = [sharing(unrelated(seed), rank=8, rng=seed) for seed in range(10)]
    named = sum(len(report.gaining) + len(report.losing) for report in reports)
    assert named <= 0.15 * sum(len(report.labels) for report in reports)


@pytest.mark.parametrize("seed", range(4))
def test_a_task_outside_the_subspace_is_found(seed: int) -> None:
    tasks = _with_odd_one(seed)
    report = sharing(tasks, rank=2, rng=seed)
    assert "odd" in report.losing


def test_a_task_outside_the_subspace_gets_a_direction_of_its_own() -> None:
    report = sharing(_with_odd_one(0))
    assert np.median(report.ranks) == 3
    assert abs(report.gain[-1]) < 0.1  # it has nothing to share
    assert np.median(report.gain) > 0.4


def _with_odd_one(seed: int) -> TaskRows:
    """Return related tasks and one, "odd", with many rows and theta outside their subspace."""
    problem = Synthetic(dim=20, n_tasks=25, rank=2, noise_std=0.3).problem(n_rows=20, seed=seed)
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(20)
    theta -= problem.basis @ (problem.basis.T @ theta)
    features = rng.standard_normal((150, 20))
    rewards = features @ (1.5 * theta / np.linalg.norm(theta)) + 0.3 * rng.standard_normal(150)
    tasks = TaskRows.from_arrays(problem.tasks.rows, problem.tasks.rewards, problem.tasks.owners)
    tasks.add(features, rewards, ["odd"] * 150)
    return tasks


# ---- that it is computed as it says


def test_errors_and_r_squared_match_a_plain_loop() -> None:
    tasks = related(seed=3, n_rows=9)
    report = sharing(tasks, rank=2, n_folds=3, rng=11)
    squares = _plain_loop(tasks, tasks.folds(3, np.random.default_rng(11)))
    total = float(squares["mean"].sum())
    assert set(squares) == set(report.squared_errors)
    for name, expected in squares.items():
        assert np.allclose(report.squared_errors[name], expected, rtol=1e-6)
        assert report.r_squared(name) == pytest.approx(1 - expected.sum() / total)
    assert report.counts.tolist() == [9] * 25


def _plain_loop(tasks: TaskRows, folds: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Return held-out squared errors by task, one fold and one task after the other."""
    X, y, owners = tasks.rows, tasks.rewards, tasks.owners
    squares = {name: np.zeros(tasks.n_tasks) for name in ALL}
    for fold in range(3):
        seen = folds != fold
        raw = TaskRows.from_arrays(X[seen], y[seen], owners[seen])
        ones = TaskRows.from_arrays(np.ones((seen.sum(), 1)), y[seen], owners[seen])
        thetas = {
            "shared": LowRank(rank=2, ridge="auto", tolerance=ROUGH).fit(raw).theta,
            "common": CommonMean().fit(raw).theta,
            "pooled": np.repeat(np.linalg.lstsq(X[seen], y[seen])[0][:, None], 25, axis=1),
            "independent": CommonMean(mean="constant").fit(raw).theta,
        }
        means = CommonMean().fit(ones).theta[0]
        for t in range(tasks.n_tasks):
            new = ~seen & (owners == t)
            for name, theta in thetas.items():
                squares[name][t] += np.sum((X[new] @ theta[:, t] - y[new]) ** 2)
            squares["mean"][t] += np.sum((means[t] - y[new]) ** 2)
    return squares


def test_fits_do_not_see_what_is_held_out() -> None:
    """Other rewards in one fold change the errors of its rows as if its fits were the same."""
    tasks = related(seed=5, n_rows=10)
    held = tasks.folds(2, np.random.default_rng(2)) == 0
    only = TaskRows.from_arrays(tasks.rows, np.where(held, 0, tasks.rewards), tasks.owners)
    double = TaskRows.from_arrays(tasks.rows, np.where(held, 0, 2 * tasks.rewards), tasks.owners)
    one, two = sharing(only, rank=2, n_folds=2, rng=2), sharing(double, rank=2, n_folds=2, rng=2)
    for name, errors in one.squared_errors.items():  # the other fold's fits predict 0 exactly
        assert np.allclose(two.squared_errors[name], 4 * errors, rtol=1e-4)
    assert one.ranks[0] == two.ranks[0]


@pytest.mark.parametrize("ridge", [0.0, 30.0])
def test_the_shared_fit_takes_the_ridge_that_is_given(ridge: float) -> None:
    tasks = related(seed=5)
    report = sharing(tasks, rank=2, ridge=ridge, n_folds=2, rng=2)
    folds, expected = tasks.folds(2, np.random.default_rng(2)), np.zeros(tasks.n_tasks)
    for fold in range(2):
        fit = LowRank(rank=2, ridge=ridge, tolerance=ROUGH).fit(tasks.select(folds != fold))
        expected += tasks.select(folds == fold).residuals(fit.theta)[1]
    assert np.allclose(report.squared_errors["shared"], expected)


def test_the_independent_fits_are_tuned_well() -> None:
    """The best single penalty, picked with hindsight, makes them at most 8 % better."""
    for seed, n_rows in ((0, 12), (1, 25), (2, 40)):
        tasks = related(seed, n_rows)
        report = sharing(tasks, rank=2, rng=seed)
        folds = tasks.folds(5, np.random.default_rng(seed))
        best = min(
            sum(
                tasks.select(folds == k).residuals(tasks.select(folds != k).ridge(p))[1].sum()
                for k in range(5)
            )
            for p in np.geomspace(1e-4, 1e4, 60)
        )
        assert report.squared_errors["independent"].sum() <= 1.08 * best


def test_units_of_features_and_rewards_do_not_matter() -> None:
    tasks = related(seed=1)
    units = np.geomspace(1e-3, 1e3, 20)
    other = TaskRows.from_arrays(tasks.rows * units, 100 * tasks.rewards, tasks.owners)
    one, two = sharing(tasks, rank=2), sharing(other, rank=2)
    for name in one.squared_errors:
        assert two.r_squared(name) == pytest.approx(one.r_squared(name), abs=1e-3)


def test_the_same_seed_gives_the_same_report_and_progress_counts_folds() -> None:
    seen: list[tuple[int, int]] = []
    one = sharing(related(0), rank=2, n_folds=3, rng=7, progress=lambda *at: seen.append(at))
    two = sharing(related(0), rank=2, n_folds=3, rng=7)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert np.array_equal(one.differences, two.differences)
    assert one.ranks == two.ranks == (2, 2, 2)


def told(
    shared: Sequence[float],
    alone: Sequence[float],
    *,
    common: float = 30.0,
    pooled: float = 30.0,
    mean: float = 10.0,
    counts: Sequence[int] = (50, 50),
    standard_error: float = 1.0,
) -> Sharing:
    """Return a report with these errors per task, and standard errors of all differences."""
    n_tasks = len(counts)
    others = {"common": common, "pooled": pooled, "mean": mean}
    return Sharing(
        labels=tuple("abcdefghijkl"[:n_tasks]),
        counts=np.array(counts),
        squared_errors={
            "shared": np.resize(np.array(shared, float), n_tasks),
            "independent": np.resize(np.array(alone, float), n_tasks),
            **{name: np.full(n_tasks, error) for name, error in others.items()},
        },
        varies=np.ones(n_tasks, bool),
        standard_errors=np.where(np.array(counts) > 1, 1.0, np.inf),
        pair_errors=np.full((len(ALL), len(ALL)), standard_error),
        ranks=(3, 2, 2, 3),
    )


def test_gains_and_names_follow_from_the_errors() -> None:
    report = told([1, 8, 2, 1, 0], [4, 4, 7, 4, 0], counts=(50, 50, 50, 7, 1), standard_error=3)
    assert report.differences.tolist() == [3, -4, 5, 3, 0]
    assert report.gain.tolist() == [0.75, -1, pytest.approx(5 / 7), 0.75, 0]
    assert report.gaining == ("a", "c")  # d gains as much, but has 7 rows
    assert report.losing == ("b",)
    assert report.r_squared("shared") == pytest.approx(1 - 12 / 50)
    named = "2 of 3 tasks with 8 rows or more: squared error lower by 75% (a), 71% (c)"
    assert report.named(report.gaining) == named
    assert report.named(report.losing).endswith("squared error higher by 100% (b)")
    assert report.named(()) == "0 of 3 tasks with 8 rows or more, each judged alone"
    assert "held-out R^2 (0: each task's own mean): shared 0.760" in str(report)
    with pytest.raises(ConfigurationError, match="one of shared, common, pooled, independent"):
        report.r_squared("fast")


@pytest.mark.parametrize(("n_tasks", "freedom"), [(9, 9 * 50 - 1), (12, 11)])
def test_an_interval_is_the_difference_and_its_t_quantile(n_tasks: int, freedom: int) -> None:
    report = told([4], [8], counts=(50,) * n_tasks, standard_error=3)
    half = float(stats.t.ppf(0.975, freedom)) * 3 / (8 * n_tasks)
    assert report.change("shared", "independent") == pytest.approx((0.5 - half, 0.5, 0.5 + half))


def test_standard_errors_are_over_tasks_where_there_are_enough() -> None:
    """Against the sandwich estimator of a mean, written out; and against a plain paired test."""
    many, few = related(seed=3), unrelated(seed=3).select(unrelated(seed=3).owners < 6)
    report = sharing(many, rank=2, rng=1)
    D = report.squared_errors["common"] - report.squared_errors["shared"]
    n, T = report.counts, len(report.counts)
    expected = np.sqrt(T / (T - 1) * sum((D[t] - n[t] * D.sum() / n.sum()) ** 2 for t in range(T)))
    assert report.pair_errors[0, 1] == pytest.approx(expected, rel=1e-6)
    few = TaskRows.from_arrays(few.rows, few.rewards, few.owners)
    report, means = sharing(few, rank=2, rng=1), []
    folds = few.folds(5, np.random.default_rng(1))
    pooled, own = np.empty(few.n_rows), np.empty(few.n_rows)
    for fold in range(5):
        held, training = folds == fold, few.select(folds != fold)
        theta = np.linalg.lstsq(training.rows, training.rewards)[0]
        means = CommonMean().fit(training.rewards_alone()).theta[0][few.owners[held]]
        pooled[held] = (few.rows[held] @ theta - few.rewards[held]) ** 2
        own[held] = (means - few.rewards[held]) ** 2
    expected = float(stats.ttest_rel(pooled, own).statistic)
    found = (pooled - own).sum() / report.pair_errors[ALL.index("pooled"), ALL.index("mean")]
    assert found == pytest.approx(expected, rel=1e-5)


HALF = "held-out squared error 50%"
ALONE = "that of tasks alone"


@pytest.mark.parametrize(
    ("report", "best", "verdict"),
    [
        (told([4], [8]), "shared", f"sharing helps: {HALF} (38% to 62%) below {ALONE}"),
        (
            told([4], [8], common=4.5),
            "common",
            f"sharing helps: {HALF} (38% to 62%) below {ALONE}; "
            "a common mean with own deviations does as well as the shared basis",
        ),
        (
            told([4], [8], common=4.5, pooled=4.1),
            "pooled",
            f"sharing helps: {HALF} (38% to 62%) below {ALONE}; "
            "one pooled model does as well as the shared basis",
        ),
        (
            told([6], [8], common=4),
            "common",
            f"sharing helps: {HALF} (38% to 62%) below {ALONE}; use a common mean with own "
            "deviations: the shared basis is 50% (25% to 75%) above it",
        ),
        (
            told([9], [12], common=5, mean=10),
            "common",
            f"sharing helps: {HALF} (40% to 60%) below each task's own mean's; use a common "
            "mean with own deviations: the shared basis is 80% (60% to 100%) above it",
        ),
        (
            told([6], [4]),
            "independent",
            f"sharing hurts: {HALF} (25% to 75%) above {ALONE}; fit the tasks one by one",
        ),
        (
            told([4], [4.5]),
            "independent",
            "sharing neither helps nor hurts by more than chance; fit the tasks one by one",
        ),
        (told([9.5], [9.5], pooled=9.5), "mean", f"no model {BETTER}"),
        (told([10], [20], pooled=15), "mean", f"no model {BETTER}"),
        (told([4], [8], counts=(50,)), "mean", "there is one task: nothing to share"),
        (
            told([4], [8], counts=(1, 1), standard_error=0.1),
            "shared",
            "cannot be told: no task has two rows",
        ),
    ],
)
def test_the_verdict_is_one_sentence_that_does_not_mislead(
    report: Sharing, best: str, verdict: str
) -> None:
    assert report.best == best
    assert report.verdict == verdict
    assert report.helps == (best in {"pooled", "common", "shared"})
    assert report.hurts == verdict.startswith("sharing hurts")


def test_small_changes_keep_their_digits() -> None:
    assert str(told([7.97], [8], standard_error=1e-2).change("shared", "independent")) == (
        "0.38% (0.25% to 0.5%) below"
    )
    assert str(told([8.03], [8], standard_error=0.1).change("shared", "independent")) == (
        "0.37% (-0.87% to 1.6%) above"
    )


# ---- tables of which the right verdict is known

RIGHT = {
    "common": "common",
    "means": "mean",
    "low rank": "shared",
    "unrelated": "independent",
    "nothing": "mean",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_the_right_model_is_named(kind: str, seed: int) -> None:
    assert sharing(constructed(kind, seed, n_tasks=60, n_rows=12), rng=seed).best == RIGHT[kind]


@pytest.mark.parametrize("kind", ["common", "low rank"])
def test_what_tasks_share_is_found_where_they_have_six_rows(kind: str) -> None:
    report = sharing(constructed(kind, 1, n_tasks=300, n_rows=6), rng=1)
    assert report.best == RIGHT[kind]
    assert report.verdict.startswith("sharing helps")


def test_a_prior_by_em_is_the_most_likely_one() -> None:
    """Against SciPy's minimum of the likelihood with thetas integrated out."""
    T, n, d = 200, 3, 4
    rng = np.random.default_rng(5)
    X, slopes = rng.standard_normal((T, n, d)), rng.standard_normal((T, 1)) * [2.0, 1.0, 0.5, 0.2]
    y = np.einsum("tnd,td->tn", X, 1 + slopes) + 0.5 * rng.standard_normal((T, n))
    tasks = TaskRows.from_stacked(X, y)
    found = shared_fit(tasks, LowRank(ridge="auto"))
    assert found.estimator == "a prior by EM"
    lower = np.tril_indices(d)

    def unpacked(p: Floats) -> tuple[Floats, Floats, float]:
        L = np.zeros((d, d))
        L[lower] = p[d:-1]
        return p[:d], L @ L.T, float(np.exp(p[-1]))

    def minus_log_likelihood(p: Floats) -> float:
        m, C, noise = unpacked(p)
        V = X @ C @ X.transpose(0, 2, 1) + noise * np.eye(n)
        e = y - X @ m
        squares = np.einsum("ti,tij,tj->", e, np.linalg.inv(V), e)
        return float(np.linalg.slogdet(V)[1].sum() + squares)

    start = np.concatenate([np.ones(d), np.eye(d)[lower], [0.0]])
    m, C, noise = unpacked(optimize.minimize(minus_log_likelihood, start).x)
    known = (
        np.einsum("tni,tn->it", X, y) / noise + np.linalg.solve(C + 1e-9 * np.eye(d), m)[:, None]
    )
    precisions = np.linalg.inv(C + 1e-9 * np.eye(d)) + X.transpose(0, 2, 1) @ X / noise
    thetas = np.linalg.solve(precisions, known.T[..., None])[..., 0].T
    assert np.linalg.norm(found.theta - thetas) < 0.05 * np.linalg.norm(thetas - m[:, None])


def test_a_prior_is_for_few_rows_of_many_tasks_alone() -> None:
    few = constructed("low rank", 1, n_tasks=60, n_rows=6)
    for tasks, expected in ((few, True), (few.every(2), False), (related(0), False)):
        estimate = shared_fit(tasks, LowRank(ridge="auto"))
        assert (estimate.estimator == "a prior by EM") == expected
    assert shared_fit(few, LowRank(rank=2, ridge="auto")).estimator == "LowRank"


def test_a_few_large_tasks_are_judged_by_their_rows() -> None:
    """Of 12 tasks two have nearly all rows: intervals over tasks would tell nothing."""
    rng = np.random.default_rng(4)
    owners = np.repeat(np.arange(12), [2000, 1000, *[5] * 10])
    X = np.column_stack([rng.standard_normal((len(owners), 2)), np.ones(len(owners))])
    y = X @ [2.0, -1.0, 0.5] + rng.standard_normal(len(owners))
    report = sharing(TaskRows.from_arrays(X, y, owners), rng=0)
    assert report.r_squared("pooled") > 0.7
    assert report.change("pooled", "mean").low > 0.7


def test_large_tables_are_held_out_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, seen = related(0), list[tuple[int, int]]()
    monkeypatch.setattr("cobandits.diagnostics.held_out.ENOUGH", 150)
    report = sharing(tasks, rank=2, rng=7, progress=lambda *at: seen.append(at))
    folds = tasks.folds(5, np.random.default_rng(7))
    held = np.cumsum(np.bincount(folds)).tolist()
    assert held[1] < 150 <= held[2]  # three folds are enough
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert report.counts.sum() == held[2]
    expected = np.zeros(tasks.n_tasks)
    for fold in range(3):
        fit = LowRank(rank=2, ridge="auto", tolerance=ROUGH).fit(tasks.select(folds != fold))
        expected += tasks.select(folds == fold).residuals(fit.theta)[1]
    assert np.allclose(report.squared_errors["shared"], expected)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n_tasks", "n_rows"), [(60, 12), (20, 60), (300, 6)])
def test_the_right_model_is_named_in_95_percent(kind: str, n_tasks: int, n_rows: int) -> None:
    reports = [
        sharing(constructed(kind, seed, n_tasks=n_tasks, n_rows=n_rows), rng=seed)
        for seed in range(1000, 1050)
    ]
    assert sum(report.best == RIGHT[kind] for report in reports) >= 0.95 * len(reports)


@pytest.mark.parametrize("seed", range(3))
def test_one_theta_for_all_is_told(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((200, 6))
    rewards = features @ rng.standard_normal(6) + rng.standard_normal(200)
    report = sharing(TaskRows.from_arrays(features, rewards, np.arange(200) % 20), rng=seed)
    assert report.best in {"pooled", "common"}
    assert report.verdict.startswith("sharing helps")


@pytest.mark.parametrize("seed", range(3))
def test_rewards_that_are_noise_around_a_mean_are_not_said_to_gain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.standard_normal((160, 12)), np.ones(160)])
    owners = np.arange(160) % 20
    rewards = 20 + 4 * rng.standard_normal(20)[owners] + rng.standard_normal(160)
    report = sharing(TaskRows.from_arrays(features, rewards, owners), rng=seed)
    assert report.r_squared("shared") < 0.06
    assert report.verdict == f"no model {BETTER}"
    assert not report.helps


def test_two_fits_that_are_exact_are_equal() -> None:
    """Without noise and with rows enough for each task alone, nothing is left to gain."""
    tasks = Synthetic(dim=8, n_tasks=10, rank=2, noise_std=0).problem(n_rows=40, seed=0).tasks
    report = sharing(tasks)
    assert report.r_squared("shared") == pytest.approx(1, abs=1e-8)
    assert report.r_squared("independent") == pytest.approx(1, abs=1e-8)
    assert not report.helps
    assert not report.hurts
    assert report.gaining == report.losing == ()


# ---- data of odd shapes


def test_tasks_with_a_single_row_are_held_out_too() -> None:
    tasks = related(seed=2)
    rng = np.random.default_rng(0)
    tasks.add(rng.standard_normal((6, 20)), rng.standard_normal(6), list("uvwxyz"))
    report = sharing(tasks, rank=2)
    assert report.counts[-6:].tolist() == [1] * 6
    assert (report.squared_errors["shared"][-6:] > 0).all()
    assert not set("uvwxyz") & set(report.gaining + report.losing)
    assert np.allclose(report.gain[-6:], 0)  # both predict 0


def test_only_tasks_with_a_single_row() -> None:
    rng = np.random.default_rng(0)
    tasks = TaskRows.from_arrays(rng.standard_normal((20, 3)), rng.standard_normal(20), range(20))
    report = sharing(tasks)
    assert not report.helps
    assert math.isnan(report.r_squared("shared"))  # no task's rewards vary
    assert np.isfinite(report.squared_errors["pooled"]).all()
    assert report.verdict == "cannot be told: no task has two rows"
    assert "none named: no task has 8 rows" in str(report)


@pytest.mark.parametrize("reward", [0.0, 2.0, 0.1])
def test_rewards_that_never_vary(reward: float) -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.standard_normal((40, 3)), np.ones(40)])
    report = sharing(TaskRows.from_arrays(features, np.full(40, reward), [0, 1] * 20))
    assert math.isnan(report.r_squared("shared"))
    assert not np.isnan(report.gain).any()
    assert report.verdict == "cannot be told: the rewards of no task vary"


def test_one_task_only() -> None:
    rng = np.random.default_rng(1)
    features = rng.standard_normal((60, 4))
    rewards = features @ np.array([1.0, -1, 2, 0]) + 0.1 * rng.standard_normal(60)
    report = sharing(TaskRows.from_arrays(features, rewards, ["only"] * 60))
    assert set(report.ranks) == {1}
    assert report.r_squared("shared") == pytest.approx(report.r_squared("pooled"), abs=1e-3)
    assert not report.helps
    assert report.verdict == "there is one task: nothing to share"
    assert report.gaining == report.losing == ()


def test_fewer_rows_than_folds() -> None:
    rng = np.random.default_rng(1)
    tasks = TaskRows.from_arrays(rng.standard_normal((3, 4)), [1.0, 2.0, 3.0], [0, 0, 1])
    report = sharing(tasks, n_folds=10)
    assert len(report.ranks) == 3
    assert all(np.isfinite(errors).all() for errors in report.squared_errors.values())


def test_features_that_are_constant_zero_or_double() -> None:
    tasks = related(seed=4)
    n = tasks.n_rows
    more = np.column_stack([tasks.rows, tasks.rows[:, :2], np.zeros(n), np.ones(n)])
    plain, padded = (
        sharing(tasks, rank=2),
        sharing(TaskRows.from_arrays(more, tasks.rewards, tasks.owners), rank=2),
    )
    assert padded.helps
    assert padded.r_squared("shared") == pytest.approx(plain.r_squared("shared"), abs=0.05)


def test_single_precision() -> None:
    tasks = related(seed=4)
    single = TaskRows.from_arrays(tasks.rows.astype(np.float32), tasks.rewards, tasks.owners)
    one, two = sharing(tasks, rank=2), sharing(single, rank=2)
    assert two.r_squared("shared") == pytest.approx(one.r_squared("shared"), abs=1e-3)
    assert two.r_squared("independent") == pytest.approx(one.r_squared("independent"), abs=0.02)


def test_the_data_stay_as_they_were() -> None:
    tasks = related(seed=4)
    rows, rewards = tasks.rows.copy(), tasks.rewards.copy()
    sharing(tasks, rank=1, n_folds=2)
    assert np.array_equal(tasks.rows, rows)
    assert np.array_equal(tasks.rewards, rewards)


def test_what_cannot_be_is_refused() -> None:
    tasks = related(seed=0)
    with pytest.raises(RankError, match="rank must be from 1 to"):
        sharing(tasks, rank=21)
    with pytest.raises(ConfigurationError, match="n_folds must be at least 2, got 1"):
        sharing(tasks, n_folds=1)
    with pytest.raises(DataError, match="need rows, not statistics"):
        sharing(tasks.statistics())
    with pytest.raises(DataError, match="at least 2 rows"):
        sharing(TaskRows.from_arrays(np.ones((1, 2)), [1.0], [0]))
    with pytest.raises(RankError, match="rank must be from 1 to"):
        spectrum(tasks, rank=21)
    with pytest.raises(DataError, match="no rows"):
        spectrum(TaskStatistics(3))


# ---- the spectrum


@pytest.mark.parametrize("seed", range(12))
def test_the_noise_is_recovered_within_ten_percent(seed: int) -> None:
    cell = Synthetic(dim=20, n_tasks=30, rank=3, noise_std=0.2)
    found = spectrum(cell.problem(n_rows=25, seed=seed, unequal=True).tasks)
    assert found.rank == 3
    assert found.noise_std == pytest.approx(0.2, rel=0.1)


def test_the_noise_is_recovered_where_most_rows_go_to_parameters() -> None:
    """On average over seeds: 141 parameters for 240 rows, so 41 % of the variance is left."""
    cell = Synthetic(dim=20, n_tasks=30, rank=3, noise_std=0.2)
    stds = [spectrum(cell.problem(n_rows=8, seed=s).tasks, rank=3).noise_std for s in range(20)]
    assert np.mean(stds) == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_singular_values_fall_after_the_rank(seed: int) -> None:
    """Also where some tasks have fewer rows than there are directions.

    There several minima are nearly as good, and rounding decides which of them is found.
    """
    problem = Synthetic(dim=30, n_tasks=40, rank=3, noise_std=0.1).problem(
        n_rows=20, seed=seed, unequal=True
    )
    found = spectrum(problem.tasks)
    truth = np.linalg.svd(problem.theta, compute_uv=False)[:3]
    assert found.rank == 3
    assert len(found.singular_values) == 7
    assert np.allclose(found.singular_values[:3], truth, rtol=0.4)
    assert found.singular_values[3] < 0.75 * found.singular_values[2]
    assert found.energy.sum() == pytest.approx(1)
    assert found.energy[:3].sum() > 0.8
    assert str(found).startswith("rank 3, energy by direction")


def test_statistics_give_the_same_spectrum() -> None:
    tasks = related(seed=6, n_rows=30)
    one, two = spectrum(tasks), spectrum(tasks.statistics())
    assert one.rank == two.rank
    assert two.noise_std == pytest.approx(one.noise_std, rel=1e-4)
    assert np.allclose(one.singular_values[:2], two.singular_values[:2], rtol=0.05)


def test_no_noise_can_be_told_without_spare_rows() -> None:
    rng = np.random.default_rng(0)
    tasks = TaskRows.from_arrays(rng.standard_normal((6, 8)), rng.standard_normal(6), [0, 1] * 3)
    found = spectrum(tasks, rank=2)
    assert math.isnan(found.noise_std)
    assert len(found.singular_values) == 2


def test_rewards_of_zero_have_no_spectrum() -> None:
    rng = np.random.default_rng(0)
    tasks = TaskRows.from_arrays(rng.standard_normal((60, 3)), np.zeros(60), [0, 1, 2] * 20)
    found = spectrum(tasks)
    assert found.noise_std == 0
    assert (found.energy == 0).all()
