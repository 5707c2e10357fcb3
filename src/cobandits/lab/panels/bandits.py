"""Panels on regret: policies on the same rounds, for several numbers of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.lab.cells import Cell, Parameters, Simulation
from cobandits.lab.panels.reading import by_tasks, ordered, theory
from cobandits.lab.panels.tuned import Tuned
from cobandits.lab.records import Record, array, scalar
from cobandits.plots import Curves, regret_and_tasks, regret_by_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FAILURE", "Bandits", "Series", "policies"]

Floats = NDArray[np.float64]
Records = Mapping[str, Sequence[Record]]

FAILURE = 0.05  # delta of Theorem 5.4


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line of a panel: a policy and its parameters."""

    policy: str
    parameters: Parameters = field(default_factory=dict)
    told_rank: bool = False  # whether the policy is told a rank if the environment has none
    slow: bool = False  # whether it has a tenth of the trials only


def policies(
    tuned: Tuned, epochs: int, *, tracenorm: bool = False, oracle: bool = False
) -> dict[str, Series]:
    """Return the policies of a panel by the names of their lines: the paper's, then others.

    The last is this library's own. The trace norm and the oracle that knows the true subspace are
    optional.

    >>> from cobandits.lab.panels.tuned import SYNTHETIC_1
    >>> list(policies(SYNTHETIC_1[2], epochs=4))[:2]
    ['lrrl', 'moments']
    """
    by_epoch = f"equal-{epochs}"
    relaxed = {"tracenorm": Series(policy="tracenorm", parameters={"schedule": by_epoch})}
    knowing = {"subspace oracle": Series(policy="subspace-oracle", parameters=tuned.oracle)}
    return {
        "lrrl": Series(policy="lrrl", parameters={"schedule": by_epoch}, told_rank=True),
        "moments": Series(
            policy="moments", parameters={"schedule": f"first-{epochs}"}, told_rank=True
        ),
        **(relaxed if tracenorm else {}),
        "thompson, by epoch": Series(
            policy="thompson", parameters={**tuned.thompson_by_epoch, "schedule": by_epoch}
        ),
        "thompson": Series(policy="thompson", parameters=tuned.thompson),
        "ridge": Series(policy="ridge", parameters=tuned.ridge),
        **(knowing if oracle else {}),
        "shared": Series(policy="shared", slow=True),
    }


@dataclass(frozen=True, kw_only=True)
class Bandits:
    """The cells of a panel: policies on the same rounds, for several numbers of tasks.

    Parameters
    ----------
    environment, size
        The environment, and its parameters without the number of tasks.
    rank : int
        The rank that policies are told if the environment has none of its own.
    tasks
        The numbers of tasks.
    trials : int
        Trials per policy and number of tasks.
    title
        The line above the picture.
    """

    environment: str
    size: Parameters
    series: Mapping[str, Series]
    rounds: int
    rank: int
    tasks: Sequence[int]
    trials: int
    title: str

    def cells(self, seed: int) -> dict[str, list[Cell]]:
        """Return the cells of each line."""
        return {
            name: [
                self._cell(one, n_tasks, seed, trial)
                for n_tasks in self.tasks
                for trial in range(max(1, self.trials // 10) if one.slow else self.trials)
            ]
            for name, one in self.series.items()
        }

    def _cell(self, one: Series, n_tasks: int, seed: int, trial: int) -> Cell:
        known = "rank" in self.size
        return Simulation(
            seed=seed,
            trial=trial,
            environment=self.environment,
            environment_parameters={**self.size, "n_tasks": n_tasks},
            policy=one.policy,
            policy_parameters=one.parameters,
            rank=self.rank if one.told_rank and not known else None,
            rounds=self.rounds,
        )

    def draw(self, records: Records) -> Figure:
        """Draw the regret by round and by number of tasks."""
        met = {name: by_tasks(line) for name, line in records.items()}
        most = max(
            max(line) for line in met.values()
        )  # of an unfinished run, not all lines have it
        curves = {name: _curves(line[most]) for name, line in met.items() if most in line}
        return regret_and_tasks(curves, _finals(records), self._bound(records), self.title)

    def draw_tasks(self, records: Records) -> Figure:
        """Draw the regret by number of tasks alone."""
        return regret_by_tasks(_finals(records), self._bound(records), self.title)

    def _bound(self, records: Records) -> dict[int, float]:
        """Return the mean over trials of Theorem 5.4's bound per task, by number of tasks."""
        if self.environment != "synthetic":
            return {}
        return {
            n_tasks: float(np.mean([self._one_bound(record) for record in trials]))
            for n_tasks, trials in by_tasks(records["lrrl"]).items()
        }

    def _one_bound(self, record: Record) -> float:
        known = theory(record)
        return known.regret_bound(self.rounds, FAILURE) / known.n_tasks


def _curves(records: Sequence[Record]) -> Curves:
    """Return the regret by round."""
    trials = np.array([array(record, "curve") for record in ordered(records, "simulation")])
    return Curves(array(records[0], "curve_rounds"), trials)


def _finals(records: Records) -> dict[str, dict[int, Floats]]:
    """Return the final regret per task, (trial,), by line and number of tasks."""
    return {
        name: {
            n_tasks: np.array([scalar(one, "regret_per_task") for one in trials])
            for n_tasks, trials in by_tasks(line).items()
        }
        for name, line in records.items()
    }
