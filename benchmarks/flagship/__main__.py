"""Run the comparison of ``shared`` with the others: ``python -m benchmarks.flagship``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from benchmarks.flagship import changing, real, references, rewards, sections, walking, worlds
from benchmarks.flagship.kept import Kept, NotRunError, quiet
from benchmarks.flagship.page import Part, page, target_table
from benchmarks.flagship.sections import Scale
from benchmarks.report import machine
from cobandits.files import write_whole

FOLDER = Path("results") / "flagship"
RIVALS = Path("benchmarks") / "flagship" / "rivals"
PAGE = Path("docs") / "shared-results.md"

SECTIONS: dict[str, Callable[[Kept, Scale], Part]] = {
    "synthetic": sections.synthetic,
    "noise": sections.noise,
    "references": references.references,
    "unrelated": sections.unrelated,
    "digits": sections.digits,
    "mnist": sections.mnist,
    "real": real.real,
    "rewards": rewards.rewards,
    "worlds": worlds.worlds,
    "late": changing.late,
    "drift": changing.drift,
    "walking": walking.walking,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named sections, and write the page of all that was run."""
    told = _parser().parse_args(arguments)
    for name in told.sections:
        if name not in SECTIONS:  # argparse's own check refuses no names at all
            raise SystemExit(f"there is no section {name!r}; choose from {', '.join(SECTIONS)}")
    scale = _scale(told)
    path = PAGE if scale == Scale() else FOLDER / "preview.md"
    path = told.page or path
    rivals = RIVALS if scale == Scale() else FOLDER
    began = perf_counter()
    parts: dict[str, Part | str] = {}
    days: set[str] = set()
    for name in (told.sections or SECTIONS) if told.page else SECTIONS:
        asked = name in (told.sections or SECTIONS)
        kept = Kept(FOLDER, rivals=rivals, jobs=told.jobs, cluster=told.cluster, may_run=asked)
        parts[name] = _part(name, kept, scale)
        days |= kept.days
    path.parent.mkdir(parents=True, exist_ok=True)
    made = _made_by(told.sections, told.page) if told.page else {}
    write_whole(path, (page(parts, machine(), days, **made) + "\n").encode())
    print(f"\n{perf_counter() - began:.0f} s. All of it is in {path}.")


def _made_by(sections: Sequence[str], path: Path) -> dict[str, str]:
    """Return the command that makes a page of sections alone, and what it is about."""
    command = " ".join(["python -m benchmarks.flagship", *sections, "--page", str(path)])
    return {"command": command, "about": f": {', '.join(sections or SECTIONS)}"}


def _part(name: str, kept: Kept, scale: Scale) -> Part | str:
    """Return what a section shows, or why it shows nothing."""
    if kept.may_run:
        print(f"== {name}", flush=True)
    try:
        part = replace(SECTIONS[name](kept, scale), seconds=kept.seconds)
    except NotRunError as reason:
        return f"{reason} `python -m benchmarks.flagship {name}` runs it."
    if kept.may_run:
        print(target_table([(part.title, target) for target in part.targets]), flush=True)
    return part


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flagship", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help=f"of {', '.join(SECTIONS)}; all where none is named",
    )
    parser.add_argument("--trials", type=int, help="trials of a cell; 10")
    parser.add_argument("--mnist-trials", type=int, help="of MNIST; 10")
    parser.add_argument("--real-trials", type=int, help="of real data; 5")
    parser.add_argument("--page", type=Path, help="a page of the named sections alone; else of all")
    parser.add_argument("--quick", action="store_true", help="2 trials, few cells: a test")
    jobs = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=jobs, help=f"processes; {jobs}")
    parser.add_argument("--cluster", metavar="ADDRESS", help="of a Dask scheduler; not --jobs")
    return parser


def _scale(told: argparse.Namespace) -> Scale:
    given = {name: vars(told)[name] for name in ("trials", "mnist_trials", "real_trials")}
    scale = Scale.quick() if told.quick else Scale()
    return replace(scale, **{name: value for name, value in given.items() if value is not None})


if __name__ == "__main__":
    quiet()
    main()
