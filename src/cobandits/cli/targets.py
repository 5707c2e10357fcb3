"""The policies that a log evaluates: by name, from a file, or as a column of the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cobandits import policies
from cobandits.cli.simulate import parsed_policy
from cobandits.errors import ConfigurationError, DataError
from cobandits.evaluation import Method, Values, Weighed, evaluate_weighed, relearn, weigh
from cobandits.log_tables import LogPart, LogTable
from cobandits.policies import Policy, Shared
from cobandits.ragged import RaggedArms

__all__ = ["Judged", "judge"]

_COLUMN = "column:"


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The values of policies on a log."""

    values: dict[str, Values]  # by policy, as given
    setting: str


@dataclass(frozen=True, kw_only=True)
class _Size:
    decisions: int
    asked: set[int]  # numbers of the tasks
    dim: int
    rewards: float  # their mean
    arms: tuple[int, int]  # the fewest and the most of any request

    def __str__(self) -> str:
        fewest, most = self.arms
        each = f"{fewest} to {most}" if fewest < most else str(most)
        return f"{len(self.asked):,} tasks, {each} arms each"


def judge(
    table: LogTable,
    targets: Sequence[str],
    *,
    methods: Sequence[Method],
    predictions: str | None,
    learn: float,
    level: float,
    seed: int,
) -> Judged:
    """Evaluate policies on a log; those that learn do so from its first requests."""
    if not 0 <= learn < 1:
        raise ConfigurationError(f"--learn must be from 0 to below 1, got {learn}")
    columns = [text.removeprefix(_COLUMN) for text in targets if text.startswith(_COLUMN)]
    extra = tuple(dict.fromkeys([*columns, *([predictions] if predictions else [])]))
    table = replace(table, extra=extra)
    size = _size(table)
    made = {text: _made(text, size) for text in targets}
    learners = [one for text, one in made.items() if one is not None and not Path(text).is_file()]
    cut = int(learn * size.decisions) if learners else 0
    weighed = _weighed(table, made, learners, cut, predictions)
    values = {
        text: evaluate_weighed(Weighed.joined(parts), methods=methods, level=level, rng=seed)
        for text, parts in weighed.items()
    }
    learned = f"; the first {cut:,} were learned from" if cut else ""
    return Judged(
        values=values,
        setting=f"{size.decisions - cut:,} decisions of {size}{learned}. "
        f"The log earned {size.rewards:.3g}. Intervals: {level:.0%}.",
    )


def _size(table: LogTable) -> _Size:
    """Return the size of a log, in one pass over it."""
    n, dim, total, asked, arms = 0, 0, 0.0, set[int](), set[int]()
    for part in table.parts():
        log = part.log
        n, dim, total = n + len(log), log.dim, total + float(log.rewards.sum())
        asked.update(np.unique(log.codes).tolist())
        counts = log.arms.counts if isinstance(log.arms, RaggedArms) else [log.n_arms]
        arms.update(np.unique(counts).tolist())
    if not n:
        raise DataError(f"{table.path.name} has no request with a reward; a log needs at least 2")
    return _Size(decisions=n, asked=asked, dim=dim, rewards=total / n, arms=(min(arms), max(arms)))


def _made(text: str, size: _Size) -> Policy | None:
    """Return the policy of a name or a file; None for a column."""
    if text.startswith(_COLUMN):
        return None
    if Path(text).is_file():
        return Shared.load(text)
    name, parameters = parsed_policy(text)
    rounds, n_tasks = max(1, size.decisions // len(size.asked)), max(size.asked) + 1
    return policies.make(name, parameters, rounds=rounds, dim=size.dim, n_tasks=n_tasks, rank=1)


def _weighed(
    table: LogTable,
    made: dict[str, Policy | None],
    learners: Sequence[Policy],
    cut: int,
    predictions: str | None,
) -> dict[str, list[Weighed]]:
    """Let policies learn from the decisions before ``cut``; weigh the others."""
    found: dict[str, list[Weighed]] = {text: [] for text in made}
    start = 0
    for part in table.parts():
        past = min(max(cut - start, 0), len(part.log))
        start += len(part.log)
        if past:
            for learner in learners:
                relearn(learner, part.log.select(slice(past)))
        if past < len(part.log):
            rest = _after(part, past)
            own = None if predictions is None else rest.extra[predictions]
            for text, policy in made.items():
                target = rest.extra[text.removeprefix(_COLUMN)] if policy is None else policy
                found[text].append(weigh(target, rest.log, own, rest.arms))
    return found


def _after(part: LogPart, past: int) -> LogPart:
    rest = slice(past, None)
    arms = part.arms and part.arms._replace(codes=part.arms.codes[rest])
    log, extra = part.log.select(rest), {name: x[rest] for name, x in part.extra.items()}
    return LogPart(log, arms, {name: x[:, : log.n_arms] for name, x in extra.items()})
