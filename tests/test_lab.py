"""Experiments: cells that depend on nothing else, run anywhere, tuned on trials of their own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import threadpoolctl
from numpy.typing import NDArray

from cobandits import environments, lab, policies
from cobandits.environments import Synthetic
from cobandits.errors import CobanditsError, ConfigurationError, DataError, RankError
from cobandits.lab import (
    Candidate,
    Cell,
    Estimation,
    Experiment,
    Record,
    Simulation,
    in_order,
    read_experiments,
    run_all,
    tune,
    tuned,
)
from cobandits.lab import tuning as tuning_module
from cobandits.policies import Ridge, Thompson
from cobandits.simulate import simulate
from tests.records import timeless

SIZE = {"dim": 6, "n_tasks": 5, "rank": 2, "noise_std": 0.1}
CELL = Simulation(
    environment="synthetic",
    environment_parameters=SIZE,
    policy="thompson",
    policy_parameters={"scale": 0.2, "ridge": 1.0},
    rounds=12,
    seed=3,
    trial=1,
)


def experiment(*names: str, **changes: Any) -> Experiment:
    """Return a small experiment with these policies."""
    plain = Experiment(
        environment="synthetic",
        environment_parameters=SIZE,
        candidates=tuple(Candidate(name=name, label=name) for name in names),
        rounds=12,
        trials=2,
        seed=3,
    )
    return replace(plain, **changes)


def same(a: Record, b: Record) -> bool:
    """Tell whether two records are the same bit for bit, but for times."""
    return repr(timeless(a)) == repr(timeless(b))


# ---- environments.make


def test_an_environment_is_made_of_names_and_values() -> None:
    assert environments.make("synthetic", SIZE) == Synthetic(
        dim=6, n_tasks=5, rank=2, noise_std=0.1
    )


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("synthetc", {}, ["synthetc", "synthetic", "digits"]),
        ("synthetic", {**SIZE, "tasks": 4}, ["tasks", "n_tasks", "noise_std"]),
        ("synthetic", {"dim": 4}, ["n_tasks", "rank"]),
        ("synthetic", {**SIZE, "dim": "six"}, ["dim", "whole number", "'six'"]),
        ("synthetic", {**SIZE, "dim": 6.5}, ["dim", "whole number", "6.5"]),
        ("synthetic", {**SIZE, "dim": True}, ["dim", "True"]),
        ("synthetic", {**SIZE, "unequal": 1}, ["unequal", "true or false", "1"]),
        ("synthetic", {**SIZE, "condition": "high"}, ["condition", "number or nothing"]),
        ("synthetic", {**SIZE, "rank": 7}, ["rank", "min(dim, tasks) = 5"]),
        ("replay", {"file": 3}, ["file", "text", "3"]),
    ],
)
def test_what_no_environment_can_be_made_of_is_refused(
    name: str, parameters: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        environments.make(name, parameters)
    assert all(word in str(refused.value) for word in words)


def test_whole_numbers_are_numbers_and_none_is_none() -> None:
    made = environments.make("synthetic", {**SIZE, "noise_std": 1, "condition": None})
    assert made.noise_std == 1


# ---- cells


def test_the_order_of_parameters_does_not_change_a_cell() -> None:
    turned = replace(
        CELL,
        environment_parameters=dict(sorted(SIZE.items(), reverse=True)),
        policy_parameters=dict(sorted(CELL.policy_parameters.items())),
    )
    assert list(turned.environment_parameters) != list(CELL.environment_parameters)
    assert list(turned.policy_parameters) != list(CELL.policy_parameters)
    assert turned.identity == CELL.identity


def test_every_other_change_makes_another_cell() -> None:
    changes: dict[str, Any] = {
        "environment": "digits",
        "environment_parameters": {**SIZE, "dim": 7},
        "policy": "linucb",
        "policy_parameters": {"scale": 0.2, "ridge": 1.5},
        "rank": 2,
        "rounds": 13,
        "seed": 4,
        "trial": 2,
    }
    assert set(changes) == set(asdict(CELL))
    others = {replace(CELL, **{key: value}).identity for key, value in changes.items()}
    others.add(replace(CELL, policy_parameters={"scale": 0.2}).identity)
    assert len(others | {CELL.identity}) == len(changes) + 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object()])
def test_what_json_cannot_say_has_no_identity(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="thompson"):
        replace(CELL, policy_parameters={"scale": value}).identity  # noqa: B018


def test_a_cell_is_what_simulate_does() -> None:
    policy = Thompson(dim=6, n_tasks=5, scale=0.2, ridge=1.0)
    environment = Synthetic(dim=6, n_tasks=5, rank=2, noise_std=0.1)
    record, trace = CELL.run(), simulate(policy, environment, 12, 3, trial=1)
    assert record["regret_per_task"] == trace.regret_per_task
    assert record["mean_reward"] == trace.mean_reward
    assert record["curve"] == trace.cumulative.tolist()
    assert record["decisions"] == 5 * 12


@pytest.mark.parametrize(("told", "expected"), [(None, 2), (3, 3)])
def test_policies_are_told_the_rank(told: int | None, expected: int) -> None:
    cell = replace(CELL, policy="lrrl", policy_parameters={}, rank=told)
    policy = cell.make_policy(environments.make("synthetic", SIZE))
    assert isinstance(policy, policies.LRRL)
    assert policy.rank == expected


def test_the_told_rank_is_never_more_than_there_can_be() -> None:
    assert lab.told_rank("synthetic", SIZE) is None
    assert lab.told_rank("digits", {}) == 4
    assert lab.told_rank("digits", {"n_tasks": 3}) == 3
    assert lab.told_rank("classification", {"dataset": "iris"}) == 3


# ---- running


@dataclass(frozen=True, kw_only=True)
class Threads(Cell):
    """Tells how many threads linear algebra has where it runs, also for what is loaded later."""

    kind: ClassVar[str] = "threads"

    @property
    def steps(self) -> int:
        return 1

    def measure(self, progress: object = None) -> Record:
        pools = threadpoolctl.threadpool_info()
        later = int(os.environ.get("OPENBLAS_NUM_THREADS", "0"))
        return {"threads": [*(pool["num_threads"] for pool in pools), later]}


MIXED: list[Cell] = [
    *experiment("moments", "thompson", "mtlr-oful").cells(),
    Estimation(environment_parameters=SIZE, n_rows=9, estimator="altgd", trial=4),
    Estimation(environment_parameters=SIZE, n_rows=9, estimator="moments", trial=4),
]


class Beside(NamedTuple):
    records: dict[str, Record]
    seen: list[tuple[int, int, str]]  # what progress was told


@pytest.fixture(scope="module")
def beside() -> Beside:
    """Return what two processes make of the cells above."""
    seen: list[tuple[int, int, str]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OPENBLAS_NUM_THREADS", "2")
        cells = [*MIXED, Threads(trial=0), Threads(trial=1)]
        results = list(run_all(cells, jobs=2, progress=lambda *step: seen.append(step)))
    return Beside({cell.identity: record for cell, record in results}, seen)


def test_results_do_not_depend_on_the_processes_or_the_order(beside: Beside) -> None:
    alone = list(run_all(MIXED))
    again = {cell.identity: record for cell, record in run_all(MIXED[::-1])}
    assert [cell for cell, _ in alone] == MIXED
    assert any(record.get("fit_rounds") for _, record in alone)
    assert len(again) == len(MIXED)
    assert len(beside.records) == len(MIXED) + 2
    for cell, record in alone:
        assert record["identity"] == cell.identity
        assert same(record, again[cell.identity])
        assert same(record, beside.records[cell.identity])


def test_progress_of_processes_ends_at_the_end(beside: Beside) -> None:
    total = 6 * 12 + 2 * 9 + 2
    done = [0, *(step[0] for step in beside.seen)]
    assert sorted(b - a for a, b in itertools.pairwise(done)) == [1, 1, 9, 9, *[12] * 6]
    assert {step[1] for step in beside.seen} == {total}
    assert {str(cell) for cell in MIXED} < {text for *_, text in beside.seen}


def test_linear_algebra_has_one_thread_in_every_process(beside: Beside) -> None:
    told = [record["threads"] for record in beside.records.values() if "threads" in record]
    assert len(told) == 2
    for threads in told:
        assert isinstance(threads, list)
        assert len(threads) > 1
        assert set(threads) == {1}


def test_equal_cells_run_once_and_in_order_gives_each_its_record() -> None:
    other = replace(CELL, trial=2)
    cells = [CELL, other, replace(CELL), other]
    assert [cell.trial for cell, _ in run_all(cells)] == [1, 2]
    backwards = (result for result in list(run_all(cells))[::-1])
    given = list(in_order(cells, backwards))
    assert [cell for cell, _ in given] == cells
    assert all(record["identity"] == cell.identity for cell, record in given)


GiveOut = Callable[[list[Simulation]], list[tuple[Simulation, ...]]]


@pytest.fixture
def give_out(monkeypatch: pytest.MonkeyPatch) -> GiveOut:
    """Return what runs cells in two processes and returns the batches, in the order of giving."""
    batches: list[tuple[Simulation, ...]] = []
    done = 0

    class Pool:
        """Has done at once what it is given, and has at most eight batches per process."""

        def __init__(self, jobs: int, **options: object) -> None:
            self.jobs = jobs

        def submit(self, call: object, batch: tuple[Simulation, ...]) -> Future[list[Record]]:
            assert len({cell.world for cell in batch}) == 1
            batches.append(batch)
            assert sum(map(len, batches)) - done <= 8 * self.jobs * len(batch)
            future: Future[list[Record]] = Future()
            future.set_result([{} for _ in batch])
            return future

        def shutdown(self) -> None:
            pass

    def run(cells: list[Simulation]) -> list[tuple[Simulation, ...]]:
        nonlocal done
        for _ in run_all(cells, jobs=2):
            done += 1
        return batches

    monkeypatch.setattr("cobandits.lab.runner.ProcessPoolExecutor", Pool)
    return run


@pytest.mark.parametrize("n_cells", [2, 30, 33, 50, 64, 400])
def test_many_cells_are_given_out_a_few_at_a_time_and_each_once(
    n_cells: int, give_out: GiveOut
) -> None:
    cells = [replace(CELL, rounds=1 + n % 7, trial=n) for n in range(n_cells)]
    order = [*chain(*give_out(cells))]
    assert sorted(cell.trial for cell in order) == list(range(n_cells))
    assert order[0].rounds == max(cell.rounds for cell in cells)
    assert order[-1].rounds == 1


def test_long_cells_come_first_short_ones_last_and_between_they_are_mixed(
    give_out: GiveOut,
) -> None:
    cells = [replace(CELL, rounds=1 + n % 7, trial=n) for n in range(400)]
    digits = Simulation(environment="digits", policy="random", rounds=7)
    mnist = Simulation(environment="mnist", policy="random", rounds=7)
    order = [*chain(*give_out([*cells, mnist, digits]))]
    assert order[:2] == [mnist, digits]
    assert {cell.rounds for cell in order[2:40]} == {7}
    assert {cell.rounds for cell in order[-40:]} == {1}
    assert len({cell.rounds for cell in order[41:61]}) > 3


def test_cells_of_one_world_are_run_together(give_out: GiveOut) -> None:
    policies = ("random", "ridge", "thompson")
    cells = [replace(CELL, policy=name, trial=n) for name in policies for n in range(100)]
    batches = give_out(cells)
    assert len(batches) == 100
    assert all({cell.policy for cell in batch} == set(policies) for batch in batches)


def test_few_cells_are_run_one_by_one_so_that_all_processes_have_work(give_out: GiveOut) -> None:
    policies = ("random", "ridge", "thompson")
    cells = [replace(CELL, policy=name, trial=n) for name in policies for n in (0, 50)]
    assert [len(batch) for batch in give_out(cells)] == [1] * 6


def test_a_world_that_was_met_before_is_the_same() -> None:
    cells = [replace(CELL, policy=name, policy_parameters={}) for name in ("ridge", "random")]
    fresh = [cell.run() for cell in cells]
    other = replace(cells[0], trial=9).run()
    again = [cell.run() for cell in reversed(cells)]
    assert same(fresh[0], again[1])
    assert same(fresh[1], again[0])
    assert other["regret_per_task"] != fresh[0]["regret_per_task"]


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    def fill(n_groups: int) -> None:
        rows = [f"{k % 7},{'ab'[k % 2]},{k // 2 % n_groups}" for k in range(60)]
        (tmp_path / "rows.csv").write_text("\n".join(["x,kind,town", *rows]))

    said = {"file": str(tmp_path / "rows.csv"), "label": "kind", "group": "town"}
    cell = replace(CELL, environment="classification", environment_parameters=said, rounds=5)
    fill(2)
    before = cell.run()
    fill(3)
    assert (before["decisions"], cell.run()["decisions"]) == (2 * 5, 3 * 5)


def test_no_policy_can_change_what_the_next_one_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(_: Ridge, tasks: object, arms: NDArray[np.float64], *others: object) -> None:
        arms[:] = 0

    monkeypatch.setattr(Ridge, "learn", spoil)
    with pytest.raises(ValueError, match="read-only"):
        replace(CELL, policy="ridge", policy_parameters={}).run()


def test_rounds_that_have_no_room_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = CELL.run()
    monkeypatch.setattr("cobandits.lab.cells._ROOM", 1000)
    first = replace(CELL, trial=5).run()
    again, other = replace(CELL, trial=5).run(), CELL.run()
    assert same(first, again)
    assert same(kept, other)


def test_trials_and_seeds_differ() -> None:
    cells = [CELL, replace(CELL, trial=2), replace(CELL, seed=4), replace(CELL, trial=-1)]
    regrets = {record["regret_per_task"] for _, record in run_all(cells)}
    assert len(regrets) == 4


def test_linear_algebra_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def look(cell: Cell, progress: object = None) -> Record:
        threads.extend(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
        return {}

    monkeypatch.setattr(Simulation, "run", look)
    with threadpoolctl.threadpool_limits(2):
        before = {pool["filepath"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        list(run_all([CELL]))
        after = {pool["filepath"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    assert threads
    assert set(threads) == {1}
    assert {path: after[path] for path in before} == before
    assert 2 in before.values()


def test_progress_moves_within_cells_and_ends_at_the_end() -> None:
    seen: list[tuple[int, int, str]] = []
    cells = experiment("random", "ridge").cells()
    list(run_all(cells, progress=lambda *step: seen.append(step)))
    assert sorted({done for done, _, _ in seen}) == list(range(1, 4 * 12 + 1))
    assert [done for done, _, _ in seen] == sorted(done for done, _, _ in seen)
    assert {total for _, total, _ in seen} == {48}
    assert [text for text, _ in itertools.groupby(text for *_, text in seen)] == [
        str(cell) for cell in cells
    ]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_names_its_cell_and_takes_no_result_with_it(jobs: int) -> None:
    wrong = replace(CELL, policy="lrrl", policy_parameters={"rank": 9}, trial=5)
    seen: list[Record] = []
    with pytest.raises(ConfigurationError, match=r"lrrl:rank=9 on synthetic, trial 5: rank must"):
        seen.extend(record for _, record in run_all([CELL, wrong], jobs=jobs))
    if jobs == 1:
        assert same(seen[0], CELL.run())


@pytest.mark.parametrize(
    ("error", "kind"), [(DataError("odd"), DataError), (RankError("odd"), ConfigurationError)]
)
def test_errors_stay_in_their_tree(
    error: CobanditsError, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Simulation, "measure", _raising(error))
    with pytest.raises(kind, match=r"thompson.*trial 1: odd"):
        list(run_all([CELL]))


def test_a_bug_keeps_its_type_and_names_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Simulation, "measure", _raising(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError) as failed:
        list(run_all([CELL]))
    assert "trial=1" in failed.value.__notes__[0]


def _raising(error: Exception) -> Callable[..., Record]:
    def fail(cell: Cell, progress: object = None) -> Record:
        raise error

    return fail


@dataclass(frozen=True, kw_only=True)
class Dies(Threads):
    """Ends its process, as a system does that is short of memory."""

    kind: ClassVar[str] = "dies"

    def measure(self, progress: object = None) -> Record:
        os._exit(9)

    def __str__(self) -> str:
        return f"dies, trial {self.trial}"


def test_a_process_that_ends_is_told_with_its_cell() -> None:
    with pytest.raises(DataError, match=r"dies, trial \d: a process ended.*fewer jobs"):
        list(run_all([Dies(trial=0), Dies(trial=1)], jobs=2))


def test_no_jobs_are_refused_and_no_cells_are_nothing() -> None:
    with pytest.raises(ConfigurationError, match="jobs must be at least 1, got 0"):
        list(run_all([CELL], jobs=0))
    assert list(run_all([], jobs=2)) == []


# ---- tuning


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the trials of the cells that are run, as they come."""
    seen: list[int] = []

    run = Simulation.run

    def note(cell: Simulation, progress: Callable[[int, int], None] | None = None) -> Record:
        seen.append(cell.trial)
        return run(cell, progress)

    monkeypatch.setattr(Simulation, "run", note)
    return seen


