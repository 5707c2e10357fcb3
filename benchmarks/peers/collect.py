"""All results: missing ones are run, if they are asked for; the others are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from benchmarks.peers import adapters
from benchmarks.peers.code import user_lines
from benchmarks.peers.contract import Peer
from benchmarks.peers.found import Found
from benchmarks.peers.install import Install
from benchmarks.peers.play import Parameters
from benchmarks.peers.runs import LIMIT, FailedError, MissingError, Runner, installed
from benchmarks.peers.speed import Size, Speed
from benchmarks.peers.tuning import Grid, Run, points, run
from benchmarks.peers.workloads import WHOLE, Workload, quick, workloads

__all__ = ["FOLDER", "RIVALS", "SECTIONS", "Asked", "Scale", "find"]

FOLDER = Path("results") / "peers"
RIVALS = Path("benchmarks") / "peers" / "rivals"
SECTIONS = ("regret", "speed", "install", "page")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of a run."""

    workloads: Mapping[str, Workload] = field(default_factory=workloads)
    most_values: int | None = None  # of a parameter, that are tried
    size: Size = field(default_factory=Size)

    @classmethod
    def quick(cls) -> Scale:
        """Return a scale for tests."""
        size = Size(warm_up=3, warm_up_seconds=2.0, repetitions=2, least_seconds=0.01)
        return cls(workloads=quick(), most_values=2, size=size)

    def grid(self, peer: Peer) -> Grid:
        """Return what is tried of a peer's grid: the first values, where all are too many."""
        return {name: values[: self.most_values] for name, values in peer.grid.items()}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The sections, peers and workloads that may be run now; earlier results are shown too."""

    sections: Sequence[str] = SECTIONS
    peers: Sequence[str] = ()  # parts of names; all where there are none
    workloads: Sequence[str] = ()  # names; all where there are none
    jobs: int = 1
    limit: float = LIMIT
    folder: Path = FOLDER
    rivals: Path | None = None  # where plays of other libraries are kept, if not there too
    days: set[str] = field(default_factory=set)  # on which what is shown ran

    def runner(self, section: str) -> Runner:
        """Return what runs a section, or only reads what is kept of it."""
        may_run = section in self.sections
        return Runner(
            folder=self.folder,
            rivals=self.rivals,
            may_run=may_run,
            limit=self.limit,
            days=self.days,
        )

    def takes(self, peer: str, workload: str) -> bool:
        """Tell whether a peer is to be run on a workload."""
        named = not self.peers or any(part in peer for part in self.peers)
        return named and (not self.workloads or workload in self.workloads)


def find(asked: Asked, scale: Scale) -> Found:
    """Run what is missing and asked for, and return all that there is."""
    peers = adapters.peers()
    runs = _runs(asked, scale, peers)
    return Found(
        peers=peers,
        workloads=scale.workloads,
        runs=runs,
        speeds=_speeds(asked, scale, runs),
        installs=_installs(asked, peers),
        lines={name: user_lines(peer) for name, peer in peers.items()},
        unable=adapters.unable(),
        versions=_versions(peers),
    )


def _runs(asked: Asked, scale: Scale, peers: Mapping[str, Peer]) -> dict[tuple[str, str], Run]:
    """Play all peers on all workloads, in as many processes at a time as there are jobs."""
    pairs = [(peer, workload) for workload in scale.workloads for peer in peers]

    def work(pair: tuple[str, str]) -> Run:
        name, on = pair
        runner = asked.runner("regret")
        if not asked.takes(name, on):
            runner = replace(runner, may_run=False)
        peer, workload = peers[name], scale.workloads[on]
        return run(runner, peer, workload, scale.grid(peer))

    pool = ThreadPoolExecutor(asked.jobs)
    try:
        found = {}
        for pair, done in zip(pairs, pool.map(work, pairs), strict=True):
            found[pair] = done
            if "regret" in asked.sections and asked.takes(*pair):
                _say(f"[{len(found)}/{len(pairs)}] {pair[0]}, {pair[1]}: {_outcome(done)}")
        return found
    finally:
        pool.shutdown(cancel_futures=True)


def _speeds(asked: Asked, scale: Scale, runs: Mapping[tuple[str, str], Run]) -> dict[str, Speed]:
    """Time all peers that play, with the parameters they have where there are 100 tasks."""
    told: dict[str, Parameters] = {}
    for (peer, workload), done in runs.items():
        if done.trials and (workload == WHOLE or peer not in told):
            told[peer] = done.parameters
    if not told:
        return {}
    ordered = {name: told[name] for name in sorted(told)}
    versions = {name: installed(adapters.peers()[name].library) for name in ordered}
    said = json.dumps({"peers": ordered, "size": asdict(scale.size)})
    try:
        lines = asked.runner("speed").lines("speed", f"{versions}: {said}", ["speed", said])
    except MissingError as error:
        _say(f"speed: {error}")
        return {}
    return {found.pop("peer"): Speed(**found) for line in lines if (found := json.loads(line))}


def _installs(asked: Asked, peers: Mapping[str, Peer]) -> dict[str, Install]:
    """Install each library that is here into a fresh environment."""
    first = {peer.library: peer for peer in reversed(list(peers.values()))}
    found: dict[str, Install] = {}
    for library, peer in sorted(first.items()):
        told = {
            "library": library,
            "version": installed(library),
            "adapter": adapters.module_of(peer.name),
            "peer": peer.name,
            "parameters": points(peer.grid)[0],
        }
        said = json.dumps(told)
        try:
            [line] = asked.runner("install").lines(f"install-{library}", said, ["install", said])
        except MissingError as error:
            if isinstance(error, FailedError):
                found[library] = Install(failed=str(error))
        else:
            found[library] = Install(**json.loads(line))
    return found


def _versions(peers: Mapping[str, Peer]) -> dict[str, str]:
    libraries = {peer.library for peer in peers.values()}
    libraries |= {one.library for one in adapters.unable()}
    return {library: installed(library) or "not installed" for library in sorted(libraries)}


def _outcome(done: Run) -> str:
    if done.missing:
        return done.missing
    return f"regret {sum(trial.regret for trial in done.trials) / len(done.trials):.4g}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
