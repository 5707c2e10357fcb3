"""Check what ``make dist`` made: install it where there is nothing else, and use it.

Run ``python tools/check_dist.py FOLDER`` with one sdist and one wheel in the folder. All work is
done in a temporary folder outside of the checkout. It ends with status 1 at the first check that
fails.
"""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
PLATFORM = "manylinux" if sys.platform == "linux" else ""  # what the wheel's last tag begins with
NO_COMPILER = {"CC": "/bin/false", "CXX": "/bin/false"}

USES_COMPILED_CODE = """
import sys
from cobandits.compiled import _fast_checks, _pass, _posterior, _propensity, _requests
used = (_fast_checks, _pass, _posterior, _propensity, _requests)
assert all(module.__file__.startswith(sys.prefix) for module in used)
"""
PREDICTS = """
from cobandits import Estimate
estimate = Estimate.load("model.npz")
assert estimate.rank == 2, estimate.rank
"""


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """A folder with an empty virtual environment."""

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> Sandbox:
        """Make the environment."""
        venv.create(folder / "venv", with_pip=True)
        return cls(folder=folder)

    @property
    def programs(self) -> Path:
        """Where the environment's programs are."""
        return self.folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")

    def run(self, what: str, *command: str | Path, **settings: str) -> str:
        """Run a program of the environment in the folder, and return what it printed."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            [self.programs / command[0], *command[1:]],
            cwd=self.folder,
            env={**inherited, "MPLBACKEND": "Agg", **settings},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            fail(what, f"{done.stdout}{done.stderr}")
        say(what)
        return done.stdout


def say(what: str) -> None:
    """Print a check that passed."""
    print(f"ok: {what}", flush=True)


def fail(what: str, why: str) -> NoReturn:
    """End with a check that failed."""
    raise SystemExit(f"FAILED: {what}\n{why}")


def check(holds: bool, what: str, why: object) -> None:
    """Print a check that passed, or end with one that failed."""
    if not holds:
        fail(what, str(why))
    say(what)


def found(folder: Path) -> tuple[Path, Path]:
    """Return the sdist and the wheel of a folder, which must hold these two files alone."""
    files = sorted(folder.resolve().iterdir(), key=lambda path: path.suffix)
    check(
        [path.suffix for path in files] == [".gz", ".whl"],
        "there are one sdist and one wheel",
        f"{folder} holds {[path.name for path in files]}",
    )
    sdist, wheel = files
    tag = rf"-cp311-abi3-{PLATFORM}\w+(\.{PLATFORM}\w+)*\.whl$"
    check(bool(re.search(tag, wheel.name)), f"the wheel is {wheel.name}", f"expected {tag}")
    return sdist, wheel


def check_sources(sdist: Path) -> None:
    """Compare the files of the sdist with those that git tracks."""
    if not (ROOT / ".git").exists():
        print("not checked: whether the sdist is whole, since this is no git checkout")
        return
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = {name for name in listed.stdout.splitlines() if not name.startswith(".")}
    with tarfile.open(sdist) as archive:
        members = (member.name.partition("/")[2] for member in archive if member.isfile())
        held = {name for name in members if ".egg-info/" not in name}
    different = tracked ^ (held - {"PKG-INFO", "setup.cfg"})
    check(
        not different,
        f"the sdist holds the {len(tracked)} tracked files, and no others",
        f"in one of them only: {sorted(different)}; see MANIFEST.in, and commit new files",
    )


def check_build(sandbox: Sandbox, sdist: Path) -> None:
    """Build wheels from the sdist, with a compiler and without."""
    ways: tuple[tuple[str, str, dict[str, str]], ...] = (
        ("with", "-cp311-abi3-", {"COBANDITS_EXTENSION": "required"}),
        ("without", "-py3-none-any.", {"COBANDITS_EXTENSION": "optional", **NO_COMPILER}),
    )
    for way, tag, settings in ways:
        out = sandbox.folder / way
        build = ("python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", out, sdist)
        sandbox.run(f"the sdist builds {way} a compiler", *build, **settings)
        (wheel,) = out.iterdir()
        check(tag in wheel.name, f"its wheel is {wheel.name}", f"expected {tag}")


def check_use(sandbox: Sandbox, wheel: Path) -> None:
    """Install the wheel where there is no compiler, and do what the README does."""
    alone = {**NO_COMPILER, "PATH": str(sandbox.programs)}
    install = ("python", "-m", "pip", "install", "--only-binary", ":all:", f"{wheel}[cli,engine]")
    sandbox.run("the wheel installs into an empty environment", *install, **alone)
    sandbox.run("its compiled code is used", "python", "-c", USES_COMPILED_CODE, **alone)
    shutil.copy(ROOT / "README.md", sandbox.folder)
    sandbox.run("the README's examples hold", "python", "-m", "doctest", "README.md", **alone)
    options = "--dim 10 --tasks 8 --rank 2 --rounds 20 --policy shared --policy ridge --trials 2"
    simulate = ("cobandits", "simulate", *options.split(), "--json")
    printed = sandbox.run("cobandits simulate runs", *simulate, **alone)
    policies = sorted(json.loads(line)["policy"] for line in printed.splitlines())
    expected = ["ridge", "ridge", "shared", "shared"]
    check(policies == expected, "it prints a record per policy and trial", printed)
    write_rows(sandbox.folder / "rows.csv")
    columns = ("--task", "city", "--reward", "clicks", "-o", "model.npz")
    sandbox.run("cobandits fit fits a file", "cobandits", "fit", "rows.csv", *columns, **alone)
    sandbox.run("its estimate loads, with the true rank", "python", "-c", PREDICTS, **alone)


def write_rows(path: Path, *, tasks: int = 20, rows: int = 30, dim: int = 6) -> None:
    """Write rows of tasks whose thetas lie in a plane, with a little noise."""
    draw = random.Random(0)
    basis = [[draw.gauss() for _ in range(dim)] for _ in range(2)]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["city", "clicks", *(f"x{i}" for i in range(dim))])
        for task in range(tasks):
            weights = [draw.gauss(), draw.gauss()]
            theta = [weights[0] * a + weights[1] * b for a, b in zip(*basis, strict=True)]
            for _ in range(rows):
                x = [draw.gauss() for _ in range(dim)]
                reward = sum(a * b for a, b in zip(x, theta, strict=True)) + draw.gauss(0, 0.01)
                table.writerow([f"city {task}", reward, *x])


def main(folder: str = "dist") -> None:
    """Check the sdist and the wheel of a folder."""
    sdist, wheel = found(Path(folder))
    check_sources(sdist)
    with tempfile.TemporaryDirectory(prefix="cobandits-dist-") as temporary:
        builder, user = Path(temporary, "build"), Path(temporary, "use")
        check_build(Sandbox.new(builder), sdist)
        check_use(Sandbox.new(user), wheel)


if __name__ == "__main__":
    main(*sys.argv[1:2])