def test_tuning_uses_negative_trials_alone(trials: list[int]) -> None:
    found, notes = tuned(experiment("thompson", "ridge", "random"))
    assert set(trials) == {-1, -2}
    assert [note.label for note in notes] == ["thompson", "ridge"]
    assert set(found.candidates[0].parameters) == {"scale", "ridge"}
    assert found.candidates[2] == experiment("random").candidates[0]
    assert {cell.trial for cell in found.cells()} == {0, 1}


def test_the_least_mean_regret_is_chosen() -> None:
    plain = experiment("ridge")
    note = tune(plain, plain.candidates[0])
    environment = Synthetic(dim=6, n_tasks=5, rank=2, noise_std=0.1)
    expected = {
        ridge: np.mean(
            [
                simulate(
                    Ridge(dim=6, n_tasks=5, ridge=ridge), environment, 12, 3, trial=trial
                ).regret.sum()
                / 5
                for trial in (-1, -2)
            ]
        )
        for ridge in Ridge.grid["ridge"]
    }
    tried = {parameters["ridge"]: regret for parameters, regret in note.tried}
    assert tried == pytest.approx(expected)
    assert note.parameters == {"ridge": min(expected, key=lambda ridge: expected[ridge])}


def test_given_parameters_are_not_tuned(trials: list[int]) -> None:
    given = Candidate(name="thompson", label="mine", parameters={"scale": 0.1})
    note = tune(experiment("random"), given)
    assert len(note.tried) == len(Thompson.grid["ridge"])
    assert set(note.parameters) == {"ridge"}
    full = replace(given, parameters={"scale": 0.1, "ridge": 2.0})
    trials.clear()
    whole = experiment("random", candidates=(full,))
    assert tuned(whole) == (whole, [])
    assert not trials


