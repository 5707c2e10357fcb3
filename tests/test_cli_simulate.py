"""``cobandits simulate`` and ``cobandits run``: what they print, draw and refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cobandits.cli.standings import print_standings, standings
from cobandits.environments import Synthetic
from cobandits.lab import Record, Simulation, read_experiments
from cobandits.logs import Log
from cobandits.policies import Ridge, available
from cobandits.simulate import simulate
from tests import records as records_module
from tests.commands import Run, command_line

KEYS = {
    "policy",
    "label",
    "parameters",
    "environment",
    "environment_parameters",
    "rank",
    "rounds",
    "seed",
    "trial",
    "regret_per_task",
    "mean_reward",
    "decisions",
    "rewarded",
    "fits",
    "error",
    "distance",
    "fit_statuses",
    "seconds",
    "seconds_deciding",
    "seconds_learning",
    "identity",
}
SIZE = ("--dim", 8, "--tasks", 6, "--rank", 2, "--noise-std", 0.1)
SMALL = ("simulate", *SIZE, "--rounds", 12, "--seed", 3)
EXAMPLE = Path(__file__).parents[1] / "examples" / "experiment.toml"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


def timeless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [records_module.timeless(record) for record in records]


# ---- JSON lines


@pytest.mark.parametrize("name", available())
def test_every_policy_runs(name: str, run: Run) -> None:
    result = run(*SMALL, "--policy", name, "--trials", 1, "--json")
    assert result.code == 0, result.err
    assert result.err == ""
    (record,) = result.records
    assert set(record) == KEYS
    assert record["policy"] == record["label"] == name
    assert record["decisions"] == 6 * 12
    assert record["regret_per_task"] >= 0
    assert record["seconds"] == record["seconds_deciding"] + record["seconds_learning"]
    assert (record["error"] is None) == (record["fits"] == 0)


def test_the_figures_are_those_of_the_library(run: Run) -> None:
    command = (*SMALL, "--policy", "ridge:ridge=0.5", "--trials", 2, "--json")
    environment = Synthetic(dim=8, n_tasks=6, rank=2, noise_std=0.1)
    for trial, record in enumerate(run(*command).records):
        policy = Ridge(dim=8, n_tasks=6, ridge=0.5)
        trace = simulate(policy, environment, 12, 3, trial=trial)
        assert record["trial"] == trial
        assert record["regret_per_task"] == trace.regret_per_task
        assert record["mean_reward"] == trace.mean_reward


def test_the_line_says_how_to_run_it_again(run: Run) -> None:
    record = run(*SMALL, "--policy", "thompson:scale=0.3", "--trials", 2, "--json").records[1]
    cell = Simulation(
        environment=record["environment"],
        environment_parameters=record["environment_parameters"],
        policy=record["policy"],
        policy_parameters=record["parameters"],
        rank=record["rank"],
        rounds=record["rounds"],
        seed=record["seed"],
        trial=record["trial"],
    )
    assert cell.identity == record["identity"]
    assert cell.run()["regret_per_task"] == record["regret_per_task"]


def test_lines_do_not_depend_on_the_processes(run: Run) -> None:
    names = ("--policy", "lrrl:estimator=lowrank", "--policy", "thompson")
    command = (*SMALL, *names, "--trials", 2, "--json")
    alone, again, beside = (
        timeless(run(*command, *more).records) for more in ((), (), ("--jobs", 2))
    )
    assert alone == again == beside
    assert [(line["trial"], line["policy"]) for line in alone] == [
        (0, "lrrl"),
        (0, "thompson"),
        (1, "lrrl"),
        (1, "thompson"),
    ]
    assert len({line["identity"] for line in alone}) == 4


def test_without_policies_the_five_usual_ones_run(run: Run) -> None:
    records = run(*SMALL, "--trials", 1, "--json").records
    assert [record["policy"] for record in records] == [
        "shared",
        "lrrl",
        "thompson",
        "ridge",
        "random",
    ]


def test_without_sizes_they_are_the_papers(run: Run) -> None:
    command = ("simulate", "--rounds", 2, "--trials", 1, "--policy", "random", "--json")
    (record,) = run(*command).records
    assert record["environment_parameters"] == {"dim": 100, "n_tasks": 50, "rank": 4}
    assert record["decisions"] == 100


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--arms", 3), {"n_arms": 3}),
        (("--condition", 5), {"condition": 5.0}),
        (("--correlation", 0.5), {"correlation": 0.5}),
        (("--shift", 2), {"shift": 2.0}),
        (("--turn", 0.1), {"turn": 0.1}),
        (("--unrelated",), {"unrelated": True}),
        (("--late-tasks",), {"late": 0.2}),
        (("--drift",), {"replaced": True}),
        (("--unequal",), {"unequal": True}),
        (("--outcome", "clicks"), {"outcome": "clicks"}),
        (("--outcome", "counts", "--rate", 2), {"outcome": "counts", "rate": 2.0}),
        (("--fixed",), {"fixed": True}),
        (("--apart", 0.5), {"apart": 0.5}),
        (("--one-hot", 2), {"one_hot": 2}),
        (("--missing", 0.5), {"missing": 0.5}),
        (("--delay", 3), {"delay": 3}),
    ],
)
def test_each_option_reaches_the_environment(
    options: tuple[object, ...], expected: dict[str, object], run: Run
) -> None:
    command = (*SMALL, "--policy", "ridge", "--trials", 1, "--json")
    (record,), (plain,) = run(*command, *options).records, run(*command).records
    assert record["environment_parameters"] == {**plain["environment_parameters"], **expected}
    assert record["regret_per_task"] != plain["regret_per_task"]


def test_parameters_are_numbers_words_and_truths(run: Run) -> None:
    text = "lrrl:schedule=grid,memory=all,estimator=lowrank,rank=1"
    (record,) = run(*SMALL, "--policy", text, "--trials", 1, "--json").records
    assert record["label"] == text
    assert record["parameters"] == {
        "schedule": "grid",
        "memory": "all",
        "estimator": "lowrank",
        "rank": 1,
    }


def test_tuned_parameters_are_in_the_line(run: Run) -> None:
    command = (*SMALL, "--policy", "ridge", "--policy", "random", "--trials", 1, "--tune", "--json")
    ridge, random = run(*command).records
    assert ridge["parameters"]["ridge"] in Ridge.grid["ridge"]
    assert ridge["trial"] == 0
    assert random["parameters"] == {}


# ---- other environments


def test_digits_have_a_rank_that_policies_are_told(run: Run) -> None:
    command = ("simulate", "--env", "digits", "--rounds", 4, "--trials", 1, "--json")
    full, few = (
        run(*command, "--policy", "lrrl", *more).records[0]
        for more in ((), ("--tasks", 3, "--intercept"))
    )
    assert full["rank"] == 4
    assert full["decisions"] == 4 * 45
    assert full["error"] is None
    assert few["rank"] == 3
    assert few["environment_parameters"] == {"n_tasks": 3, "intercept": True}
    assert run(*command, "--policy", "lrrl", "--rank", 2).records[0]["rank"] == 2


def test_who_needs_a_true_basis_says_so(run: Run) -> None:
    result = run("simulate", "--env", "digits", "--rounds", 4, "--policy", "subspace-oracle")
    assert result.code == 2
    assert "subspace-oracle on digits, trial 0: this environment has no true basis" in result.err
    assert "Traceback" not in result.err


def test_tables_can_be_classified(run: Run, tmp_path: Path) -> None:
    command = ("simulate", "--env", "classification", "--rounds", 5, "--trials", 1, "--json")
    (iris,) = run(*command, "--dataset", "iris", "--policy", "ridge").records
    assert iris["decisions"] == 3 * 5
    rng = np.random.default_rng(0)
    rows = {"x": rng.standard_normal(40), "kind": ["a", "b"] * 20, "town": ["u"] * 20 + ["v"] * 20}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    file = ("--file", tmp_path / "rows.csv", "--label", "kind", "--group", "town")
    (own,) = run(*command, *file, "--policy", "ridge").records
    assert own["decisions"] == 2 * 5


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng, n = np.random.default_rng(0), 60
    Log(
        tasks=np.arange(n) % 3,
        arms=rng.standard_normal((n, 2, 4)),
        chosen=rng.integers(2, size=n),
        probabilities=np.full(n, 0.5),
        rewards=rng.standard_normal(n),
    ).save(tmp_path / "log")
    return tmp_path / "log"


def test_a_log_is_replayed_for_its_rewards(run: Run, log: Path, tmp_path: Path) -> None:
    command = ("simulate", "--env", "replay", "--file", log, "--rounds", 20, "--trials", 2)
    names = ("--policy", "ridge", "--policy", "random")
    records = run(*command, *names, "--json").records
    assert all(record["regret_per_task"] is None for record in records)
    assert all(np.isfinite(record["mean_reward"]) for record in records)
    table = run(*command, *names, "--plot", tmp_path / "pictures")
    assert table.code == 0
    assert "mean reward" in table.out
    assert "nan" not in table.out
    came = [record["rewarded"] for record in records if record["policy"] == "random"]
    assert f"{np.mean(came):,.0f} of 60" in table.out
    assert "only" in table.out  # so few rewards say little
    rows = {line.split()[0]: line.split() for line in table.out.splitlines() if "±" in line}
    assert float(rows["random"][3]) > 0.2  # 1.96 of about 1 / sqrt(30), not the spread of trials
    whole = run(*command[:5], *names, "--trials", 1, "--json").records
    assert {record["rounds"] for record in whole} == {20}  # all that the log has
    assert "; 60 requests, as they were logged, 2 trials" in table.out
    assert (tmp_path / "pictures" / "reward.png").stat().st_size > 500
    refused = run(*command, *names, "--tune")
    assert refused.code == 2
    assert "ridge cannot be tuned" in refused.err


def test_choices_are_played_to_the_end_of_the_table(run: Run, tmp_path: Path) -> None:
    command = ("simulate", "--env", "choices", "--trials", 1, "--json")
    yogurt = ("--data", "yogurt", "--tasks", 8)
    names = ("--policy", "ridge", "--policy", "random")
    records = run(*command, *yogurt, *names, "--tune").records
    assert [record["policy"] for record in records] == ["ridge", "random"]
    assert records[0]["regret_per_task"] < records[1]["regret_per_task"]
    assert {record["decisions"] for record in records} == {records[0]["rounds"]}
    longer = run(*command, *yogurt, "--rounds", 9999, "--policy", "random").records
    assert longer[0]["rounds"] == longer[0]["decisions"] == records[0]["decisions"]
    assert longer[0]["regret_per_task"] == records[1]["regret_per_task"]
    few = run(*command, *yogurt, "--rounds", 5, "--policy", "random").records
    assert few[0]["decisions"] == 5
    refused = run(*command, "--data", "yoghurt")
    assert refused.code == 2
    assert (
        "choose from catsup, chem97, cracker, exam, insteval, movielens, movielens-svd, tuna, "
        in refused.err
    )


def test_a_file_of_choices_is_played(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    rows = {
        "visit": np.repeat(np.arange(30), 2),
        "shop": np.repeat(np.arange(30) % 3, 2),
        "drink": ["tea", "milk"] * 30,
        "tea": [1, 0] * 30,
        "bought": [1, 0] * 30,  # always tea
    }
    pl.DataFrame(rows).write_csv(path)
    command = ("simulate", "--env", "choices", "--file", path, "--policy", "ridge", "--trials", 1)
    refused = run(*command)
    assert refused.code == 2
    assert "no column request, task, arm, reward; visits.csv has: visit, shop" in refused.err
    columns = ("--request", "visit", "--task", "shop", "--arm", "drink", "--reward", "bought")
    (record,) = run(*command, *columns, "--in-order", "--json").records
    assert record["decisions"] == 30
    assert record["environment_parameters"]["shuffled"] is False
    assert record["regret_per_task"] <= 1.5  # of ten: tea is soon known


# ---- the table


def test_the_table_is_sorted_by_regret(run: Run) -> None:
    names = ("oracle", "ridge", "random")
    chosen = [part for name in reversed(names) for part in ("--policy", name)]
    result = run(*SMALL, "--rounds", 60, *chosen, "--trials", 3)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].startswith("synthetic, dim 8")
    assert "regret per task" in lines[1]
    assert [line.split()[0] for line in lines[2:5]] == list(names)
    assert "best" in lines[2]
    assert all("±" in line and "+" in line for line in lines[3:5])
    assert "3 trials" in result.out
    one = run(*SMALL, *chosen, "--trials", 1)
    assert "±" not in one.out


def records(*regrets: float, errors: list[float] | None = None, ended: str = "") -> list[Record]:
    """Return a record for each regret."""
    return [
        {
            "regret_per_task": value,
            "mean_reward": 1.0,
            "decisions": 2,
            "fit_errors": errors or [],
            "fit_statuses": ended,
            "fit_trouble": "raise iterations" if "limit" in ended else "",
            "seconds_deciding": 1e-5,
            "seconds_learning": 2.0,
        }
        for value in regrets
    ]


def test_labels_small_sizes_and_what_is_run(run: Run) -> None:
    again = ("--policy", "ridge", "--policy", "ridge:ridge=5,label=heavy")
    result = run("simulate", "--dim", 8, "--tasks", 3, "--rounds", 12, "--trials", 1, *again)
    assert result.code == 0, result.err
    assert "synthetic, dim 8, n_tasks 3, rank 3; 12 rounds, 1 trials, seed 0" in result.out
    assert "heavy" in result.out


def test_intervals_are_paired_by_trial(capsys: pytest.CaptureFixture[str]) -> None:
    print_standings(standings({"b": records(11, 21, 31), "a": records(10, 20, 30)}))
    _, a, b = (line.split() for line in capsys.readouterr().out.splitlines()[:3])
    # t with 2 degrees of freedom: 4.303 * 10 / sqrt(3) = 24.8; all differences are 1
    assert a == ["a", "20", "±", "24.8", "best", "-", "2", "5"]
    assert b == ["b", "21", "±", "24.8", "+1", "±", "0", "-", "2", "5"]


def test_errors_and_fits_that_did_not_converge_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    group = records(1, 2, errors=[0.5, 0.25], ended="limit,converged")
    print_standings(standings({"[red]a": group}))
    out = capsys.readouterr().out
    assert "0.25" in out
    assert "[red]a: 2 of 4 fits ended as 'limit' (iterations ran out); the first: raise" in out


def test_tuning_is_told(run: Run) -> None:
    result = run(*SMALL, "--policy", "ridge", "--trials", 1, "--tune")
    assert "ridge: tuned to ridge = " in result.out
    assert f"of {len(Ridge.grid['ridge'])} tried" in " ".join(result.out.split())


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--env", "sinthetic"), ["no environment 'sinthetic'", "synthetic", "digits"]),
        (("--policy", "thomson"), ["no policy 'thomson'", "thompson"]),
        (("--policy", "thompson:scal=1"), ["thompson has no parameter scal", "scale"]),
        (("--policy", "thompson:scale"), ["'scale'", "name:key=value"]),
        (("--policy", "thompson:scale=1,scale=2"), ["scale twice"]),
        (("--policy", "thompson:scale=-1"), ["scale must be at least 0"]),
        (("--policy", "thompson:scale=big"), ["thompson"]),
        (("--policy", "thompson:scale=NaN"), ["scale must be"]),
        (("--policy", "lrrl:schedule=sometimes"), ["no schedule 'sometimes'", "grid"]),
        (("--policy", "lrrl:estimator=magic"), ["magic", "altgdmin"]),
        (("--policy", "ridge", "--policy", "ridge"), ["two policies are called ridge"]),
        (("--rank", 7), ["rank must be from 1 to min(dim, tasks) = 6, got 7"]),
        (("--dataset", "iris"), ["synthetic has no --dataset", "--tasks", "--late-tasks"]),
        (("--unrelated", "--drift"), ["unrelated tasks have no common basis"]),
        (("--rounds", 0), ["--rounds"]),
        (("--jobs", 0), ["--jobs"]),
        (("--plot", __file__), ["it is a file"]),
    ],
)
def test_what_cannot_be_is_refused(options: tuple[object, ...], words: list[str], run: Run) -> None:
    result = run(*SMALL, "--trials", 1, *options)
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert all(word in result.err for word in words), result.err


def test_options_of_other_environments_are_refused_by_name(run: Run) -> None:
    result = run("simulate", "--env", "digits", "--arms", 4, "--drift")
    assert result.code == 2
    assert "the environment digits has no --arms, --drift; it has: --tasks" in result.err


# ---- run


def test_the_example_runs_and_is_reported(run: Run, tmp_path: Path) -> None:
    result = run("run", EXAMPLE, "--out", tmp_path / "new")
    assert result.code == 0, result.err
    labels = [candidate.label for candidate in read_experiments(EXAMPLE)[0].candidates]
    assert all(label in result.out for label in labels)
    assert f"The report: {tmp_path / 'new' / 'report.html'}" in result.out
    files = {"regret.png", "regret.svg", "report.html", "report.md", "records.parquet"}
    assert files < {path.name for path in (tmp_path / "new").iterdir()}
    for name in ("report.html", "report.md"):
        text = (tmp_path / "new" / name).read_text(encoding="utf-8")
        assert all(label in text for label in labels)
        assert "dim 30" in text


OWN = """
name = "my own: first/try"
rounds = 12
trials = 2
tune = true
[environment]
name = "synthetic"
dim = 8
rank = 2
noise_std = 0.1
[vary]
n_tasks = [4, 6]
[[policy]]
name = "ridge"
[[policy]]
name = "random"
[[policy]]
name = "random"
label = "again"
"""


def test_what_varies_is_run_and_told_apart(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(OWN)
    lines = run("run", "own.toml", "--json").records
    assert [(one["environment_parameters"]["n_tasks"], one["label"]) for one in lines] == [
        (n_tasks, label)
        for n_tasks in (4, 6)
        for _ in range(2)
        for label in ("ridge", "random", "again")
    ]
    assert lines[1]["identity"] == lines[2]["identity"]
    out = Path("results", "my-own-first-try")
    names = {path.name for path in out.iterdir()}
    assert {"regret-n_tasks-4.svg", "regret-n_tasks-6.svg", "report.html"} < names
    table = run("run", "own.toml").out
    assert table.index("n_tasks 4") < table.index("n_tasks 6")
    told = (out / "report.md").read_text(encoding="utf-8")
    assert "| n_tasks | policy |" in told
    assert "dim 8" in told
    assert "n_tasks = 4: ridge: tuned to" in told


def test_a_value_and_its_negative_have_pictures_of_their_own(run: Run, tmp_path: Path) -> None:
    text = OWN.replace("n_tasks = [4, 6]", "shift = [1, -1]").replace(
        "dim = 8", "dim = 8\nn_tasks = 4"
    )
    (tmp_path / "own.toml").write_text(text.replace("tune = true", ""))
    assert run("run", tmp_path / "own.toml", "--out", tmp_path / "out").code == 0
    assert len(list((tmp_path / "out").glob("regret*.svg"))) == 2


def test_run_goes_on_and_runs_only_what_changed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    original = Simulation.run

    def note(cell: Simulation, progress: Callable[[int, int], None] | None = None) -> Record:
        ran.append(cell.trial)
        return original(cell, progress)

    monkeypatch.setattr(Simulation, "run", note)
    path, out = tmp_path / "own.toml", tmp_path / "out"
    path.write_text(OWN)
    first = run("run", path, "--out", out, "--json").records
    tried = len(Ridge.grid["ridge"])
    assert (sum(trial < 0 for trial in ran), sum(trial >= 0 for trial in ran)) == (4 * tried, 8)
    ran.clear()
    assert run("run", path, "--out", out, "--json").records == first
    assert ran == []
    path.write_text(OWN.replace("trials = 2", "trials = 3"))
    more = run("run", path, "--out", out, "--json").records
    assert ran == [2] * 4
    assert [one for one in more if one["trial"] < 2] == first


def test_a_wrong_experiment_leaves_no_directory(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(OWN.replace('"random"', '"rndom"', 1))
    result = run("run", "own.toml")
    assert result.code == 2
    assert "no policy 'rndom'" in result.err
    assert not Path("results").exists()


def test_a_file_and_options_that_say_the_same_do_the_same(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "same.toml"
    path.write_text(
        """
        rounds = 12
        seed = 3
        trials = 2
        [environment]
        name = "synthetic"
        dim = 8
        n_tasks = 6
        rank = 2
        noise_std = 0.1
        [[policy]]
        name = "thompson"
        label = "thompson:scale=0.3"
        scale = 0.3
        """
    )
    by_file = run("run", path, "--json", "--out", tmp_path / "out").records
    by_options = run(*SMALL, "--policy", "thompson:scale=0.3", "--trials", 2, "--json").records
    assert timeless(by_file) == timeless(by_options)


def test_a_wrong_file_is_one_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("rounds = 3\nrounds\n")
    result = run("run", path)
    assert result.code == 2
    assert "wrong.toml" in result.err
    assert "line 2" in result.err
    assert len(result.err.splitlines()) == 1
