"""``cobandits predict``: expected rewards of a file's rows, by a model that ``fit`` wrote."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from cobandits.cli.output import check_file, writing
from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.files import write_whole
from cobandits.frames import Frame, plain_labels, read_frame
from cobandits.threads import one_thread

__all__ = ["predict"]


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What fit wrote.")],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows: .parquet, .pq, .csv or .tsv.")
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="CSV", help="File to write, a line a row.")
    ],
    task: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with the task; as in the fit.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse tasks that were not fitted, and new gaps.")
    ] = False,
) -> None:
    """Predict the reward of each row of a file.

    Columns are those of the file that was fitted, as they were; the reward is not needed. A
    task that was not fitted is predicted by the mean of the fitted tasks, and the column
    "spread" says how far single tasks are from it, as a standard deviation. A missing value in
    a column that had none is taken as the mean of the column, and a warning says so.
    """
    check_file(output, file)
    estimate = Estimate.load(model)
    frame = read_frame(file)
    column = _task_column(estimate, frame, task)
    labels = plain_labels(np.asarray(frame[column].to_numpy())).tolist()
    with one_thread():
        predicted = estimate.predict(frame, labels, strict=strict)
        new = estimate.codes(labels, strict=strict) < 0
        spread = np.where(new, estimate.spread(frame), 0.0)
    _write(output, column, labels, predicted, spread, new)
    print(f"predicted     {len(labels):,} rows of {len(set(labels)):,} tasks")
    if new.any():
        print(f"new tasks     {_new_tasks(labels, spread, new, len(estimate.labels))}")
    if gaps := {} if estimate.schema is None else estimate.schema.new_gaps(frame):
        print(f"warning       {_new_gaps(gaps)}")
    print(f"written       {output}")


def _new_gaps(gaps: dict[str, int]) -> str:
    named = ", ".join(f"{name} ({count:,})" for name, count in gaps.items())
    return f"missing values where the fit had none, taken as the mean: {named}"


def _task_column(estimate: Estimate, frame: Frame, given: str | None) -> str:
    """Return the column with the tasks: as given, or as in the fit."""
    column = given or estimate.task_name
    if column is None:
        raise ConfigurationError("the model does not name the column of tasks; give --task")
    if column not in frame.columns:
        raise ConfigurationError(f"no column {column}; there are: {', '.join(frame.columns)}")
    return column


def _new_tasks(
    labels: list[object], spread: NDArray[np.float64], new: NDArray[np.bool_], fitted: int
) -> str:
    fresh = {label for label, is_new in zip(labels, new.tolist(), strict=True) if is_new}
    typical = float(np.sqrt(np.mean(spread[new] ** 2)))
    return (
        f"{len(fresh):,}, {int(new.sum()):,} rows: predicted by the mean of the {fitted:,} fitted "
        f"tasks, of which single ones differ by {typical:.3g} (standard deviation)"
    )


def _write(
    output: Path,
    column: str,
    labels: list[object],
    predicted: NDArray[np.float64],
    spread: NDArray[np.float64],
    new: NDArray[np.bool_],
) -> None:
    """Write a line a row: its task, its prediction, and the spread if the task is new."""
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow([column, "predicted", "spread"])
    known = np.where(new, spread.astype(object), "")
    lines.writerows(zip(labels, predicted.tolist(), known.tolist(), strict=True))
    with writing(output):
        write_whole(output, text.getvalue().encode())
