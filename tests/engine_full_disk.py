"""A file system that is really full, again and again; needs root. Part of ``make test-faults``."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from pathlib import Path

from cobandits.engine import Decision, DiskFullError, Engine

ROUNDS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mounted = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]
        if subprocess.run(mounted, check=False, capture_output=True).returncode:
            print("a small file system cannot be mounted here: not run")
            return
        try:
            fill_again_and_again(Path(folder))
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def fill_again_and_again(folder: Path) -> None:
    rng, made, kinds = random.Random(0), list[Decision](), set[str]()
    with Engine.open(folder / "a.db") as engine:
        space = engine.space("s", dim=2)
        for n in range(ROUNDS):
            ballast = folder / "ballast"
            ballast.write_bytes(bytes(max(0, free(folder) - 40_000)))
            for _ in range(2000):
                try:
                    made.append(space.decide("a", arms=[{"features": [rng.random(), n]}]))
                except DiskFullError as error:
                    kinds.add(type(error).__name__)
                    break
            else:
                raise AssertionError("the disk was never full")
            ballast.unlink()
            made.append(space.decide("a", arms=[{"features": [rng.random(), n]}]))
        kept = {event.number for event in space.events()}
        assert {one.number for one in made} <= kept
        assert engine.verify().ok
    print(f"full {ROUNDS} times, {len(made)} answers, all kept; errors: {', '.join(kinds)}")


def free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


if __name__ == "__main__":
    main()
