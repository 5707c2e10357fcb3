"""What a space has earned, against what else could have been done; from its log alone."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cobandits.engine.encoding import arm_ids
from cobandits.engine.messages import when
from cobandits.engine.policies import SpacePolicy
from cobandits.engine.trajectories import Trajectory, log_of, usable
from cobandits.engine.versions import SchemaVersion
from cobandits.errors import CobanditsError
from cobandits.evaluation import Value, evaluate
from cobandits.intervals import t_interval
from cobandits.logs import Log
from cobandits.schema import Schema

__all__ = ["Day", "Earned", "Report", "changed_alone", "report"]

Doubles = NDArray[np.float64]

_ARMS = 10  # that are evaluated alone, those that were offered most often,
_OFTEN = 0.5  # in at least this share of the decisions; in the others it is the baseline
_FEWEST = 30  # decisions with rewards, below which nothing is estimated
_EFFECTIVE = 10  # decisions of its own that a log must be worth: an interval of fewer says little


@dataclass(frozen=True, kw_only=True)
class Earned:
    """A mean reward with its 95 % interval."""

    mean: float
    low: float
    high: float
    n: int
    cautions: tuple[str, ...] = ()

    def __str__(self) -> str:
        doubts = f" ({'; '.join(self.cautions)})" if self.cautions else ""
        return f"{self.mean:.4g}, {self.low:.4g} to {self.high:.4g}, of {self.n:,}{doubts}"


@dataclass(frozen=True, kw_only=True)
class Day:
    """One day, in UTC."""

    day: datetime.date
    decisions: int
    rewarded: int  # decisions whose reward was learned, defaults among them
    mean: float | None  # of those rewards


@dataclass(frozen=True, kw_only=True)
class Report:
    """How a space does."""

    space: str
    version: str
    days: tuple[Day, ...]
    policy: Earned | None  # what the policy's own decisions earned
    baseline: Earned | None  # what the baseline's decisions earned, if it made any
    estimates: dict[str, Earned]  # off-policy: "baseline", "random", "always ARM"
    without_reward: float  # share of the decisions that have neither a reward nor a default
    waiting: int  # rewards that are not learned yet
    tasks: int
    sharing: tuple[str, ...]  # tasks whose predictions come from the others for the most part
    changes: tuple[int, ...]  # after how many rewards the tasks were found to have changed
    notes: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        lines = [f"{self.space} at {self.version}: {self.tasks:,} tasks"]
        for name, earned in (("policy", self.policy), ("baseline", self.baseline)):
            lines += [] if earned is None else [f"  {name} earned {earned}"]
        lines += [f"  {name} would have earned {one}" for name, one in self.estimates.items()]
        lines.append(
            f"  {self.without_reward:.0%} of decisions have neither a reward nor a default"
        )
        lines += [f"  {self.waiting:,} rewards wait"] if self.waiting else []
        lines += [f"  tasks changed after {n:,} rewards" for n in self.changes]
        lines += [
            f"  {day.day}: {day.decisions:,} decisions"
            + ("" if day.mean is None else f", mean reward {day.mean:.4g}")
            for day in self.days
        ]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def report(
    name: str,
    version: str,
    found: list[Trajectory],
    schema: SchemaVersion,
    policy: SpacePolicy,
    waiting: int,
    now: int,
) -> Report:
    """Return how a space does, from its decisions and a copy of its policy."""
    made = [one for one in found if one.event.kind != "import"]
    estimates, notes = _estimates(usable(made, schema.schema, schema.number), schema.schema)
    return Report(
        space=name,
        version=version,
        days=_days(made),
        policy=_mean([one for one in made if one.choice.by == "policy"]),
        baseline=_mean([one for one in made if one.choice.by == "baseline"]),
        estimates=estimates,
        without_reward=sum(one.lesson is None for one in made) / max(1, len(made)),
        waiting=waiting,
        tasks=len({one.event.task for one in found}),
        sharing=_sharing(policy),
        changes=policy.changes,
        notes=(*notes, *_within_window(made, now), *changed_alone(policy)),
    )


def _within_window(made: list[Trajectory], now: int) -> list[str]:
    """Say how many decisions may still get a reward, of which nothing was learned yet."""
    ends = [one.event.until for one in made if one.lesson is None]
    n = sum(end is not None and end >= now for end in ends)
    said = "with a default reward, what a decision earns is learned when its window ends"
    return [f"decisions within their window: {n:,}; {said}"] if n else []


def changed_alone(policy: SpacePolicy) -> list[str]:
    """Say which tasks were found to have changed alone, the last few."""
    follows = "learning went on" if policy.on_change == "alert" else "it started again"
    return [
        f"task {change.task} changed after {change.rewards:,} rewards, and {follows}"
        for change in policy.task_changes[-5:]
    ]


def _sharing(policy: SpacePolicy) -> tuple[str, ...]:
    """Return the tasks whose predictions come from the others for the most part."""
    if not policy.rewards:
        return ()
    found = policy.explain_all()
    return tuple(str(found.tasks[t]) for t in np.flatnonzero(found.shared > 0.5).tolist())


def _days(made: list[Trajectory]) -> tuple[Day, ...]:
    days: dict[datetime.date, list[Trajectory]] = {}
    for one in made:
        days.setdefault(when(one.event.at).date(), []).append(one)
    return tuple(
        Day(
            day=day,
            decisions=len(ones),
            rewarded=len(rewards := _rewards(ones)),
            mean=float(np.mean(rewards)) if rewards else None,
        )
        for day, ones in sorted(days.items())
    )


def _rewards(ones: list[Trajectory]) -> list[float]:
    return [one.lesson.value for one in ones if one.lesson is not None]


def _mean(ones: list[Trajectory]) -> Earned | None:
    """Return the mean reward of decisions, where what was decided was done."""
    rewards = [
        one.lesson.value for one in ones if one.lesson is not None and one.lesson.taken is None
    ]
    if len(rewards) < 2:
        return None
    mean, half = t_interval(np.array(rewards))
    return Earned(mean=float(mean), low=float(mean - half), high=float(mean + half), n=len(rewards))


# ---- What else could have been done


def _estimates(
    known: list[Trajectory], schema: Schema
) -> tuple[dict[str, Earned], tuple[str, ...]]:
    if len(known) < _FEWEST:
        return {}, (f"with fewer than {_FEWEST} rewards nothing else is estimated",)
    log = log_of(known, schema)
    ids = [arm_ids(one.request) for one in known]
    open_ = [_available(one) for one in known]
    first = [_baseline(one, names) for one, names in zip(known, ids, strict=True)]
    found = {
        "baseline": _always(first, log.n_arms),
        "random": np.array([_padded(flags / flags.sum(), log.n_arms) for flags in open_]),
    }
    offered = Counter(name for names in ids for name in names)
    for arm in [name for name, n in offered.most_common(_ARMS) if n >= _OFTEN * len(known)]:
        places = [
            names.index(arm) if arm in names and flags[names.index(arm)] else start
            for names, flags, start in zip(ids, open_, first, strict=True)
        ]
        found[f"always {arm}"] = _always(places, log.n_arms)
    values: dict[str, Earned] = {}
    notes = []
    for name, table in found.items():
        value = _estimate(table, log)
        if isinstance(value, str):
            notes.append(f"{name} is not estimated: {value}")
        else:
            values[name] = _earned(value)
    return values, tuple(notes)


def _estimate(table: Doubles, log: Log) -> Value | str:
    """Return the value of choices with these probabilities, (n, K), or why it cannot be told."""
    try:
        value = evaluate(table, log, methods=("snips",))["snips"]
    except CobanditsError as error:
        return str(error)
    if not value.supported:
        return "the log hardly ever has what it would choose; raise the floor"
    if value.effective_n < _EFFECTIVE:
        n = f"{value.effective_n:.1f} decisions of its own"
        return f"the log says as much as {n}; raise the floor"
    return value


def _available(one: Trajectory) -> NDArray[np.bool_]:
    request = one.request
    return np.array([name not in request.get("exclude", ()) for name in arm_ids(request)])


def _baseline(one: Trajectory, names: list[str]) -> int:
    given = one.request.get("baseline")
    return int(_available(one).argmax()) if given is None else names.index(given)


def _padded(row: Doubles, width: int) -> Doubles:
    return np.pad(row, (0, width - len(row)))


def _always(places: list[int], width: int) -> Doubles:
    """Return probabilities, (n, K), of always taking the arms at these places."""
    table = np.zeros((len(places), width))
    table[np.arange(len(places)), places] = 1
    return table


def _earned(value: Value) -> Earned:
    return Earned(
        mean=value.value, low=value.low, high=value.high, n=value.n, cautions=value.cautions
    )
