"""``cobandits fit``: fit a shared representation to a user's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from cobandits import plots
from cobandits.cli.findings import Findings, doubts
from cobandits.cli.output import check_file, plot_directory, to_json, writing
from cobandits.diagnostics import Sharing, sharing, spectrum
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import check_labels
from cobandits.estimators import LowRank
from cobandits.progress import ProgressBar
from cobandits.tasks import TaskRows

__all__ = ["fit"]


Features = Annotated[
    str | None, typer.Option(metavar="A,B,C", help="Feature columns; all others if not given.")
]
Pictures = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Draw pictures into DIR (PNG and SVG).")
]


def fit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows to fit: .parquet, .pq, .csv or .tsv.")
    ],
    *,
    task: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the task of a row.")],
    reward: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the reward.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="File to write; named as given.")
    ],
    features: Features = None,
    rank: Annotated[str, typer.Option(metavar="auto|INT", help="Columns of the basis.")] = "auto",
    ridge: Annotated[
        str, typer.Option(metavar="auto|X", help="Shrinks theta, for tasks with few rows.")
    ] = "auto",
    intercept: Annotated[bool, typer.Option(help="Add a column of ones.")] = True,
    seed: Annotated[int, typer.Option(min=0, metavar="INT", help="Deals the held-out rows.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plot: Pictures = None,
) -> None:
    """Fit a shared basis to the rows of a file.

    Each row of FILE has a task, a reward and numeric features. The estimate is written to
    MODEL, for cobandits.Estimate.load(MODEL). What was found is printed: among it whether
    sharing helps, by the errors on rows that were held out.
    """
    estimator = LowRank(rank=_rank(rank), ridge=_ridge(ridge))
    names = _names(features)
    check_file(output, file)
    if plot is not None:
        plot_directory(plot)
    with ProgressBar() as bar:
        bar.stage(f"reading {file.name}")
        tasks = _read(file, task=task, reward=reward, features=names, intercept=intercept)
        check_labels(tasks.labels)  # before a fit takes its time
        findings = _found(tasks, estimator, seed, output, bar)
    print(to_json(findings.columns) if as_json else findings)
    if plot is not None:
        _draw(findings, tasks, plot)


def _rank(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        rank = int(text)
    except ValueError:
        raise ConfigurationError(f"rank must be 'auto' or a whole number, got {text!r}") from None
    if rank < 1:
        raise ConfigurationError(
            f"rank must be at least 1, got {rank}; leave out --rank to have it chosen"
        )
    return rank


def _ridge(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"ridge must be 'auto' or a number, got {text!r}") from None


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ConfigurationError("--features names no column; leave it out to use all others")
    return names


def _read(
    file: Path, *, task: str, reward: str, features: list[str] | None, intercept: bool
) -> TaskRows:
    try:
        return TaskRows.from_file(
            file, task=task, reward=reward, features=features, intercept=intercept
        )
    except DataError as error:  # whose advice is for callers of the library
        raise DataError(str(error).replace("features=", "--features")) from error


def _found(
    tasks: TaskRows, estimator: LowRank, seed: int, output: Path, bar: ProgressBar
) -> Findings:
    """Fit, save the estimate, and return it with its spectrum and held-out errors."""
    bar.stage("fitting")
    estimate = estimator.fit(tasks, rng=seed, progress=lambda i, *_: bar.update(i))
    with writing(output):
        estimate.save(output)
    bar.stage("spectrum")
    directions = spectrum(tasks, rank=estimate.rank)
    bar.stage("held-out errors")
    held_out, reason = _held_out(tasks, estimator, seed, bar)
    return Findings(
        counts=tasks.counts,
        chosen=estimator.rank == "auto",
        ridge=estimator.ridge,
        estimate=estimate,
        spectrum=directions,
        sharing=held_out,
        warnings=(*doubts(tasks, estimate), *reason),
        output=output,
    )


def _held_out(
    tasks: TaskRows, estimator: LowRank, seed: int, bar: ProgressBar
) -> tuple[Sharing | None, list[str]]:
    """Return the held-out errors, or a warning that says why there are none."""
    try:
        report = sharing(
            tasks, rank=estimator.rank, ridge=estimator.ridge, rng=seed, progress=bar.update
        )
    except DataError as error:
        return None, [f"no held-out errors: {error}"]
    return report, []


def _draw(findings: Findings, tasks: TaskRows, directory: Path) -> None:
    squares = np.einsum("nd,nd->d", tasks.rows, tasks.rows, dtype=np.float64)
    units = np.sqrt(squares / tasks.n_rows)
    with writing(directory):
        plots.save(plots.spectrum(findings.spectrum), directory / "spectrum")
        plots.save(plots.task_plane(findings.estimate, units), directory / "tasks")
        if findings.sharing is not None:
            plots.save(plots.held_out(findings.sharing), directory / "held_out")
