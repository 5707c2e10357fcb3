"""Pictures: they show what they are given, read well, and are the same bytes every time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from numpy.typing import NDArray

from cobandits import plots
from cobandits.diagnostics import Sharing, Spectrum, sharing
from cobandits.diagnostics import spectrum as spectrum_of
from cobandits.diagnostics.verdict import ALL
from cobandits.errors import MissingExtraError
from cobandits.estimate import Estimate
from cobandits.plots.labels import apart
from cobandits.plots.style import DASHES, MARKERS
from tests.support import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

NAMES = ("altgd", "altgdmin", "lowrank", "independent", "moments", "pooled", "tracenorm")


def compared() -> Figure:
    falling = np.geomspace(1, 1e-3, 30)
    curves = {name: [falling[:n], falling] for name, n in zip(NAMES[:3], (10, 20, 30), strict=True)}
    levels = {name: [0.5 + 0.1 * i, 0.6 + 0.1 * i] for i, name in enumerate(NAMES[3:])}
    return plots.convergence(curves, levels, [1e-3, 2e-3])


def estimate(rank: int, n_tasks: int = 6) -> Estimate:
    rng = np.random.default_rng(rank)
    basis = np.linalg.qr(rng.standard_normal((5, rank)))[0]
    labels = tuple(f"town {t}" for t in range(n_tasks))
    return Estimate(basis=basis, weights=rng.standard_normal((rank, n_tasks)), labels=labels)


def fitted() -> Figure:
    return plots.held_out(sharing(drawn(d=4, T=5, r=1, n=8, noise=0.5).tasks, rank=1))


def directions() -> Figure:
    return plots.spectrum(spectrum_of(drawn(d=6, T=8, r=2, n=20, noise=0.1).tasks))


PICTURES = [compared, fitted, directions, lambda: plots.task_plane(estimate(3))]


def texts(axes: Axes) -> set[str]:
    return {text.get_text() for text in axes.texts}


@pytest.mark.parametrize("draw", PICTURES)
def test_the_same_result_gives_the_same_bytes(draw: Callable[[], Figure], tmp_path: Path) -> None:
    first = [path.read_bytes() for path in plots.save(draw(), tmp_path / "a")]
    second = [path.read_bytes() for path in plots.save(draw(), tmp_path / "b")]
    assert first == second
    png, svg = first
    assert png.startswith(b"\x89PNG")
    assert b"</svg>" in svg
    assert b"dc:date" not in svg


@pytest.mark.parametrize("draw", PICTURES)
def test_axes_are_named(draw: Callable[[], Figure]) -> None:
    (axes,) = draw().axes
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_lines_differ_without_colour_and_are_named() -> None:
    assert len(set(DASHES)) == len(set(MARKERS)) == len(NAMES)
    (axes,) = compared().axes
    lines = axes.get_lines()
    assert len(lines) == len(NAMES) + 1  # and the floor
    assert [line.get_marker() for line in lines[:3]] == list(MARKERS[:3])
    assert texts(axes) == {*NAMES, "floor"}


def test_a_curve_is_the_median_and_a_stopped_trial_stays() -> None:
    trials = [np.array([1.0, 0.5]), np.array([1.0, 0.3, 0.1]), np.array([1.0, 0.7, 0.2])]
    (axes,) = plots.convergence({"lowrank": trials}, {}, [0.1, 0.1, 0.1]).axes
    assert np.allclose(np.asarray(axes.get_lines()[0].get_ydata()), [1.0, 0.5, 0.2])


def test_names_beside_lines_do_not_overlap() -> None:
    figure = compared()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without leader lines
    overlaps = [a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert not any(overlaps)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).map(sorted))
def test_places_are_moved_apart_no_more_than_needed(values: list[float]) -> None:
    places, gap = np.array(values), 0.1
    moved = apart(places, gap)
    assert (np.diff(moved) >= gap - 1e-9).all()
    assert np.isclose(moved.mean(), places.mean())
    if (np.diff(places) >= gap).all():
        assert np.allclose(moved, places)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_few_tasks_are_all_named(rank: int) -> None:
    shown = estimate(rank)
    (axes,) = plots.task_plane(shown).axes
    points = np.asarray(axes.collections[0].get_offsets())
    assert np.allclose(points[:, 0], shown.weights[0])
    if rank > 1:
        assert np.allclose(points[:, 1], shown.weights[1])
    assert texts(axes) == set(map(str, shown.labels))


def test_of_many_tasks_the_outermost_are_named() -> None:
    shown = estimate(2, n_tasks=200)
    (axes,) = plots.task_plane(shown).axes
    farthest = int(np.hypot(*shown.weights).argmax())
    assert shown.labels[farthest] in texts(axes)
    assert len(texts(axes)) <= 10


def test_outliers_are_far_from_the_others_not_from_zero() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 100)) + np.array([[100.0], [0.0]])
    weights[0, 7] = 90.0
    shown = Estimate(basis=np.eye(3)[:, :2], weights=weights, labels=tuple(range(100)))
    (axes,) = plots.task_plane(shown).axes
    assert "7" in texts(axes)


def test_units_of_features_do_not_change_the_plane() -> None:
    shown, units = estimate(3), np.geomspace(1e-3, 1e3, 5)
    U, s, Vh = np.linalg.svd(shown.theta / units[:, None], full_matrices=False)
    other = Estimate(basis=U[:, :3], weights=s[:3, None] * Vh[:3], labels=shown.labels)
    (plain,), (scaled,) = (
        plots.task_plane(shown, np.ones(5)).axes,
        plots.task_plane(other, units).axes,
    )
    assert plain.get_xlabel() == scaled.get_xlabel()
    assert plain.get_ylabel() == scaled.get_ylabel()
    points = [np.asarray(axes.collections[0].get_offsets()) for axes in (plain, scaled)]
    assert np.allclose(points[0], points[1])
    singular = np.linalg.svd(shown.theta, compute_uv=False)
    assert np.allclose(np.linalg.norm(points[0], axis=0), singular[:2])


def report_of(shared: list[float], alone: list[float]) -> Sharing:
    n_tasks = len(shared)
    errors = dict.fromkeys(ALL, alone) | {"shared": shared}
    return Sharing(
        labels=tuple(f"town {t}" for t in range(n_tasks)),
        counts=np.full(n_tasks, 10),
        squared_errors={name: np.array(values) for name, values in errors.items()},
        varies=np.ones(n_tasks, bool),
        standard_errors=np.full(n_tasks, 1e-3),
        pair_errors=np.ones((len(ALL), len(ALL))),
        ranks=(1,),
    )


def test_tasks_that_lose_are_named_first() -> None:
    shared = [1.0 + 0.1 * t for t in range(60)]
    alone = [4.0 * error for error in shared]
    alone[30] = 0.9 * shared[30]  # all others gain, and by more
    (axes,) = plots.held_out(report_of(shared, alone)).axes
    assert "town 30" in texts(axes)


def test_errors_are_never_below_zero_and_one_task_has_plain_ticks() -> None:
    (axes,) = plots.held_out(report_of([0.0, 1.0], [0.0, 1.2])).axes
    assert axes.get_xlim()[0] == axes.get_ylim()[0] == 0
    figure = plots.held_out(report_of([1.0], [1.0 + 1e-9]))
    figure.draw_without_rendering()
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert len(set(ticks)) == len(ticks) > 1
    assert max(map(len, ticks)) <= 5


def test_the_spectrum_of_one_direction_has_whole_ticks() -> None:
    found = Spectrum(singular_values=np.array([18.0]), rank=1, noise_std=1.0)
    (axes,) = plots.spectrum(found).axes
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_the_setting_is_written_above() -> None:
    curve = {"lowrank": [np.array([1.0, 0.1])]}
    (axes,) = plots.convergence(curve, {}, [0.1], "d = 3, T = 5").axes
    assert axes.get_title(loc="left") == "d = 3, T = 5\none trial"


def test_tasks_that_gain_are_below_the_diagonal() -> None:
    report = sharing(drawn(d=10, T=15, r=1, n=12, noise=0.3).tasks, rank=1)
    assert report.gaining
    (axes,) = plots.held_out(report).axes
    points = np.asarray(axes.collections[1].get_offsets())
    assert len(points) == len(report.gaining)
    assert (points[:, 1] < points[:, 0]).all()


@pytest.mark.parametrize("seed", range(3))
def test_names_touch_neither_points_nor_axes_nor_each_other(seed: int) -> None:
    report = sharing(drawn(d=10, T=25, r=1, n=12, noise=0.3, seed=seed).tasks, rank=1)
    shown = estimate(2, n_tasks=25)
    for figure in (plots.held_out(report), plots.task_plane(shown)):
        figure.draw_without_rendering()
        (axes,) = figure.axes
        boxes = [Text.get_window_extent(text) for text in axes.texts]
        dots = [axes.transData.transform(dots.get_offsets()) for dots in axes.collections]
        assert len(boxes) > 10
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert all(axes.bbox.contains(*corner) for box in boxes for corner in box.corners())
        assert not any(box.contains(x, y) for box in boxes for x, y in np.concatenate(dots))


def test_zero_is_in_sight_only_where_tasks_are_near() -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((2, 9)) + np.array([[100.0], [0.0]])
    far = Estimate(basis=np.eye(3)[:, :2], weights=weights, labels=tuple(range(9)))
    (axes,) = plots.task_plane(far).axes
    assert axes.get_xlim()[0] > 90
    assert axes.get_ylim()[0] < 0 < axes.get_ylim()[1]


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    figure = compared()
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        plots.save(figure, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[plot\]'"):
        plots.task_plane(estimate(2))
