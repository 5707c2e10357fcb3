"""The style of all pictures, and how they are saved."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cobandits.errors import MissingExtraError
from cobandits.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "COLOURS",
    "DASHES",
    "GREY",
    "MARKERS",
    "VERMILLION",
    "head",
    "ink",
    "new_figure",
    "new_row",
    "note",
    "save",
    "style",
]

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "0.45"

# The looks of lines, which differ in grey too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
DASHES = ((), (6, 2), (3, 1, 1, 1), (8, 2, 2, 2), (4, 3), (2, 1), (10, 2, 1, 2, 1, 2))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Return an empty figure of this size in inches, and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def new_row(width: float, height: float, count: int) -> tuple[Figure, list[Axes]]:
    """Return an empty figure of this size in inches, and ``count`` axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(1, count, k + 1) for k in range(count)]


def head(figure: Figure, text: str) -> None:
    """Write a title above all axes of a figure."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=9)


def note(axes: Axes, text: str, *, pad: float | None = None) -> None:
    """Write a title above the axes; ``pad`` is its distance in points."""
    axes.set_title(text, loc="left", fontsize=8, color=GREY, pad=pad)


def ink(colour: str) -> tuple[float, float, float]:
    """Return a colour dark enough for text."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return 0.75 * red, 0.75 * green, 0.75 * blue


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Apply the style within a context; name the extra to install if matplotlib is missing."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot") from error
    with mpl.rc_context(
        {
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.8,
            "lines.linewidth": 1.5,
            "lines.markersize": 4.5,
            "svg.hashsalt": "cobandits",  # the same figure gives the same bytes
            "svg.fonttype": "path",
        }
    ):
        yield


def save(figure: Figure, stem: str | Path) -> tuple[Path, Path]:
    """Write ``stem.png`` (200 dpi) and ``stem.svg``, each whole or not at all.

    The same figure gives the same bytes: no date is written.
    """
    stem = Path(stem)
    paths = stem.with_name(stem.name + ".png"), stem.with_name(stem.name + ".svg")
    with style():
        drawn = [
            _drawn(figure, path.suffix[1:], metadata)
            for path, metadata in zip(paths, ({"Software": None}, {"Date": None}), strict=True)
        ]
    for path, content in zip(paths, drawn, strict=True):
        write_whole(path, content)
    return paths


def _drawn(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    return buffer.getvalue()
