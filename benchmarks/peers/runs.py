"""Runs of peers, each in a process of its own, and kept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

from benchmarks.flagship.kept import Kept, NotRunError
from benchmarks.peers.contract import Peer
from benchmarks.peers.install import OURS
from benchmarks.peers.play import STOPPED, Parameters, Play, Trial
from benchmarks.peers.workloads import SEED, WHOLE, Workload

__all__ = ["LIMIT", "FailedError", "MissingError", "Runner", "installed", "plain"]

LIMIT = 300.0  # CPU seconds of all trials with one choice of parameters


class MissingError(Exception):
    """There is no figure; the text is what a table shows instead."""


class FailedError(MissingError):
    """What ran ended with an error: it is not kept, and is run again next time."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Runs what is missing, if it may.

    What is kept is of one version of a library. How an adapter is written is not part of it:
    where that changes, remove its files. Plays of other libraries are kept in ``rivals``, where
    that is given; those that are timed beside ours are not, since times are of one machine.
    """

    folder: Path
    rivals: Path | None = None
    may_run: bool = True
    limit: float = LIMIT
    days: set[str] = field(default_factory=set)  # on which what was asked for ran

    def play(
        self,
        peer: Peer,
        workload: Workload,
        *,
        trials: Sequence[int],
        choices: Sequence[Parameters],
    ) -> list[Trial]:
        """Return the trials of a peer with each choice of parameters, one after the other."""
        told = Play(
            peer=peer.name,
            environment=workload.environment,
            options=workload.options,
            rounds=workload.rounds,
            seed=SEED,
            trials=tuple(trials),
            choices=tuple(choices),
            limit=self.limit,
        )
        what = "tuning" if trials[0] < 0 else "play"
        name = f"{workload.name}-{plain(peer.name)}-{what}"
        rival = peer.library != OURS and workload.name != WHOLE
        lines = self.lines(name, f"{_version(peer)}: {told}", ["play", str(told)], rival=rival)
        found = [json.loads(line) for line in lines]
        if STOPPED in found[-1]:
            raise MissingError(f"more than {found[-1][STOPPED]:,.0f} s")
        return [Trial(**line) for line in found]

    def lines(
        self, name: str, said: str, words: Sequence[str], *, rival: bool = False
    ) -> list[str]:
        """Return what ``python -m benchmarks.peers.<words>`` printed."""
        kept = Kept(self.folder, rivals=self.rivals, may_run=self.may_run, tells=False)
        try:
            lines = kept.lines(name, said, lambda: self._printed(name, words), rival=rival)
        except NotRunError as error:
            raise MissingError("not run") from error
        self.days.update(kept.days)
        return lines

    def _printed(self, name: str, words: Sequence[str]) -> list[str]:
        began, done = perf_counter(), self._run(words)
        print(f"{perf_counter() - began:8.1f} s  {name}", file=sys.stderr, flush=True)
        return done

    def _run(self, words: Sequence[str]) -> list[str]:
        module, *arguments = words
        command = [sys.executable, "-m", f"benchmarks.peers.{module}", *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise FailedError(f"failed: {last}")
        return done.stdout.splitlines()


@cache
def installed(library: str) -> str | None:
    """Return the version of a library that is installed here, None where none is."""
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def plain(name: str) -> str:
    """Return a name that a file can have.

    >>> plain("vw squarecb, --lrq")
    'vw-squarecb-lrq'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _version(peer: Peer) -> str:
    found = installed(peer.library)
    if found is None:
        raise MissingError("not installed")
    return f"{peer.library} {found}"
