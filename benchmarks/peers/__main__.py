"""Compare other libraries with this one: ``python -m benchmarks.peers``.

Sections are ``regret`` (all plays), ``speed`` (timed alone, after them), ``install`` and
``page``, which runs nothing. What was run is kept in ``results/peers``, a file each, and is not run
again: remove the files of what changed. Regret of other libraries is kept in the repository
(``benchmarks/peers/rivals``). The page shows all that was run; it is written where it is named, or
no section is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.peers import pictures
from benchmarks.peers.collect import FOLDER, RIVALS, SECTIONS, Asked, Scale, find
from benchmarks.peers.found import Found
from benchmarks.peers.page import page, with_short
from benchmarks.peers.runs import LIMIT
from benchmarks.report import machine
from cobandits.files import write_whole
from cobandits.plots.style import save

PAGE = Path("docs") / "benchmarks.md"
README = Path("README.md")
PICTURES = {
    "peers-regret": "Regret on each workload relative to the best peer of another library",
    "peers-time": "Regret relative to shared against the time of a decision with its update",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the named sections."""
    told = _parser().parse_args(arguments)
    for name in told.sections:
        if name not in SECTIONS:  # argparse's own check refuses no names at all
            raise SystemExit(f"there is no section {name!r}; choose from {', '.join(SECTIONS)}")
    usual = [name for name in SECTIONS if name != "install" or not told.quick]
    asked = Asked(
        sections=told.sections or usual,
        peers=told.peers,
        workloads=told.workloads,
        jobs=told.jobs,
        limit=told.limit,
        rivals=None if told.quick else RIVALS,
    )
    scale = Scale.quick() if told.quick else Scale()
    began = perf_counter()
    found = find(asked, scale)
    path = FOLDER
    if "page" in asked.sections:
        path = FOLDER / "preview.md" if told.quick else PAGE
        _write(found, path, asked.days)
        if not told.quick and README.exists():
            text = README.read_text(encoding="utf-8")
            write_whole(README, with_short(text, found).encode())
    print(f"{perf_counter() - began:.0f} s. All of it is in {path}.")


def _write(found: Found, path: Path, days: set[str]) -> None:
    """Write the page, and its pictures beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    figures = {"peers-regret": pictures.by_workload(found), "peers-time": pictures.by_time(found)}
    for name, figure in figures.items():
        _, svg = save(figure, FOLDER / name)
        write_whole(path.with_name(svg.name), svg.read_bytes())
    shown = [(f"{name}.svg", PICTURES[name]) for name in figures]
    text = page(found, facts=machine(), days=days, pictures=shown)
    write_whole(path, f"{text}\n".encode())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help=f"of {', '.join(SECTIONS)}; all where none is named",
    )
    parser.add_argument("--peers", nargs="+", default=(), metavar="part", help="of their names")
    parser.add_argument("--workloads", nargs="+", default=(), metavar="name", help="run only these")
    parser.add_argument("--jobs", type=int, default=1, help="plays at a time; 1")
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help=f"seconds of the trials of a play; {LIMIT:g}"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a test: little of all, and nothing is installed"
    )
    return parser


if __name__ == "__main__":
    main()
