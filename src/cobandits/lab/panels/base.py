"""Panels: the cells to run, and how to draw their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cobandits.lab.cells import Cell
from cobandits.lab.claims.base import Claim
from cobandits.lab.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Panel", "Scale"]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of a run.

    Parameters
    ----------
    trials : int
        Trials per setting; panels on MNIST take a tenth of them, as the paper does.
    quick : bool
        Whether to run fewer numbers of tasks, and fewer rounds on digits.
    mnist : bool
        Whether MNIST is there; the embedded digits stand in for it where not.
    """

    trials: int = 100
    quick: bool = False
    mnist: bool = True
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One panel of a figure.

    Parameters
    ----------
    name : str
        As in the paper: 1a to 1i, 2a to 2e.
    title : str
        The heading of the panel.
    parameters
        The values that are used, by name: those that the paper gives, and those it leaves open.
    cells
        Returns the cells to run at a scale, by the name of their line in the picture.
    draw
        Returns the picture of the records of each line, at a scale.
    average : str
        What the lines show over trials: means or medians.
    judge
        Returns the claim that the panel tests alone, with its verdict; that is so for studies.
    """

    name: str
    title: str
    parameters: Mapping[str, str]
    cells: Callable[[Scale], Mapping[str, Sequence[Cell]]]
    draw: Callable[[Mapping[str, Sequence[Record]], Scale], Figure]
    average: str = "means"
    judge: Callable[[Mapping[str, Sequence[Record]]], Claim] | None = None
