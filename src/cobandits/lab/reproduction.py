"""The paper's figures: the cells of all panels are run once, kept, and drawn."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from cobandits import plots
from cobandits.errors import ConfigurationError
from cobandits.files import write_whole
from cobandits.kernels import COMPILED
from cobandits.lab.cells import Cell
from cobandits.lab.claims import Claim, Evidence, check
from cobandits.lab.panels import Panel, Scale
from cobandits.lab.records import Record
from cobandits.lab.runner import Jobs, Progress, Workers
from cobandits.lab.store import Store

__all__ = ["Reproduction", "facts", "reproduce"]

_EVERY = 5.0  # seconds between writes of the time, for a run that is killed

Series = Mapping[str, list[Record]]  # the records of each line of a panel


@dataclass(frozen=True, kw_only=True, eq=False)
class Reproduction:
    """The records and figures of the panels that were run, for a report."""

    scale: Scale
    panels: Mapping[str, Panel]
    records: Mapping[str, Series]  # by panel
    figures: Mapping[str, Path]  # by panel, without .svg and .png
    seconds: float  # of this run and of earlier ones in the same directory
    jobs: int
    n_cells: int  # of all panels
    n_missing: int  # cells that were planned and are not in the records
    n_run: int  # of these, how many were run now
    facts: Mapping[str, str]  # the machine, the versions and the date
    notes: Sequence[str]  # on damaged files that were set aside

    @cached_property
    def evidence(self) -> Evidence:
        """The runs of the paper's panels, by which its claims are judged."""
        return Evidence(
            {name: lines for name, lines in self.records.items() if not self.panels[name].judge}
        )

    @cached_property
    def claims(self) -> list[Claim]:
        """The paper's claims with their verdicts, then those that studies test."""
        alone = [(self.panels[name].judge, lines) for name, lines in self.records.items()]
        return check(self.evidence) + [judge(lines) for judge, lines in alone if judge]


def reproduce(
    panels: Sequence[Panel],
    scale: Scale,
    *,
    jobs: Jobs = 1,
    out: Path,
    kept: bool = False,
    progress: Progress | None = None,
    stage: Callable[[str], None] = lambda _: None,
) -> Reproduction:
    """Run the cells of the panels that have no record in ``out`` yet, and draw all panels.

    Records are kept as they come: a run that was interrupted or killed continues where it was.
    With ``kept`` nothing is run: the trials that are whole so far are drawn. ``progress`` is
    called with the cells done, the cells to run, and the cell that was done; ``stage`` with the
    work that begins: running, then drawing.
    """
    plan = {panel.name: panel.cells(scale) for panel in panels}
    cells = [cell for lines in plan.values() for line in lines.values() for cell in line]
    with Store(out) as store:
        stage("running")
        wanted = [] if kept else cells
        n_run, seconds = _run_missing(store, wanted, jobs=jobs, progress=progress)
        records = _by_panel(plan, store.records(), out)
    drawn = [panel for panel in panels if panel.name in records]
    used = {one["identity"] for lines in records.values() for x in lines.values() for one in x}
    return Reproduction(
        scale=scale,
        panels={panel.name: panel for panel in drawn},
        records=records,
        figures=_draw_all(drawn, records, scale, out / "figures", stage),
        seconds=seconds,
        jobs=_number(jobs),
        n_cells=len(used),
        n_missing=len({cell.identity for cell in cells} - used),
        n_run=n_run,
        facts=facts(),
        notes=store.notes,
    )


def _run_missing(
    store: Store, cells: Sequence[Cell], *, jobs: Jobs, progress: Progress | None
) -> tuple[int, float]:
    """Run the cells without a record; return their number, and the seconds of all runs so far."""
    missing = _by_trial(store.missing(cells))
    clock = _Clock(store.directory / "runs.json", _number(jobs))
    with clock, contextlib.closing(store.run_all(missing, jobs=jobs)) as results:
        for done, (cell, _) in enumerate(results, 1):
            clock.tick()
            if progress is not None:
                progress(done, len(missing), str(cell))
    return len(missing), clock.total


