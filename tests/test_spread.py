"""Tasks in shards: every fit is that of all tasks in one place, and only sums leave a shard."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars
import pytest

from cobandits import estimators
from cobandits.cluster.local import LocalNodes
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, Estimator, LowRank, TraceNorm, tracenorm
from cobandits.spread_estimate import SpreadEstimate
from cobandits.tasks import SpreadTasks, TaskRows, TaskStatistics
from cobandits.tasks.columns import Columns
from cobandits.tasks.programs import Expression
from cobandits.tasks.scratch import OnDisk
from cobandits.tasks.shards import InMemory, Recipe, Shard
from cobandits.tasks.sources import parquet_shards
from tests.sharding import Spy, shards
from tests.support import NAMES, cost_of, drawn, make

RANK = 2
MORE: dict[str, Estimator] = {  # what an estimator does only if it is asked to
    "sample splitting": AltGDMin(rank=RANK, iterations=2, split=True),
    "squares": AltGDMin(rank=RANK, start_matrix="squares", iterations=20),
    "rank by cross-validation": LowRank(),
    "empirical ridge": LowRank(rank=RANK, ridge="auto"),
    "penalty by cross-validation": TraceNorm(penalty="cv", n_folds=2, iterations=3),
}
CASES = {**{name: make(name, RANK, iterations=40) for name in NAMES}, **MORE}
every = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def _few_penalties(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have cross-validation try few penalties, roughly: here as on the nodes."""
    monkeypatch.setattr(tracenorm, "_PATH", 4)
    monkeypatch.setattr(tracenorm, "_PATH_ITERATIONS", 3)


def problem_of(*, unequal: bool = True, T: int = 13) -> TaskRows:
    """Return tasks with different numbers of rows, all enough to be split in five."""
    tasks = drawn(d=8, T=T, r=RANK, n=20, noise=0.1).tasks
    kept = np.arange(tasks.n_rows) % 20 < 12 + tasks.owners % 9 if unequal else tasks.owners >= 0
    return tasks.select(kept)


def spread(tasks: TaskRows, n: int) -> SpreadTasks:
    return SpreadTasks.on(LocalNodes.of(shards(tasks, n)))


def gathered(found: Estimate) -> Estimate:
    assert isinstance(found, SpreadEstimate)
    return found.gather()


