"""``cobandits fit``: fit a shared representation to a user's file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from cobandits.cli.findings import Findings, doubts
from cobandits.cli.models import BEST, CHOICES, fitted, preferred
from cobandits.cli.output import check_file, plot_directory, to_json, writing
from cobandits.cli.reading import MISSING, Columns, Missing, Table, read_table
from cobandits.diagnostics import Sharing, Spectrum, sharing, spectrum
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators import LowRank
from cobandits.progress import ProgressBar
from cobandits.tasks import TaskRows
from cobandits.threads import one_thread

__all__ = ["fit"]

_EVERY = 5.0  # seconds between lines of progress, where there is no terminal


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What is read, fitted and written."""

    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Rows to fit: .parquet, .pq, .csv or .tsv.")
    ]
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="File to write; named as given.")
    ]
    model: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(CHOICES),
            help="What to write; the best by held-out errors, or shared if rank or ridge is given.",
        ),
    ] = None
    rank: Annotated[str, typer.Option(metavar="auto|INT", help="Columns of the basis.")] = "auto"
    ridge: Annotated[
        str, typer.Option(metavar="auto|X", help="Shrinks theta, for tasks with few rows.")
    ] = "auto"
    seed: Annotated[int, typer.Option(min=0, metavar="INT", help="Deals the held-out rows.")] = 0
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw pictures into DIR (PNG and SVG).")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """What the columns of the file are."""

    task: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the task of a row.")]
    reward: Annotated[str, typer.Option(metavar="COLUMN", help="Column with the reward.")]
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Feature columns; all others if not given.")
    ] = None
    categorical: Annotated[
        str, typer.Option(metavar="A,B", help="Columns of numbers that are categories.")
    ] = ""
    dates: Annotated[
        str, typer.Option(metavar="A,B", help="Columns that are dates; text is found.")
    ] = ""
    missing: Annotated[
        str,
        typer.Option(
            metavar="|".join(MISSING),
            help="Missing features: leave out rows, add a column that tells, or fill in.",
        ),
    ] = "indicator"
    standardise: Annotated[
        bool, typer.Option("--standardise", help="Numbers to mean 0 and standard deviation 1.")
    ] = False
    crosses: Annotated[
        str,
        typer.Option(
            metavar="A:B,C:D",
            help="Pairs of columns whose products are features too, such as weather:product.",
        ),
    ] = ""
    intercept: Annotated[bool, typer.Option(help="Add a column of ones.")] = True

    @property
    def columns(self) -> Columns:
        """The options, checked."""
        return Columns(
            task=self.task,
            reward=self.reward,
            features=_names(self.features),
            intercept=self.intercept,
            categorical=_listed(self.categorical),
            dates=_listed(self.dates),
            missing=_missing(self.missing),
            standardise=self.standardise,
            crosses=_pairs(self.crosses),
        )


def fit(options: FitOptions, of_columns: ColumnOptions) -> None:
    """Fit the tasks of a file together, as far as that helps.

    Each row of FILE has a task, a reward and features: numbers, text, dates, true or false,
    found by themselves. Models that share between tasks and models that do not are compared on
    rows that were held out, and the best is written to MODEL with what encodes the features, for
    cobandits predict. What was found is printed.
    """
    file, output, plot = options.file, options.output, options.plot
    shared = LowRank(rank=_rank(options.rank), ridge=_ridge(options.ridge))
    columns = of_columns.columns
    asked = options.model or ("shared" if shared != LowRank(ridge="auto") else BEST)
    check_file(output, file)
    if plot is not None:
        plot_directory(plot)
    with one_thread(), ProgressBar(every=_EVERY) as bar:
        bar.stage(f"reading {file.name}")
        table = read_table(file, columns)
        findings = _found(table, columns.task, shared, asked, options, bar)
    print(to_json(findings.columns) if options.as_json else findings)
    if plot is not None:
        _draw(findings, table.tasks, plot)


def _found(
    table: Table, task: str, shared: LowRank, asked: str, options: FitOptions, bar: ProgressBar
) -> Findings:
    """Compare the models, and fit and save the one that was asked for or is best."""
    tasks = table.tasks
    bar.stage("held-out errors")
    report, reason = _held_out(tasks, shared, options.seed, bar)
    model = preferred(asked, report, tasks)
    bar.stage("fitting")
    found = fitted(model, tasks, shared, options.seed, bar.update)
    estimate = replace(found, schema=table.schema, task_name=task)
    with writing(options.output):
        estimate.save(options.output)
    return Findings(
        notes=table.notes,
        counts=tasks.counts,
        model=model,
        preferred=asked == BEST and report is not None,
        shared=shared,
        estimate=estimate,
        spectrum=_spectrum(tasks, model, shared, estimate, options.plot, bar),
        sharing=report,
        warnings=(*doubts(tasks, estimate), *reason),
        output=options.output,
    )


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
    names = _listed(text)
    if not names:
        raise ConfigurationError("--features names no column; leave it out to use all others")
    return names


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the pairs of columns in a list of them.

    >>> _pairs("weather:product, day:kind")
    [('weather', 'product'), ('day', 'kind')]
    """
    pairs = [tuple(part.strip() for part in pair.split(":")) for pair in _listed(text)]
    for pair in pairs:
        if len(pair) != 2 or not all(pair):
            raise ConfigurationError(
                f"--crosses takes pairs of columns, such as weather:product, got {':'.join(pair)!r}"
            )
    return [(first, second) for first, second in pairs]


def _missing(text: str) -> Missing:
    for known in MISSING:
        if text == known:
            return known
    raise ConfigurationError(f"missing must be one of {', '.join(MISSING)}, got {text!r}")


def _spectrum(
    tasks: TaskRows,
    model: str,
    shared: LowRank,
    estimate: Estimate,
    plot: Path | None,
    bar: ProgressBar,
) -> Spectrum | None:
    """Return the directions of the shared basis; None if it is neither written nor drawn."""
    if model != "shared" and plot is None:
        return None
    bar.stage("spectrum")
    compact = tasks.compact()
    return spectrum(compact, fit=estimate if model == "shared" else shared.fit(compact))


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
    from cobandits import plots  # these load policies, which a fit does without

    squares = np.einsum("nd,nd->d", tasks.rows, tasks.rows, dtype=np.float64)
    units = np.sqrt(squares / tasks.n_rows)
    with writing(directory):
        if findings.spectrum is not None:
            plots.save(plots.spectrum(findings.spectrum), directory / "spectrum")
        plots.save(plots.task_plane(findings.estimate, units), directory / "tasks")
        if findings.sharing is not None:
            plots.save(plots.held_out(findings.sharing), directory / "held_out")
