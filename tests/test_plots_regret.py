"""The picture of regret: it shows means and intervals, and every policy can be told apart."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.text import Text
from numpy.typing import NDArray

from cobandits import plots
from cobandits.intervals import t_interval
from tests.pictures import left_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

NAMES = ("lrrl", "moments", "thompson", "ridge", "linucb", "tracenorm", "mtlr-oful")


def rising(*ends: float, trials: int = 3) -> dict[str, list[Floats]]:
    """Return straight lines that end in the mean at these values."""
    factors = np.linspace(0.9, 1.1, trials) if trials > 1 else [1.0]
    return {
        name: [np.linspace(end / 40, end, 40) * factor for factor in factors]
        for name, end in zip(NAMES, ends, strict=False)
    }


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for text in figure.axes[0].texts}


def test_lines_are_means_and_bands_intervals() -> None:
    curves = rising(10, 20)
    (axes,) = plots.regret(curves).axes
    for line, band, trials in zip(axes.get_lines(), axes.collections, curves.values(), strict=True):
        assert isinstance(band, PolyCollection)
        mean, half = t_interval(np.array(trials))
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), np.mean(trials, axis=0))
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 41))
        corners = np.concatenate([path.vertices for path in band.get_paths()])
        assert corners[:, 1].max() == pytest.approx(mean[-1] + half[-1])


def test_lines_differ_without_colour_and_are_named(tmp_path: Path) -> None:
    figure = plots.regret(rising(10, 11, 12, 13, 14, 15, 16))
    lines = figure.axes[0].get_lines()
    assert len({line.get_marker() for line in lines}) == len(NAMES)
    _, svg = plots.save(figure, tmp_path / "lines")
    dashed = set(re.findall(r"stroke-dasharray: ([\d., ]+)", svg.read_text()))
    assert len(dashed) == len(NAMES) - 1  # and one line is solid
    assert texts(figure) == set(NAMES)
    assert "3 trials" in figure.axes[0].get_title(loc="left")


@pytest.mark.parametrize(
    "ends", [(10, 10, 10, 10, 10, 10, 10), (10, 11, 12, 300, 310), (5, 6, 7, 300, 305, 310, 8)]
)
def test_names_do_not_overlap(ends: tuple[float, ...]) -> None:
    figure = plots.regret(rising(*ends), "synthetic, " * 20)
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    drawn = [*axes.texts, left_title(axes)]
    # Of the text alone: the extent of an annotation includes its line.
    boxes = [Text.get_window_extent(text) for text in drawn]
    assert len(boxes) == len(ends) + 1
    width, height = canvas.get_width_height()
    for box in boxes:
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1
    for one, two in combinations(boxes, 2):
        assert not one.overlaps(two)


def test_a_line_far_above_leaves_the_picture_and_says_where_it_ends() -> None:
    figure = plots.regret(rising(10, 12, 14, 400))
    top = figure.axes[0].get_ylim()[1]
    assert 14 < top < 30
    assert texts(figure) == {*NAMES[:3], "ridge, to 400"}


@pytest.mark.parametrize("ends", [(10, 400), (10,), (10, 14, 25), (0.0, 0.0)])
def test_otherwise_every_line_is_inside(ends: tuple[float, ...]) -> None:
    figure = plots.regret(rising(*ends))
    low, top = figure.axes[0].get_ylim()
    assert low == 0
    assert top > 1.1 * max(ends)
    assert texts(figure) == set(NAMES[: len(ends)])


def test_long_names_leave_room_for_the_picture() -> None:
    long = "lrrl:memory=all,schedule=growing,estimator=lowrank"
    curves = {long: rising(5)["lrrl"], f"{long},rank=2": rising(5)["lrrl"], **rising(5, 6)}
    figure = plots.regret(curves)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    assert axes.get_position().width > 0.6
    assert {text.replace("\n", "") for text in texts(figure)} == set(curves)
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))


def test_one_trial_has_no_band() -> None:
    figure = plots.regret(rising(10, 20, trials=1), "small")
    assert figure.axes[0].get_title(loc="left") == "small\none trial"


def test_the_same_result_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (
        [path.read_bytes() for path in plots.save(plots.regret(rising(3, 5)), tmp_path / name)]
        for name in "ab"
    )
    assert first == second
    assert first[0].startswith(b"\x89PNG")
    assert b"</svg>" in first[1]
