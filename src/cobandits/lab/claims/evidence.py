"""The records of a reproduction, as claims read them: by what was run, not by how it is called."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.lab.cells import Record
from cobandits.lab.claims.base import number
from cobandits.theory import Theory

__all__ = ["EVERY_ROUND", "NAMES", "OURS", "Evidence", "Fitted", "Played", "Setting", "grouped"]

Floats = NDArray[np.float64]
Records = Mapping[str, Mapping[str, Sequence[Record]]]  # panel, series

OURS = "lrrl"
EVERY_ROUND = ", every round"

NAMES = {
    OURS: "LRRL-AltGDMin",
    "moments": "the method of moments",
    "tracenorm": "the trace norm",
    "thompson": "Thompson sampling by epoch",
    f"thompson{EVERY_ROUND}": "Thompson sampling, every round",
    "ridge": "ridge by epoch",
    f"ridge{EVERY_ROUND}": "ridge, every round",
}
_PER_TASK = ("thompson", "ridge", "linucb")
_DATA = {"mnist": "MNIST", "digits": "scikit-learn's digits"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What was drawn: who has the same setting and trial has met the same arms and noise."""

    environment: str
    said: str  # the environment's parameters, as JSON
    rounds: int  # or rows a task
    rank: int  # that of the truth or that policies are told; 0 if neither is there
    n_tasks: int
    seed: int

    @property
    def parameters(self) -> dict[str, Any]:
        """The environment's parameters."""
        return dict(json.loads(self.said))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise."""
        return float(self.parameters.get("noise_std", 1e-3))

    @property
    def data(self) -> str:
        """What kind of data it is, in words."""
        if self.environment != "synthetic":
            return _DATA.get(self.environment, self.environment)
        noise = "" if self.noise_std == 1e-3 else f", noise std {number(self.noise_std)}"
        return f"synthetic (d = {self.parameters['dim']}, N = {self.rounds}{noise})"

    def theory(self, trial: int) -> Theory:
        """Return the constants of that trial's truth."""
        return Theory.of(self.theta(trial), rank=self.rank, noise_std=self.noise_std)

    def theta(self, trial: int) -> NDArray[np.floating]:
        """Return that trial's truth, (d, T)."""
        made = Synthetic(**self.parameters)
        return made.problem(n_rows=1, seed=self.seed, trial=trial).theta


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """One trial of a policy."""

    setting: Setting
    trial: int
    policy: str  # a key of NAMES, or another policy's name with its parameters
    variant: str  # its parameters, as JSON
    regret: float  # a task
    fit_errors: Floats  # of theta, at the end of each epoch that was fitted


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """One trial of an estimator."""

    setting: Setting
    trial: int
    estimator: str
    step: float
    error: float
    floor: float
    errors: Floats  # by iteration

    @cached_property
    def reached(self) -> float:
        """After how many iterations the error is within 5 % of the floor; infinite if never."""
        at = np.flatnonzero(self.errors <= 1.05 * self.floor)
        return float(at[0]) if len(at) else np.inf

    def falling(self, above: float = 20.0) -> Floats:
        """Return the errors, from the first on, that are well above the floor."""
        low = np.flatnonzero(self.errors <= above * self.floor)
        return self.errors[: low[0]] if len(low) else self.errors


class Evidence:
    """All that was run, each thing once, whichever panels it is in."""

    def __init__(self, records: Records) -> None:
        once = {
            str(record["identity"]): record
            for series in records.values()
            for trials in series.values()
            for record in trials
            if int(_float(record["trial"])) >= 0
        }
        kinds = defaultdict(list)
        for record in once.values():
            kinds[record["kind"]].append(record)
        self.played = [_played(record) for record in kinds["simulation"]]
        self.fitted = [_fitted(record) for record in kinds["estimation"]]

    def regrets(self, policy: str) -> dict[Setting, dict[int, float]]:
        """Return a policy's regret a task, by setting and trial.

        Where it was run with several parameters: with those that have the least regret.
        """
        variants: dict[Setting, dict[str, dict[int, float]]] = defaultdict(dict)
        for one in self.played:
            if one.policy == policy:
                variants[one.setting].setdefault(one.variant, {})[one.trial] = one.regret
        return {
            setting: min(found.values(), key=lambda trials: float(np.mean([*trials.values()])))
            for setting, found in variants.items()
        }

    def fits(self, estimator: str) -> dict[Setting, list[Fitted]]:
        """Return an estimator's fits by setting."""
        found = [one for one in self.fitted if one.estimator == estimator and len(one.errors)]
        return grouped(found)


def grouped(fits: Iterable[Fitted]) -> dict[Setting, list[Fitted]]:
    """Return the fits by setting."""
    found: dict[Setting, list[Fitted]] = defaultdict(list)
    for one in fits:
        found[one.setting].append(one)
    return dict(found)


def _played(record: Record) -> Played:
    said = json.loads(str(record["configuration"]))
    drawn, rounds = said["environment_parameters"], int(said["rounds"])
    n_tasks = drawn.get("n_tasks", int(_float(record["decisions"])) // rounds)
    setting = Setting(
        environment=said["environment"],
        said=json.dumps(drawn, sort_keys=True),
        rounds=rounds,
        rank=int(said["rank"] or drawn.get("rank", 0)),
        n_tasks=int(n_tasks),
        seed=int(said["seed"]),
    )
    return Played(
        setting=setting,
        trial=int(said["trial"]),
        policy=_policy(said["policy"], said["policy_parameters"]),
        variant=json.dumps(said["policy_parameters"], sort_keys=True),
        regret=_float(record["regret_per_task"]),
        fit_errors=np.asarray(record.get("fit_errors") or [], np.float64),
    )


def _policy(name: str, parameters: Mapping[str, Any]) -> str:
    if name in _PER_TASK:
        return name if "schedule" in parameters else name + EVERY_ROUND
    unlike = {key: parameters[key] for key in ("memory", "estimator") if key in parameters}
    as_written = unlike.get("memory", "epoch") == "epoch"
    if name == OURS and not (as_written and unlike.get("estimator", "altgdmin") == "altgdmin"):
        return f"{name} with {json.dumps(unlike, sort_keys=True)}"
    return name


def _fitted(record: Record) -> Fitted:
    said = json.loads(str(record["configuration"]))
    drawn = said["environment_parameters"]
    setting = Setting(
        environment="synthetic",
        said=json.dumps(drawn, sort_keys=True),
        rounds=int(said["n_rows"]),
        rank=int(drawn["rank"]),
        n_tasks=int(drawn["n_tasks"]),
        seed=int(said["seed"]),
    )
    return Fitted(
        setting=setting,
        trial=int(said["trial"]),
        estimator=said["estimator"],
        step=float(said["estimator_parameters"].get("step", 0.4)),
        error=_float(record["error"]),
        floor=_float(record["floor"]),
        errors=np.asarray(record["errors"], np.float64),
    )


def _float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
