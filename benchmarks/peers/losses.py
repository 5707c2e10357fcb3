"""Where ``shared`` loses: from the figures, never by hand."""

from __future__ import annotations

import math

from benchmarks.peers.found import SHARED, Found

__all__ = ["NO_FIGURE", "losses", "number"]

NO_FIGURE = "-"


def losses(found: Found) -> list[str]:
    """List all figures in which a peer beats ``shared`` by more than its interval."""
    return [*_lost_regret(found), *_lost_costs(found)]


def number(value: float | None) -> str:
    """Return a number as people read it.

    >>> number(1234.5), number(12.34), number(None)
    ('1,234', '12.3', '-')
    """
    if value is None or math.isnan(value):
        return NO_FIGURE
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _lost_regret(found: Found) -> list[str]:
    lost = []
    for name, workload in found.workloads.items():
        better = [
            f"{peer} ({ratio.value:.2f} ± {ratio.half:.2g})"
            for peer in found.ranked
            if peer != SHARED and found.has(peer, name) and found.has(SHARED, name)
            if (ratio := found.ratio(peer, SHARED, name)).lower
        ]
        if better:
            lost.append(f"Regret, {workload.title}, relative to `shared`: {', '.join(better)}.")
    return lost


def _lost_costs(found: Found) -> list[str]:
    lost = []
    for measure in found.measures.values():
        values = measure.values
        if SHARED not in values:
            continue
        better = sorted(
            (name for name in values if name != SHARED and measure.beats(name, SHARED)),
            key=lambda name: values[name],
        )
        if better:
            unit = f" {measure.unit}" if measure.unit else ""
            lost.append(
                f"{measure.name[0].upper()}{measure.name[1:]}: {len(better)} of "
                f"{len(values) - 1} need less than its {number(values[SHARED])}{unit}, "
                f"{better[0]} least with {number(values[better[0]])}{unit}."
            )
    return lost