def _by_trial(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells trial by trial, and cells of one world in a row.

    So a run in one process that ends early has the same trials of all panels.
    """
    return sorted(cells, key=lambda cell: (cell.trial, cell.world))


def _number(jobs: Jobs) -> int:
    return jobs.number if isinstance(jobs, Workers) else jobs


def _by_panel(
    plan: Mapping[str, Mapping[str, Sequence[Cell]]], records: Mapping[str, Record], out: Path
) -> dict[str, Series]:
    """Return the records of the whole trials of each panel; panels without any are left out."""
    found = {panel: _of_lines(lines, records) for panel, lines in plan.items()}
    if not any(found.values()):
        raise ConfigurationError(f"{out} has no whole trial of these panels; run them first")
    return {panel: lines for panel, lines in found.items() if lines}


def _of_lines(lines: Mapping[str, Sequence[Cell]], records: Mapping[str, Record]) -> Series:
    """Return the records of each line, in the trials that are whole.

    A trial is whole if all cells are there, of the lines that have all trials.
    """
    trials = {name: {cell.trial for cell in line} for name, line in lines.items()}
    every = set().union(*trials.values())
    cells = [cell for name, line in lines.items() if trials[name] == every for cell in line]
    whole = every - {cell.trial for cell in cells if cell.identity not in records}
    kept = {
        name: [
            records[cell.identity]
            for cell in line
            if cell.trial in whole and cell.identity in records
        ]
        for name, line in lines.items()
    }
    return {name: line for name, line in kept.items() if line}


def _draw_all(
    panels: Sequence[Panel],
    records: Mapping[str, Series],
    scale: Scale,
    directory: Path,
    stage: Callable[[str], None],
) -> dict[str, Path]:
    """Draw the panels; return the paths of their pictures, without .svg and .png."""
    figures = {}
    for panel in panels:
        stage(f"drawing {panel.name}")
        figures[panel.name] = _draw(panel, records[panel.name], scale, directory)
    return figures


def _draw(panel: Panel, series: Series, scale: Scale, directory: Path) -> Path:
    """Draw a panel; return the path of its pictures, without .svg and .png."""
    stem = directory / panel.name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        plots.save(panel.draw(series, scale), stem)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {directory}: {error.strerror}; make room or name another directory"
        ) from error
    return stem


class _Clock:
    """Keeps the times of this run and of earlier ones in a file."""

    def __init__(self, path: Path, jobs: int) -> None:
        self._path, self._jobs = path, jobs
        self._runs = _earlier_runs(path)
        self._began, self._noted = perf_counter(), 0.0
        self._date, self._cells = datetime.now(UTC).isoformat(timespec="seconds"), 0

    def __enter__(self) -> _Clock:
        return self

    def __exit__(self, *_: object) -> None:
        if self._cells:
            self._note()

    def tick(self) -> None:
        """Count a cell; write the time after the first, then every few seconds."""
        self._cells += 1
        if self._cells == 1 or self._seconds - self._noted > _EVERY:
            self._note()

    @property
    def total(self) -> float:
        """Seconds of all runs that ran a cell."""
        earlier = sum(float(run["seconds"]) for run in self._runs)
        return earlier + (self._noted if self._cells else 0.0)

    @property
    def _seconds(self) -> float:
        return perf_counter() - self._began

    def _note(self) -> None:
        self._noted = round(self._seconds, 3)
        now = {
            "began": self._date,
            "seconds": self._noted,
            "cells": self._cells,
            "jobs": self._jobs,
        }
        with contextlib.suppress(OSError):  # a full disk: the store says so, of what matters
            write_whole(self._path, json.dumps([*self._runs, now], indent=1).encode())


def _earlier_runs(path: Path) -> list[dict[str, str | int | float]]:
    """Return the runs in the file; none where it is missing or not such a file."""
    try:
        runs = json.loads(path.read_bytes())
        return [run for run in runs if float(run["seconds"]) >= 0]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def facts() -> dict[str, str]:
    """Return the machine, the versions and the date."""
    packages = ("cobandits", "numpy", "scipy")
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "compiled pass": "yes" if COMPILED else "no, NumPy",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _cpu() -> str:
    """Return the name of the processor, as well as the system tells it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
