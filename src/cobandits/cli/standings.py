"""The policies of an experiment as a table."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cobandits.cli.output import number
from cobandits.plots.regret import interval
from cobandits.traces import Trace

__all__ = ["print_standings"]

Floats = NDArray[np.float64]
Traces = Mapping[str, Sequence[Trace]]

_WIDTH = 80  # where the output is not a terminal, and at least


def print_standings(traces: Traces, notes: Sequence[str] = ()) -> None:
    """Print means over trials, a policy a row, the best first, and what needs attention.

    The best has the least regret or, where nobody knows that, the highest reward.
    """
    console = Console(highlight=False)
    console.width = max(_WIDTH, console.width) if sys.stdout.isatty() else _WIDTH
    regrets = _scores(traces, "regret_per_task")
    known = all(np.isfinite(values).all() for values in regrets.values())
    console.print(_regrets(traces, regrets) if known else _rewards(traces))
    n_trials = len(next(iter(traces.values())))
    console.print(f"\n{_legend(n_trials, known)}", style="dim", markup=False)
    for line in (*notes, *_advice(traces)):
        console.print(line, markup=False)


def _regrets(traces: Traces, scores: Mapping[str, Floats]) -> Table:
    order = sorted(scores, key=lambda label: float(scores[label].mean()))
    table = _empty("regret a task", "above best")
    for label in order:
        above = "best" if label == order[0] else _plus(scores[label] - scores[order[0]])
        table.add_row(Text(label), _shown(scores[label]), above, *_costs(traces[label]))
    return table


def _rewards(traces: Traces) -> Table:
    scores = _scores(traces, "mean_reward")
    means = {label: float(np.nan_to_num(x, nan=-math.inf).mean()) for label, x in scores.items()}
    order = sorted(means, key=lambda label: -means[label])
    table = _empty("mean reward", "below best")
    for label in order:
        below = "best" if label == order[0] else _plus(scores[order[0]] - scores[label])
        table.add_row(Text(label), _shown(scores[label]), below, *_costs(traces[label]))
    return table


def _empty(score: str, gap: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("policy", overflow="fold")
    for name in (score, gap, "error", "seconds", "us/decision"):
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _scores(traces: Traces, name: Literal["regret_per_task", "mean_reward"]) -> dict[str, Floats]:
    """Return a figure of each policy by trial."""
    return {
        label: np.array([getattr(one, name) for one in group]) for label, group in traces.items()
    }


def _shown(values: Floats) -> str:
    mean, half = interval(values)
    return number(float(mean)) + (f" ± {number(float(half))}" if len(values) > 1 else "")


def _plus(values: Floats) -> str:
    text = _shown(values)
    return text if text.startswith("-") else f"+{text}"


def _costs(traces: Sequence[Trace]) -> list[str]:
    """Return the error of the last fits, and where the time went; means over trials."""
    errors = [trace.fits[-1].error if trace.fits else math.nan for trace in traces]
    seconds = [trace.seconds_deciding + trace.seconds_learning for trace in traces]
    decisions = sum(trace.decisions for trace in traces)
    deciding = sum(trace.seconds_deciding for trace in traces)
    return [
        number(float(np.mean(errors))),
        number(float(np.mean(seconds))),
        number(1e6 * deciding / decisions if decisions else math.nan),
    ]


def _legend(n_trials: int, known: bool) -> str:
    means = f"Means over {n_trials} trials, ± a 95 % t-interval" if n_trials > 1 else "One trial"
    lines = [
        f"{means}; the best first.",
        f"{'Above' if known else 'Below'} best: paired, trial by trial.",
        "Error: of theta, relative, at the last fit.",
        "Seconds: deciding and learning, a trial; us/decision: deciding alone.",
    ]
    return "\n".join(lines if known else ["Nobody knows the regret here.", *lines])


def _advice(traces: Traces) -> list[str]:
    """Return one line for each policy and way in which its fits did not converge."""
    lines = []
    for label, group in traces.items():
        ended = Counter(fit.status for trace in group for fit in trace.fits)
        lines += [
            f"{label}: {count} of {ended.total()} fits ended as {status!r}"
            for status, count in ended.items()
            if status != "converged"
        ]
    return lines
