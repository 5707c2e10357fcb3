"""``cobandits evaluate``: what policies would have earned, from a log of another one."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cobandits import plots, policies
from cobandits.cli.interrupts import interruptible
from cobandits.cli.options import Seed
from cobandits.cli.output import console, new_table, number, plot_directory, to_json, writing
from cobandits.cli.targets import Judged, judge
from cobandits.errors import ConfigurationError
from cobandits.evaluation import METHODS, Method, Value, Values
from cobandits.lab.pages import markdown, write_experiment, write_page
from cobandits.lab.reproduction import facts
from cobandits.log_tables import LogTable

__all__ = ["evaluate"]

_PIPED = 200  # columns where there is no terminal: no label is broken
_ALL = "(all tasks)"  # a task may be called "all", as a campaign of ZOZOTOWN is
_SHOWN = 30  # tasks in a picture, those with the most decisions


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What is evaluated, and how it is shown."""

    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The log: .parquet, .pq, .csv or .tsv.")
    ]
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,..]|FILE|column:NAME",
            help=f"One of {', '.join(policies.available())}, which learns first; a saved policy; "
            "or a column with its probability of each arm. May be repeated; shared if not given.",
        ),
    ] = None
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Of {', '.join(METHODS)}; may be repeated."),
    ] = None
    by: Annotated[
        str, typer.Option(metavar="all|task", help="task: values per task too, by dr or dm.")
    ] = "all"
    learn: Annotated[
        float, typer.Option(metavar="SHARE", help="Of the requests, that named policies learn.")
    ] = 0.5
    level: Annotated[float, typer.Option(metavar="X", help="Of the intervals.")] = 0.95
    seed: Seed = 0
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write pictures and a report into DIR.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The columns of the log."""

    request: Annotated[str, typer.Option(metavar="COLUMN", help="Request.")] = "request"
    task: Annotated[str, typer.Option(metavar="COLUMN", help="Task.")] = "task"
    arm: Annotated[str, typer.Option(metavar="COLUMN", help="Name of the arm.")] = "arm"
    chosen: Annotated[str, typer.Option(metavar="COLUMN", help="1 if chosen.")] = "chosen"
    probability: Annotated[
        str, typer.Option(metavar="COLUMN", help="With which the arm was chosen.")
    ] = "probability"
    reward: Annotated[str, typer.Option(metavar="COLUMN", help="Of the chosen arm.")] = "reward"
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Feature columns; all others if not given.")
    ] = None
    predictions: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Rewards that your own model predicts.")
    ] = None


def evaluate(options: EvaluateOptions, columns: TableOptions) -> None:
    """Estimate what policies would have earned on the requests of FILE.

    FILE has a row for each arm of each request: the request, its task, the arm, its features,
    whether it was chosen, with which probability, and the reward. It is read part by part.
    """
    if options.by not in ("all", "task"):
        raise ConfigurationError(f"--by must be all or task, got {options.by!r}")
    if options.out is not None:
        plot_directory(options.out)
    named = {name: value for name, value in asdict(columns).items() if name != "predictions"}
    named["features"] = tuple(filter(None, (columns.features or "").split(",")))
    table = LogTable(path=options.file, **named)
    with interruptible("stopped; nothing is kept"):
        judged = judge(
            table,
            options.policy or ["shared"],
            methods=_methods(options.method),
            predictions=columns.predictions,
            learn=options.learn,
            level=options.level,
            seed=options.seed,
        )
    per_task = options.by == "task"
    _print_json(judged, per_task) if options.as_json else _print(judged, per_task)
    if options.out is not None:
        page = _write(judged, per_task, options.file, options.out)
        if not options.as_json:
            print(f"\nThe report: {page}")


def _methods(given: list[str] | None) -> tuple[Method, ...]:
    if unknown := [name for name in given or () if name not in METHODS]:
        raise ConfigurationError(f"no method {unknown[0]!r}; choose from {', '.join(METHODS)}")
    return tuple(m for m in METHODS if not given or m in given)


def _print_json(judged: Judged, per_task: bool) -> None:
    for policy, values in judged.values.items():
        for task, found in _tables(values, per_task).items():
            for value in found.values():
                print(to_json({"policy": policy, "task": task, **asdict(value)}))


def _tables(values: Values, per_task: bool) -> Mapping[Hashable, Mapping[Method, Value]]:
    return {None: values.overall} | (values.tasks if per_task else {})


def _rows(judged: Judged, per_task: bool) -> list[dict[str, str]]:
    """Return one row per policy and method, and per task by its best method."""
    rows = []
    for policy, values in judged.values.items():
        for task, found in _tables(values, per_task).items():
            shown = found.values() if task is None else [found[_best(found)]]
            rows += [
                {"policy": policy, **({"task": _name(task)} if per_task else {}), **_cells(value)}
                for value in shown
            ]
    return rows


def _name(task: Hashable) -> str:
    return _ALL if task is None else str(task)


def _best(found: Mapping[Method, Value]) -> Method:
    """Return the method to show per task: dr if there, else the first."""
    return "dr" if "dr" in found else next(iter(found))


def _cells(value: Value) -> dict[str, str]:
    return {
        "method": value.method,
        "value": number(value.value),
        "low": number(value.low),
        "high": number(value.high),
        "decisions": f"{value.n:,}",
        "effective": f"{value.effective_n:,.0f}",
        "parameter": "" if value.parameter is None else f"{value.parameter:.3g}",
    }


def _notes(judged: Judged, per_task: bool) -> list[str]:
    """Return the setting, and every caution once, with the methods that it is about."""
    lines = [judged.setting]
    for policy, values in judged.values.items():
        about: dict[str, list[str]] = {}
        for value in values.overall.values():
            for caution in value.cautions:
                about.setdefault(caution, []).append(value.method)
        lines += [f"{policy}, {', '.join(of)}: {caution}" for caution, of in about.items()]
        doubtful = [
            str(task)
            for task, found in values.tasks.items()
            if found[_best(found)].effective_n < 100
        ]
        if per_task and doubtful:
            lines.append(
                f"{policy}: in {len(doubtful)} of {len(values.tasks)} tasks as uncertain as fewer "
                "than 100 decisions of its own; trust no single one of them"
            )
    return lines


def _print(judged: Judged, per_task: bool) -> None:
    rows = _rows(judged, per_task)
    table = new_table()
    for name in rows[0]:
        words = name in ("policy", "task", "method")
        table.add_column(name, justify="left" if words else "right", no_wrap=not words)
    for row in rows:
        table.add_row(*map(Text, row.values()))
    output = console(_PIPED)
    output.print(table)
    output.print()
    for line in _notes(judged, per_task):
        output.print(line, markup=False)


def _write(judged: Judged, per_task: bool, file: Path, out: Path) -> Path:
    """Draw the values and write the report; return its path."""
    rows, notes = _rows(judged, per_task), _notes(judged, per_task)
    figures = {}
    for caption, groups in _pictures(judged, per_task).items():
        stem = out / caption.lower().replace(" ", "-")
        with writing(out):
            plots.save(plots.intervals(groups, textwrap.fill(judged.setting, 95)), stem)
        figures[caption] = stem
    title = f"What policies would have earned: {file.name}"
    page = write_experiment(
        out,
        title=title,
        setting=judged.setting,
        standings=rows,
        figures=figures,
        notes=notes[1:],
        facts=facts(),
    )
    shown = [f"![{caption}]({stem.name}.svg)" for caption, stem in figures.items()]
    parts = [f"# {title}", judged.setting, markdown(rows), *notes[1:], *shown]
    write_page(page.with_suffix(".md"), "\n\n".join(parts) + "\n")
    return page


def _pictures(judged: Judged, per_task: bool) -> dict[str, dict[str, dict[str, plots.Interval]]]:
    overall = {
        policy: {str(value.method): _interval(value) for value in values.overall.values()}
        for policy, values in judged.values.items()
    }
    if not per_task:
        return {"Values by method": overall}
    tasks = {policy: _most_asked(values) for policy, values in judged.values.items()}
    return {"Values by method": overall, "Values per task": tasks}


def _most_asked(values: Values) -> dict[str, plots.Interval]:
    shown = {task: found[_best(found)] for task, found in values.tasks.items()}
    order = sorted(shown, key=lambda task: -shown[task].n)[:_SHOWN]
    return {str(task): _interval(shown[task]) for task in order}


def _interval(value: Value) -> plots.Interval:
    known = math.isfinite(value.value)
    return plots.Interval(value.value, value.low if known else math.nan, value.high)
