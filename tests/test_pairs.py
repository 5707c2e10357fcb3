"""Pairs of classes: who is offered what, what it pays, and how bad tables are refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits import datasets
from cobandits.datasets import LabelledTable
from cobandits.decisions import Round
from cobandits.environments import available
from cobandits.environments.pairs import ClassPairs, DigitPairs, MNISTPairs, Pair
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies import Random, Ridge
from cobandits.simulate import simulate


def numbered(labels: Sequence[object], groups: Sequence[object] | None = None) -> LabelledTable:
    """Return a table whose first feature is the number of the row."""
    n = len(labels)
    features = np.column_stack([np.arange(float(n)), np.ones(n)])
    return LabelledTable(
        features=features,
        labels=np.array(labels),
        groups=None if groups is None else np.array(groups),
    )


def drawn(environment: ClassPairs, n_rounds: int = 50, seed: int = 0) -> list[Round]:
    return list(environment.rounds(n_rounds, seed=seed))


def rows_of(asked: Round) -> NDArray[np.int64]:
    return asked.arms[:, :, 0].astype(np.int64)  # (T, 2)


@given(
    labels=st.lists(st.integers(-2, 3), min_size=2, max_size=30).filter(lambda x: len(set(x)) > 1),
    grouped=st.booleans(),
    seed=st.integers(0, 100),
)
def test_each_task_is_offered_one_example_of_each_of_its_classes(
    labels: list[int], grouped: bool, seed: int
) -> None:
    groups = ["pq"[n % 2] if grouped else "p" for n in range(len(labels))]
    found = set(zip(groups, labels, strict=True))
    expected = [
        Pair(a, b, g)
        for g in sorted(set(groups))
        for a, b in combinations(sorted(y for h, y in found if h == g), 2)
    ]
    if not expected:
        with pytest.raises(DataError, match="two classes"):
            ClassPairs(table=numbered(labels, groups))
        return
    environment = ClassPairs(table=numbered(labels, groups))
    assert environment.pairs(seed=seed) == expected
    for asked in environment.rounds(5, seed=seed):
        assert asked.tasks.tolist() == list(range(len(expected)))
        for pair, rows, means in zip(expected, rows_of(asked), asked.means, strict=True):
            offered = [labels[row] for row in rows]
            assert [groups[row] for row in rows] == [pair.group] * 2
            assert sorted(offered) == [pair.smaller, pair.larger]
            assert means.tolist() == [float(y == pair.larger) for y in offered]


def test_examples_and_their_order_are_drawn_evenly() -> None:
    labels = np.repeat([0, 1, 2], [1, 4, 7]).tolist()
    environment = ClassPairs(table=numbered(labels))
    rounds = drawn(environment, 2800)
    rows = np.array([rows_of(asked) for asked in rounds])  # (N, 3, 2)
    first = np.array([asked.means[:, 0] for asked in rounds]).mean(axis=0)
    assert np.abs(first - 0.5).max() < 5 * np.sqrt(0.25 / 2800)
    counts = np.bincount(rows[:, 2].ravel(), minlength=12)  # classes 1 and 2
    assert counts[0] == 0
    assert np.abs(counts[1:5] - 700).max() < 5 * np.sqrt(700)
    assert np.abs(counts[5:] - 400).max() < 5 * np.sqrt(400)
    assert len({tuple(asked.means[:, 0]) for asked in rounds}) == 8  # a task's order is its own


def test_noise_is_one_number_a_decision() -> None:
    environment = ClassPairs(dataset="iris", noise_std=0.5)
    rounds = drawn(environment, 4000)
    noise = np.array([asked.rewards - asked.means for asked in rounds])
    assert np.allclose(noise[..., 0], noise[..., 1])
    assert abs(noise[..., 0].mean()) < 5 * 0.5 / np.sqrt(12_000)
    assert noise[..., 0].std() == pytest.approx(0.5, rel=5 / np.sqrt(24_000))
    assert len(np.unique(noise[0, :, 0])) == 3
    silent = drawn(replace(environment, noise_std=0.0), 5)
    assert all(np.array_equal(asked.rewards, asked.means) for asked in silent)


def same(a: list[Round], b: list[Round]) -> bool:
    return all(
        np.array_equal(x.arms, y.arms) and np.array_equal(x.rewards, y.rewards)
        for x, y in zip(a, b, strict=True)
    )


def test_rounds_depend_on_seed_and_trial_alone() -> None:
    environment = DigitPairs(n_tasks=7)
    once = list(environment.rounds(6, seed=3, trial=2))
    assert same(once, list(DigitPairs(n_tasks=7).rounds(6, seed=3, trial=2)))
    assert same(once[:4], list(environment.rounds(4, seed=3, trial=2)))
    assert not same(once, list(environment.rounds(6, seed=3, trial=1)))
    assert not same(once, list(environment.rounds(6, seed=4, trial=2)))
    louder = list(replace(environment, noise_std=1.0).rounds(6, seed=3, trial=2))
    assert all(np.array_equal(a.arms, b.arms) for a, b in zip(once, louder, strict=True))


def test_all_policies_meet_the_same_rounds() -> None:
    environment = DigitPairs(n_tasks=4)
    met: list[list[Round]] = []

    class Watched(DigitPairs):
        def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
            met.append([])
            for asked in super().rounds(n_rounds, seed=seed, trial=trial):
                met[-1].append(asked)
                yield asked

    watched = Watched(n_tasks=4)
    simulate(Random(dim=64, n_tasks=4), watched, 20, 5)
    simulate(Ridge(dim=64, n_tasks=4), watched, 20, 5)
    assert same(met[0], met[1])
    assert same(met[0], list(environment.rounds(20, seed=5)))


def test_fewer_tasks_are_a_random_part_of_the_pairs() -> None:
    environment = DigitPairs(n_tasks=10)
    every = DigitPairs().pairs(seed=0)
    assert every == [Pair(a, b) for a, b in combinations(range(10), 2)]
    parts = [environment.pairs(seed=0, trial=trial) for trial in range(60)]
    assert parts[0] == environment.pairs(seed=0)
    for part in parts:
        assert len(set(part)) == 10
        assert part == sorted(part, key=every.index)
    assert set().union(*parts) == set(every)
    tasks = [asked.arms.shape for asked in environment.rounds(2, seed=0)]
    assert tasks == [(10, 2, 64)] * 2


def test_digits_pay_by_their_labels() -> None:
    environment = DigitPairs(n_tasks=20)
    label = {row.tobytes(): int(y) for row, y in zip(*_arrays(datasets.digits()), strict=True)}
    pairs = environment.pairs(seed=1)
    for asked in environment.rounds(20, seed=1):
        for pair, arms, means in zip(pairs, asked.arms, asked.means, strict=True):
            offered = [label[arm.tobytes()] for arm in arms]
            assert sorted(offered) == [pair.smaller, pair.larger]
            assert means.argmax() == np.argmax(offered)


def _arrays(table: LabelledTable) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    return table.features, table.labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_intercept_is_a_last_feature_of_ones(dtype: type[np.float32] | type[np.float64]) -> None:
    table = numbered([0, 1, 1, 2])
    table = LabelledTable(features=table.features.astype(dtype), labels=table.labels)
    plain, more = ClassPairs(table=table), ClassPairs(table=table, intercept=True)
    assert (plain.dim, more.dim) == (2, 3)
    for a, b in zip(drawn(plain), drawn(more), strict=True):
        assert a.arms.dtype == b.arms.dtype == dtype
        assert np.array_equal(a.arms, b.arms[..., :-1])
        assert (b.arms[..., -1] == 1).all()


def test_the_truth_is_not_known() -> None:
    assert drawn(ClassPairs(dataset="iris"), 1)[0].truth is None


def test_text_is_sorted_by_letters() -> None:
    table = numbered(["pear", "apple", "apple", "fig"])
    assert ClassPairs(table=table).pairs(seed=0) == [
        Pair("apple", "fig"),
        Pair("apple", "pear"),
        Pair("fig", "pear"),
    ]


def test_a_file_with_groups(tmp_path: Path) -> None:
    path = tmp_path / "shops.csv"
    frame = pl.DataFrame(
        {
            "row": range(8),
            "shop": ["n", "n", "n", "s", "s", "s", "s", "w"],
            "kind": ["a", "b", "b", "b", "c", "d", "c", "a"],
        }
    )
    frame.write_csv(path)
    environment = ClassPairs(file=str(path), label="kind", group="shop")
    assert (environment.n_tasks, environment.dim) == (4, 1)
    assert environment.pairs(seed=0) == [
        Pair("a", "b", "n"),
        Pair("b", "c", "s"),
        Pair("b", "d", "s"),
        Pair("c", "d", "s"),
    ]
    for asked in drawn(environment):
        rows = rows_of(asked)
        assert set(rows[0]) <= {0, 1, 2}
        assert set(rows[1:].ravel()) <= {3, 4, 5, 6}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DigitPairs(n_tasks=46), "from 1 to the 45 pairs of classes, got 46"),
        (lambda: DigitPairs(n_tasks=0), "from 1 to the 45 pairs"),
        (lambda: MNISTPairs(n_tasks=46), "from 1 to the 45 pairs"),
        (lambda: ClassPairs(dataset="iris", n_tasks=4), "from 1 to the 3 pairs"),
        (lambda: ClassPairs(dataset="iris", n_tasks=-1), "from 1 to the 3 pairs"),
        (lambda: DigitPairs(noise_std=-1.0), "noise_std"),
        (lambda: DigitPairs(noise_std=float("nan")), "noise_std"),
        (ClassPairs, "give a dataset or a file"),
        (lambda: ClassPairs(dataset="iris", file="x.csv"), "got 2 of them"),
        (lambda: ClassPairs(dataset="iris", label="kind"), "columns of a file"),
        (lambda: ClassPairs(file="x.csv"), "a file needs label"),
        (lambda: ClassPairs(dataset="irish"), "choose from breast_cancer"),
    ],
)
def test_parameters_out_of_their_bounds_are_refused(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (numbered([1, 1, 1]), "all rows are of one"),
        (numbered([1, 2, 2], ["a", "b", "b"]), "no group has rows of two"),
        (numbered(range(5000)), "is the label a number and not a class"),
        (
            LabelledTable(features=np.eye(2), labels=np.array(["a", 1], object)),
            "labels of several types",
        ),
    ],
)
def test_tables_without_usable_pairs_are_refused(table: LabelledTable, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ClassPairs(table=table)


def test_a_class_of_one_row_and_constant_features_are_fine() -> None:
    environment = ClassPairs(table=numbered([5, 9]))
    assert {tuple(sorted(rows_of(asked)[0])) for asked in drawn(environment)} == {(0, 1)}
    trace = simulate(Ridge(dim=2, n_tasks=1), environment, 30, 0)
    assert np.isfinite(trace.regret).all()


def test_mnist_is_not_loaded_before_rounds_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COBANDITS_CACHE", str(tmp_path))
    environment = MNISTPairs(n_tasks=10, intercept=True)
    assert (environment.n_tasks, environment.dim) == (10, 785)
    with pytest.raises(DataError, match="cobandits data fetch mnist"):
        next(environment.rounds(1, seed=0))


def test_mnist_keeps_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    images = rng.random((40, 784), dtype=np.float32)
    table = LabelledTable(features=images, labels=np.arange(40) % 10)
    monkeypatch.setattr(datasets, "mnist", lambda: table)
    asked = next(MNISTPairs().rounds(1, seed=0))
    assert asked.arms.shape == (45, 2, 784)
    assert asked.arms.dtype == np.float32


def test_environments_go_to_other_processes() -> None:
    environment = ClassPairs(dataset="wine", noise_std=0.1)
    copy = pickle.loads(pickle.dumps(environment))
    assert copy == environment
    assert same(drawn(copy, 3), drawn(environment, 3))


def test_environments_are_found_by_name() -> None:
    found = available()
    assert (found["digits"], found["mnist"], found["classification"]) == (
        DigitPairs,
        MNISTPairs,
        ClassPairs,
    )


def test_ridge_regression_soon_tells_digits_apart() -> None:
    mistakes = {}
    for intercept in (False, True):
        environment = DigitPairs(intercept=intercept)
        policy = Ridge(dim=environment.dim, n_tasks=45, ridge=1.0)
        trace = simulate(policy, environment, 250, 0)
        mistakes[intercept] = trace.regret_per_task
        assert trace.regret_per_task < 5  # random: 125
        assert trace.regret[-50:].mean() < 0.03
    assert mistakes[True] < mistakes[False]
