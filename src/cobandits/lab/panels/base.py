"""What a panel is: what to run, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cobandits.lab.cells import Cell
from cobandits.lab.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Panel", "Scale"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of a panel is run.

    Parameters
    ----------
    trials : int
        Trials of a cell; panels on MNIST take a tenth of them, as the paper does.
    quick : bool
        Fewer grid points.
    mnist : bool
        Whether MNIST is there; the embedded digits stand in for it where not.
    """

    trials: int = 100
    quick: bool = False
    mnist: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel of a figure: its cells are data, its picture is drawn from their records.

    Parameters
    ----------
    name : str
        As in the paper: 1a to 1i, 2a to 2e.
    title : str
        What is shown, in a line.
    parameters
        What the paper fixes and what it leaves open, by name, with the values that are used.
    cells
        Returns what to run at a scale, by series: the name of a line in the picture.
    draw
        Returns the picture of the records of each series, at a scale.
    average : str
        What the lines are of the trials: means or medians.
    """

    name: str
    title: str
    parameters: Mapping[str, str]
    cells: Callable[[Scale], Mapping[str, Sequence[Cell]]]
    draw: Callable[[Mapping[str, Sequence[Record]], Scale], Figure]
    average: str = "means"
