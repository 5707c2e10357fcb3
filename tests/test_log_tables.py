"""Logs from tables with a row for each arm, and ``cobandits evaluate`` on them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.evaluation import METHODS, evaluate, relearn
from cobandits.log_tables import LogTable
from cobandits.logs import Log
from cobandits.policies import Ridge, Shared
from cobandits.ragged import RaggedArms
from tests.commands import Run, command_line

N, K, D = 90, 3, 2
TASKS = ("shop", "site", "app")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return command_line(capsys)


def table(seed: int = 0) -> pl.DataFrame:
    """Return a log in the long format, with a target and a model's predictions."""
    rng = np.random.default_rng(seed)
    arms = rng.standard_normal((N, K, D))
    chosen = rng.integers(K, size=N)
    flags = np.arange(K) == chosen[:, None]
    rewards = arms[np.arange(N), chosen] @ [1.0, 2.0] + 0.1 * rng.standard_normal(N)
    wanted = rng.dirichlet(np.ones(K), size=N)
    return pl.DataFrame(
        {
            "request": np.repeat([f"r{i}" for i in range(N)], K),
            "task": np.repeat([TASKS[i % 3] for i in range(N)], K),
            "arm": ["tea", "milk", "water"] * N,
            "price": arms[:, :, 0].ravel(),
            "size": arms[:, :, 1].ravel(),
            "chosen": flags.ravel().astype(int),
            "probability": np.full(N * K, 1 / K),
            "reward": pl.Series(
                [r if f else None for r, f in zip(rewards.repeat(K), flags.ravel(), strict=True)]
            ),
            "wanted": wanted.ravel(),
            "guess": (arms @ [0.8, 1.8]).ravel(),
        }
    )


def as_log(frame: pl.DataFrame) -> Log:
    """Return the same log, made from the whole table."""
    flags = frame["chosen"].to_numpy().reshape(N, K) == 1
    return Log(
        tasks=frame["task"].to_numpy().reshape(N, K)[:, 0].astype(str),
        arms=frame.select("price", "size").to_numpy().reshape(N, K, D),
        chosen=flags.argmax(axis=1),
        probabilities=frame["probability"].to_numpy().reshape(N, K)[flags],
        rewards=frame["reward"].to_numpy().reshape(N, K)[flags],
    )


def write(frame: pl.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("rows", [2, 3, 7, 100, N * K, 10_000])
def test_parts_make_the_whole(tmp_path: Path, suffix: str, rows: int) -> None:
    path = write(table(), tmp_path / f"log{suffix}")
    found = list(LogTable(path=path, rows=rows, extra=("wanted", "guess")).parts())
    log, whole = Log.concatenate([part.log for part in found]), as_log(table())
    for name in ("tasks", "arms", "chosen", "probabilities", "rewards", "codes"):
        np.testing.assert_array_equal(getattr(log, name), getattr(whole, name), name)
    guesses = np.concatenate([part.extra["guess"] for part in found])
    np.testing.assert_array_equal(guesses.ravel(), table()["guess"].to_numpy())
    assert [part.log.codes[0] for part in found] == [
        TASKS.index(part.log.tasks[0]) for part in found
    ]
    if rows < N * K:
        assert max(len(part.log) for part in found) <= max(1, rows // K)


def test_requests_without_a_reward_are_left_out(tmp_path: Path) -> None:
    frame = table().with_columns(
        pl.when(pl.col("request").is_in(["r3", "r4"]))
        .then(None)
        .otherwise("reward")
        .alias("reward")
    )
    path = write(
        table().with_columns(reward=frame["reward"].fill_null(float("nan"))), tmp_path / "a.csv"
    )
    (part,) = LogTable(path=path, features=("price", "size")).parts()
    kept = np.ones(N, bool)
    kept[[3, 4]] = False
    np.testing.assert_array_equal(part.log.rewards, as_log(table()).rewards[kept])


def change(**columns: pl.Expr) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return lambda frame: frame.with_columns(**columns)


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        (lambda f: f.drop("reward"), "no column reward; it has: request"),
        (change(chosen=pl.lit(1)), "column chosen must be 1 in one row"),
        (change(price=pl.lit("dear")), "column price of log.csv holds text"),
        (lambda f: f[3:].filter(pl.col("chosen") == 0), "column chosen must be 1 in one row"),
        (lambda f: pl.concat([f[3:], f[:3], f[3:6]]), "the rows of request r1 are apart"),
        (change(task=pl.col("arm")), "task differs within a request"),
        (change(probability=pl.lit(0.0)), "above 0 and at most 1"),
    ],
)
def test_tables_that_are_no_logs(
    tmp_path: Path, spoilt: Callable[[pl.DataFrame], pl.DataFrame], message: str
) -> None:
    path = write(spoilt(table()), tmp_path / "log.csv")
    for rows in (30, 10_000):
        with pytest.raises(DataError, match=message):
            list(LogTable(path=path, features=("price", "size"), rows=rows).parts())


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file"):
        list(LogTable(path=tmp_path / "none.csv").parts())
    (tmp_path / "log.txt").touch()
    with pytest.raises(DataError, match=r"ends in \.parquet"):
        list(LogTable(path=tmp_path / "log.txt").parts())