def test_the_full_product_is_tried() -> None:
    note = tune(experiment("thompson"), experiment("thompson").candidates[0])
    pairs = {(parameters["scale"], parameters["ridge"]) for parameters, _ in note.tried}
    assert pairs == set(itertools.product(*Thompson.grid.values()))


@pytest.mark.parametrize(
    ("regrets", "best", "edges"),
    [
        ([1.0, 2.0, 3.0], 0.1, ("ridge",)),
        ([2.0, 1.0, 3.0], 1.0, ()),
        ([3.0, 2.0, 1.0], 9.0, ("ridge",)),
    ],
)
def test_the_edge_of_the_grid_is_said(
    regrets: list[float], best: float, edges: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ridge, "grid", {"ridge": (0.1, 1.0, 9.0)})
    monkeypatch.setattr(tuning_module, "_means", lambda *_: regrets)
    note = tune(experiment("ridge"), experiment("ridge").candidates[0])
    assert note.parameters == {"ridge": best}
    assert note.edges == edges
    assert ("ridge is at the edge" in str(note)) == bool(edges)


def test_reported_trials_cannot_be_tuned_on() -> None:
    with pytest.raises(ConfigurationError, match=r"negative, got \[-1, 0\]"):
        tune(experiment("ridge"), experiment("ridge").candidates[0], trials=(-1, 0))


