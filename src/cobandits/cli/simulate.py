"""``cobandits simulate``: policies side by side on the same rounds."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from cobandits import datasets, environments, policies
from cobandits.cli.interrupts import interruptible
from cobandits.cli.options import Cluster, Jobs, JsonTrials, Seed
from cobandits.cli.results import report
from cobandits.cli.workers import chosen_workers
from cobandits.discovery import pick
from cobandits.errors import ConfigurationError
from cobandits.lab import Candidate, Experiment, told_rank

__all__ = ["parsed_policy", "simulate"]

Scalar = str | int | float | bool | None

_POLICIES = ("shared", "lrrl", "thompson", "ridge", "random")
_DEFAULTS: dict[str, dict[str, Scalar]] = {"synthetic": {"dim": 100, "n_tasks": 50, "rank": 4}}
_ROUNDS = 200
_LATE = 0.2  # the share of tasks that joins at half time
_OPTIONS = {
    "n_tasks": "tasks",
    "n_arms": "arms",
    "late": "late-tasks",
    "replaced": "drift",
    "shuffled": "in-order",
}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is compared, and how it is run and shown."""

    env: Annotated[
        str,
        typer.Option(
            metavar="NAME", help=f"Where rounds come from: {', '.join(environments.available())}."
        ),
    ] = "synthetic"
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="INT", help="Rounds, N; 200, or all that a log or table has."),
    ] = None
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,..]",
            help=f"One of {', '.join(policies.available())}, and its parameters; may be repeated. "
            f"If not given: {', '.join(_POLICIES)}.",
        ),
    ] = None
    trials: Annotated[
        int, typer.Option(min=1, metavar="INT", help="How often tasks and rounds are drawn.")
    ] = 3
    seed: Seed = 0
    tune: Annotated[
        bool, typer.Option("--tune", help="Tune what is not given, on trials of their own.")
    ] = False
    jobs: Jobs = 1
    cluster: Cluster = None
    as_json: JsonTrials = False
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw the regret by round into DIR.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions:
    """The parameters of environments."""

    rank: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="INT",
            help="Rank that policies are told, r, and of theta; 4, or the most there can be.",
        ),
    ] = None
    n_tasks: Annotated[
        int | None, typer.Option("--tasks", metavar="INT", help="Tasks, T; 50, or 45 pairs.")
    ] = None
    dim: Annotated[
        int | None, typer.Option(metavar="INT", help="Features of an arm, d; 100 (synthetic).")
    ] = None
    n_arms: Annotated[
        int | None,
        typer.Option("--arms", metavar="INT", help="Arms to choose among, K; 5 (synthetic)."),
    ] = None
    noise_std: Annotated[
        float | None, typer.Option(metavar="X", help="Standard deviation of the noise; 0.001.")
    ] = None
    condition: Annotated[
        float | None, typer.Option(metavar="X", help="Condition number of theta (synthetic).")
    ] = None
    correlation: Annotated[
        float | None, typer.Option(metavar="X", help="Of neighbouring features (synthetic).")
    ] = None
    shift: Annotated[
        float | None,
        typer.Option(metavar="X", help="Mean of each arm, in standard deviations (synthetic)."),
    ] = None
    turn: Annotated[
        float | None,
        typer.Option(metavar="X", help="Radians that the basis turns in a round (synthetic)."),
    ] = None
    unrelated: Annotated[
        bool, typer.Option("--unrelated", help="Tasks have no common basis (synthetic).")
    ] = False
    apart: Annotated[
        float | None,
        typer.Option(metavar="X", help="Share of tasks without the common basis (synthetic)."),
    ] = None
    late: Annotated[
        bool,
        typer.Option("--late-tasks", help="A fifth of the tasks joins at half time (synthetic)."),
    ] = False
    replaced: Annotated[
        bool, typer.Option("--drift", help="The basis is replaced at half time (synthetic).")
    ] = False
    unequal: Annotated[
        bool, typer.Option("--unequal", help="Tasks ask at rates of their own (synthetic).")
    ] = False
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Rewards: gaussian, clicks, counts, outliers, heavy-tails, own-noise (synthetic).",
        ),
    ] = None
    rate: Annotated[
        float | None,
        typer.Option(metavar="X", help="Expected click or count where features are 0; 0.05."),
    ] = None
    fixed: Annotated[
        bool, typer.Option("--fixed", help="The arms of a task never change (synthetic).")
    ] = False
    one_hot: Annotated[
        int | None,
        typer.Option(metavar="INT", help="Fields whose values are one-hot features (synthetic)."),
    ] = None
    missing: Annotated[
        float | None,
        typer.Option(metavar="X", help="Share of rewards that are never known (synthetic)."),
    ] = None
    delay: Annotated[
        int | None,
        typer.Option(metavar="INT", help="Rounds until rewards are known (synthetic)."),
    ] = None
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="A known dataset (classification).")
    ] = None
    data: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Of {', '.join(datasets.REAL)} (choices)."),
    ] = None
    file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Labelled rows (classification), a row per request and arm (choices), "
            "or a log (replay).",
        ),
    ] = None
    request: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The request of a row (choices).")
    ] = None
    task: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The task of a row (choices).")
    ] = None
    arm: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The arm of a row (choices).")
    ] = None
    reward: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The reward of a row (choices).")
    ] = None
    in_order: Annotated[
        bool, typer.Option("--in-order", help="Requests come as in the table (choices).")
    ] = False
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The class of a row (classification).")
    ] = None
    group: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The task of a row (classification).")
    ] = None
    intercept: Annotated[
        bool, typer.Option("--intercept", help="Add a feature that is 1, where there is none.")
    ] = False

    @property
    def parameters(self) -> dict[str, Scalar]:
        """The parameters by the names that environments use; None where one is not given."""
        given = {name: None if value is False else value for name, value in asdict(self).items()}
        del given["in_order"]
        shuffled = False if self.in_order else None
        return given | {"late": _LATE if self.late else None, "shuffled": shuffled}