# ---- requests that differ in their arms, as campaigns with 80, 34 and 46 items do


COUNTS = np.array([8, 3, 5])[np.arange(N) % 3]  # of a task's items, by request


def ragged_table(seed: int = 0) -> pl.DataFrame:
    """Return a log whose tasks have different items, each with a name of its own."""
    rng = np.random.default_rng(seed)
    rows = int(COUNTS.sum())
    firsts = np.cumsum(COUNTS) - COUNTS
    places = np.arange(rows) - np.repeat(firsts, COUNTS)
    picked = firsts + rng.integers(COUNTS)
    flags = np.isin(np.arange(rows), picked)
    features = rng.standard_normal((rows, D))
    wanted = rng.exponential(size=rows)
    paid = features @ [1.0, 2.0] + 0.1 * rng.standard_normal(rows)
    tasks = np.repeat([TASKS[i % 3] for i in range(N)], COUNTS)
    return pl.DataFrame(
        {
            "request": np.repeat(np.arange(N), COUNTS),
            "task": tasks,
            "arm": [f"{task} {place}" for task, place in zip(tasks, places, strict=True)],
            "price": features[:, 0],
            "size": features[:, 1],
            "chosen": flags,
            "probability": 1 / np.repeat(COUNTS, COUNTS),
            "reward": pl.Series([y if f else None for y, f in zip(paid, flags, strict=True)]),
            "wanted": wanted / np.repeat(np.add.reduceat(wanted, firsts), COUNTS),
            "guess": features @ [0.8, 1.8],
        }
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("rows", [4, 23, 10_000])
def test_requests_may_differ_in_their_arms(tmp_path: Path, suffix: str, rows: int) -> None:
    frame = ragged_table()
    path = write(frame, tmp_path / f"log{suffix}")
    found = list(LogTable(path=path, rows=rows, extra=("wanted", "guess")).parts())
    log = Log.concatenate([part.log for part in found])
    arms = frame.select("price", "size").to_numpy()
    assert isinstance(log.arms, RaggedArms)
    np.testing.assert_array_equal(log.arms.flat, arms)
    np.testing.assert_array_equal(log.arms.counts, COUNTS)
    np.testing.assert_array_equal(log.features, arms[frame["chosen"].to_numpy()])
    names = [
        part.arms.names[code]
        for part in found
        if part.arms is not None
        for code in part.arms.codes[part.arms.codes >= 0]
    ]
    assert names == frame["arm"].to_list()


def by_definition(frame: pl.DataFrame) -> dict[str, float]:
    """Return what each method is, from the rows of a table and its model's predictions."""
    chosen = frame.filter("chosen")
    w = (chosen["wanted"] / chosen["probability"]).to_numpy()
    y, q = chosen["reward"].to_numpy(), chosen["guess"].to_numpy()
    expected = (
        frame.group_by("request", maintain_order=True)
        .agg((pl.col("wanted") * pl.col("guess")).sum())["wanted"]
        .to_numpy()
    )
    return {
        "ips": float(np.mean(w * y)),
        "snips": float(np.sum(w * y) / np.sum(w)),
        "dm": float(np.mean(expected)),
        "dr": float(np.mean(expected + w * (y - q))),
        "sndr": float(np.mean(expected) + np.sum(w * (y - q)) / np.sum(w)),
    }


def test_values_of_ragged_requests_are_those_of_the_definitions(tmp_path: Path, run: Run) -> None:
    frame = ragged_table()
    for path in (tmp_path / "log.parquet", tmp_path / "log.csv"):
        ended = run(
            "evaluate", write(frame, path), "--policy", "column:wanted", "--predictions", "guess",
            *COLUMNS, "--by", "task", "--json",
        )  # fmt: skip
        assert ended.code == 0, ended.err
        found = {(line["task"], line["method"]): line["value"] for line in ended.records}
        for method, value in by_definition(frame).items():
            assert found[None, method] == pytest.approx(value, rel=1e-12)
        for task in TASKS:
            for method, value in by_definition(frame.filter(pl.col("task") == task)).items():
                assert found[task, method] == pytest.approx(value, rel=1e-12)


def test_policies_are_asked_about_the_arms_that_there_are(tmp_path: Path, run: Run) -> None:
    """A policy that learned in the file's parts earns as it does on the whole log."""
    frame = ragged_table()
    path = write(frame, tmp_path / "log.csv")
    (part,) = LogTable(path=path, features=("price", "size")).parts()
    policy = Shared(dim=D)
    relearn(policy, part.log.select(slice(45)))
    values = evaluate(policy, part.log.select(slice(45, None)), methods=("ips", "snips"))
    ended = run("evaluate", path, *COLUMNS, "--method", "ips", "--method", "snips", "--json")
    assert ended.code == 0, ended.err
    for line in ended.records:
        assert line["value"] == pytest.approx(values[line["method"]].value, rel=1e-9)


def test_a_saved_policy_with_labels_is_asked_by_label(tmp_path: Path, run: Run) -> None:
    """Tasks that come in another order than in the log keep what they have learned."""
    frame, saved = ragged_table(), tmp_path / "policy.npz"
    (part,) = LogTable(path=write(frame, tmp_path / "log.csv"), features=("price", "size")).parts()
    policy = Shared(dim=D, labels=True)
    relearn(policy, part.log.select(np.flatnonzero(part.log.codes == 2)))
    policy.save(saved)
    ended = run("evaluate", tmp_path / "log.csv", "--policy", saved, *COLUMNS, "--method", "ips",
                "--json")  # fmt: skip
    assert ended.code == 0, ended.err
    expected = np.concatenate(
        [
            policy.probabilities([task], [arms])[0, [chosen]]
            for task, arms, chosen in zip(
                part.log.tasks.tolist(), each_request(part.log), part.log.chosen, strict=True
            )
        ]
    )
    weights = expected / part.log.probabilities
    assert ended.records[0]["value"] == pytest.approx(np.mean(weights * part.log.rewards), rel=1e-6)


def each_request(log: Log) -> list[NDArray[np.floating]]:
    assert isinstance(log.arms, RaggedArms)
    return np.split(log.arms.flat, log.arms.starts[1:])


def test_cautions_name_the_arms(tmp_path: Path, run: Run) -> None:
    never = ((pl.col("arm") == "site 1") & pl.col("chosen")).max().over("request")
    frame = ragged_table().filter(~never)  # the log never chose this arm
    wanted = pl.col("arm").is_in(["site 1", "shop 0", "app 0"]).cast(float)
    path = write(frame.with_columns(wanted=wanted), tmp_path / "log.csv")
    ended = run("evaluate", path, "--policy", "column:wanted", *COLUMNS, "--method", "ips")
    assert ended.code == 0, ended.err
    assert "the target chooses arm site 1 in " in ended.out
    assert "of 3 tasks, 3 to 8 arms each." in ended.out


# ---- the command


COLUMNS = ("--features", "price,size")


def test_a_column_is_evaluated_as_by_the_library(tmp_path: Path, run: Run) -> None:
    path = write(table(), tmp_path / "log.parquet")
    ended = run(
        "evaluate", path, "--policy", "column:wanted", "--predictions", "guess", *COLUMNS,
        "--by", "task", "--json",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    frame = table()
    values = evaluate(
        frame["wanted"].to_numpy().reshape(N, K),
        as_log(frame),
        methods=METHODS,
        predictions=frame["guess"].to_numpy().reshape(N, K),
    )
    overall = [line for line in ended.records if line["task"] is None]
    assert [line["method"] for line in overall] == list(METHODS)
    for line in overall:
        assert line["value"] == pytest.approx(values[line["method"]].value, rel=1e-12)
        assert line["low"] == pytest.approx(values[line["method"]].low, rel=1e-12)
    assert {line["task"] for line in ended.records} == {None, *TASKS}
    assert {line["n"] for line in ended.records if line["task"]} == {N // 3}


def test_named_policies_learn_from_the_first_requests(tmp_path: Path, run: Run) -> None:
    path = write(table(), tmp_path / "log.csv")
    ended = run(
        "evaluate", path, "--policy", "ridge:ridge=2", "--learn", 0.4, "--method", "ips",
        *COLUMNS, "--json",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    log, policy = as_log(table()), Ridge(dim=D, n_tasks=3, ridge=2)
    relearn(policy, log.select(slice(36)))
    value = evaluate(policy, log.select(slice(36, None)), methods=("ips",))["ips"]
    (line,) = ended.records
    assert (line["n"], line["value"]) == (54, pytest.approx(value.value, rel=1e-12))


def test_a_saved_policy_is_evaluated_on_all_requests(tmp_path: Path, run: Run) -> None:
    path, saved = write(table(), tmp_path / "log.csv"), tmp_path / "policy.npz"
    Shared(dim=D, n_tasks=3).save(saved)
    ended = run("evaluate", path, "--policy", saved, "--method", "snips", *COLUMNS, "--json")
    (line,) = ended.records
    assert line["n"] == N


def test_the_report_and_its_pictures(tmp_path: Path, run: Run) -> None:
    path, out = write(table(), tmp_path / "log.csv"), tmp_path / "out"
    ended = run(
        "evaluate", path, "--policy", "ridge", "--policy", "column:wanted", *COLUMNS,
        "--by", "task", "--out", out,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    for name in ("values-by-method.svg", "values-per-task.png", "report.html", "report.md"):
        assert (out / name).stat().st_size > 500
    text = (out / "report.md").read_text(encoding="utf-8")
    assert "45 decisions of 3 tasks, 3 arms each; the first 45 were learned from" in text
    for line in ("| column:wanted | (all tasks) | dros |", "| ridge | shop | dr |"):
        assert line in text
    assert "only as good as its model" in ended.out
    assert "3 of 3 tasks as uncertain as fewer than 100" in ended.out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--by", "arm"), "--by must be all or task"),
        (("--learn", "1"), "--learn must be from 0"),
        (("--method", "magic"), "no method 'magic'"),
        (("--policy", "magic"), "no policy 'magic'"),
        (("--policy", "column:magic"), "no column magic"),
    ],
)
def test_misuse_of_the_command(
    tmp_path: Path, run: Run, given: tuple[str, str], message: str
) -> None:
    ended = run("evaluate", write(table(), tmp_path / "log.csv"), *COLUMNS, *given)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_json_lines_have_no_infinities(tmp_path: Path, run: Run) -> None:
    frame = table().with_columns(
        task=pl.when(pl.col("request") == "r89").then(pl.lit("new")).otherwise(pl.col("task"))
    )
    path = write(frame, tmp_path / "log.csv")
    ended = run("evaluate", path, "--policy", "column:wanted", *COLUMNS, "--by", "task", "--json")
    assert ended.code == 0, ended.err
    assert any(json.loads(line)["high"] is None for line in ended.out.splitlines())
