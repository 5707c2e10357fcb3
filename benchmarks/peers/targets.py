"""What ``shared`` should reach beside others, and what it does."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from benchmarks.peers.found import SHARED, Found
from benchmarks.report import Target
from benchmarks.timing import geometric_mean

__all__ = ["targets"]

WORST_OTHER = 1.05
MEAN_RELATED = 1 / 1.5
BATCH_TIMES = 10.0


def targets(found: Found) -> list[Target]:
    """Return what ``shared`` should reach, and what it does."""
    related = [name for name, workload in found.workloads.items() if workload.related]
    unrelated = [name for name, workload in found.workloads.items() if not workload.related]
    return [*_regret_targets(found, related, unrelated), *_speed_targets(found)]


def _regret_targets(found: Found, related: Sequence[str], unrelated: Sequence[str]) -> list[Target]:
    ratios = {
        name: compared[1].value
        for name in found.workloads
        if (compared := found.to_best(name)) is not None
    }
    return [
        *_each_and_mean(found, "related", [n for n in related if n in ratios], ratios),
        *(
            Target(
                name=f"regret / best peer's, {found.workloads[name].title}",
                measured=ratios[name],
                at_most=WORST_OTHER,
            )
            for name in unrelated
            if name in ratios
        ),
    ]


def _each_and_mean(
    found: Found, word: str, names: Sequence[str], ratios: Mapping[str, float]
) -> list[Target]:
    if not names:
        return []
    worst = max(names, key=lambda name: ratios[name])
    return [
        Target(
            name=f"regret / best peer's, each of {len(names)} {word} workloads "
            f"(worst: {found.workloads[worst].title})",
            measured=ratios[worst],
            at_most=math.nextafter(1, 0),  # below 1
        ),
        Target(
            name=f"the same, geometric mean of {len(names)}",
            measured=geometric_mean([ratios[name] for name in names]),
            at_most=MEAN_RELATED,
        ),
    ]


def _speed_targets(found: Found) -> list[Target]:
    single, batch = found.measures["single"].values, found.measures["batch"].values
    peer = found.fastest_exact
    if peer is None or SHARED not in single:
        return []
    return [
        Target(
            name="time of one decision with its update, between refits / that of the fastest "
            f"exact peer (*{peer}*)",
            measured=single[SHARED] / single[peer],
            at_most=1.0,
        ),
        Target(
            name=f"a decision with its update: time of *{peer}*, one at a time / of `shared` in a "
            f"batch of 100 tasks (of *{peer}* in a loop over the batch: "
            f"{batch[peer] / batch[SHARED]:.1f})",
            measured=single[peer] / batch[SHARED],
            at_least=BATCH_TIMES,
        ),
    ]
