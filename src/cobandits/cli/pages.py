"""The report on a user's own experiment: one page in HTML, and the same in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cobandits.cli.results import Result
from cobandits.lab import Experiment
from cobandits.lab.pages import markdown, write_experiment, write_page
from cobandits.lab.reproduction import facts

__all__ = ["write_pages"]


def write_pages(results: Sequence[Result], figures: Mapping[str, Path], directory: Path) -> Path:
    """Write ``report.html`` and ``report.md``; return the path of the page.

    Parameters
    ----------
    figures
        The path of each picture, without .svg and .png, by its caption.
    """
    one = results[0].experiment
    title, setting = one.name, _setting(one, results[0].length)
    rows = [row for result in results for row in _rows(result)]
    notes = [" ".join(results[0].standings.legend), *_notes(results)]
    page = write_experiment(
        directory,
        title=title,
        setting=setting,
        standings=rows,
        figures=figures,
        notes=notes,
        facts=facts(),
    )
    pictures = [f"![{caption}]({stem.name}.svg)" for caption, stem in figures.items()]
    parts = [f"# {title}", setting, markdown(rows), *notes, *pictures]
    write_page(page.with_suffix(".md"), "\n\n".join(parts) + "\n")
    return page


def _setting(one: Experiment, length: str) -> str:
    """Return the description that all experiments share."""
    fixed = {k: v for k, v in one.environment_parameters.items() if k not in one.varied}
    return replace(one, environment_parameters=fixed).described(length)


def _rows(result: Result) -> list[dict[str, str]]:
    """Return the standings of an experiment, with the parameters that vary in each row."""
    varied = {key: str(value) for key, value in result.experiment.varied.items()}
    shown = result.standings
    return [{**varied, **dict(zip(shown.header, row, strict=True))} for row in shown.rows]


def _notes(results: Sequence[Result]) -> list[str]:
    """Return the notes of all experiments."""
    return [
        f"{result.heading}: {note}" if result.heading else note
        for result in results
        for note in result.standings.notes
    ]
