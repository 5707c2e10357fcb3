"""How the time grows with tasks, rows, features and rank, each alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.report import FOLDER, Section, Table, Target
from benchmarks.timing import REPETITIONS, exponent, interleaved
from cobandits.environments import Problem, Synthetic
from cobandits.estimators import LowRank

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curve", "Point", "Size", "draw", "measure", "section"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """Tasks, rows per task, features and rank."""

    T: int = 128
    n: int = 128
    d: int = 64
    r: int = 4


@dataclass(frozen=True, kw_only=True)
class Point:
    """Seconds at one value of a size."""

    value: int
    fit: float  # of LowRank, start to end
    one_pass: float  # of an evaluation: every task's least squares and the gradient
    iterations: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Times along one size, the others fixed."""

    name: str
    words: str
    points: list[Point]

    def exponents(self) -> dict[str, tuple[float, float]]:
        """Return the exponent of each time and its standard error."""
        values = [point.value for point in self.points]
        return {
            "fit": exponent(values, [point.fit for point in self.points]),
            "pass": exponent(values, [point.one_pass for point in self.points]),
        }


VALUES: dict[str, tuple[str, tuple[int, ...]]] = {
    "T": ("tasks", (32, 64, 128, 256, 512, 1024, 2048)),
    "n": ("rows per task", (32, 64, 128, 256, 512, 1024, 2048)),
    "d": ("features", (16, 32, 64, 128, 256, 512, 1024)),
    "r": ("rank", (1, 2, 4, 8, 16, 32)),
}
COLOURS = {"fit": "#0b5394", "pass": "#d9772b"}
NAMES = {"fit": "LowRank, whole fit", "pass": "one evaluation of it"}


def measure(name: str, words: str, values: Sequence[int], repetitions: int = REPETITIONS) -> Curve:
    """Time a fit and one evaluation at each value of a size, in turn."""
    sizes = {value: replace(Size(), **{name: value}) for value in values}
    problems = {value: _problem(size) for value, size in sizes.items()}
    work: dict[str, Callable[[], object]] = {}
    for value, problem in problems.items():
        fit = LowRank(rank=sizes[value].r).fit
        work[f"fit {value}"] = partial(fit, problem.tasks)
        work[f"pass {value}"] = partial(problem.tasks.least_squares, problem.basis)
    timings = interleaved(work, repetitions=repetitions)
    points = [
        Point(
            value=value,
            fit=timings.median(f"fit {value}"),
            one_pass=timings.median(f"pass {value}"),
            iterations=LowRank(rank=size.r).fit(problems[value].tasks).status.iterations,
        )
        for value, size in sizes.items()
    ]
    return Curve(name=name, words=words, points=points)


def section() -> Section:
    """Measure all curves and draw them."""
    curves = [measure(name, words, values) for name, (words, values) in VALUES.items()]
    figure = draw(curves)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for ending in ("png", "svg"):
        figure.savefig(FOLDER / f"growth.{ending}", dpi=200)
    span = min(curve.points[-1].value / curve.points[0].value for curve in curves)
    return Section(
        name="growth",
        tables=[*(_times(curve) for curve in curves), _exponents(curves)],
        targets=[Target(name="Least span of a size", measured=span, at_least=16)],
        notes=[f"The picture is {FOLDER / 'growth.png'} (and .svg)."],
    )


def draw(curves: list[Curve]) -> Figure:
    """Draw one panel per size, both axes logarithmic, with the fitted exponents."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True)
    for panel, curve in zip(panels, curves, strict=True):
        _panel(panel, curve)
    panels[0].set_ylabel("milliseconds")
    panels[0].yaxis.set_major_formatter("{x:g}")
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, high * 4)  # room for the exponents
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    base = ", ".join(f"{name} = {value}" for name, value in vars(Size()).items())
    figure.suptitle(f"Time by one size, the others at {base}", fontsize="medium")
    return figure


def _problem(size: Size) -> Problem:
    environment = Synthetic(dim=size.d, n_tasks=size.T, rank=size.r)
    return environment.problem(n_rows=size.n, seed=1)


def _panel(panel: Axes, curve: Curve) -> None:
    """Draw the times and, through them, the power of the size that fits best."""
    values = np.array([point.value for point in curve.points])
    seconds = {
        "fit": np.array([point.fit for point in curve.points]),
        "pass": np.array([point.one_pass for point in curve.points]),
    }
    for line, (key, (slope, error)) in enumerate(curve.exponents().items()):
        colour, times = COLOURS[key], seconds[key] * 1e3
        panel.plot(values, times, "o", color=colour, ms=5, label=NAMES[key])
        scale = np.exp(np.mean(np.log(times) - slope * np.log(values)))
        panel.plot(values, scale * values**slope, color=colour, lw=1.2, alpha=0.7)
        text = f"${curve.name}^{{\\,{slope:.2f} \\pm {error:.2f}}}$"
        place = (0.05, 0.97 - 0.1 * line)
        panel.text(*place, text, transform=panel.transAxes, va="top", color=colour, fontsize=12)
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    labelled = values[:: 1 + len(values) // 7]
    panel.set_xticks(labelled, [str(value) for value in labelled])
    panel.set_xlabel(f"{curve.words}, {curve.name}")
    panel.grid(color="0.92")
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _times(curve: Curve) -> Table:
    base = ", ".join(
        f"{name} = {value}" for name, value in vars(Size()).items() if name != curve.name
    )
    rows = [(p.value, p.fit * 1e3, p.iterations, p.one_pass * 1e3) for p in curve.points]
    columns = (curve.name, "fit, ms", "iterations", "one evaluation, ms")
    return Table(title=f"Time by {curve.words}, at {base}", columns=columns, rows=rows)


def _exponents(curves: list[Curve]) -> Table:
    rows = []
    for curve in curves:
        (fit, fit_error), (one, one_error) = curve.exponents().values()
        before, last = curve.points[-2:]
        local = np.log(last.fit / before.fit) / np.log(last.value / before.value)
        rows.append((f"{curve.words}, {curve.name}", fit, fit_error, float(local), one, one_error))
    return Table(
        title="Fitted exponents b of time = a size^b",
        columns=("size", "fit", "std. error", "fit, last two", "one evaluation", "std. error"),
        rows=rows,
    )
