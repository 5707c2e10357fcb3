"""Pictures of panels: means and intervals, names that do not overlap, one look a policy."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.text import Text
from numpy.typing import NDArray
from scipy import stats

from cobandits import plots
from cobandits.plots import Curves, Errors
from cobandits.plots.looks import look
from tests.pictures import left_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

NAMES = ("lrrl", "moments", "tracenorm", "thompson, by epoch", "thompson", "ridge")
POLICIES = (*NAMES, "subspace oracle")
TASKS = (10, 25, 50)


def curves(*ends: float, trials: int = 5) -> dict[str, Curves]:
    factors = np.linspace(0.9, 1.1, trials)[:, None]
    rounds = np.arange(1.0, 201)
    return {
        name: Curves(rounds, factors * end * rounds / 200)
        for name, end in zip(POLICIES, ends, strict=False)
    }


def finals(*ends: float, trials: int = 5) -> dict[str, dict[int, Floats]]:
    factors = np.linspace(0.9, 1.1, trials)
    return {
        name: {count: factors * end * (1 + count / 100) for count in TASKS}
        for name, end in zip(POLICIES, ends, strict=False)
    }


def errors(trials: int = 4) -> Errors:
    falls = {"altgdmin": 0.8, "altgd": 0.9, "tracenorm": 0.99}
    return Errors(
        title="noise",
        curves={
            name: [np.maximum(rate ** np.arange(100 + t), 1e-3) for t in range(trials)]
            for name, rate in falls.items()
        },
        levels={"moments": [0.8, 0.9]},
        floor=[1e-3] * trials,
        bound=0.95 ** np.arange(300.0),
    )


def values(axes: Axes, index: int) -> Floats:
    return np.asarray(axes.get_lines()[index].get_ydata(), np.float64)


def check_texts(figure: Figure) -> None:
    """No text overlaps another one, and all are inside."""
    width, height = FigureCanvasAgg(figure).get_width_height()
    figure.draw_without_rendering()
    drawn = [text for axes in figure.axes for text in axes.texts]
    drawn += [*map(left_title, figure.axes), *figure.texts]
    boxes = {text.get_text(): Text.get_window_extent(text) for text in drawn if text.get_text()}
    for name, box in boxes.items():
        assert box.x0 >= 0, name
        assert box.y0 >= 0, name
        assert box.x1 <= width + 1, name
        assert box.y1 <= height + 1, name
    for (one, box), (two, other) in combinations(boxes.items(), 2):
        assert not box.overlaps(other), f"{one} overlaps {two}"


def test_bands_are_students_intervals() -> None:
    given = finals(10, 12)
    (axes,) = plots.regret_by_tasks(given).axes
    for k, name in enumerate(("lrrl", "moments")):
        band = axes.collections[k]
        assert isinstance(band, PolyCollection)
        corners = np.concatenate([path.vertices for path in band.get_paths()])
        for count in TASKS:
            trials = given[name][count]
            low, high = stats.t.interval(0.95, 4, loc=trials.mean(), scale=stats.sem(trials))
            at = corners[corners[:, 0] == count, 1]
            assert at.min() == pytest.approx(max(low, trials.min()))
            assert at.max() == pytest.approx(high)


def test_lines_are_means_and_end_at_the_last_round() -> None:
    given = curves(10, 20)
    left, right = plots.regret_and_tasks(given, finals(10, 20)).axes
    assert values(left, 1)[-1] == pytest.approx(20)
    assert np.asarray(left.get_lines()[0].get_xdata(), float)[[0, -1]].tolist() == [1, 200]
    assert values(right, 0).tolist() == pytest.approx([11, 12.5, 15])


@pytest.mark.parametrize(("ends", "scale"), [((10, 20), "linear"), ((1, 20), "log")])
def test_values_of_more_than_a_decade_get_a_log_scale(
    ends: tuple[float, float], scale: str
) -> None:
    (axes,) = plots.regret_by_tasks(finals(*ends)).axes
    assert axes.get_yscale() == scale


def test_a_bound_is_drawn_where_it_is_on_the_scale_and_else_told() -> None:
    near, far = (dict.fromkeys(TASKS, bound) for bound in (40.0, 4000.0))
    (axes,) = plots.regret_by_tasks(finals(10, 20), near).axes
    assert values(axes, 2).tolist() == [40, 40, 40]
    assert "bound of Theorem 5.4" in {text.get_text() for text in axes.texts}
    (axes,) = plots.regret_by_tasks(finals(10, 20), far).axes
    assert len(axes.get_lines()) == 2
    assert "4,000" in axes.get_title(loc="left")


@pytest.mark.parametrize("ends", [(10,) * 7, (100, 300, 110, 150, 70, 70, 3), (1, 2, 3)])
def test_names_beside_regret_do_not_overlap(ends: tuple[float, ...]) -> None:
    bound = {count: 3 * max(ends) for count in TASKS}
    check_texts(plots.regret_and_tasks(curves(*ends), finals(*ends), bound, "synthetic"))
    check_texts(plots.regret_by_tasks(finals(*ends), bound, "synthetic"))


def test_names_beside_errors_do_not_overlap() -> None:
    check_texts(plots.errors_by_iteration([errors(), errors()], "synthetic"))
    check_texts(plots.errors_by_epoch([by_epoch(), by_epoch()], "synthetic"))


def by_epoch() -> Errors:
    trials = [np.array([1.0, 1e-3, 1e-3]), np.array([0.9, 2e-3, 3e-3])]
    late = [np.array([np.nan, 0.9, 0.9])] * 2
    return Errors(title="noise", curves={"altgdmin": trials, "moments": late}, floor=[1e-3] * 2)


def test_errors_are_medians_and_a_fit_that_stopped_keeps_its_last() -> None:
    fits = [np.array([1.0, 0.1]), np.array([1.0, 0.5, 0.3]), np.array([1.0, 50.0, 0.2, 0.2])]
    one = Errors(title="noise", curves={"altgd": [*fits, *fits]}, floor=[0.1, 0.1])
    (axes,) = plots.errors_by_iteration([one]).axes
    assert values(axes, 0)[:3].tolist() == pytest.approx([1, 0.5, 0.2])
    band = np.concatenate([path.vertices for path in axes.collections[0].get_paths()])
    assert band[:, 1].max() == pytest.approx(np.quantile([0.1, 0.5, 50, 0.1, 0.5, 50], 0.9))


def test_trials_that_failed_are_counted() -> None:
    one = by_epoch()
    failed = {"altgd": [np.array([1.0, 300.0, 1e-3]), np.array([3.0, 1e-3, 1e-3])]}
    (axes,) = plots.errors_by_epoch([replace(one, curves={**one.curves, **failed})]).axes
    assert axes.get_title(loc="left").splitlines()[1].endswith("of 2 trials: altgd in 1")
    (axes,) = plots.errors_by_epoch([one]).axes
    assert axes.get_title(loc="left") == "noise"


def test_drawings_side_by_side_have_the_same_scale() -> None:
    low = Errors(title="low", curves={"altgd": [np.array([1.0, 1e-6])]}, floor=[1e-7])
    first, second = plots.errors_by_iteration([errors(), low]).axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[0] < 1e-7


def test_errors_by_epoch_leave_out_what_is_not_known() -> None:
    (axes,) = plots.errors_by_epoch([by_epoch()]).axes
    start, late = axes.get_lines()[:2]
    assert np.asarray(start.get_xdata()).tolist() == [0, 1, 2]
    assert np.asarray(late.get_xdata()).tolist() == [1, 2]
    assert values(axes, 0).tolist() == pytest.approx([0.95, 1.5e-3, 2e-3])


@pytest.mark.parametrize(("rate", "reached"), [(0.5, True), (0.9, True), (0.99, False)])
def test_the_contraction_ends_at_the_floor_or_at_the_edge(rate: float, reached: bool) -> None:
    figure = plots.errors_by_iteration([replace(errors(), bound=rate ** np.arange(300.0))])
    drawn = values(figure.axes[0], -1)
    np.testing.assert_allclose(drawn, rate ** np.arange(len(drawn)))
    assert drawn[-1] > 1e-3
    assert (rate * drawn[-1] <= 1e-3) == reached
    check_texts(figure)


def test_policies_can_be_told_apart_in_grey_and_look_the_same_everywhere() -> None:
    looks = [look(name) for name in POLICIES]
    assert len({one.marker for one in looks}) == len(POLICIES)
    assert len({one.dashes for one in looks}) == len(POLICIES)
    alone, first = (
        plots.regret_by_tasks(given).axes[0].get_lines()[0]
        for given in ({"moments": finals(3, 4)["moments"]}, {"moments": finals(3, 4)["moments"]})
    )
    assert alone.get_color() == first.get_color() == look("moments").colour
    assert look("something new") == look("something new")


def test_pictures_are_small_and_the_same_each_time(tmp_path: Path) -> None:
    ends = (100, 300, 110, 150, 70, 70, 3)
    files = []
    for name in "ab":
        figure = plots.regret_and_tasks(curves(*ends), finals(*ends), None, "synthetic")
        files.append([path.read_bytes() for path in plots.save(figure, tmp_path / name)])
    assert files[0] == files[1]
    _, svg = plots.save(plots.errors_by_iteration([errors(), errors()]), tmp_path / "c")
    assert max(len(files[0][1]), svg.stat().st_size) < 150_000