# ---- experiments


def test_cells_come_trial_by_trial() -> None:
    cells = experiment("random", "ridge").cells()
    assert [(cell.trial, cell.policy) for cell in cells] == [
        (0, "random"),
        (0, "ridge"),
        (1, "random"),
        (1, "ridge"),
    ]
    assert len({cell.identity for cell in cells}) == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"candidates": ()}, "at least one policy"),
        ({"candidates": experiment("ridge").candidates * 2}, "two policies are called ridge"),
    ],
)
def test_experiments_that_cannot_be_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        experiment("ridge", **changes)


TOML = """
name = "mine"
rounds = 12
trials = 2
seed = 3
rank = 1
tune = true
[environment]
name = "synthetic"
dim = 6
n_tasks = 5
rank = 2
noise_std = 0.1
[[policy]]
name = "ridge"
[[policy]]
name = "ridge"
label = "weak"
ridge = 0.5
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_all_of_an_experiment(tmp_path: Path) -> None:
    weak = Candidate(name="ridge", label="weak", parameters={"ridge": 0.5})
    expected = experiment("ridge", name="mine", rank=1, tune=True)
    assert read_experiments(written(tmp_path / "a.toml", TOML)) == [
        replace(expected, candidates=(*expected.candidates, weak))
    ]


def test_every_combination_of_what_varies_is_an_experiment(tmp_path: Path) -> None:
    text = TOML.replace("[environment]", "[vary]\nn_tasks = [3, 4]\ndim = [7]\n[environment]")
    (plain,) = read_experiments(written(tmp_path / "a.toml", TOML))
    varied = read_experiments(written(tmp_path / "b.toml", text))
    assert varied == [
        replace(plain, varied=one, environment_parameters={**plain.environment_parameters, **one})
        for one in ({"n_tasks": 3, "dim": 7}, {"n_tasks": 4, "dim": 7})
    ]


def test_files_that_vary_are_beside_the_experiment(tmp_path: Path) -> None:
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("x,kind\n1,a\n2,b\n3,a\n4,b\n")
    text = """
