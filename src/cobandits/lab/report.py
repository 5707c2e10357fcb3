"""The report of a reproduction: all panels, and the verdicts on the paper's claims."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from cobandits.lab import claims, studies
from cobandits.lab.choices import CHOICES
from cobandits.lab.claims import Claim, Duel, Verdict, number
from cobandits.lab.pages import data_uri, picture_file, render, write_page
from cobandits.lab.panels import available
from cobandits.lab.records import Record, configuration
from cobandits.lab.reproduction import Reproduction

__all__ = ["write"]

_TITLE = "Low-rank bandits by alternating descent: the paper's figures, run again"
_ABOUT = (
    "A reproduction of the experiments in “Fast and Sample Efficient Multi-Task Representation "
    "Learning in Stochastic Contextual Bandits” (Lin, Moothedath and Vaswani, ICML 2024), with "
    "a verdict on each of its claims."
)
_METHOD = (
    "Policies and estimators met the same arms, rows and noise in a trial, so they are compared "
    "trial by trial. A difference counts where its 95 % t-interval leaves out zero; with fewer "
    "than five trials an interval says little, and the means alone decide. The many comparisons "
    "behind “lowest everywhere” are corrected together (Holm, 5 %). A regret is the lowest "
    "where none is seen to be lower; a lead grows only where it is seen to. “Holds only if” names "
    "the settings, of those that were run, in which a claim never failed."
)
_REPEAT = (
    "The same seed gives the same numbers, whatever the number of jobs. A run that was "
    "interrupted goes on where it was when the same command is given again."
)
_FIGURES = {
    "1": "Figure 1: cumulative regret",
    "2": "Figure 2: estimation error",
    "s": "Studies: what the paper states and no panel shows",
}


def write(reproduction: Reproduction, out: str | Path) -> Path:
    """Write ``report.html`` and ``report.md`` into a directory; return the path of the page.

    The page holds its pictures; the Markdown links to those in ``figures``.
    """
    content = _content(reproduction)
    page = Path(out, "report.html")
    write_page(page, render("report.html.j2", content))
    write_page(page.with_suffix(".md"), render("report.md.j2", content))
    return page


def _content(reproduction: Reproduction) -> dict[str, object]:
    """Return the content of the report, by the names in its templates."""
    found, duels = reproduction.claims, claims.beyond(reproduction.evidence)
    return {
        "title": _TITLE,
        "about": _ABOUT,
        "extent": _extent(reproduction),
        "notices": [
            *_stand_in(reproduction),
            *_unfinished(reproduction),
            *reproduction.notes,
        ],
        "claims": found,
        "tally": _tally(found),
        "method": _METHOD,
        "figures": _figures(reproduction),
        "beyond": _beyond_rows(duels),
        "beyond_text": _beyond_text(duels),
        "choices": [
            {"open in the paper": one.question, "what is known": one.known, "used here": one.value}
            for one in CHOICES
        ],
        "facts": _facts(reproduction),
        "commands": "\n".join(_commands(reproduction)),
        "repeat": _REPEAT,
    }


def _tally(found: Sequence[Claim]) -> dict[str, int]:
    """Return the number of claims with each verdict."""
    counts = Counter(claim.verdict for claim in found)
    return {verdict: counts[verdict] for verdict in get_args(Verdict) if counts[verdict]}


# ---- what was run


def _extent(reproduction: Reproduction) -> str:
    scale, n = reproduction.scale, len(set(reproduction.records) & set(available()))
    trials = "one trial" if scale.trials == 1 else f"{scale.trials} trials"
    text = f"{n} of {len(available())} panels, {trials} of each setting"
    if alone := len(reproduction.records) - n:
        text += f", and {alone} of {len(studies.available())} studies"
    fewer: dict[int, list[str]] = defaultdict(list)
    for name, lines in reproduction.records.items():
        fewer[_n_trials(lines)].append(name)
    fewer.pop(scale.trials, None)
    if said := [f"{count} in {', '.join(names)}" for count, names in fewer.items()]:
        text += f" ({'; '.join(said)})"
    if not scale.quick:
        return f"{text}."
    return (
        f"{text}. This is a quick run: it has fewer numbers of tasks than the paper's, on pairs of "
        "digits also fewer rounds, and its verdicts rest on few trials."
    )


def _n_trials(lines: Mapping[str, Sequence[Record]]) -> int:
    return len({record["trial"] for records in lines.values() for record in records})


def _environments(lines: Mapping[str, Sequence[Record]]) -> set[object]:
    return {record.get("environment") for records in lines.values() for record in records}


def _stand_in(reproduction: Reproduction) -> list[str]:
    """Return a notice on the panels with digits in place of MNIST, if there are any."""
    panels = [
        name for name, lines in reproduction.records.items() if "digits" in _environments(lines)
    ]
    if not panels:
        return []
    return [
        f"MNIST was not there: in {', '.join(panels)} the 8 \N{MULTIPLICATION SIGN} 8 digits "
        "that come with scikit-learn stand in for it, so these panels are not the paper's."
    ]


def _unfinished(reproduction: Reproduction) -> list[str]:
    """Return a notice on a run that is not finished, if it is not."""
    if not reproduction.n_missing:
        return []
    return [
        f"The run is not finished: {reproduction.n_missing} of its cells are missing. What is "
        "shown rests on the trials that are whole; the tables say how many runs a line has."
    ]


def _facts(reproduction: Reproduction) -> dict[str, str]:
    minutes, seconds = divmod(round(reproduction.seconds), 60)
    return {
        "command": _command(reproduction),
        "trials": str(reproduction.scale.trials),
        "seed": str(reproduction.scale.seed),
        "cells": f"{reproduction.n_cells}, of which {reproduction.n_run} in the last run",
        "time of all runs here": f"{minutes} min {seconds} s" if minutes else f"{seconds} s",
        "jobs": str(reproduction.jobs),
        **reproduction.facts,
    }


def _commands(reproduction: Reproduction) -> list[str]:
    """Return the commands that repeat the run on a new machine."""
    met = set().union(*(_environments(lines) for lines in reproduction.records.values()))
    extras = "cli,sklearn" if met & {"digits", "mnist"} else "cli"
    fetch = ["cobandits data fetch mnist"] if "mnist" in met else []
    return [f"pip install '.[{extras}]'", *fetch, _command(reproduction)]


def _command(reproduction: Reproduction) -> str:
    """Return the command that runs the same cells."""
    scale, panels = reproduction.scale, list(reproduction.records)
    every = set(available()) | set(studies.available())
    named = [] if set(panels) == every else panels
    size = ["--quick"] if scale.quick else ["--trials", str(scale.trials)]
    seed = ["--seed", str(scale.seed)] if scale.seed else []
    jobs = ["--jobs", str(reproduction.jobs)]
    return " ".join(["cobandits", "reproduce", *named, *size, *seed, *jobs])


# ---- panels


def _figures(reproduction: Reproduction) -> list[dict[str, object]]:
    groups: dict[str, list[dict[str, object]]] = defaultdict(list)
    for name in sorted(reproduction.records):
        groups[name[0]].append(_panel(reproduction, name))
    return [
        {"id": f"figure-{key}", "title": _FIGURES.get(key, f"Figure {key}"), "panels": panels}
        for key, panels in groups.items()
    ]


def _panel(reproduction: Reproduction, name: str) -> dict[str, object]:
    panel, lines = reproduction.panels[name], reproduction.records[name]
    path = picture_file(reproduction.figures[name])
    return {
        "name": name,
        "title": panel.title,
        "source": data_uri(path),
        "file": path.name,
        "alt": f"Panel {name}: {panel.title}. Lines: {', '.join(lines)}.",
        "caption": _caption(panel.average, lines),
        "parameters": panel.parameters,
        "lines": [_line(label, records) for label, records in lines.items()],
    }


def _caption(average: str, lines: Mapping[str, Sequence[Record]]) -> str:
    n = _n_trials(lines)
    shown = "One trial" if n == 1 else f"{average.capitalize()} over {n} trials"
    trials = {name: _n_trials({name: records}) for name, records in lines.items()}
    fewer = ", ".join(f"{name}: {count}" for name, count in trials.items() if count < n)
    shown += f" ({fewer})" if fewer else ""
    note = " Scikit-learn's digits in place of MNIST." if "digits" in _environments(lines) else ""
    return f"Lines: {' · '.join(lines)}. {shown}.{note}"


def _line(label: str, records: Sequence[Record]) -> dict[str, str]:
    """Return the policy or estimator of a line, its parameters, and the number of runs."""
    cells = [configuration(record) for record in records]
    names = {str(one.get("policy") or one.get("estimator")) for one in cells}
    parameters = [one.get("policy_parameters") or one.get("estimator_parameters") for one in cells]
    return {
        "line": label,
        "of": ", ".join(sorted(names)),
        "parameters": _ranges([one for one in parameters if one]) or "as built in",
        "runs": str(len(records)),
    }


def _ranges(parameters: Sequence[Mapping[str, Any]]) -> str:
    """Return the values of each parameter, in order."""
    values: dict[str, set[Any]] = defaultdict(set)
    for one in parameters:
        for key, value in one.items():
            values[key].add(value)
    return "; ".join(
        f"{key} {' or '.join(str(value) for value in sorted(found, key=_rank))}"
        for key, found in values.items()
    )


def _rank(value: Any) -> tuple[bool, float, str]:
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value or 0), "")


# ---- what the paper does not show


def _beyond_rows(duels: Sequence[Duel]) -> list[dict[str, str]]:
    """Return one row per setting, with one column per policy."""
    rivals = list(dict.fromkeys(duel.against for duel in duels))
    settings: dict[Any, dict[str, Duel]] = defaultdict(dict)
    for duel in duels:
        settings[duel.setting][duel.against] = duel
    return [
        {
            "data": setting.data,
            "r": str(setting.rank),
            "T": str(setting.n_tasks),
            "LRRL-AltGDMin": number(float(next(iter(found.values())).ours.mean())),
            **{_name(rival): _beside(found.get(rival)) for rival in rivals},
        }
        for setting, found in settings.items()
    ]


def _name(policy: str) -> str:
    """Return the name of a policy, with a capital letter."""
    name = claims.NAMES.get(policy, policy)
    return name[0].upper() + name[1:]


def _beside(duel: Duel | None) -> str:
    if duel is None:
        return ""
    gap_to_ours, half = duel.lead
    gap = f"{gap_to_ours:+.3g}" + (f" ± {half:.2g}" if duel.trials > 1 else "")
    return f"{number(float(duel.theirs.mean()))} ({gap})"


def _beyond_text(duels: Sequence[Duel]) -> str:
    groups: dict[str, list[Duel]] = defaultdict(list)
    for duel in duels:
        groups[duel.against].append(duel)
    said = [
        f"{_name(rival)}: lower than LRRL-AltGDMin in {sum(duel.lost for duel in found)} of "
        f"{len(found)} settings, higher in {sum(duel.won for duel in found)}"
        for rival, found in groups.items()
    ]
    return (
        "Policies that learn after every reward, on the same arms and noise: each task alone, with "
        "tuned parameters, and shared, which is told nothing and has a tenth of the trials. "
        f"{'. '.join(said)}."
    )
