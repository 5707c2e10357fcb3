"""The paper's synthetic panels at full scale, against the same cells written literally.

The library's cells run whole; the literal ones are extrapolated, see
:mod:`benchmarks.literal_cells`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks import literal
from benchmarks.literal_cells import (
    TIMED_ITERATIONS,
    TIMED_ROUNDS,
    has_literal,
    literal_time,
    seconds_of,
)
from benchmarks.report import Section, Table, Target
from cobandits import environments
from cobandits.lab.cells import Cell, Estimation, Simulation
from cobandits.lab.panels import Panel, Scale, available
from cobandits.simulate import simulate

__all__ = ["Comparison", "Kind", "compare", "kinds", "section", "together_seconds"]

PANELS = ("1a", "1b", "1c", "1g", "1h", "1i", "2a", "2b", "2c", "2d", "2e")
TRIALS = 3  # of each kind of cell


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Cells of a series that differ in the trial alone."""

    panel: str
    series: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Seconds of all cells of a kind, on one thread."""

    kind: Kind
    ours: float
    literal: float  # with the paper's 2000 iterations a fit
    stopped: float  # the same, with as many iterations as ours took


def section() -> Section:
    """Time every kind of cell of the synthetic panels, and sum up."""
    panels = [panel for name, panel in available().items() if name in PANELS]
    every = kinds(panels, Scale())
    found = [compare(kind) for kind in every if has_literal(kind.cells[0])]
    _, ours, whole, _, stopped, _ = _numbers(found)
    together = together_seconds([one.kind for one in found])
    title = f"Seconds on one thread, all cells, from {TRIALS} trials of each kind"
    columns = ("panel", "cells", "ours", "literal", "ratio", "stopped as ours", "its ratio")
    return Section(
        name="reproduction",
        tables=[Table(title=title, columns=columns, rows=_rows(found))],
        targets=[Target(name="literal / ours, all cells", measured=whole / together, at_least=50)],
        notes=[
            f"The lab runs cells of one world one after the other, and draws its rounds once: all "
            f"cells take {together:.0f} s so, {ours:.0f} s one by one.",
            f"Literal cells are extrapolated from {TIMED_ROUNDS} rounds of a play and "
            f"{TIMED_ITERATIONS} iterations of each fit, of the paper's {literal.ITERATIONS}. "
            "The library stops where it has converged: stopped as ours, with as many "
            f"iterations as it took, they take {stopped / together:.3g} times as long as ours.",
            _left_out([kind for kind in every if not has_literal(kind.cells[0])]),
        ],
    )


def kinds(panels: Sequence[Panel], scale: Scale) -> list[Kind]:
    """Return the cells of the panels by kind; one that several panels show counts once."""
    found: dict[str, dict[str, Cell]] = {}
    shown: dict[str, tuple[str, str]] = {}
    for panel, series, cell in _cells(panels, scale):
        kind = replace(cell, trial=0).identity
        shown.setdefault(kind, (panel, series))
        found.setdefault(kind, {})[cell.identity] = cell
    return [
        Kind(panel=shown[kind][0], series=shown[kind][1], cells=tuple(cells.values()))
        for kind, cells in found.items()
    ]


def compare(kind: Kind, trials: int = TRIALS) -> Comparison:
    """Time some trials, the library's and the literal in turn, and scale up to all cells."""
    seconds = []
    counts: list[int] | None = None
    for cell in kind.cells[:trials]:
        ours, slow = seconds_of(cell.run), literal_time(cell)
        paper = [literal.ITERATIONS] * len(slow.iterations)
        if counts is None:  # those of the first trial stand for all, to save time
            counts = _iterations(cell) if any(slow.iterations) else paper
        seconds.append((ours, slow.seconds(paper), slow.seconds(counts)))
    ours, whole, stopped = np.mean(seconds, axis=0) * len(kind.cells)
    return Comparison(kind=kind, ours=ours, literal=whole, stopped=stopped)


def together_seconds(members: Sequence[Kind], trials: int = TRIALS) -> float:
    """Return the seconds of all cells, run as the lab does: those of one world in a row."""
    worlds: dict[tuple[str, int], list[Kind]] = {}
    for kind in members:
        worlds.setdefault((kind.cells[0].world, len(kind.cells)), []).append(kind)
    total = 0.0
    for (_, n_cells), met in worlds.items():
        rows = [[kind.cells[i] for kind in met] for i in range(min(trials, n_cells))]
        total += n_cells * float(np.mean([seconds_of(partial(_run_all, row)) for row in rows]))
    return total


def _run_all(cells: Sequence[Cell]) -> None:
    for cell in cells:
        cell.run()


def _iterations(cell: Cell) -> list[int]:
    """Return how many iterations each fit of the library takes in this cell."""
    if isinstance(cell, Estimation):
        return [int(str(cell.run()["iterations"]))]
    assert isinstance(cell, Simulation)
    environment = environments.make(cell.environment, cell.environment_parameters)
    policy = cell.make_policy(environment)
    trace = simulate(policy, environment, cell.rounds, cell.seed, trial=cell.trial)
    return [fit.iterations for fit in trace.fits]


def _cells(panels: Sequence[Panel], scale: Scale) -> Iterator[tuple[str, str, Cell]]:
    for panel in panels:
        for series, cells in panel.cells(scale).items():
            for cell in cells:
                yield panel.name, series, cell


def _rows(found: Sequence[Comparison]) -> list[tuple[str | float, ...]]:
    """Return a row for each panel and series, and one for all."""
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for one in found:
        groups.setdefault((one.kind.panel, one.kind.series), []).append(one)
    groups["all", ""] = list(found)
    return [(" ".join(group).strip(), *_numbers(members)) for group, members in groups.items()]


def _numbers(found: Sequence[Comparison]) -> tuple[float, ...]:
    cells = sum(len(one.kind.cells) for one in found)
    ours, whole, stopped = (
        sum(getattr(one, name) for one in found) for name in ("ours", "literal", "stopped")
    )
    return cells, ours, whole, whole / ours, stopped, stopped / ours


def _left_out(kinds_without: Sequence[Kind]) -> str:
    names = sorted({f"{kind.panel} {kind.series}" for kind in kinds_without})
    return f"Left out, for want of a literal version: {', '.join(names) or 'nothing'}."