rounds = 3
policy = [{name = "random"}]
environment = {name = "classification", label = "kind"}
vary = {file = ["one.csv", "two.csv"]}
"""
    found = read_experiments(written(tmp_path / "a.toml", text))
    assert [one.environment_parameters["file"] for one in found] == [
        str(tmp_path / "one.csv"),
        str(tmp_path / "two.csv"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("trials = 2", "trails = 2", ["no key trails", "rounds", "trials", "environment"]),
        ("rounds = 12", "", ["rounds must be given"]),
        ("rounds = 12", "rounds = 1.5", ["rounds must be a whole number, got 1.5"]),
        ("rounds = 12", "rounds = true", ["rounds must be a whole number, got True"]),
        ("tune = true", "tune = 1", ["tune must be true or false, got 1"]),
        ("[[policy]]", "[[polcy]]", ["no key polcy"]),
        ('name = "synthetic"', "", ["[environment] must have a name"]),
        ('name = "ridge"\n[', "[", ["[[policy]] must have a name"]),
        ('label = "weak"', "label = 3", ["label", "3"]),
        ('label = "weak"', "", ["two policies are called ridge"]),
        ("ridge = 0.5", "ridge = [1]", ["ridge must be a number"]),
        ("seed = 3", "seed = = 3", ["no TOML", "line 5"]),
        ("[environment]", "[vary]\ndim = 3\n[environment]", ["dim of [vary] must be a list", "3"]),
        ("[environment]", "[vary]\ndim = []\n[environment]", ["dim of [vary] must be a list"]),
        ("[environment]", "[vary]\ndim = [[1]]\n[environment]", ["dim must be a number"]),
        ("[environment]", "vary = 1\n[environment]", ["vary must be a table, got 1"]),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    old: str, new: str, words: list[str], tmp_path: Path
) -> None:
    assert old in TOML
    with pytest.raises(ConfigurationError) as refused:
        read_experiments(written(tmp_path / "wrong.toml", TOML.replace(old, new)))
    assert all(word in str(refused.value) for word in ["wrong.toml", *words])


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: No such file"):
        read_experiments(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"bytes\.toml is no text"):
        read_experiments(tmp_path / "bytes.toml")