@pytest.mark.parametrize(
    ("case", "n"), [(case, n) for case in CASES for n in (1, 3, 7) if n == 3 or case in NAMES]
)
def test_a_fit_over_shards_is_that_of_one_place(case: str, n: int) -> None:
    tasks = problem_of()
    plain = CASES[case].fit(tasks, rng=3)
    found = gathered(CASES[case].fit(spread(tasks, n), rng=3))
    assert found.labels == plain.labels
    assert found.status == plain.status
    size = np.linalg.norm(plain.theta)
    assert np.linalg.norm(found.theta - plain.theta) <= 1e-12 * size
    np.testing.assert_allclose(found.history.costs, plain.history.costs, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_shards_does_not_matter_to_the_cost(name: str) -> None:
    tasks = problem_of()
    plain = CASES[name].fit(tasks)
    parts = shards(tasks, 7)[::-1]
    found = gathered(CASES[name].fit(SpreadTasks.on(LocalNodes.of(parts))))
    costs = [cost_of(tasks, fit.theta_of(tasks.labels)) for fit in (plain, found)]
    assert costs[1] == pytest.approx(costs[0], rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_statistics_in_shards_are_fitted_too(name: str) -> None:
    tasks = problem_of()
    parts = [part.statistics() for part in shards(tasks, 3, empty=False)]
    chosen = make(name, RANK, iterations=40, ridge=0.1, penalty=0.01)
    plain = chosen.fit(tasks.statistics())
    found = gathered(chosen.fit(SpreadTasks.on(LocalNodes.of(parts))))
    assert np.linalg.norm(found.theta - plain.theta) <= 1e-10 * np.linalg.norm(plain.theta)


@every
def test_nothing_that_grows_with_the_tasks_leaves_a_shard(case: str) -> None:
    """A number per task would be 19200 bytes out or 6400 back; a (d, d) matrix is 512."""
    tasks = drawn(d=8, T=2400, r=RANK, n=12, noise=0.1).tasks
    chosen = CASES[case]
    if case in NAMES:
        chosen = make(case, RANK, iterations=5)
    nodes = Spy(LocalNodes.of(shards(tasks, 3, empty=False)), out=19_200, back=2000)
    found = chosen.fit(SpreadTasks.on(nodes), rng=0)
    assert found.status.message
    with pytest.raises(AssertionError, match="a node sent"):
        gathered(found)


@pytest.mark.parametrize("name", ["altgdmin", "lowrank", "moments", "pooled"])
def test_no_call_moves_more_than_an_iteration_does(name: str) -> None:
    """Beside 16 d r + 8 r^2 there are 4 kB for the program; a (d, d) matrix would be 29 kB."""
    d, r = 60, 1 if name == "pooled" else RANK
    parts = shards(drawn(d=d, T=300, r=RANK, n=9, noise=0.1).tasks, 3)
    most = 1.05 * (16 * d * r + 8 * r**2) + 4000
    spy = Spy(LocalNodes.of(parts), out=10**6, back=10**6, both=most)
    found = make(name, RANK, iterations=3).fit(SpreadTasks.on(spy), rng=0)
    assert found.status.message


class Forgetful(LocalNodes):
    """Nodes of which one is made again from its recipe before a call."""

    left = 0

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        self.left -= 1
        if self.left == 0:
            self._shards[2] = pickle.loads(pickle.dumps(self._shards[2]))
        return super().call(function, *arguments)


@pytest.mark.parametrize("lost_at", [0, 1, 2, 3])
def test_a_matrix_in_pieces_has_the_bits_of_the_whole(lost_at: int) -> None:
    """Though a node is lost on the way, before any piece."""
    parts = shards(drawn(d=40, T=30, r=RANK, n=9).tasks, 3)
    nodes = Forgetful([InMemory(part) for part in parts])
    over = SpreadTasks.on(nodes)
    over.limit_messages(1)  # pieces of 208 numbers, 820 in a triangle
    nodes.left = lost_at
    whole = parts[0].gram() + parts[2].gram()
    assert over.gram().tobytes() == whole.tobytes()
    columns = cast("Columns", over.moments())
    plain = [part.moments() for part in (parts[0], parts[2])]
    nodes.left = lost_at
    other = columns.over_tasks(cast("Columns", columns + 1.0))  # 1600 numbers, all of them
    expected = sum(M @ (M + 1.0).T for M in plain)
    assert other.tobytes() == np.asarray(expected).tobytes()
    assert nodes.left <= lost_at - 3  # there were several calls


def test_a_factor_of_columns_stays_here() -> None:
    """Products are taken from the left, so that a (d, d) factor is never sent."""
    tasks = drawn(d=40, T=30, r=RANK, n=9).tasks
    rng = np.random.default_rng(0)
    S, Q = rng.standard_normal((40, 40)), rng.standard_normal((40, 5))
    over = SpreadTasks.on(Spy(LocalNodes.of(shards(tasks, 3)), out=4000, back=4000))
    over.limit_messages(2)
    M, X = S @ over.moments(), S @ tasks.moments()
    np.testing.assert_allclose(M @ (M.T @ Q), X @ (X.T @ Q), rtol=1e-9)
    np.testing.assert_allclose(M @ M.T, X @ X.T, rtol=1e-9, atol=1e-9 * np.abs(X @ X.T).max())
    P = Q.T @ M
    np.testing.assert_allclose(P @ P.T, Q.T @ X @ X.T @ Q, rtol=1e-9)


@pytest.mark.parametrize("name", ["lowrank", "altgd", "tracenorm"])
def test_a_start_goes_on_where_it_was(name: str) -> None:
    tasks = problem_of()
    over = spread(tasks, 3)
    first = CASES[name].fit(over)
    plain = CASES[name].fit(tasks, start=gathered(first))
    for start in (first, gathered(first)):
        found = gathered(CASES[name].fit(over, start=start))
        assert np.linalg.norm(found.theta - plain.theta) <= 1e-9 * np.linalg.norm(plain.theta)


def test_a_start_of_other_nodes_is_refused() -> None:
    tasks = problem_of()
    first = CASES["altgd"].fit(spread(tasks, 3))
    with pytest.raises(DataError, match="gather"):
        CASES["altgd"].fit(spread(tasks, 3), start=first)


def test_the_truth_may_be_given_as_columns() -> None:
    problem = drawn(d=8, T=13, r=RANK, n=20)
    over = spread(problem.tasks, 3)
    truth = over.columns_of(problem.tasks.labels, problem.theta)
    errors = CASES["altgdmin"].fit(over, truth=truth).history.errors
    expected = CASES["altgdmin"].fit(problem.tasks, truth=problem.theta).history.errors
    assert errors is not None
    assert errors.tolist() == pytest.approx(expected, rel=1e-9)
    with pytest.raises(TypeError, match="has a column per task"):
        CASES["altgdmin"].fit(over, truth=problem.theta)


def test_an_estimate_stays_on_its_nodes(tmp_path: Path) -> None:
    tasks = problem_of()
    plain = CASES["lowrank"].fit(tasks)
    found = CASES["lowrank"].fit(spread(tasks, 3))
    assert isinstance(found, SpreadEstimate)
    np.testing.assert_allclose(found.singular_values, plain.singular_values, rtol=1e-10)
    rows, labels = tasks.rows[:5], [4, 2, 4, 0, 12]
    np.testing.assert_allclose(found.predict(rows, labels), plain.predict(rows, labels), rtol=1e-9)
    some = [*labels[:-1], "new"]
    np.testing.assert_allclose(
        found.predict(rows, some, strict=False), plain.predict(rows, some, strict=False), rtol=1e-9
    )
    np.testing.assert_allclose(found.theta_of([3, "new"])[:, 1], 0)
    with pytest.raises(DataError, match="not among the 13 fitted tasks: \\['new'\\]"):
        found.only([3, "new"])
    found.save(tmp_path / "fit")
    loaded = SpreadEstimate.load(tmp_path / "fit")
    np.testing.assert_allclose(loaded.theta_of(tasks.labels), plain.theta, rtol=0, atol=1e-10)
    assert loaded.status == plain.status


@pytest.mark.parametrize("on_disk", [False, True])
def test_rows_are_predicted_where_they_are(on_disk: bool, tmp_path: Path) -> None:
    tasks = problem_of()
    paths = written(tasks, tmp_path / "rows", 4)
    files = parquet_shards(paths, 2, task="who", reward="y")
    recipes = [OnDisk(one, str(tmp_path)) if on_disk else one for one in files]
    over = SpreadTasks.on(Spy(LocalNodes(recipes), out=4000, back=1500))
    found = CASES["lowrank"].fit(over, rng=0)
    assert isinstance(found, SpreadEstimate)
    found.predict_there(tmp_path / "there")
    table = polars.read_parquet(sorted((tmp_path / "there").glob("predictions-*.parquet")))
    labels = [f"task {tasks.labels[t]}" for t in tasks.owners]
    assert table["task"].to_list() == labels
    np.testing.assert_array_equal(table["reward"], tasks.rewards)
    plain = CASES["lowrank"].fit(tasks, rng=0).predict(tasks.rows, tasks.owners)
    np.testing.assert_allclose(table["prediction"], plain, rtol=1e-9, atol=1e-9)
    held_out = next(iter(over.cross_validation(4, np.random.default_rng(0))))[1]
    found.predict_there(tmp_path / "fold", held_out)
    fold = polars.read_parquet(sorted((tmp_path / "fold").glob("*.parquet")))
    assert len(fold) == held_out.n_rows
    by_reward = dict(zip(table["reward"], table["prediction"], strict=True))
    expected = [by_reward[reward] for reward in fold["reward"]]
    np.testing.assert_allclose(fold["prediction"], expected, rtol=1e-9, atol=1e-9)
    with pytest.raises(DataError, match="other nodes"):
        found.predict_there(tmp_path, spread(tasks, 2))


def test_columns_refuse_what_would_bring_them_here() -> None:
    over = spread(problem_of(), 3)
    counts = cast("Columns", over.counts)
    with pytest.raises(TypeError, match="stay on their nodes"):
        np.asarray(counts)
    with pytest.raises(TypeError, match="no implementation found"):
        np.median(counts)
    assert int(counts.sum()) == over.n_rows
    assert (counts.min(), counts.max()) == (12, 20)
    np.testing.assert_array_equal(counts.gather(), problem_of().counts)


def test_a_shard_is_pickled_as_its_recipe_and_what_it_lost_is_computed_again() -> None:
    tasks = problem_of()
    nodes = LocalNodes.of(shards(tasks, 3))
    over = SpreadTasks.on(nodes)
    W = over.kept(over.repeated(np.arange(2.0)))
    for _ in range(3):
        W = over.kept(W + 1)
        assert float(W.sum()) > 0
    expected = W.sum()
    nodes._shards = [pickle.loads(pickle.dumps(shard)) for shard in nodes._shards]
    assert not any(any(shard.memories) for shard in nodes._shards)
    assert W.sum() == expected == 13 * (2 * 3 + 1)
    big = Shard(InMemory(tasks), 0)
    big.memories[0][0] = np.zeros(10**6)
    assert len(pickle.dumps(big)) < 2 * tasks.nbytes


def test_nodes_forget_what_is_no_longer_used() -> None:
    nodes = LocalNodes.of(shards(problem_of(), 3, empty=False))
    over = SpreadTasks.on(nodes)
    found = CASES["altgd"].fit(over)
    assert found.status.iterations > 5
    over.gram()  # carries the news
    held = [len(memory) for shard in nodes._shards for memory in shard.memories]
    assert held == [1, 1, 1]  # the weights of the estimate
    del found
    over.gram()
    assert not any(memory for shard in nodes._shards for memory in shard.memories)


def test_shards_that_do_not_fit_together_are_refused() -> None:
    parts = [drawn(d=d, T=4, n=9).tasks for d in (8, 9)]
    with pytest.raises(DataError, match="same features"):
        SpreadTasks.on(LocalNodes.of(parts))
    empty = SpreadTasks.on(LocalNodes.of([TaskRows(3), TaskRows(3)]))
    with pytest.raises(DataError, match="no rows to fit"):
        LowRank(rank=1).fit(empty)


def test_statistics_in_shards_refuse_what_needs_rows() -> None:
    over = SpreadTasks.on(LocalNodes.of([TaskStatistics.of(problem_of())]))
    with pytest.raises(DataError, match="needs rows"):
        estimators.Independent().fit(over)
    with pytest.raises(ConfigurationError, match="the fit needs"):
        LowRank(rank=3).fit(over, start=LowRank(rank=2).fit(over))


# ---- rows in files


def written(tasks: TaskRows, folder: Path, n_files: int) -> list[str]:
    """Write tasks with text labels to Parquet files, each with whole tasks."""
    folder.mkdir()
    names = [f"x{k}" for k in range(tasks.dim)]
    for number, part in enumerate(shards(tasks, n_files, empty=False)):
        labels = [f"task {part.labels[t]}" for t in part.owners]
        frame = polars.DataFrame(part.rows, schema=names)
        frame = frame.with_columns(y=part.rewards, who=polars.Series(labels))
        frame.write_parquet(folder / f"{number:02d}.parquet")
    return sorted(map(str, folder.glob("*.parquet")))


@pytest.mark.parametrize(
    ("case", "on_disk"), [*((case, True) for case in CASES), ("lowrank", False)]
)
def test_rows_in_files_are_fitted_like_those_in_memory(
    case: str, on_disk: bool, tmp_path: Path
) -> None:
    tasks = problem_of()
    paths = written(tasks, tmp_path / "rows", 6)
    files = parquet_shards(paths, 2, task="who", reward="y")
    recipes: list[Recipe] = list(files)
    if on_disk:
        recipes = [OnDisk(part, str(tmp_path)) for part in files]
    over = SpreadTasks.on(LocalNodes(recipes))
    assert over.feature_names == tuple(f"x{k}" for k in range(8))
    found = gathered(CASES[case].fit(over, rng=3))
    plain = CASES[case].fit(tasks, rng=3)
    assert found.labels == tuple(f"task {t}" for t in plain.labels)
    assert np.linalg.norm(found.theta - plain.theta) <= 1e-12 * np.linalg.norm(plain.theta)


def test_scratch_files_go_with_their_shard(tmp_path: Path) -> None:
    paths = written(problem_of(), tmp_path / "rows", 3)
    (source,) = parquet_shards(paths, 1, task="who", reward="y")
    nodes = LocalNodes([OnDisk(source, str(tmp_path))])
    (scratch,) = tmp_path.glob("cobandits-*")
    assert len(list(scratch.iterdir())) == 3
    assert len(pickle.dumps(nodes._shards[0])) < 1500  # a recipe
    del nodes
    gc.collect()
    assert not scratch.exists()


def test_tasks_that_are_scattered_over_shards_are_refused() -> None:
    tasks = problem_of(T=600)
    odd = np.arange(tasks.n_rows) % 2 == 1
    with pytest.raises(DataError, match="partition the rows by task"):
        SpreadTasks.on(LocalNodes.of([tasks.select(odd), tasks.select(~odd)]))


def test_nodes_here_get_arrays_as_nodes_elsewhere_do() -> None:
    """A view with gaps would be rounded otherwise than what arrives at another process."""
    view = np.arange(24.0).reshape(4, 6)[:, ::2]
    for given in (view, view.T):
        sent = Expression(np.matmul, given).arguments[0]
        assert isinstance(sent, np.ndarray)
        assert sent.flags.c_contiguous
        np.testing.assert_array_equal(sent, given)
    whole = np.asfortranarray(view)
    assert Expression(np.matmul, whole).arguments[0] is whole
