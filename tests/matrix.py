"""Run the tests on other machines than this one, as far as one machine can play them.

``make test-matrix`` runs every row, ``make test-matrix ROWS="haswell oldest"`` those two. What
pytest prints of a row is kept in ``results/matrix/``. Rows with other dependencies or another build
of the C code get a copy of the checkout in ``build/matrix/``, and an environment if they need one.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import threadpoolctl

ROOT = Path(__file__).parents[1]
BUILDS = ROOT / "build" / "matrix"
LOGS = ROOT / "results" / "matrix"

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
SANITIZERS = "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined"

# The files that call the C code most, and those whose numbers depend on BLAS.
COMPILED_FILES = (
    "tests/test_altgdmin.py",
    "tests/test_contract.py",
    "tests/test_engine_calls.py",
    "tests/test_fast_checks.py",
    "tests/test_gaussian.py",
    "tests/test_kernels.py",
    "tests/test_lowrank.py",
    "tests/test_plain_requests.py",
    "tests/test_policies.py",
    "tests/test_task_posteriors.py",
    "tests/test_tasks.py",
)
LINEAR_ALGEBRA_FILES = (
    "tests/test_altgd.py",
    "tests/test_altgdmin.py",
    "tests/test_basis.py",
    "tests/test_calibration.py",
    "tests/test_carry_over.py",
    "tests/test_contract.py",
    "tests/test_diagnostics.py",
    "tests/test_empirical_bayes.py",
    "tests/test_federated.py",
    "tests/test_gaussian.py",
    "tests/test_golden.py",
    "tests/test_hard_data.py",
    "tests/test_independent.py",
    "tests/test_kernels.py",
    "tests/test_likelihood.py",
    "tests/test_likelihoods.py",
    "tests/test_linalg.py",
    "tests/test_lowrank.py",
    "tests/test_moments.py",
    "tests/test_propensities.py",
    "tests/test_recovery.py",
    "tests/test_selection.py",
    "tests/test_sharded.py",
    "tests/test_shared.py",
    "tests/test_sklearn.py",
    "tests/test_task_posteriors.py",
    "tests/test_tasks.py",
    "tests/test_tracenorm.py",
)


class Place(NamedTuple):
    """Where a row runs."""

    python: Path
    folder: Path
    environment: Mapping[str, str] = {}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to run the tests."""

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    prepare: Callable[[Path], Place] = lambda _: Place(Path(sys.executable), ROOT)
    usual: bool = True  # whether it is run where no row is named


class Counts(NamedTuple):
    """How many tests did what."""

    passed: int
    failed: int
    skipped: int


class Result(NamedTuple):
    """What pytest said of a row; no counts where it did not come to an end."""

    row: str
    good: bool
    counts: Counts | None
    seconds: float


# ---- copies of the checkout


def copy_checkout(folder: Path) -> Path:
    """Copy what git knows or would add, so without anything that was built."""
    shutil.rmtree(folder, ignore_errors=True)
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def expect_extension(place: Place, built: bool) -> Place:
    """Return the place if its code is the copy's, with the extension or without it."""
    code = "import cobandits.kernels; print(cobandits.kernels.COMPILED, cobandits.__file__)"
    found = subprocess.run(
        [place.python, "-c", code],
        cwd=place.folder,
        env={**os.environ, **place.environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    if found.split() != [str(built), str(place.folder / "src" / "cobandits" / "__init__.py")]:
        raise RuntimeError(f"another build of the package would be tested: {found}")
    return place


def without_extension(folder: Path) -> Place:
    """Copy the code, and build nothing."""
    copy = copy_checkout(folder / "checkout")
    quiet = "ignore:cobandits runs without its compiled code:RuntimeWarning"
    environment = {"PYTHONPATH": str(copy / "src"), "PYTHONWARNINGS": quiet}
    return expect_extension(Place(Path(sys.executable), copy, environment), built=False)


def sanitized(folder: Path) -> Place:
    """Copy the code, and build the extension with checks of every access and operation."""
    copy = copy_checkout(folder / "checkout")
    flags = {"CFLAGS": SANITIZERS, "LDFLAGS": SANITIZERS, "COBANDITS_EXTENSION": "required"}
    run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], copy, flags)
    library = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    environment = {
        "PYTHONPATH": str(copy / "src"),
        "PYTHONMALLOC": "malloc",  # so that the bounds of every object are known
        "LD_PRELOAD": library.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python itself leaves memory at its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    return expect_extension(Place(Path(sys.executable), copy, environment), built=True)


def with_dependencies(*options: str) -> Callable[[Path], Place]:
    """Return what makes an environment for a copy of the code with pip's ``options``."""

    def prepare(folder: Path) -> Place:
        copy = copy_checkout(folder / "checkout")
        run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], ROOT)
        python = folder / "venv" / "bin" / "python"
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]
        run([*pip, "-q", *options, "-e", ".[test]"], copy)
        run([str(python), "-m", "pip", "freeze", "--exclude-editable"], copy)
        return expect_extension(Place(python, copy), built=True)

    return prepare


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a command, and print what it says."""
    subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})}, check=True)


# ---- the rows


def on_another_kernel(_: Path) -> Place:
    """Take this checkout and its environment, but not the machine's own kernel."""
    return Place(Path(sys.executable), ROOT, {"OPENBLAS_CORETYPE": another_kernel()})


