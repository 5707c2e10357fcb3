"""Pictures of what is shared: they show the numbers that explanations give, and read well."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pytest
from matplotlib.patches import Rectangle, StepPatch
from matplotlib.text import Text
from numpy.typing import NDArray

from cobandits import plots
from cobandits.errors import MissingExtraError
from cobandits.policies import Explanations
from tests.support import warnings_as_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

EXAMPLE = Path(__file__).parents[1] / "examples" / "explain.py"
DRAWN = [plots.prior_spectrum, plots.shared_plane, plots.shared_and_own, plots.sharing]


def shown(n_tasks: int = 12, rank: int = 2, p: int = 9, silent: int = 2) -> Explanations:
    """Return numbers for tasks of which the first few have no rewards."""
    rng = np.random.default_rng(n_tasks)
    spectrum = np.where(np.arange(p) < rank, 3.0, 0.1) * np.linspace(1, 0.8, p)
    rewards = rng.integers(1, 50, n_tasks)
    rewards[:silent] = 0
    return Explanations(
        tasks=tuple(range(n_tasks)),
        rewards=rewards,
        rank=rank,
        spectrum=spectrum,
        weights=rng.standard_normal((n_tasks, 2)) * (rewards > 0)[:, None],
        shared=rng.random(n_tasks) if rank else np.zeros(n_tasks),
        uncertainty=rng.random(n_tasks),
        uncertainty_before=2.0,
    )


def offsets(axes: Axes, index: int) -> Floats:
    return np.asarray(axes.collections[index].get_offsets(), np.float64)


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def note(child: object) -> TypeGuard[Text]:
    return isinstance(child, Text) and child.get_fontsize() == 8 and bool(child.get_text())


def title(axes: Axes) -> str:
    return axes.get_title(loc="left")


@pytest.mark.parametrize("draw", DRAWN)
def test_the_same_numbers_give_the_same_bytes(
    draw: Callable[[Explanations], Figure], tmp_path: Path
) -> None:
    first = [path.read_bytes() for path in plots.save(draw(shown()), tmp_path / "a")]
    second = [path.read_bytes() for path in plots.save(draw(shown()), tmp_path / "b")]
    assert first == second


@pytest.mark.parametrize("draw", DRAWN)
@pytest.mark.parametrize(
    "case",
    [
        shown(),
        shown(n_tasks=1, silent=0),
        shown(n_tasks=500, rank=0),
        shown(p=200, rank=1),
        shown(p=2, rank=0),
    ],
)
def test_axes_are_named_and_texts_are_within_the_picture(
    draw: Callable[[Explanations], Figure], case: Explanations
) -> None:
    figure = draw(case)
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_ylabel()
        assert axes.get_xlabel() or axes.get_label() == "<colorbar>"
        for label in (axes.xaxis.label, axes.yaxis.label, *axes.texts):
            box = Text.get_window_extent(label)
            assert all(figure.bbox.contains(*corner) for corner in box.corners())


def test_the_spectrum_is_on_a_log_scale_and_the_rank_is_marked() -> None:
    case = shown()
    (axes,) = plots.prior_spectrum(case).axes
    assert axes.get_yscale() == "log"
    rest, chosen = offsets(axes, 0), offsets(axes, 1)
    np.testing.assert_allclose(np.concatenate([chosen, rest])[:, 1], case.spectrum)
    assert len(chosen) == case.rank
    assert texts(axes) == ["rank 2"]
    assert np.asarray(axes.get_lines()[1].get_xdata())[0] == 2.5


def test_where_nothing_is_shared_the_pictures_say_so() -> None:
    left, middle, *_ = plots.sharing(shown(rank=0)).axes
    assert texts(left) == []
    assert "no direction" in title(left)
    assert "not shared" in middle.get_xlabel()
    assert "not shared" in middle.get_ylabel()


def test_a_flat_spectrum_looks_flat() -> None:
    (axes,) = plots.prior_spectrum(shown(rank=0)).axes
    low, high = axes.get_ylim()
    assert high > 100 * low


def test_the_plane_has_the_tasks_with_rewards_shaded_by_these() -> None:
    case = shown()
    axes, bar = plots.shared_plane(case).axes
    dots = offsets(axes, 0)
    order = np.argsort(case.rewards, kind="stable")[2:]
    np.testing.assert_allclose(dots, case.weights[order])
    np.testing.assert_array_equal(axes.collections[0].get_array(), case.rewards[order])
    assert bar.get_ylabel() == "rewards so far"
    assert title(axes).startswith("10 of 12 tasks have rewards")
    assert set(texts(axes)) == {str(task) for task in range(2, 12)}
    share = 100 * case.spectrum[0] / case.spectrum.sum()
    assert axes.get_xlabel() == f"weight in direction 1\n({share:.0f} % of the variance of theta)"
    assert axes.get_aspect() == 1


def test_tasks_with_as_many_rewards_need_no_scale() -> None:
    case = shown(silent=0)
    case.rewards[:] = 7
    (axes,) = plots.shared_plane(case).axes
    assert title(axes).startswith("12 tasks;")


def test_of_many_tasks_none_is_named() -> None:
    assert texts(plots.shared_plane(shown(n_tasks=200)).axes[0]) == []
    (axes,) = plots.shared_and_own(shown(n_tasks=200)).axes
    assert len(axes.get_xticks()) < 12


@pytest.mark.parametrize("n_tasks", [12, 32, 300])
def test_names_do_not_overlap(n_tasks: int) -> None:
    figure = plots.sharing(shown(n_tasks=n_tasks))
    figure.draw_without_rendering()
    left, middle, right, _ = figure.axes
    legend = right.get_legend()
    assert legend is not None
    written = [*middle.texts, *right.get_xticklabels()]
    written += [child for axes in (left, middle) for child in axes.get_children() if note(child)]
    boxes = [legend.get_window_extent(), *(Text.get_window_extent(text) for text in written)]
    assert sum(box.y0 > right.bbox.y1 for box in boxes) == 3
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_bars_are_the_shares_in_falling_order_and_dots_the_uncertainty() -> None:
    case = shown()
    (axes,) = plots.shared_and_own(case).axes
    order = 2 + np.argsort(-case.shared[2:])
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    shared, own = np.split(np.array([bar.get_height() for bar in bars]), 2)
    np.testing.assert_allclose(shared, case.shared[order])
    np.testing.assert_allclose(shared + own, 1)
    np.testing.assert_allclose(offsets(axes, 0)[:, 1], case.uncertainty[order] / 2)
    assert [label.get_text() for label in axes.get_xticklabels()] == [str(t) for t in order]


def test_areas_of_many_tasks_are_their_shares() -> None:
    case = shown(n_tasks=400)
    (axes,) = plots.shared_and_own(case).axes
    areas = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    (shared, _, _), (own, _, baseline) = (area.get_data() for area in areas)
    np.testing.assert_allclose(shared, np.sort(case.shared[2:])[::-1])
    np.testing.assert_allclose(baseline, shared)
    np.testing.assert_allclose(own, 1)


def test_the_parts_differ_in_grey() -> None:
    from matplotlib.colors import to_rgb

    (axes,) = plots.shared_and_own(shown()).axes
    shared, own = (axes.patches[i].get_facecolor() for i in (0, -1))
    grey = [float(np.dot(to_rgb(c), (0.299, 0.587, 0.114))) for c in (shared, own, "black")]
    assert np.diff(sorted(grey)).min() > 0.2


def test_side_by_side_they_are_the_same() -> None:
    case = shown()
    left, middle, right, _ = plots.sharing(case).axes
    for axes, draw in zip((left, middle, right), DRAWN[:3], strict=True):
        alone = draw(case).axes[0]
        assert (axes.get_xlabel(), axes.get_ylabel()) == (alone.get_xlabel(), alone.get_ylabel())
        assert len(axes.collections) == len(alone.collections)


def test_missing_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[plot\]'"):
        plots.sharing(shown())


def test_the_example_explains_two_tasks_and_draws_all(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, "seen"],
        cwd=tmp_path,
        env={**warnings_as_errors(), "MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("nearest tasks, by correlation of predictions: ") == 2
    assert "drawn: seen.png, seen.svg" in done.stdout
    assert (tmp_path / "seen.png").stat().st_size > 10_000