def simulate(run: RunOptions, environment: EnvironmentOptions) -> None:
    """Compare policies on the same rounds, and report their regret."""
    parameters = _environment_parameters(run.env, environment.parameters)
    told = None if "rank" in parameters else environment.rank
    experiment = Experiment(
        environment=run.env,
        environment_parameters=parameters,
        candidates=tuple(_candidate(text) for text in run.policy or _POLICIES),
        rounds=_rounds(run.env, parameters, run.rounds),
        trials=run.trials,
        seed=run.seed,
        rank=told_rank(run.env, parameters) if told is None else told,
        tune=run.tune,
    )
    experiment.check()
    with (
        interruptible("stopped; nothing is kept"),
        chosen_workers(run.jobs, run.cluster) as workers,
    ):
        report([experiment], jobs=workers, as_json=run.as_json, plot=run.plot)


def _rounds(env: str, parameters: Mapping[str, Scalar], asked: int | None) -> int:
    """Return the rounds to play: as many as asked, or the paper's, but no more than there are."""
    there = getattr(environments.make(env, parameters), "n_rounds", None)
    if there is None:
        return _ROUNDS if asked is None else asked
    return int(there if asked is None else min(asked, there))


def _environment_parameters(env: str, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the given parameters and the defaults; refuse those that the environment lacks."""
    known = set(inspect.signature(pick("environment", env, environments.available())).parameters)
    chosen = {key: value for key, value in given.items() if value is not None}
    if "rank" not in known:
        chosen.pop("rank", None)  # only policies are told it
    if unknown := [_option(key) for key in chosen if key not in known]:
        has = ", ".join(_option(key) for key in given if key in known)
        raise ConfigurationError(
            f"the environment {env} has no {', '.join(unknown)}; it has: {has or 'no options'}"
        )
    filled = {**_DEFAULTS.get(env, {}), **chosen}
    if "rank" in known and "rank" not in chosen:
        filled["rank"] = min(int(filled[key] or 1) for key in ("rank", "dim", "n_tasks"))
    return filled


def _option(parameter: str) -> str:
    return "--" + _OPTIONS.get(parameter, parameter).replace("_", "-")


def _candidate(text: str) -> Candidate:
    name, parameters = parsed_policy(text)
    label = str(parameters.pop("label", text))
    return Candidate(name=name, label=label, parameters=parameters)


def parsed_policy(text: str) -> tuple[str, dict[str, Scalar]]:
    """Parse the option of a policy: ``name`` or ``name:key=value,key=value``.

    >>> parsed_policy("thompson:scale=0.01,ridge=1")
    ('thompson', {'scale': 0.01, 'ridge': 1})
    """
    name, colon, rest = text.partition(":")
    parameters: dict[str, Scalar] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ConfigurationError(
                f"cannot read {part!r} of --policy {text}; write name:key=value,key=value"
            )
        if key in parameters:
            raise ConfigurationError(f"--policy {text} gives {key} twice")
        parameters[key] = _value(value)
    return name, parameters


def _value(text: str) -> Scalar:
    """Return the number, true or false that a text stands for; other texts as they are."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, (int, float, bool)) else text
