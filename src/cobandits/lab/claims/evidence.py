"""The runs that claims are judged by, read from the records of all panels."""

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
from cobandits.lab.claims.base import number
from cobandits.lab.records import Record, array, configuration, scalar
from cobandits.theory import Theory

__all__ = ["EVERY_ROUND", "NAMES", "OURS", "Evidence", "Fitted", "Played", "Setting", "grouped"]

Floats = NDArray[np.float64]
Records = Mapping[str, Mapping[str, Sequence[Record]]]  # by panel and line

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
    "shared": "shared, of this library",
}
_PER_TASK = ("thompson", "ridge", "linucb")
_DATA = {"mnist": "MNIST", "digits": "scikit-learn's digits"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A data set and its size. Runs of one setting and trial meet the same arms and noise."""

    environment: str
    parameters_json: str  # the environment's parameters; text, so that settings can be keys
    rounds: int  # or rows per task, of an estimator
    rank: int  # the true rank, or the rank that policies are told; 0 if there is neither
    n_tasks: int
    seed: int

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The environment's parameters."""
        return dict(json.loads(self.parameters_json))

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise."""
        return float(self.parameters.get("noise_std", 1e-3))

    @property
    def data(self) -> str:
        """The name of the data set, for sentences."""
        if self.environment != "synthetic":
            return _DATA.get(self.environment, self.environment)
        noise = "" if self.noise_std == 1e-3 else f", noise std {number(self.noise_std)}"
        return f"synthetic (d = {self.parameters['dim']}, N = {self.rounds}{noise})"

    def theory(self, trial: int) -> Theory:
        """Return the constants of the theorems for the trial's truth."""
        return Theory.of(self.theta(trial), rank=self.rank, noise_std=self.noise_std)

    def theta(self, trial: int) -> NDArray[np.floating]:
        """Return the trial's true theta, (d, T)."""
        environment = Synthetic(**self.parameters)
        return environment.problem(n_rows=1, seed=self.seed, trial=trial).theta


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """One trial of a policy."""

    setting: Setting
    trial: int
    policy: str  # a key of NAMES, or another policy's name with its parameters
    variant: str  # its parameters, as JSON
    regret: float  # per task
    fit_errors: Floats  # relative errors of theta, one per fit


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
        """The first iteration whose error is within 5 % of the floor; infinite if there is none."""
        at = np.flatnonzero(self.errors <= 1.05 * self.floor)
        return float(at[0]) if len(at) else np.inf

    def falling(self, above: float = 20.0) -> Floats:
        """Return the errors before the first that is at most ``above`` times the floor."""
        low = np.flatnonzero(self.errors <= above * self.floor)
        return self.errors[: low[0]] if len(low) else self.errors


class Evidence:
    """All runs, each once, whatever the panels and lines that contain it are called.

    Parameters
    ----------
    records
        The records of each panel and line. Trials for tuning, which are negative, are left out.
    """

    def __init__(self, records: Records) -> None:
        once = {
            str(record["identity"]): record
            for lines in records.values()
            for line in lines.values()
            for record in line
            if scalar(record, "trial") >= 0
        }
        kinds = defaultdict(list)
        for record in once.values():
            kinds[record["kind"]].append(record)
        self.played = [_played(record) for record in kinds["simulation"]]
        self.fitted = [_fitted(record) for record in kinds["estimation"]]

    def regrets(self, policy: str) -> dict[Setting, dict[int, float]]:
        """Return a policy's regret per task, by setting and trial.

        Of several choices of parameters, the one with the least mean regret is returned.
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
    cell = configuration(record)
    size, rounds = cell["environment_parameters"], int(cell["rounds"])
    n_tasks = size.get("n_tasks", int(scalar(record, "decisions")) // rounds)
    setting = Setting(
        environment=cell["environment"],
        parameters_json=json.dumps(size, sort_keys=True),
        rounds=rounds,
        rank=int(cell["rank"] or size.get("rank", 0)),
        n_tasks=int(n_tasks),
        seed=int(cell["seed"]),
    )
    return Played(
        setting=setting,
        trial=int(cell["trial"]),
        policy=_policy(cell["policy"], cell["policy_parameters"]),
        variant=json.dumps(cell["policy_parameters"], sort_keys=True),
        regret=scalar(record, "regret_per_task"),
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
    cell = configuration(record)
    size = cell["environment_parameters"]
    setting = Setting(
        environment="synthetic",
        parameters_json=json.dumps(size, sort_keys=True),
        rounds=int(cell["n_rows"]),
        rank=int(size["rank"]),
        n_tasks=int(size["n_tasks"]),
        seed=int(cell["seed"]),
    )
    return Fitted(
        setting=setting,
        trial=int(cell["trial"]),
        estimator=cell["estimator"],
        step=float(cell["estimator_parameters"].get("step", 0.4)),
        error=scalar(record, "error"),
        floor=scalar(record, "floor"),
        errors=array(record, "errors"),
    )
