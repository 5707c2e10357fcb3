"""What each page shows, as plain values for its template."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from cobandits.engine import Space
from cobandits.engine.status import SpaceStatus
from cobandits.service.dashboard.charts import reward_chart
from cobandits.service.dashboard.decisions import Place, listed, one_decision, when
from cobandits.service.dashboard.tally import Mean, Tally
from cobandits.service.dashboard.task_map import sharing_map
from cobandits.service.handlers.history import sharing_of
from cobandits.service.problems import ProblemError
from cobandits.service.state import Service
from cobandits.wire import SharingReply

__all__ = ["Views"]

Made = TypeVar("Made")
_FRESH = 10.0  # seconds for which a map of the tasks is good enough
_SMALL = 1000  # rewards up to which it costs little
_LATEST = 25  # decisions on a page
_FIRST_PAGE = 5  # on the overview
_MAPPED = 50  # tasks in the table under the map
_FEW = 5  # rewards below which nothing is said of uncertainty: a prior of one reward knows none
_ENOUGH = 32  # rewards after which a prior is learned aside, and pictures say something
_UNTOLD = "what the baseline earns cannot be told: hardly ever chosen; raise the floor"


class Views:
    """Reads what pages show; calls take a while, and belong in another thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._tallies: dict[str, Tally] = {}
        self._kept: dict[tuple[str, str], tuple[float, str, Any]] = {}

    def _tally(self, space: Space) -> Tally:
        tally = self._tallies.get(space.name)
        if tally is None or tally.space is not space:  # that one was deleted
            tally = self._tallies[space.name] = Tally(space)
        tally.refresh()
        return tally

    def _fresh(self, space: Space, what: str, make: Callable[[], Made]) -> Made:
        """Return something that is costly to make, at most 10 s old; of now in a small space."""
        at, version, found = self._kept.get((space.name, what), (-_FRESH, "", None))
        small = self._tallies[space.name].whole.rewards < _SMALL
        if time.monotonic() - at > _FRESH or (small and version != space.version):
            version, found = space.version, make()
            self._kept[space.name, what] = (time.monotonic(), version, found)
        made: Made = found
        return made

    def space(self, name: str) -> Space:
        """Return a space; refuse a name that is not known, in words for a reader of pages."""
        for space in self._service.spaces():
            if space.name == name:
                return space
        raise ProblemError("unknown-space", f"There is no space {name[:100]!r}.")

    # ---- Pages

    def spaces(self) -> dict[str, Any]:
        """Return all spaces with their main numbers."""
        rows, known = [], self._service.engine.status().spaces
        for space in self._service.spaces():
            if (now := known.get(space.name)) is None:
                continue  # it was made just now
            tally = self._tally(space)
            rows.append(
                {
                    "name": space.name,
                    "mode": space.settings.mode,
                    "decisions": now.decisions,
                    "rewards": now.rewards,
                    "reward": _earned(tally)[0],
                    "tasks": len(tally.tasks),
                    "version": space.version,
                }
            )
        return {"rows": rows}

    def overview(self, name: str) -> dict[str, Any]:
        """Return what a product owner wants to know of a space."""
        space = self.space(name)
        tally = self._tally(space)
        series = tally.series()
        found = self._fresh(space, "sharing", lambda: sharing_of(space))
        return {
            "space": name,
            "settings": space.settings,
            "facts": self._facts(space, tally),
            "begin": _begin(space, tally),
            "latest": listed(space, None, Place(), _FIRST_PAGE).rows,
            "alarms": self._fresh(
                space, "alarms", lambda: _alarms(space, tally, self._status(space).waiting)
            ),
            "chart": reward_chart(series),
            "series": [_period(at, cell) for at, cell in series],
            "map": sharing_map(found.tasks),
            "mapped": sorted(found.tasks, key=lambda task: -task.rewards)[:_MAPPED],
            "sharing": found,
            "shared": _average([one.shared for one in found.tasks]),
            "gain": _most_to_gain(tally, found) if tally.whole.rewards >= _FEW else [],
        }

    def _facts(self, space: Space, tally: Tally) -> list[tuple[str, str, str]]:
        whole, now = tally.whole, self._status(space)
        explored = whole.explored / whole.decisions if whole.decisions else 0.0
        unrewarded = 1 - whole.rewards / whole.decisions if whole.decisions else 0.0
        return [
            ("Decisions", f"{now.decisions:,}", f"for {_count(len(tally.tasks), 'task')}"),
            ("Mean reward", *_earned(tally)),
            ("Exploration", f"{explored:.1%}", "of the decisions took a less likely arm"),
            ("Without a reward", f"{unrewarded:.1%}", "of the decisions, so far"),
            ("Version", space.version, f"{_count(now.waiting, 'reward')} to be learned"),
        ]

    def _status(self, space: Space) -> SpaceStatus:
        """Return how a space is: all that it has had, where a tally has only the latest."""
        return self._service.engine.status().spaces[space.name]

    def decisions(self, name: str, task: str | None, place: Place) -> dict[str, Any]:
        """Return a page of decisions, the newest first, and how many there are."""
        space = self.space(name)
        page = listed(space, task, place, _LATEST)
        count = self._counted(space, task)
        return {"space": name, "task": task, "count": count, **page._asdict()}

    def _counted(self, space: Space, task: str | None) -> str:
        """Return how many decisions there are; of a task at least, as far as a tally goes back."""
        tally, made = self._tally(space), self._status(space).decisions
        if task is None:
            return _count(made, "decision")
        least = "" if tally.whole.decisions >= made else "at least "
        return least + _count(tally.tasks[task], "decision")

    def decision(self, name: str, decision: str) -> dict[str, Any]:
        """Return one decision with its explanation."""
        return {"space": name, **one_decision(self.space(name), decision, _FEW)}

    def versions(self, name: str) -> dict[str, Any]:
        """Return the versions, the newest first."""
        space = self.space(name)
        return {"space": name, "present": space.version, "rows": space.versions()[::-1][:100]}

    def errors(self) -> dict[str, Any]:
        """Return the latest problems, the newest first."""
        return {"rows": list(self._service.problems)[::-1]}


