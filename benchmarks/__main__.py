"""Run the benchmarks: ``python -m benchmarks [section ...]``."""

from __future__ import annotations

import argparse
import time
from importlib import import_module

DEFAULT = ("iteration", "solve", "decisions", "memory", "growth", "scale", "engine")
NAMED_ONLY = (
    "calibration",
    "cluster",
    "compare-numba",
    "fleet",
    "reproduction",
    "shards",
    "tables",
)


def main() -> None:
    """Run the named sections, print what they find, and write it to ``bench.json``."""
    # imported here, since the processes that measure memory import this module as well
    from benchmarks.report import FOLDER, machine, write_json

    names = _named_sections()
    facts = machine()
    print("\n".join(f"{name}: {fact}" for name, fact in facts.items()))
    found: dict[str, object] = {"machine": facts}
    for name in names:
        begin = time.perf_counter()
        print(f"\n== {name}\n", flush=True)
        section = import_module(f"benchmarks.{name.replace('-', '_')}").section()
        seconds = time.perf_counter() - begin
        print(f"{section}\n\n({seconds:.0f} s)", flush=True)
        found[name] = {**section.as_json(), "seconds": seconds}
    write_json(FOLDER / "bench.json", found)
    print(f"\nAll of it is in {FOLDER / 'bench.json'}.")


def _named_sections() -> list[str]:
    """Return the sections that were named, or those that run without a name."""
    known = [*DEFAULT, *NAMED_ONLY]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "sections",
        nargs="*",
        metavar="section",
        help=f"of {', '.join(known)}; without a name, all but the last seven",
    )
    names: list[str] = parser.parse_args().sections
    for name in names:
        if name not in known:  # argparse's own check refuses no names at all
            parser.error(f"there is no section {name!r}; choose from {', '.join(known)}")
    return names or [*DEFAULT]


if __name__ == "__main__":
    main()
