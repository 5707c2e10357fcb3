"""Data frames and files: what they hold comes in, what is missing in them is named."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import cast

import numpy as np
import pandas
import polars
import pytest

from cobandits.errors import DataError, MissingExtraError
from cobandits.frames import INTERCEPT, Frame, columns_of, read_frame
from cobandits.tasks import TaskRows

COLUMNS: dict[str, list[object]] = {
    "city": ["Rome", "Oslo", "Rome", "Lima"],
    "clicks": [1, 0, 3, 2],
    "a": [0.5, 1.5, -2.0, 0.0],
    "b": [1, 2, 3, 4],
    "c": [True, False, True, True],
}
Make = Callable[..., Frame]
Pandas = cast(Make, pandas.DataFrame)  # its columns are an Index, which is not a Sequence
MAKERS: dict[str, Make] = {"polars": polars.DataFrame, "pandas": Pandas}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def check_rows(tasks: TaskRows) -> None:
    assert tasks.labels == ("Rome", "Oslo", "Lima")
    assert tasks.feature_names == ("a", "b", "c")
    rome = [[0.5, 1.0, 1.0], [-2.0, 3.0, 1.0]]
    np.testing.assert_array_equal(tasks.rows, [*rome, [1.5, 2.0, 0.0], [0.0, 4.0, 1.0]])
    np.testing.assert_array_equal(tasks.rewards, [1, 3, 0, 2])


@makers
def test_frame_becomes_tasks(make: Make) -> None:
    check_rows(TaskRows.from_frame(make(COLUMNS), task="city", reward="clicks"))


@makers
def test_features_are_taken_in_the_order_they_are_named(make: Make) -> None:
    tasks = TaskRows.from_frame(
        make(COLUMNS), task="city", reward="clicks", features=["b", "a"], intercept=True
    )
    assert tasks.feature_names == ("b", "a", INTERCEPT)
    np.testing.assert_array_equal(tasks.rows[:, 2], 1)
    np.testing.assert_array_equal(tasks.rows[:2, 1], [0.5, -2.0])


@makers
def test_intercept_alone_is_a_feature(make: Make) -> None:
    frame = make({"city": ["x", "y"], "clicks": [1, 2]})
    tasks = TaskRows.from_frame(frame, task="city", reward="clicks", intercept=True)
    assert tasks.feature_names == (INTERCEPT,)
    with pytest.raises(DataError, match="no feature columns besides city and clicks; add"):
        TaskRows.from_frame(frame, task="city", reward="clicks")


@pytest.mark.parametrize("suffix", ["parquet", "pq", "csv", "CSV", "tsv"])
def test_file_becomes_tasks(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    frame = polars.DataFrame({**COLUMNS, "c": [1, 0, 1, 1]})
    if suffix.lower() in ("csv", "tsv"):
        frame.write_csv(path, separator="\t" if suffix == "tsv" else ",")
    else:
        frame.write_parquet(path)
    check_rows(TaskRows.from_file(path, task="city", reward="clicks"))
    check_rows(TaskRows.from_file(str(path), task="city", reward="clicks"))


LABEL_KINDS: dict[str, polars.Series] = {
    "integers": polars.Series([3, 1, 3]),
    "categories": polars.Series(["x", "y", "x"], dtype=polars.Categorical),
    "truth values": polars.Series([True, False, True]),
    "days": polars.Series([datetime.date(2024, 1, day) for day in (1, 2, 1)]),
    "strings": polars.Series(["x", "y", "x"]),
}


@pytest.mark.parametrize("labels", LABEL_KINDS.values(), ids=LABEL_KINDS)
def test_labels_of_a_column_stay_what_they_were(labels: polars.Series) -> None:
    frame = polars.DataFrame({"task": labels, "y": [1, 2, 3], "x": [1, 2, 3]})
    tasks = TaskRows.from_frame(frame, task="task", reward="y")
    assert tasks.labels == tuple(dict.fromkeys(labels.to_list()))
    assert [type(label) for label in tasks.labels] == [type(labels[0]), type(labels[1])]


def test_times_of_a_pandas_column_stay_times() -> None:
    days = pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01"]).astype("datetime64[ns]")
    frame = Pandas({"task": days, "y": [1, 2, 3], "x": [1, 2, 3]})
    tasks = TaskRows.from_frame(frame, task="task", reward="y")
    assert tasks.code(datetime.datetime(2024, 1, 2)) == 1


MISSING_LABELS: dict[str, Frame] = {
    "polars strings": polars.DataFrame({"task": ["x", None], "y": [1, 2], "x": [1, 2]}),
    "polars integers": polars.DataFrame({"task": [1, None], "y": [1, 2], "x": [1, 2]}),
    "polars floats": polars.DataFrame({"task": [1.0, float("nan")], "y": [1, 2], "x": [1, 2]}),
    "polars days": polars.DataFrame(
        {"task": [datetime.date(2024, 1, 1), None], "y": [1, 2], "x": [1, 2]}
    ),
    "pandas strings": Pandas({"task": ["x", None], "y": [1, 2], "x": [1, 2]}),
    "pandas objects": Pandas(
        {"task": pandas.Series(["x", float("nan")], dtype=object), "y": [1, 2], "x": [1, 2]}
    ),
    "pandas NA": Pandas(
        {"task": pandas.Series(["x", pandas.NA], dtype=object), "y": [1, 2], "x": [1, 2]}
    ),
    "pandas integers": Pandas(
        {"task": pandas.array([1, None], dtype="Int64"), "y": [1, 2], "x": [1, 2]}
    ),
    "pandas times": Pandas(
        {"task": pandas.to_datetime(["2024-01-01", "NaT"]), "y": [1, 2], "x": [1, 2]}
    ),
}


@pytest.mark.parametrize("frame", MISSING_LABELS.values(), ids=MISSING_LABELS)
def test_missing_labels_are_counted(frame: Frame) -> None:
    with pytest.raises(DataError, match="column task has 1 missing labels; drop those rows"):
        TaskRows.from_frame(frame, task="task", reward="y")


@makers
@pytest.mark.parametrize("column", ["a", "clicks"])
@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_missing_and_infinite_numbers_are_counted(
    make: Make, column: str, value: float | None
) -> None:
    columns: dict[str, list[object]] = {**COLUMNS, column: [value, 1.0, value, 2.0]}
    kind = "infinite" if value == float("inf") else "missing"
    with pytest.raises(DataError, match=f"column {column} has 2 {kind} values; fill"):
        TaskRows.from_frame(make(columns), task="city", reward="clicks")


@makers
def test_missing_whole_numbers_are_counted(make: Make) -> None:
    columns: dict[str, list[object]] = {**COLUMNS, "b": [1, None, 3, 4]}
    with pytest.raises(DataError, match="column b has 1 missing value;"):
        TaskRows.from_frame(make(columns), task="city", reward="clicks")


@makers
def test_text_is_no_feature(make: Make) -> None:
    columns: dict[str, list[object]] = {**COLUMNS, "b": ["red", "blue", "red", "red"]}
    with pytest.raises(DataError, match="column b holds text; drop it or name the features"):
        TaskRows.from_frame(make(columns), task="city", reward="clicks")
    tasks = TaskRows.from_frame(make(columns), task="city", reward="clicks", features=["a", "c"])
    assert tasks.dim == 2


@makers
@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (["high", "low", None, "low"], "text"),
        ([datetime.datetime(2024, 1, day) for day in (1, 2, 3, 4)], "times"),
        ([datetime.timedelta(day) for day in (1, 2, 3, 4)], "durations"),
    ],
)
def test_rewards_must_be_numbers(make: Make, column: list[object], kind: str) -> None:
    frame = make({**COLUMNS, "clicks": column})
    with pytest.raises(DataError, match=f"column clicks holds {kind}; rewards must be numbers"):
        TaskRows.from_frame(frame, task="city", reward="clicks")


@makers
def test_truth_values_and_decimals_with_missing_ones_are_counted(make: Make) -> None:
    for column in ([True, None, False, None], [Decimal("1.5"), None, Decimal("2.0"), None]):
        frame = make({**COLUMNS, "c": column})
        with pytest.raises(DataError, match="column c has 2 missing values"):
            TaskRows.from_frame(frame, task="city", reward="clicks")
    whole = make({**COLUMNS, "c": [Decimal(text) for text in ("1.5", "2.0", "3.0", "4.0")]})
    tasks = TaskRows.from_frame(whole, task="city", reward="clicks", features=["c"])
    assert tasks.rows[:, 0].tolist() == [1.5, 3, 2, 4]


def test_a_lazy_frame_is_to_be_collected() -> None:
    lazy = cast(Frame, polars.DataFrame(COLUMNS).lazy())
    with pytest.raises(DataError, match=r"call \.collect\(\) first"):
        columns_of(lazy, task="city", reward="clicks")


@makers
def test_wrong_column_names_are_answered_with_the_right_ones(make: Make) -> None:
    frame = make(COLUMNS)
    with pytest.raises(DataError, match="no column town, z; the file has: city, clicks, a, b, c"):
        columns_of(frame, task="town", reward="clicks", features=["a", "z"])
    for task, reward, features in (
        ("city", "city", ["a"]),
        ("city", "clicks", ["city"]),
        ("city", "clicks", ["clicks", "a"]),
    ):
        with pytest.raises(DataError, match="must be different columns"):
            columns_of(frame, task=task, reward=reward, features=features)
    with pytest.raises(DataError, match="named twice; name each once"):
        columns_of(frame, task="city", reward="clicks", features=["a", "a"])


def test_columns_that_appear_twice_are_refused() -> None:
    frame = Pandas(np.ones((2, 4)), columns=["task", "y", "a", "a"])
    with pytest.raises(DataError, match="columns appear twice: a; rename or drop one"):
        columns_of(frame, task="task", reward="y")


def test_columns_named_by_numbers_are_asked_for_by_name() -> None:
    frame = Pandas(np.ones((2, 3)))
    with pytest.raises(DataError, match="no column task, 1; the file has: 0, 1, 2"):
        columns_of(frame, task="task", reward="1")


@makers
def test_empty_frame_has_no_rows(make: Make) -> None:
    columns: dict[str, list[object]] = {name: [] for name in ("city", "clicks", "a")}
    with pytest.raises(DataError, match="there are no rows"):
        TaskRows.from_frame(make(columns), task="city", reward="clicks")


def test_frame_is_not_changed() -> None:
    frame = polars.DataFrame(COLUMNS)
    tasks = TaskRows.from_frame(frame, task="city", reward="clicks")
    tasks.add([[1.0, 1.0, 1.0]], [1.0], ["Rome"])
    assert frame.equals(polars.DataFrame(COLUMNS))


# ---- files


def test_missing_file_and_unknown_suffix(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*; check the path"):
        read_frame(tmp_path / "rows.csv")
    with pytest.raises(
        DataError, match=r"expected a file that ends in \.parquet, \.pq, \.csv, \.tsv"
    ):
        read_frame(tmp_path / "rows.xlsx")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9, 0.99])
def test_truncated_parquet_is_refused(tmp_path: Path, share: float) -> None:
    path = tmp_path / "rows.parquet"
    polars.DataFrame({"x": np.arange(1000.0)}).write_parquet(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"cannot be read .* truncated or of another format"):
        read_frame(path)


def test_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_text("city,clicks\nRome,1\n")
    with pytest.raises(DataError, match=r"cannot be read .* truncated or of another format"):
        read_frame(path)
    (tmp_path / "rows.csv").write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read"):
        read_frame(tmp_path / "rows.csv")


@pytest.mark.parametrize("text", ["city,clicks\nZürich,1\n", "città,clicks\nRome,1\n"])
def test_text_that_is_not_utf_8_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "rows.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match="text must be in UTF-8"):
        read_frame(tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("name", "separator", "words"),
    [
        ("rows.csv", ";", "semicolons between columns, expected commas"),
        ("rows.csv", "\t", "tabs between columns, expected commas"),
        ("rows.tsv", ",", "commas between columns, expected tabs"),
    ],
)
def test_another_separator_is_named(tmp_path: Path, name: str, separator: str, words: str) -> None:
    path = tmp_path / name
    path.write_text("city;clicks;a\nRome;1,5;2\n".replace(";", separator))
    with pytest.raises(DataError, match=words):
        read_frame(path)


def test_a_file_with_one_column_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("clicks\n1\n2\n")
    assert list(read_frame(path).columns) == ["clicks"]


def test_without_polars_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("city,clicks,a\nRome,1,2\n")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[data\]'"):
        read_frame(path)


@pytest.mark.parametrize(
    "cells",
    [
        ["1"] * 10_000 + ["2.5"],
        [""] * 10_000 + ["3"],
        ["true"] * 10_000 + ["maybe"],
        ["7"] * 10_000 + ["x"],
        [""] * 10_001,
        ["1", "", "2.5"],
    ],
    ids=["decimals later", "empty at first", "text after flags", "text later", "empty", "few"],
)
def test_all_rows_tell_the_types_of_columns(tmp_path: Path, cells: list[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("task,cell\n" + "".join(f"a,{cell}\n" for cell in cells))
    expected = polars.read_csv(path, null_values=[""], infer_schema_length=None)
    found = cast(polars.DataFrame, read_frame(path))
    assert found.schema == expected.schema
    assert found.equals(expected)
