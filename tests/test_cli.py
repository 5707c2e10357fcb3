"""The command line: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import threadpoolctl

import cobandits
from cobandits.cli.comparison import Comparison
from cobandits.cli.comparison import Run as ComparedRun
from cobandits.cli.tables import print_comparison
from cobandits.diagnostics import sharing
from cobandits.diagnostics.verdict import IN_WORDS, MODELS
from cobandits.environments import Synthetic
from cobandits.estimate import Estimate, Status
from cobandits.estimators import CommonMean, Estimator, LowRank, Pooled, available, make
from cobandits.metrics import relative_error
from cobandits.progress import ProgressBar
from cobandits.schema import Schema
from cobandits.tasks import TaskRows
from tests.commands import Result, Run, command_line
from tests.support import drawn, optimum_near_truth
from tests.tables import constructed

KEYS = {
    "estimator",
    "trial",
    "error",
    "subspace_distance",
    "iterations",
    "seconds",
    "status",
    "message",
    "rank",
    "floor",
    "cost",
}
SMALL = ("--dim", "20", "--tasks", "12", "--rank", "2", "--rows", "15", "--noise-std", "1e-2")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


# ---- estimate


def test_each_fit_is_one_json_line(run: Run) -> None:
    result = run("estimate", *SMALL, "--trials", 2, "--json")
    assert result.code == 0
    assert result.complaints == ""
    fits = [(record["estimator"], record["trial"]) for record in result.records]
    assert fits == [(name, trial) for trial in range(2) for name in available()]
    assert all(set(record) >= KEYS for record in result.records)


def test_the_floor_and_the_errors_are_those_of_independent_solvers(run: Run) -> None:
    problem = drawn(seed=3)
    names = ("--estimator", "lowrank", "--estimator", "pooled")
    lowrank, pooled = run("estimate", *SMALL, *names, "--trials", 1, "--seed", 3, "--json").records
    floor = relative_error(optimum_near_truth(problem), problem.theta)
    one = np.linalg.lstsq(problem.tasks.rows, problem.tasks.rewards)[0]
    assert lowrank["floor"] == pytest.approx(floor, rel=1e-3)
    assert lowrank["error"] == pytest.approx(floor, rel=1e-3)
    assert pooled["error"] == pytest.approx(
        relative_error(np.repeat(one[:, None], 12, axis=1), problem.theta), rel=1e-6
    )
    residuals = problem.tasks.rows @ one - problem.tasks.rewards
    assert pooled["cost"] == pytest.approx(residuals @ residuals, rel=1e-6)


def test_the_distance_is_defined_for_any_rank(run: Run) -> None:
    names = ("--estimator", "independent", "--estimator", "pooled")
    alone, pooled = run("estimate", *SMALL, *names, "--trials", 1, "--json").records
    assert alone["rank"] == 12
    assert pooled["rank"] == 1
    assert isinstance(alone["subspace_distance"], float)
    assert 0 < alone["subspace_distance"] < np.sqrt(2)
    assert isinstance(pooled["subspace_distance"], float)  # one of two directions is missed
    assert 1 <= pooled["subspace_distance"] <= np.sqrt(2)


def test_the_same_seed_gives_the_same_errors(run: Run) -> None:
    def errors(seed: int) -> list[object]:
        command = ("estimate", *SMALL, "--trials", 1, "--seed", seed, "--json")
        return [record["error"] for record in run(*command).records]

    assert errors(7) == errors(7)
    assert errors(7) != errors(8)


def test_options_change_the_rows(run: Run) -> None:
    def error(*options: object) -> object:
        command = ("estimate", *SMALL, "--estimator", "lowrank", "--trials", 1, "--json", *options)
        return run(*command).records[0]["error"]

    changes = (["--condition", 5], ["--unequal"], ["--correlation", 0.5], ["--shift", 2])
    assert len({error(), *(error(*change) for change in changes)}) == 5


def test_without_noise_nothing_is_infinite(run: Run) -> None:
    quiet = run("estimate", *SMALL, "--noise-std", 0, "--trials", 1, "--json")
    assert "NaN" not in quiet.out
    assert "Infinity" not in quiet.out
    table = run("estimate", *SMALL, "--noise-std", 0, "--trials", 1, "--estimator", "lowrank")
    assert table.code == 0
    assert "nan" not in table.out


def test_the_table_has_a_row_for_each_estimator(run: Run) -> None:
    result = run("estimate", *SMALL, "--trials", 2)
    assert result.code == 0
    first_words = [line.split()[0] for line in result.out.splitlines() if line.strip()]
    assert first_words[: 1 + len(available())] == ["estimator", *available()]
    assert "Floor" in result.out
    assert "0 to sqrt(r) = 1.41" in result.out
    assert "\u2026" not in result.out  # no word is cut
    assert all(len(line) <= 80 for line in result.out.splitlines())


def test_a_limit_is_told_once_an_estimator(capsys: pytest.CaptureFixture[str]) -> None:
    one = ComparedRun(
        estimator="altgd", trial=0, error=1e-5, subspace_distance=1.0, iterations=10_000,
        seconds=123.4, status="limit", message="12 left", rank=2, floor=1e-10, cost=1.0,
    )  # fmt: skip
    print_comparison([one, replace(one, trial=1, message="34 left")], rank=2)
    out = capsys.readouterr().out
    assert "altgd: limit in 2 of 2 fits: 12 left" in out
    assert "34 left" not in out
    assert out.splitlines()[1].endswith("0 of 2")


def test_no_trial_is_charged_for_the_first_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[int] = []
    fit = LowRank.fit

    def counted(self: LowRank, tasks: TaskRows, **options: Any) -> Estimate:
        fits.append(tasks.n_rows)
        return fit(self, tasks, **options)

    monkeypatch.setattr(LowRank, "fit", counted)
    source = Synthetic(dim=20, n_tasks=12, rank=2)
    comparison = Comparison(
        estimators={"lowrank": make("lowrank", 2)},
        source=source,
        n_rows=15,
        unequal=False,
        trials=2,
        seed=0,
    )
    with ProgressBar() as bar:
        assert len(list(comparison.runs(bar, None))) == 2
    assert fits[0] < 50  # a tiny problem, before the floor and the fit of each trial
    assert fits[1:] == [180] * 4
    assert comparison.setting == "d = 20, T = 12, r = 2, 15 rows per task, noise 0.001"


def test_an_import_draws_no_data() -> None:
    code = "from cobandits.environments import Synthetic; del Synthetic.problem; import {}"
    modules = ("cobandits.cli.app", "cobandits.cli.comparison")
    command = [sys.executable, "-c", code.format(", ".join(modules))]
    subprocess.run(command, check=True, capture_output=True)


def test_the_picture_of_a_comparison_is_written(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "made" / "here"
    result = run("estimate", *SMALL, "--trials", 2, "--json", "--plot", directory)
    assert result.code == 0
    assert len(result.records) == 2 * len(available())
    assert sorted(path.name for path in directory.iterdir()) == [
        "convergence.png",
        "convergence.svg",
    ]
    assert all(path.stat().st_size > 1000 for path in directory.iterdir())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--estimator", "nope"], ["'nope'", *available()]),
        (["--env", "nope"], ["'nope'", "synthetic"]),
        (["--rank", "13"], ["rank", "12", "13"]),
        (["--rank", "0"], ["--rank"]),
        (["--rows", "0"], ["rows", "0"]),
        (["--correlation", "1"], ["correlation"]),
        (["--trials", "0"], ["--trials"]),
        (["--seed", "-1"], ["--seed"]),
    ],
)
def test_estimate_refuses(run: Run, options: list[str], words: list[str]) -> None:
    result = run("estimate", *SMALL, *options)
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert all(word in result.err for word in words)


# ---- fit


def table(n_rows: int = 12, seed: int = 0, noise: float = 0.0) -> pl.DataFrame:
    """Rows of five towns whose thetas, the intercept's entry included, are multiples of one."""
    rng = np.random.default_rng(seed)
    scale = np.array([1.0, -2.0, 0.5, 3.0, 1.5])
    owners = np.repeat(np.arange(5), n_rows)
    features = rng.standard_normal((len(owners), 3))
    rewards = scale[owners] * (features @ [1.0, -1.0, 0.5] + 2.0)
    names = np.array(["Oslo", "Lima", "Rome", "Cork", "Bern"])
    return pl.DataFrame(
        {
            "city": names[owners],
            "clicks": rewards + noise * rng.standard_normal(len(owners)),
            **dict(zip("abc", features.T, strict=True)),
        }
    )


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    table(noise=0.1).write_parquet(path)
    return path


