"""All results, and the figures derived from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.contract import Peer, Unable
from benchmarks.peers.install import OURS, Install
from benchmarks.peers.speed import Speed
from benchmarks.peers.tuning import Run
from benchmarks.peers.workloads import WHOLE, Workload
from benchmarks.timing import geometric_mean
from cobandits.intervals import t_interval

__all__ = ["LARGE", "SHARED", "Found", "Measure", "Ratio"]

SHARED = "cobandits shared"
LARGE = ("unequal", "T100-r8")  # workloads whose memory is shown


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """The mean regret of one peer as a share of another's, on the same trials."""

    value: float
    half: float  # of the 95 % t-interval of the paired difference, as a share of the other's

    @property
    def lower(self) -> bool:
        """Whether it is below 1 by more than its interval."""
        return self.value + self.half < 1


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A cost that all peers have: less is better."""

    name: str
    unit: str
    values: Mapping[str, float]  # by peer
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of repetitions

    def beats(self, peer: str, other: str) -> bool:
        """Whether a peer costs less than another, in all repetitions."""
        value, least = self.values[peer], self.values[other]
        return max(self.spreads.get(peer, (value,))) < min(self.spreads.get(other, (least,)))


@dataclass(frozen=True, kw_only=True)
class Found:
    """The results by peer and workload, by peer, and by library."""

    peers: Mapping[str, Peer]
    workloads: Mapping[str, Workload]
    runs: Mapping[tuple[str, str], Run]  # peer and workload
    speeds: Mapping[str, Speed]  # peer
    installs: Mapping[str, Install]  # library
    lines: Mapping[str, int]  # peer
    unable: Sequence[Unable] = ()
    versions: Mapping[str, str] = field(default_factory=dict)  # library

    @cached_property
    def others(self) -> list[str]:
        """The peers that are not of this library."""
        return [name for name, peer in self.peers.items() if peer.library != OURS]

    def regrets(self, peer: str, workload: str) -> NDArray[np.float64]:
        """Return the regret of each trial; none where it was not run."""
        run = self.runs.get((peer, workload))
        return np.array([trial.regret for trial in run.trials] if run else [])

    def has(self, peer: str, workload: str) -> bool:
        """Tell whether there are figures of a peer on a workload."""
        return len(self.regrets(peer, workload)) > 0

    def mean(self, peer: str, workload: str) -> float:
        """Return the mean regret per task."""
        return float(self.regrets(peer, workload).mean())

    def half(self, peer: str, workload: str) -> float:
        """Return half of the 95 % t-interval of the mean."""
        return float(t_interval(self.regrets(peer, workload))[1])

    def best(self, workload: str, among: Sequence[str] | None = None) -> str | None:
        """Return the peer with the least mean regret, among some or all."""
        names = [
            name for name in (self.peers if among is None else among) if self.has(name, workload)
        ]
        return min(names, key=lambda name: self.mean(name, workload), default=None)

    def ratio(self, peer: str, other: str, workload: str) -> Ratio:
        """Return the regret of a peer as a share of another's."""
        ours, theirs = self.regrets(peer, workload), self.regrets(other, workload)
        _, half = t_interval(ours - theirs)
        return Ratio(value=float(ours.mean() / theirs.mean()), half=float(half / theirs.mean()))

    def to_best(self, workload: str) -> tuple[str, Ratio] | None:
        """Return the best peer of another library, and the regret of ``shared`` relative to it."""
        best = self.best(workload, self.others)
        if best is None or not self.has(SHARED, workload):
            return None
        return best, self.ratio(SHARED, best, workload)

    def overall(self, peer: str, other: str | None = None) -> float:
        """Return the geometric mean of the ratios to another, or to the best of each workload.

        Over the workloads that both have; NaN where there is none.
        """
        ratios = []
        for workload in self.workloads:
            against = other or self.best(workload)
            if against and self.has(peer, workload) and self.has(against, workload):
                ratios.append(self.mean(peer, workload) / self.mean(against, workload))
        return geometric_mean(ratios) if ratios else float("nan")

    @cached_property
    def ranked(self) -> list[str]:
        """All peers, those with the least regret first; those without any last."""
        ranks = {name: self.overall(name) for name in self.peers}
        return sorted(ranks, key=lambda name: (np.isnan(ranks[name]), ranks[name]))

    @cached_property
    def leaders(self) -> dict[str, str]:
        """The best peer of each library, ``shared`` for ours, in the order of their regret."""
        first: dict[str, str] = {OURS: SHARED}
        for name in self.ranked:
            if not np.isnan(self.overall(name)):
                first.setdefault(self.peers[name].library, name)
        return first

    @cached_property
    def fastest_exact(self) -> str | None:
        """The exact peer of another library that takes least for one decision with its update."""
        single = self.measures["single"].values
        names = [name for name in self.others if self.peers[name].exact and name in single]
        return min(names, key=lambda name: single[name], default=None)

    @cached_property
    def measures(self) -> dict[str, Measure]:
        """All costs."""
        timed = {name: speed for name, speed in self.speeds.items() if speed.decide}
        return {
            "decide": _repeated("one decision", {n: one.decide for n, one in timed.items()}),
            "learn": _repeated("its update", {n: one.learn for n, one in timed.items()}),
            "single": _repeated(
                "one decision with its update", {n: one.single for n, one in timed.items()}
            ),
            "batch": _repeated(
                "a decision with its update, all tasks at once",
                {n: one.batch for n, one in timed.items()},
            ),
            "whole": self._whole(),
            **{f"memory {workload}": self._memory(workload) for workload in LARGE},
            "pip": self._installed("`pip install`", "pip"),
            "first": self._installed("import and first decision", "first"),
            "lines": Measure(name="lines of user code", unit="", values=dict(self.lines)),
        }

    def _whole(self) -> Measure:
        values = {
            name: float(np.mean([trial.microseconds for trial in run.trials]))
            for (name, workload), run in self.runs.items()
            if workload == WHOLE and run.trials
        }
        name = "a decision with its update in a whole play, all tasks at once"
        return Measure(name=name, unit="µs", values=values)

    def _memory(self, workload: str) -> Measure:
        """Return the memory of the first trial: later ones use again what it has freed."""
        values = {
            name: run.trials[0].added / 1e6
            for (name, played), run in self.runs.items()
            if played == workload and run.trials
        }
        title = self.workloads[workload].title if workload in self.workloads else workload
        return Measure(name=f"memory, {title}", unit="MB", values=values)

    def _installed(self, name: str, part: str) -> Measure:
        values = {
            peer.name: float(getattr(self.installs[peer.library], part))
            for peer in self.peers.values()
            if peer.library in self.installs and not self.installs[peer.library].failed
        }
        return Measure(name=name, unit="s", values=values)


def _repeated(name: str, times: Mapping[str, Sequence[float]]) -> Measure:
    """Return medians, and the least and the largest repetition, in microseconds."""
    return Measure(
        name=name,
        unit="µs",
        values={peer: 1e6 * float(np.median(seconds)) for peer, seconds in times.items()},
        spreads={peer: (1e6 * min(seconds), 1e6 * max(seconds)) for peer, seconds in times.items()},
    )
