"""The page: targets, regret, costs, and where ``shared`` loses, all from the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.flagship.page import markdown, plus_minus
from benchmarks.peers.found import LARGE, SHARED, Found
from benchmarks.peers.install import OURS
from benchmarks.peers.losses import NO_FIGURE, losses, number
from benchmarks.peers.targets import targets
from benchmarks.peers.workloads import TASKS_ALONE, TASKS_SHARING
from benchmarks.report import Table, Target

__all__ = ["page", "short", "with_short"]

MARKERS = ("<!-- peers -->", "<!-- /peers -->")


def page(
    found: Found,
    *,
    facts: Mapping[str, str],
    days: set[str],
    pictures: Sequence[tuple[str, str]],
) -> str:
    """Return the page; ``pictures`` are names of files and what they show."""
    all_targets = targets(found)
    held = sum(target.met for target in all_targets)
    return "\n\n".join(
        [
            "# Side by side with other libraries",
            _introduction(found),
            _circumstances(found, facts, days),
            f"## Targets\n\n{held} of {len(all_targets)} hold.\n\n{_target_table(all_targets)}",
            f"## Regret\n\n{_on_regret(found)}\n\n{_regret_table(found)}",
            f"`shared` and the best peer of another library:\n\n{_paired_table(found)}",
            *(f"![{text}]({name})" for name, text in pictures),
            f"## Where `shared` loses\n\n{_losses_text(found)}",
            f"## Costs\n\n{_on_costs()}\n\n{_cost_table(found)}",
            f"## What each was tuned to\n\n{_tuned_table(found)}",
            f"## What cannot do it\n\n{_unable_table(found)}",
        ]
    )


def short(found: Found) -> str:
    """Return a short table: the best mode of each library."""
    single, lines = found.measures["single"].values, found.measures["lines"].values
    rows = [
        (
            f"**{name}**" if name == SHARED else name,
            number(found.overall(name, SHARED)),
            number(single.get(name)),
            lines.get(name, NO_FIGURE),
        )
        for name in found.leaders.values()
    ]
    columns = ("", "regret, relative to `shared`", "µs per decision and update", "lines of code")
    return markdown(Table(title="", columns=columns, rows=rows))


def with_short(text: str, found: Found) -> str:
    """Return a text with the short table between its markers; without them, as it was."""
    begin, end = MARKERS
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{short(found)}\n{end}", text)


# ---- what was run


def _target_table(all_targets: Sequence[Target]) -> str:
    rows = [
        (
            target.name,
            _bound(target),
            f"{target.measured:.3g}",
            "holds" if target.met else "**does not hold**",
        )
        for target in all_targets
    ]
    columns = ("`shared`", "bound", "measured", "verdict")
    return markdown(Table(title="", columns=columns, rows=rows))


def _bound(target: Target) -> str:
    if target.at_least is not None:
        return f"at least {target.at_least:g}"
    assert target.at_most is not None
    return "below 1" if 0.999 < target.at_most < 1 else f"at most {target.at_most:.3g}"


def _introduction(found: Found) -> str:
    libraries = sorted({peer.library for peer in found.peers.values()} - {OURS})
    settings = "; ".join(
        f"{workload.title}: {workload.rounds}, {workload.trials}"
        for workload in found.workloads.values()
    )
    return (
        "`make bench-peers` makes this page, in an environment of its own, and keeps what was run "
        "in `results/peers`, and plays of other libraries in `benchmarks/peers/rivals`. "
        f"{len(found.peers)} learners of this library and of "
        f"{', '.join(libraries)} play the same tasks, arms and noise. Synthetic tasks have "
        "100 features (50 where rates are unequal), 5 arms and noise of standard deviation 0.001 "
        "unless said otherwise; T tasks share a basis of rank r. Yogurt and MovieLens are real: "
        "every request is a round, and the reward of each arm is known. Rounds and trials: "
        f"{settings}. Shown are means over the trials ± half of the 95 % t-interval.\n\n"
        "Every learner has the parameters that had the least regret on another trial, of half as "
        f"many rounds and of {TASKS_SHARING} tasks ({TASKS_ALONE} if they do not share), out of "
        "all combinations of the values that its adapter lists (`benchmarks/peers/adapters`). "
        "These values were found by hand on that other trial too, those of Vowpal Wabbit with most "
        "care. `shared` has none to choose. The best peer of a workload is chosen by the very "
        "trials that are shown, in its favour. Our own `ridge`, `thompson`, `linucb`, `global` and "
        "`global-own` are shown for orientation and do not count as peers.\n\n"
        "How fast the parts of this library are is another page: "
        "[speed of the parts](speed.md)."
    )


def _circumstances(found: Found, facts: Mapping[str, str], days: set[str]) -> str:
    when = " to ".join(dict.fromkeys([min(days), max(days)])) if days else "nothing was run"
    machine = "; ".join(f"{name}: {fact}" for name, fact in facts.items())
    versions = ", ".join(f"{name} {found.versions[name]}" for name in sorted(found.versions))
    return f"Run: {when}. {machine}. Versions: {versions}."


# ---- regret


def _on_regret(found: Found) -> str:
    return (
        "Regret per task over all rounds; the least of each column is bold. Rows are in the order "
        "of the last column, the geometric mean of the regret relative to the least of each column "
        "that the row has. What playing at random is expected to have is in the last row."
        + ("" if not _absences(found) else f" {_absences(found)}")
    )


def _absences(found: Found) -> str:
    told = {
        "too slow": "*too slow*: not run, since an update inverts or factorises a matrix of 784 x "
        "784 numbers.",
        "more than": "*more than ... s*: stopped at the limit, for all trials or for one of "
        "tuning.",
    }
    reasons = {run.missing for run in found.runs.values() if run.missing}
    return " ".join(text for key, text in told.items() if any(key in one for one in reasons))


def _regret_table(found: Found) -> str:
    rows = [
        (
            name,
            *(_regret_cell(found, name, workload) for workload in found.workloads),
            number(found.overall(name)),
        )
        for name in found.ranked
    ]
    titles = (workload.title for workload in found.workloads.values())
    columns = ("", *titles, "to the least")
    return markdown(Table(title="", columns=columns, rows=[*rows, _random_row(found)]))


def _regret_cell(found: Found, peer: str, workload: str) -> str:
    best = found.best(workload)
    if best is None or not found.has(peer, workload):
        run = found.runs.get((peer, workload))
        return run.missing if run else NO_FIGURE
    mean = found.mean(peer, workload)
    text = plus_minus(mean, found.half(peer, workload))
    return f"**{text}**" if np.isclose(mean, found.mean(best, workload), rtol=1e-9) else text


def _random_row(found: Found) -> tuple[str, ...]:
    cells = []
    for workload in found.workloads:
        anyone = next((name for name in found.peers if found.has(name, workload)), None)
        trials = found.runs[anyone, workload].trials if anyone else ()
        expected = np.mean([trial.at_random for trial in trials]) if trials else None
        cells.append(NO_FIGURE if expected is None else plus_minus(float(expected), 0))
    return ("at random", *cells, "")


def _paired_table(found: Found) -> str:
    rows = []
    for name, workload in found.workloads.items():
        compared = found.to_best(name)
        if compared is not None:
            best, ratio = compared
            rows.append((workload.title, best, f"{ratio.value:.2f} ± {ratio.half:.2g}"))
    columns = ("workload", "best peer", "regret of `shared` / its")
    return markdown(Table(title="", columns=columns, rows=rows))


# ---- costs, and where shared loses


def _losses_text(found: Found) -> str:
    lost = losses(found)
    text = (
        "All that is measured here and in which another learner is better by more than the "
        "interval (of the paired difference; of times, in all repetitions)."
    )
    return f"{text}\n\n" + ("\n".join(f"- {one}" for one in lost) if lost else "Nothing.")


def _on_costs() -> str:
    return (
        "At 100 features and 5 arms, with the parameters of T=100 r=8, after 100 rewards per task. "
        "*One* is a request for one of 100 tasks, by decision and update; *batch* all 100 tasks at "
        "once, a decision with its update: medians of repetitions, in turn in one process. "
        "For `shared` that is between refits of the prior. *Whole* is all the time of a play of "
        "T=100 r=8 by the number of decisions, with every refit. All are CPU times of one machine. "
        "Memory is what a play adds at its peak to the process, imports and rounds aside. "
        "`pip install` is into a fresh environment without a cache, with all that a library "
        "needs and NumPy; the first decision includes the import. Lines are those of the learner's "
        "class in `benchmarks/peers/adapters` and of what it calls there."
    )


def _cost_table(found: Found) -> str:
    shown = {
        "decide": "one: decision, µs",
        "learn": "update, µs",
        "batch": "batch, µs",
        "whole": "whole, µs",
        **{f"memory {name}": f"{found.measures[f'memory {name}'].name}, MB" for name in LARGE},
        "pip": "`pip install`, s",
        "first": "first decision, s",
        "lines": "lines",
    }
    rows = [
        (
            name,
            *(number(found.measures[key].values.get(name)) for key in shown),
            "yes" if found.peers[name].exact else "no",
            "yes" if found.peers[name].shares else "no",
        )
        for name in found.ranked
    ]
    columns = ("", *shown.values(), "exact", "tasks share")
    failed = [
        *(f"{name}, speed: {one.failed}" for name, one in found.speeds.items() if one.failed),
        *(f"{name}, install: {one.failed}" for name, one in found.installs.items() if one.failed),
    ]
    notes = [f"{name}: {peer.note}" for name, peer in found.peers.items() if peer.note]
    extra = [*(f"- Failed: {text}" for text in failed), *(f"- {text}." for text in notes)]
    table = markdown(Table(title="", columns=columns, rows=rows))
    return "\n\n".join([table, "\n".join(extra)] if extra else [table])


# ---- tuning, and what cannot do it


def _tuned_table(found: Found) -> str:
    tuned = [name for name in found.ranked if found.peers[name].grid]
    rows = [
        (name, *(_tuned_cell(found, name, workload) for workload in found.workloads))
        for name in tuned
    ]
    titles = [workload.title for workload in found.workloads.values()]
    tried = [
        f"- {name}: {'; '.join(f'{key} of {_values(values)}' for key, values in grid.items())}."
        for name in tuned
        if (grid := found.peers[name].grid)
    ]
    table = markdown(Table(title="", columns=("", *titles), rows=rows))
    return f"A star marks an edge of what was tried.\n\n{table}\n\n" + "\n".join(tried)


def _tuned_cell(found: Found, peer: str, workload: str) -> str:
    run = found.runs.get((peer, workload))
    if run is None or not run.trials:
        return NO_FIGURE
    return ", ".join(
        f"{name} {_value(value)}{'*' if name in run.edges else ''}"
        for name, value in run.parameters.items()
    )


def _unable_table(found: Found) -> str:
    if not found.unable:
        return "All of them can."
    rows = [
        (one.name, f"{one.library} {found.versions.get(one.library, '')}".strip(), one.why)
        for one in found.unable
    ]
    return markdown(Table(title="", columns=("what", "version", "why"), rows=rows))


def _values(values: Sequence[float | str]) -> str:
    return ", ".join(_value(value) for value in values)


def _value(value: float | str) -> str:
    return (value or "(none)") if isinstance(value, str) else f"{value:g}"
