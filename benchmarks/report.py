"""What a section shows: tables, targets that are met or not, and the facts of the machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import threadpoolctl

from cobandits import kernels
from cobandits.files import write_whole
from cobandits.lab.reproduction import facts

__all__ = ["FOLDER", "Section", "Table", "Target", "machine", "write_json"]

Cell = str | float | int | None

FOLDER = Path("results") / "bench"


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of names and numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    def __str__(self) -> str:
        texts = [self.columns, *[tuple(_text(cell) for cell in row) for row in self.rows]]
        widths = [max(len(text) for text in column) for column in zip(*texts, strict=True)]
        lines = ["  ".join(_aligned(line, widths)).rstrip() for line in texts]
        return "\n".join([self.title, *(f"  {line}" for line in lines)])


@dataclass(frozen=True, kw_only=True)
class Target:
    """A number that was measured and the bound that it should keep."""

    name: str
    measured: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the bound is kept; a number that is NaN keeps none."""
        above = self.at_least is None or self.measured >= self.at_least
        return bool(above and (self.at_most is None or self.measured <= self.at_most))

    def __str__(self) -> str:
        bounds = [("at least", self.at_least), ("at most", self.at_most)]
        wanted = " and ".join(
            f"{word} {bound:g}{self.unit}" for word, bound in bounds if bound is not None
        )
        verdict = "met" if self.met else "NOT MET"
        return f"  {verdict:8s}{self.name}: {self.measured:.3g}{self.unit}, target {wanted}"


@dataclass(frozen=True, kw_only=True)
class Section:
    """What one section found."""

    name: str
    tables: list[Table]
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [str(table) for table in self.tables]
        if self.targets:
            parts.append("\n".join(["Targets", *(str(target) for target in self.targets)]))
        parts += self.notes
        return "\n\n".join(parts)

    def as_json(self) -> dict[str, object]:
        """Return everything as JSON can hold it, with the verdicts."""
        targets = [{**asdict(target), "met": target.met} for target in self.targets]
        return {**asdict(self), "targets": targets}


def machine() -> dict[str, str]:
    """Return the facts that the times depend on."""
    known = facts()
    blas = [
        f"{pool['internal_api']} {pool['version']} ({pool.get('architecture', 'unknown')}), "
        f"{pool['num_threads']} thread"
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return {
        **{name: known[name] for name in ("cpu", "cores", "system", "python")},
        "numpy": np.__version__,
        "blas": "; ".join(dict.fromkeys(blas)) or "unknown",
        "compiled pass": "yes" if kernels.COMPILED else "no: NumPy is used",
    }


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write JSON to ``path``, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1).encode())


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if 100 <= abs(cell) < 1e6 else f"{cell:.3g}"


def _aligned(texts: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the first column flush left and the others flush right."""
    first, *others = zip(texts, widths, strict=True)
    return [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