def _begin(space: Space, tally: Tally) -> list[tuple[bool, str]]:
    """Return what there is to do in a new space, and whether it is done; nothing in an old one."""
    whole, tasks = tally.whole, len(tally.earned)
    if whole.rewards >= _ENOUGH:
        return []
    return [
        (True, f"The space is made, with {space.settings.schema.dim} columns."),
        (whole.decisions > 0, f"Ask for decisions: {whole.decisions:,} so far."),
        (whole.rewards > 0, f"Send their rewards: {whole.rewards:,} so far."),
        (
            tasks > 1,
            f"Do so for several tasks; they learn from each other: {_count(tasks, 'task')} so far.",
        ),
        (False, f"From about {_ENOUGH} rewards on the pictures below say something."),
    ]


def _earned(tally: Tally) -> tuple[str, str]:
    """Return the mean reward of the policy's decisions, and what is beside it."""
    whole, baseline = tally.whole, tally.baseline
    if whole.own == 1:
        return f"{whole.total:.3g}", "one reward; an interval needs two"
    if baseline is None and whole.own >= _ENOUGH:
        return _shown(whole.reward), _UNTOLD
    return _shown(whole.reward), f"baseline: {_shown(baseline)}"


def _alarms(space: Space, tally: Tally, waiting: int) -> list[str]:
    """Return what somebody should look at."""
    found = []
    changes = space.policy().changes
    if changes:
        found.append(
            f"The tasks have changed, {len(changes)} times so far; last noticed after "
            f"{changes[-1]:,} rewards. Look at the reward over time, or return to a version."
        )
    reward, baseline = tally.whole.reward, tally.baseline
    if reward and baseline and reward.high < baseline.low:
        found.append("The mean reward is below the baseline's, beyond chance.")
    if waiting > 1000:
        found.append(f"{waiting:,} rewards wait to be learned: learning is behind.")
    return found


def _most_to_gain(tally: Tally, found: SharingReply) -> list[dict[str, object]]:
    """Return tasks whose rewards are least certain, weighted by how often they decide."""
    rows = [
        {
            "task": one.task,
            "decisions": tally.tasks[one.task],
            "rewards": one.rewards,
            "uncertainty": f"{one.uncertainty:.3g}",
            "shared": f"{one.shared:.0%}",
            "gain": one.uncertainty * tally.tasks[one.task],
        }
        for one in found.tasks
    ]
    return sorted(rows, key=lambda row: -float(str(row["gain"])))[:8]


def _period(at: int, cell: Any) -> dict[str, object]:
    return {
        "at": when(at),
        "decisions": cell.decisions,
        "rewards": cell.rewards,
        "reward": _shown(cell.reward),
        "baseline": _shown(cell.baseline),
    }


def _shown(mean: Mean | None) -> str:
    if mean is None:
        return "none yet"
    return f"{mean.value:.3g} ± {mean.high - mean.value:.2g}"


def _count(count: int, what: str) -> str:
    """Return a number of things.

    >>> _count(1, "task"), _count(2000, "task")
    ('1 task', '2,000 tasks')
    """
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _average(values: list[float]) -> str:
    return f"{sum(values) / len(values):.0%}" if values else "none"
