"""The policies of an experiment as a table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from cobandits.cli.output import console, new_table, number
from cobandits.intervals import t_interval
from cobandits.lab import Record

__all__ = ["NORMAL", "Standings", "print_standings", "standings"]

Floats = NDArray[np.float64]

_ENDS = {"limit": "'limit' (iterations ran out)", "refused": "'refused' (nothing was changed)"}
Records = Mapping[str, Sequence[Record]]  # by policy, one per trial

_PIPED = 200  # columns where there is no terminal: no label is broken
NORMAL = 1.96  # standard errors on each side of a 95 % interval
_FEW = 100  # rewards: with fewer, a mean says little


@dataclass(frozen=True, kw_only=True)
class Standings:
    """A table of means over trials, one row per policy and the best first, and its notes."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: tuple[str, ...]
    notes: tuple[str, ...]


def standings(records: Records, notes: Sequence[str] = ()) -> Standings:
    """Return the policies, the best first: by least regret, or by highest reward.

    Reward decides where the regret is not known, as in a replay of a log.
    """
    regrets = _scores(records, "regret_per_task")
    known = all(np.isfinite(values).all() for values in regrets.values())
    score = ("regret per task", "above best") if known else ("mean reward", "rewards")
    return Standings(
        header=("policy", *score, "error", "seconds", "us/decision"),
        rows=tuple(_regrets(records, regrets) if known else _rewards(records)),
        legend=_legend(len(next(iter(records.values()))), known),
        notes=(*notes, *_advice(records), *([] if known else _cautions(records))),
    )


def print_standings(shown: Standings) -> None:
    """Print the table, its legend and its notes."""
    table = new_table()
    table.add_column(shown.header[0], overflow="fold")
    for name in shown.header[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for label, *figures in shown.rows:
        table.add_row(Text(label), *figures)
    output = console(_PIPED)
    output.print(table)
    output.print("\n" + "\n".join(shown.legend), style="dim", markup=False)
    for line in shown.notes:
        output.print(line, markup=False)


def _regrets(records: Records, scores: Mapping[str, Floats]) -> list[tuple[str, ...]]:
    order = sorted(scores, key=lambda label: float(scores[label].mean()))
    gaps = {label: scores[label] - scores[order[0]] for label in order}
    return [_row(label, scores[label], gaps[label], records[label], order[0]) for label in order]


def _rewards(records: Records) -> list[tuple[str, ...]]:
    means = {label: float(x.mean()) for label, x in _scores(records, "mean_reward").items()}
    order = sorted(means, key=lambda label: -np.nan_to_num(means[label], nan=-math.inf))
    return [_reward_row(label, means[label], records[label]) for label in order]


def _reward_row(label: str, mean: float, records: Sequence[Record]) -> tuple[str, ...]:
    """Return a row with the interval of the rewards: all trials replay the same log."""
    half = NORMAL * float(_column(records, "mean_reward_error").mean())
    came = float(_column(records, "rewarded").mean())
    of = float(_column(records, "decisions").mean())
    shown = f"{number(mean)} ± {number(half)}"
    return label, shown, f"{came:,.0f} of {of:,.0f}", *_costs(records)


def _row(
    label: str, scores: Floats, gap: Floats, records: Sequence[Record], best: str
) -> tuple[str, ...]:
    return label, _shown(scores), "best" if label == best else _plus(gap), *_costs(records)


def _scores(records: Records, name: str) -> dict[str, Floats]:
    """Return one column of each policy's records, (trial,)."""
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
    """Return the mean error of the last fits, the seconds, and the time per decision."""
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
    """Return one line per policy and status of fits that did not converge."""
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
    """Return one line per policy for which few rewards came."""
    return [
        f"{label}: only {came:,.0f} rewards came; a log with more random decisions says more"
        for label, group in records.items()
        if (came := float(_column(group, "rewarded").mean())) < _FEW
    ]
