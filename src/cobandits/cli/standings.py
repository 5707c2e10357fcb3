"""The policies of an experiment as a table."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cobandits.cli.output import number
from cobandits.intervals import t_interval
from cobandits.lab import Record

__all__ = ["Standings", "print_standings", "standings"]

Floats = NDArray[np.float64]

_ENDS = {"limit": "'limit' (iterations ran out)", "refused": "'refused' (nothing was changed)"}
Records = Mapping[str, Sequence[Record]]  # of each policy, by trial

_WIDTH = 80  # of a terminal, at least
_PIPED = 200  # where the output is not one: no label is broken
_NORMAL = 1.96  # standard errors on each side of a 95 % interval
_FEW = 100  # rewards that came, below which a mean says little


@dataclass(frozen=True, kw_only=True)
class Standings:
    """Means over trials, a policy a row, the best first, and what needs attention."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]


def standings(records: Records, notes: Sequence[str] = ()) -> Standings:
    """Return how policies compare.

    The best has the least regret or, where nobody knows that, the highest reward.
    """
    regrets = _scores(records, "regret_per_task")
    known = all(np.isfinite(values).all() for values in regrets.values())
    score = ("regret a task", "above best") if known else ("mean reward", "rewards")
    return Standings(
        header=("policy", *score, "error", "seconds", "us/decision"),
        rows=tuple(_regrets(records, regrets) if known else _rewards(records)),
        legend=_legend(len(next(iter(records.values()))), known),
        notes=(*notes, *_advice(records), *([] if known else _cautions(records))),
    )


def print_standings(shown: Standings) -> None:
    """Print the table, what its columns mean, and the notes."""
    console = Console(highlight=False)
    console.width = max(_WIDTH, console.width) if sys.stdout.isatty() else _PIPED
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(shown.header[0], overflow="fold")
    for name in shown.header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for label, *figures in shown.rows:
        table.add_row(Text(label), *figures)
    console.print(table)
    console.print("\n" + "\n".join(shown.legend), style="dim", markup=False)
    for line in shown.notes:
        console.print(line, markup=False)


def _regrets(records: Records, scores: Mapping[str, Floats]) -> list[tuple[str, ...]]:
    order = sorted(scores, key=lambda label: float(scores[label].mean()))
    gaps = {label: scores[label] - scores[order[0]] for label in order}
    return [_row(label, scores[label], gaps[label], records[label], order[0]) for label in order]


def _rewards(records: Records) -> list[tuple[str, ...]]:
    means = {label: float(x.mean()) for label, x in _scores(records, "mean_reward").items()}
    order = sorted(means, key=lambda label: -np.nan_to_num(means[label], nan=-math.inf))
    return [_reward_row(label, means[label], records[label]) for label in order]


def _reward_row(label: str, mean: float, records: Sequence[Record]) -> tuple[str, ...]:
    """Return a row whose interval is of the rewards: all trials replay the same log."""
    half = _NORMAL * float(_column(records, "mean_reward_error").mean())
    came = float(_column(records, "rewarded").mean())
    of = float(_column(records, "decisions").mean())
    shown = f"{number(mean)} ± {number(half)}"
    return label, shown, f"{came:,.0f} of {of:,.0f}", *_costs(records)


def _row(
    label: str, scores: Floats, gap: Floats, records: Sequence[Record], best: str
) -> tuple[str, ...]:
    return label, _shown(scores), "best" if label == best else _plus(gap), *_costs(records)


def _scores(records: Records, name: str) -> dict[str, Floats]:
    """Return a figure of each policy by trial."""
    return {label: _column(group, name) for label, group in records.items()}


def _column(records: Sequence[Record], name: str) -> Floats:
    return np.array([record[name] for record in records], np.float64)


def _shown(values: Floats) -> str:
    mean, half = t_interval(values)
    return number(float(mean)) + (f" ± {number(float(half))}" if len(values) > 1 else "")


def _plus(values: Floats) -> str:
    text = _shown(values)
    return text if text.startswith("-") else f"+{text}"


def _costs(records: Sequence[Record]) -> tuple[str, str, str]:
    """Return the error of the last fits, and where the time went; means over trials."""
    errors = [_last(record["fit_errors"]) for record in records]
    deciding = _column(records, "seconds_deciding")
    seconds = deciding + _column(records, "seconds_learning")
    decisions = float(_column(records, "decisions").sum())
    return (
        number(float(np.mean(errors))),
        number(float(seconds.mean())),
        number(1e6 * float(deciding.sum()) / decisions if decisions else math.nan),
    )


def _last(values: object) -> float:
    return float(values[-1]) if isinstance(values, list) and values else math.nan


def _legend(n_trials: int, known: bool) -> tuple[str, ...]:
    means = f"Means over {n_trials} trials, ± a 95 % t-interval" if n_trials > 1 else "One trial"
    costs = (
        "Error: of theta, relative, at the last fit.",
        "Seconds: deciding and learning, a trial; us/decision: deciding alone.",
    )
    if known:
        return f"{means}; the best first.", "Above best: paired, trial by trial.", *costs
    return (
        "Nobody knows the regret here; the best first.",
        "Mean reward: of the rewards that came, ± a 95 % interval, mean over trials of one log.",
        "Rewards: how many came, of how many decisions.",
        *costs,
    )


def _advice(records: Records) -> list[str]:
    """Return one line for each policy and way in which its fits did not converge."""
    lines = []
    for label, group in records.items():
        said = (str(record["fit_statuses"]) for record in group)
        ended = Counter(status for text in said if text for status in text.split(","))
        why = next((text for record in group if (text := str(record["fit_trouble"]))), "")
        lines += [
            f"{label}: {count} of {ended.total()} fits ended as {_ENDS[status]}; the first: {why}"
            for status, count in ended.items()
            if status != "converged"
        ]
    return lines


def _cautions(records: Records) -> list[str]:
    """Return one line for each policy of which a log says little."""
    return [
        f"{label}: only {came:,.0f} rewards came; a log with more random decisions says more"
        for label, group in records.items()
        if (came := float(_column(group, "rewarded").mean())) < _FEW
    ]