def another_kernel() -> str:
    """Return a kernel of OpenBLAS that every x86-64 has, and that is not this machine's own."""
    importlib.import_module("numpy.linalg")  # which loads its BLAS
    libraries = threadpoolctl.threadpool_info()
    own = {str(library.get("architecture")) for library in libraries}
    return "Prescott" if own & {"Haswell", "Zen"} else "Haswell"


ROWS: Mapping[str, Row] = {
    **{
        kernel.lower(): Row(environment={"OPENBLAS_CORETYPE": kernel})
        for kernel in ("Haswell", "Zen", "Sandybridge", "Prescott", "Nehalem")
    },
    "two-threads": Row(environment=dict.fromkeys(THREADS, "2")),
    "no-extension": Row(prepare=without_extension),
    "oldest": Row(prepare=with_dependencies("-c", str(ROOT / "constraints-oldest.txt"))),
    "newest": Row(prepare=with_dependencies()),
    **{
        f"seed-{seed}": Row(
            environment={"HYPOTHESIS_PROFILE": "seeded"},
            arguments=[f"--hypothesis-seed={seed}", "-m", "hypothesis and not statistical"],
        )
        for seed in range(1, 6)
    },
    "random-order": Row(arguments=["--random-order-bucket=global", "--random-order-seed=1"]),
    "sanitizers": Row(prepare=sanitized, arguments=COMPILED_FILES),
    "another-kernel": Row(  # what CI runs beside the plain suite
        prepare=on_another_kernel, arguments=LINEAR_ALGEBRA_FILES, usual=False
    ),
}


def counted(report: Path) -> Counts | None:
    """Read the counts from pytest's XML."""
    if not report.is_file():
        return None
    suites = list(ET.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(key, 0)) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    return Counts(total - failures - errors - skipped, failures + errors, skipped)


def tried(name: str, workers: int) -> Result:
    """Run one row."""
    row, start = ROWS[name], time.monotonic()
    report, log = LOGS / f"{name}.xml", LOGS / f"{name}.log"
    report.unlink(missing_ok=True)
    try:
        place = row.prepare(BUILDS / name)
    except (subprocess.CalledProcessError, OSError, RuntimeError) as error:
        log.write_text(f"The row could not be prepared: {error}\n")
        return Result(name, False, None, time.monotonic() - start)
    environment = {**dict.fromkeys(THREADS, "1"), "MPLBACKEND": "Agg"}
    command = [str(place.python), "-m", "pytest", "-q", "-n", str(workers), "--dist", "worksteal"]
    with log.open("w") as out:
        code = subprocess.run(
            [*command, f"--junitxml={report}", *row.arguments],
            cwd=place.folder,
            env={**os.environ, **environment, **row.environment, **place.environment},
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    return Result(name, code == 0, counted(report), time.monotonic() - start)


def line(result: Result) -> str:
    """Return a line of the table."""
    numbers = ("-",) * 3 if result.counts is None else result.counts
    cells = [*map(str, numbers), f"{result.seconds:.0f} s", "green" if result.good else "RED"]
    return f"{result.row:<16}" + "".join(f"{cell:>9}" for cell in cells)


def main() -> int:
    """Run the rows that are named, or all; return 0 where every one of them is green."""
    parser = argparse.ArgumentParser(prog="make test-matrix", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of: {', '.join(ROWS)}")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if unknown := set(given.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are: {', '.join(ROWS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    results = []
    for name in given.rows or [name for name, row in ROWS.items() if row.usual]:
        results.append(tried(name, given.workers))
        print(line(results[-1]), flush=True)
    heading = ("passed", "failed", "skipped", "time", "")
    print("\n" + f"{'row':<16}" + "".join(f"{word:>9}" for word in heading))
    print("\n".join(map(line, results)))
    return 0 if all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