COLUMNS = ("--task", "city", "--reward", "clicks")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_saved_model_predicts_what_was_fitted(run: Run, tmp_path: Path, suffix: str) -> None:
    frame, path, model = table(), tmp_path / f"rows.{suffix}", tmp_path / "model"
    (frame.write_csv if suffix == "csv" else frame.write_parquet)(path)
    result = run("fit", path, *COLUMNS, "--ridge", 0, "-o", model)
    assert result.code == 0
    assert result.complaints == ""
    estimate = Estimate.load(model)
    assert estimate.feature_names == ("a", "b", "c", "(intercept)")
    assert estimate.rank == 1
    features = np.column_stack([frame.select("a", "b", "c").to_numpy(), np.ones(len(frame))])
    predicted = estimate.predict(features, frame["city"].to_list())
    assert np.allclose(predicted, frame["clicks"].to_numpy(), atol=1e-8)


def test_what_was_found_is_printed(run: Run, rows: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.npz"
    result = run("fit", rows, *COLUMNS, "--rank", 1, "-o", model)
    assert result.code == 0
    for words in ("60 rows of 5 tasks", "4 features with the intercept", "1 (given)", "spectrum",
                  "noise", "shared", "independent", "pooled", "sharing", "gaining", "losing",
                  "converged", str(model)):  # fmt: skip
        assert words in result.out


def test_json_tells_the_same(run: Run, rows: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    result = run("fit", rows, *COLUMNS, "--rank", 1, "-o", model, "--json")
    (record,) = result.records
    assert result.complaints == ""
    assert record["rows"] == 60
    assert record["tasks"] == 5
    assert record["features"] == ["a", "b", "c", "(intercept)"]
    assert record["rank"] == 1
    assert record["noise_std"] == pytest.approx(0.1, rel=0.5)
    assert record["status"] == "converged"
    assert record["output"] == str(model)
    scores = record["r_squared"]
    assert isinstance(scores, dict)
    assert 0.9 < scores["shared"] < 1
    assert scores["pooled"] < scores["shared"]


def test_options_of_fit(run: Run, rows: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    some = run("fit", rows, *COLUMNS, "--features", "a, c", "--no-intercept", "-o", model, "--json")
    assert some.records[0]["features"] == ["a", "c"]
    assert Estimate.load(model).feature_names == ("a", "c")
    free = run("fit", rows, *COLUMNS, "--rank", 1, "--ridge", "auto", "-o", model)
    size = np.linalg.norm(Estimate.load(model).theta)
    shrunk = run("fit", rows, *COLUMNS, "--rank", 1, "--ridge", 50, "-o", model)
    assert (free.code, shrunk.code) == (0, 0)
    assert np.linalg.norm(Estimate.load(model).theta) < 0.9 * size


@pytest.mark.parametrize("ridge", ["auto", 5.0])
def test_what_is_held_out_checks_the_fit_that_is_written(
    run: Run, rows: Path, tmp_path: Path, ridge: Any
) -> None:
    model = tmp_path / "model"
    result = run("fit", rows, *COLUMNS, "--ridge", ridge, "--seed", 3, "-o", model, "--json")
    tasks = TaskRows.from_file(rows, task="city", reward="clicks", intercept=True)
    report = sharing(tasks, ridge=ridge, rng=3)
    expected = {name: report.r_squared(name) for name in MODELS}
    assert result.records[0]["r_squared"] == pytest.approx(expected)
    best = LowRank(ridge=ridge) if report.best == "shared" or ridge != "auto" else CommonMean()
    assert result.records[0]["model"] == ("shared" if isinstance(best, LowRank) else report.best)
    assert np.allclose(Estimate.load(model).theta, best.fit(tasks).theta)


def mixed(n_rows: int = 12) -> pl.DataFrame:
    """The towns with text, dates, flags and missing cells, and rewards that depend on them."""
    frame, rng = table(n_rows=n_rows, noise=0.1), np.random.default_rng(1)
    n = len(frame)
    kinds, gaps = rng.choice(["tea", "cola", "milk"], n), rng.random(n) < 0.2
    days = pl.Series([f"2025-{m:02d}-{d:02d}" for m, d in rng.integers(1, 13, (n, 2))])
    clicks = frame["clicks"].to_numpy() + 5.0 * (kinds == "tea")
    return frame.with_columns(
        pl.Series("kind", kinds),
        pl.Series("day", days),
        pl.Series("weekend", rng.random(n) < 0.3),
        clicks=pl.Series([None, *clicks[1:].tolist()]),
        b=pl.when(pl.Series(gaps)).then(None).otherwise(pl.col("b")),
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ordinary_tables_are_encoded_and_told(run: Run, tmp_path: Path, suffix: str) -> None:
    frame, path, model = mixed(), tmp_path / f"rows.{suffix}", tmp_path / "model"
    (frame.write_csv if suffix == "csv" else frame.write_parquet)(path)
    result = run("fit", path, *COLUMNS, "--rank", 1, "-o", model)
    assert result.code == 0
    assert result.complaints == ""
    assert (
        "columns       numbers a, b, c; categories kind (3 values); dates day; flags weekend; "
        in (result.out)
    )
    assert "columns       1 row with no clicks left out" in result.out
    estimate = Estimate.load(model)
    assert estimate.task_name == "city"
    names = estimate.feature_names
    assert names is not None
    assert {"kind=tea", "b is missing", "day trend", "weekend", "(intercept)"} <= set(names)
    raw = frame.filter(pl.col("clicks").is_not_null()).drop("clicks")
    predicted = estimate.predict(raw, raw["city"].to_list())
    one_by_one = [estimate.predict(raw[i : i + 1], [raw["city"][i]])[0] for i in range(5)]
    assert np.allclose(predicted[:5], one_by_one)
    direct = Schema.infer(raw.drop("city")).encode(raw)
    again = estimate.predict(np.column_stack([direct, np.ones(len(raw))]), raw["city"].to_list())
    assert np.allclose(predicted, again)


def test_options_for_columns(run: Run, tmp_path: Path) -> None:
    path, model = tmp_path / "rows.parquet", tmp_path / "model"
    mixed().with_columns(size=pl.int_range(pl.len()) % 3).write_parquet(path)
    command = ("fit", path, *COLUMNS, "--rank", 1, "-o", model, "--json")
    (dropped,) = run(*command, "--missing", "drop", "--categorical", "size").records
    assert dropped["rows"] < 59
    assert "b is missing" not in dropped["features"]
    assert "size=2" in dropped["features"]
    (filled,) = run(*command, "--missing", "mean", "--standardise").records
    assert filled["rows"] == 59
    assert "b is missing" not in filled["features"]
    schema = Estimate.load(model).schema
    assert schema is not None
    kept = mixed()[1:]
    assert schema.encode(kept.with_columns(size=0))[:, 0] == pytest.approx(
        (kept["a"].to_numpy() - kept["a"].mean()) / kept["a"].to_numpy().std()
    )
    refused(run(*command, "--missing", "some"), ["missing must be one of drop, indicator, mean"])
    refused(run(*command, "--dates", "kind"), ["kind: expected a date such as 2025-01-31, got"])


@pytest.mark.parametrize(
    ("model", "estimator"),
    [
        ("common", CommonMean()),
        ("pooled", Pooled()),
        ("independent", CommonMean(mean="constant")),
    ],
)
def test_the_model_that_the_verdict_names_can_be_written(
    run: Run, rows: Path, tmp_path: Path, model: str, estimator: Estimator
) -> None:
    path = tmp_path / "model"
    result = run("fit", rows, *COLUMNS, "--model", model, "-o", path)
    assert f"model         {model}: {IN_WORDS[model]} (given)\n" in result.out
    tasks = TaskRows.from_file(rows, task="city", reward="clicks", intercept=True)
    assert np.allclose(Estimate.load(path).theta, estimator.fit(tasks).theta)
    refused(run("fit", rows, *COLUMNS, "--model", "magic", "-o", path), ["no model 'magic'"])


@pytest.mark.parametrize(
    ("kind", "model"),
    [("common", "common"), ("means", "mean"), ("low rank", "shared"), ("unrelated", "independent")],
)
def test_the_model_that_predicts_best_is_written(
    run: Run, tmp_path: Path, kind: str, model: str
) -> None:
    tasks, path = constructed(kind, 1, n_tasks=60, n_rows=12, dim=4), tmp_path / "rows.parquet"
    columns = {f"x{j}": tasks.rows[:, j] for j in range(4)}
    pl.DataFrame({"city": tasks.owners, "clicks": tasks.rewards, **columns}).write_parquet(path)
    (record,) = run("fit", path, *COLUMNS, "-o", tmp_path / "model", "--json").records
    assert (record["best"], record["model"]) == (model, model)
    estimate = Estimate.load(tmp_path / "model")
    if model == "mean":  # each task's mean, shrunken; the features count nothing
        means = CommonMean().fit(tasks.rewards_alone()).theta[0]
        assert np.allclose(estimate.predict(tasks.rows, tasks.owners), means[tasks.owners])
    shown = run("fit", path, *COLUMNS, "-o", tmp_path / "model").out
    scores = {**record["r_squared"], "mean": 0.0}
    least = max(scores, key=lambda name: scores[name]) == model
    why = "best by held-out errors" if least else "no other is better by more than chance"
    assert f"model         {model}: {IN_WORDS[model]} ({why})\n" in shown
    assert ("spectrum" in shown) == (model == "shared")
    (bare,) = run("fit", path, *COLUMNS, "--no-intercept", "-o", tmp_path / "m", "--json").records
    assert bare["model"] != "mean"


def test_duplicate_columns_are_warned_of_and_constant_ones_left_out(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    odd = pl.int_range(pl.len()) % 2  # and its complement: sums are equal, columns are not
    frame = table(noise=0.1).with_columns(pl.lit(3.0).alias("flat"), twin=pl.col("b"))
    frame.head(len(frame) // 2 * 2).with_columns(odd=odd, even=1 - odd).write_csv(path)
    result = run("fit", path, *COLUMNS, "--rank", 1, "-o", tmp_path / "model", "--json")
    assert result.code == 0
    warnings = result.records[0]["warnings"]
    assert isinstance(warnings, list)
    assert [w.split(";")[0] for w in warnings] == ["duplicate columns: b = twin"]
    assert "left out flat (constant)" in result.records[0]["columns"][0]


def test_rewards_of_0_and_1_are_warned_of(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table(noise=0.1).with_columns(clicks=pl.col("clicks") > 0).write_parquet(path)
    result = run("fit", path, *COLUMNS, "--rank", 1, "-o", tmp_path / "model")
    assert "warning       rewards are only 0 and 1" in result.out


def test_a_fit_that_did_not_converge_is_warned_of(
    run: Run, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: LowRank, tasks: TaskRows, **options: Any) -> Estimate:
        status = Status(outcome="limit", message="raise iterations", iterations=3)
        return replace(fit(self, tasks, **options), status=status)

    fit = LowRank.fit
    monkeypatch.setattr(LowRank, "fit", stopped)
    result = run("fit", rows, *COLUMNS, "--rank", 1, "-o", tmp_path / "model")
    assert "warning       the fit did not converge: raise iterations" in result.out


def test_the_ridge_is_told(run: Run, rows: Path, tmp_path: Path) -> None:
    command = ("fit", rows, *COLUMNS, "--rank", 1, "-o", tmp_path / "model")
    assert "ridge         chosen from the data\n" in run(*command).out
    assert "ridge         2.5\n" in run(*command, "--ridge", 2.5).out
    assert run(*command, "--ridge", 2.5, "--json").records[0]["ridge"] == 2.5


def test_too_few_rows_to_hold_out_still_fit(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table(n_rows=1).head(1).write_parquet(path)
    result = run("fit", path, *COLUMNS, "--rank", 1, "-o", tmp_path / "model")
    assert result.code == 0
    assert "no held-out errors" in result.out
    assert Estimate.load(tmp_path / "model").labels == ("Oslo",)


def test_pictures_of_a_fit_are_written(run: Run, rows: Path, tmp_path: Path) -> None:
    directory = tmp_path / "plots"
    result = run("fit", rows, *COLUMNS, "--rank", 2, "-o", tmp_path / "m", "--plot", directory)
    assert result.code == 0
    assert sorted(path.name for path in directory.iterdir()) == sorted(
        f"{name}.{kind}" for name in ("held_out", "spectrum", "tasks") for kind in ("png", "svg")
    )


def spoil_infinite(frame: pl.DataFrame, path: Path) -> None:
    spoilt = pl.when(pl.int_range(pl.len()) == 7).then(float("inf")).otherwise(pl.col("b"))
    frame.with_columns(b=spoilt).write_parquet(path)


def spoil_two(frame: pl.DataFrame, path: Path) -> None:
    spoil_infinite(frame.with_columns(pl.lit("many").alias("clicks")), path)


def spoil_rewards(frame: pl.DataFrame, path: Path) -> None:
    frame.with_columns(pl.lit("many").alias("clicks")).write_parquet(path)


def spoil_rows(frame: pl.DataFrame, path: Path) -> None:
    frame.clear().write_parquet(path)


def spoil_labels(frame: pl.DataFrame, path: Path) -> None:
    frame.with_columns(pl.duration(days=1).alias("city")).write_parquet(path)


def spoil_end(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path)
    path.write_bytes(path.read_bytes()[:-200])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_infinite, ["b: expected a finite number, got inf in row 7"]),
        (spoil_two, ["column clicks holds text", "b: expected a finite number"]),
        (spoil_rewards, ["column clicks holds text; rewards must be numbers"]),
        (spoil_rows, ["no rows"]),
        (spoil_labels, ["timedelta", "strings"]),
        (spoil_end, ["rows.parquet", "truncated"]),
    ],
)
def test_fit_refuses_bad_files(
    run: Run, tmp_path: Path, spoil: Callable[[pl.DataFrame, Path], None], words: list[str]
) -> None:
    path = tmp_path / "rows.parquet"
    spoil(table(), path)
    refused(run("fit", path, *COLUMNS, "-o", tmp_path / "model"), words)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--task", "town"], ["town", "city"]),
        (["--reward", "sales"], ["sales", "clicks"]),
        (["--features", "a,z"], ["z", "city"]),
        (["--features", ","], ["--features"]),
        (["--rank", "9"], ["rank", "4", "9"]),
        (["--rank", "0"], ["rank", "at least 1", "leave out --rank"]),
        (["--rank", "few"], ["rank", "auto", "'few'"]),
        (["--ridge", "-1"], ["ridge", "-1"]),
        (["--ridge", "inf"], ["ridge", "finite"]),
        (["--ridge", "some"], ["ridge", "auto", "'some'"]),
    ],
)
def test_fit_refuses_bad_options(
    run: Run, rows: Path, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    refused(run("fit", rows, *COLUMNS, "-o", tmp_path / "model", *options), words)


@pytest.mark.parametrize(
    ("option", "path", "words"),
    [
        ("-o", ".", ["directory"]),
        ("-o", "missing/model", ["no directory", "missing"]),
        ("-o", "rows.parquet", ["input"]),
        ("--plot", "rows.parquet", ["is a file"]),
        ("--plot", "rows.parquet/plots", ["cannot write"]),
    ],
)
def test_output_is_checked_before_the_fit(
    run: Run, rows: Path, tmp_path: Path, option: str, path: str, words: list[str]
) -> None:
    rows.write_bytes(b"never read")
    command = ["fit", rows, *COLUMNS, "-o", tmp_path / "model", option, tmp_path / path]
    refused(run(*command), words)
    assert rows.read_bytes() == b"never read"


def refused(result: Result, words: list[str]) -> None:
    """Check for exit code 2 and one line that helps, and nothing else."""
    assert result.code == 2
    assert result.out == ""
    assert result.complaints.startswith("cobandits: ")
    assert result.complaints.count("\n") == 1
    assert all(word in result.complaints for word in words)


def test_a_failed_write_is_one_line(
    run: Run, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Estimate, path: Path) -> None:
        if path == tmp_path / "model":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Estimate, "save", full)
    refused(run("fit", rows, *COLUMNS, "--rank", 1, "-o", tmp_path / "model"), ["No space left"])


# ---- predict


def test_rows_as_they_are_are_predicted(run: Run, tmp_path: Path) -> None:
    frame, path, model, out = mixed(), tmp_path / "rows.csv", tmp_path / "model", tmp_path / "out"
    frame.write_csv(path)
    assert run("fit", path, *COLUMNS, "--rank", 1, "-o", model).code == 0
    frame.drop("clicks").write_csv(path)
    result = run("predict", model, path, "-o", out)
    assert result.code == 0
    assert "predicted     60 rows of 5 tasks" in result.out
    assert "new tasks" not in result.out
    written = pl.read_csv(out)
    assert written.columns == ["city", "predicted", "spread"]
    expected = Estimate.load(model).predict(frame, frame["city"].to_list())
    np.testing.assert_array_equal(written["predicted"].to_numpy(), expected)
    assert written["spread"].null_count() == 60


def test_new_tasks_are_predicted_by_the_mean_and_said_to_be(run: Run, tmp_path: Path) -> None:
    path, model, out = tmp_path / "rows.parquet", tmp_path / "model", tmp_path / "out"
    table(noise=0.1).write_parquet(path)
    assert run("fit", path, *COLUMNS, "--rank", 1, "-o", model).code == 0
    some = table().with_columns(
        city=pl.when(pl.col("city") == "Rome").then(pl.lit("Kyiv")).otherwise(pl.col("city"))
    )
    some.write_parquet(path)
    result = run("predict", model, path, "-o", out)
    assert "new tasks     1, 12 rows: predicted by the mean of the 5 fitted tasks" in result.out
    written, estimate = pl.read_csv(out), Estimate.load(model)
    new = some["city"].to_numpy() == "Kyiv"
    features = np.column_stack([some.select("a", "b", "c").to_numpy(), np.ones(60)])
    mean = (features @ estimate.theta).mean(axis=1)
    assert written["predicted"].to_numpy()[new] == pytest.approx(mean[new])
    assert written["spread"].to_numpy()[new] == pytest.approx(estimate.spread(features)[new])
    assert written["spread"].null_count() == 48
    out.unlink()
    refused(run("predict", model, path, "-o", out, "--strict"), ["not among the 5", "'Kyiv'"])
    assert not out.exists()


def test_new_gaps_are_taken_as_the_mean_and_said_to_be(run: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "city": ["Rome", "Oslo", "Lima", "Bern"] * 30,
            "price": rng.standard_normal(120),
            "kind": rng.choice(["tea", "cola", "milk"], 120),
            "day": [f"2025-{1 + i % 12:02}-01" for i in range(120)],
            "clicks": rng.standard_normal(120),
        }
    )
    path, model, out = tmp_path / "rows.csv", tmp_path / "model", tmp_path / "out"
    frame.write_csv(path)
    assert run("fit", path, *COLUMNS, "--model", "pooled", "-o", model).code == 0
    gaps = frame.with_columns(
        **{
            name: pl.when(pl.int_range(120) < 2).then(None).otherwise(name)
            for name in ("price", "kind", "day")
        }
    )
    gaps.write_csv(path)
    result = run("predict", model, path, "-o", out)
    assert result.code == 0
    said = "missing values where the fit had none, taken as the mean: price (2), kind (2), day (2)"
    assert said in result.out
    estimate, written = Estimate.load(model), pl.read_csv(out)["predicted"].to_numpy()
    assert estimate.schema is not None
    means = np.r_[estimate.schema.encode(frame).mean(axis=0), 1]
    assert written[:2] == pytest.approx((means @ estimate.theta[:, 0]).repeat(2))
    whole = estimate.predict(frame, frame["city"].to_list())
    np.testing.assert_array_equal(written[2:], whole[2:])
    out.unlink()
    refused(
        run("predict", model, path, "-o", out, "--strict"),
        ["price: 2 values are missing, and none was before", "kind: 2", "day: 2"],
    )
    assert not out.exists()


def test_crosses_let_the_weather_change_what_is_best(run: Run, tmp_path: Path) -> None:
    """Tea sells in the rain and ice in the sun: no sum of the two columns says so."""
    path, model = tmp_path / "rows.csv", tmp_path / "model"
    rng = np.random.default_rng(0)
    wet, tea = rng.integers(0, 2, (2, 200))
    frame = pl.DataFrame(
        {
            "city": [f"c{i % 4}" for i in range(200)],
            "weather": np.where(wet, "rain", "sun"),
            "product": np.where(tea, "tea", "ice"),
            "clicks": (wet == tea) + 0.1 * rng.standard_normal(200),
        }
    )
    frame.write_csv(path)
    fitted = run("fit", path, *COLUMNS, "--crosses", "weather:product", "-o", model)
    assert fitted.code == 0, fitted.err
    estimate = Estimate.load(model)
    for weather, best in (("rain", "tea"), ("sun", "ice")):
        offers = pl.DataFrame({"weather": [weather] * 2, "product": ["tea", "ice"]})
        predicted = estimate.predict(offers, ["c1", "c1"])
        assert offers["product"][int(predicted.argmax())] == best
    for given, words in (("weather", ["pairs of columns"]), ("weather:day", ["a cross names two"])):
        refused(run("fit", path, *COLUMNS, "--crosses", given, "-o", model), words)


def test_predict_refuses(run: Run, rows: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    assert run("fit", rows, *COLUMNS, "--rank", 1, "-o", model).code == 0
    command = ("predict", model, rows, "-o")
    refused(run(*command, rows), ["is the input"])
    refused(run(*command, tmp_path / "out", "--task", "town"), ["no column town", "city"])
    table().drop("b").write_parquet(rows)
    refused(run(*command, tmp_path / "out"), ["no column b"])
    plain = replace(Estimate.load(model), task_name=None)
    plain.save(model)
    refused(run(*command, tmp_path / "out"), ["give --task"])


# ---- the command itself


@pytest.mark.parametrize("compiled", [True, False])
def test_the_version_says_if_compiled_passes_are_missing(
    run: Run, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    monkeypatch.setattr("cobandits.cli.app.COMPILED", compiled)
    more = "" if compiled else " (without compiled passes, which is slower: no C compiler?)"
    assert run("--version").out == f"cobandits {cobandits.__version__}{more}\n"


def test_help(run: Run) -> None:
    for command in ([], ["fit"], ["estimate"]):
        result = run(*command, "--help")
        assert result.code == 0
        assert all(len(line) <= 80 for line in result.out.splitlines())


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_a_missing_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    refused(run("--help"), [package, "pip install '.[cli]'"])


def test_missing_matplotlib_is_told_before_the_fit(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused(run("estimate", "--plot", tmp_path), ["pip install '.[plot]'"])


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "cobandits", "estimate", *SMALL, "--estimator", "lowrank"]
    done = subprocess.run(
        [*command, "--trials", "1", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert json.loads(done.stdout)["estimator"] == "lowrank"
    assert done.stderr == ""


# ---- the progress bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for(text: str, file: io.StringIO) -> None:
    deadline = time.monotonic() + 10
    while text not in file.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)


def shown_by(file: io.StringIO, *, after: float, hidden: bool = False) -> str:
    with ProgressBar(after=after, file=file, hidden=hidden) as bar:
        bar.stage("fitting")
        bar.update(3, 10)
        if after == 0 and file.isatty() and not hidden:
            wait_for("3/10", file)
    return file.getvalue()


def test_progress_is_for_terminals_and_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert "3/10" in shown_by(Terminal(), after=0)
    assert shown_by(Terminal(), after=0, hidden=True) == ""
    assert shown_by(Terminal(), after=60) == ""
    assert shown_by(io.StringIO(), after=0) == ""


def test_lines_of_progress_are_written_where_there_is_no_terminal() -> None:
    file = io.StringIO()
    with ProgressBar(file=file, every=0.01) as bar:
        bar.stage("fitting")
        bar.update(3, 10)
        wait_for("fitting (3 of 10), 0 s\n", file)
        bar.stage("held-out errors")
        wait_for("held-out errors, 0 s\n", file)
    lines = file.getvalue()
    assert lines.endswith(" s\n")
    assert shown_by(Terminal(), after=60) == ""
    hidden = io.StringIO()
    with ProgressBar(file=hidden, every=0.0, hidden=True) as bar:
        bar.stage("fitting")
    assert hidden.getvalue() == ""


def test_a_fit_has_one_thread(
    run: Run, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    fit = LowRank.fit

    def look(self: LowRank, tasks: TaskRows, **options: Any) -> Estimate:
        threads.extend(pool["num_threads"] for pool in threadpoolctl.threadpool_info())
        return fit(self, tasks, **options)

    monkeypatch.setattr(LowRank, "fit", look)
    with threadpoolctl.threadpool_limits(2):
        assert run("fit", rows, *COLUMNS, "--rank", 1, "-o", tmp_path / "model").code == 0
    assert set(threads) == {1}


def test_results_printed_beside_the_bar_stay_on_stdout(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with ProgressBar(after=0, file=terminal) as bar:
        bar.stage("fitting")
        wait_for("fitting", terminal)
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()
