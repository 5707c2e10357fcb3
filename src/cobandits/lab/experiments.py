"""Experiments that compare policies, from code or from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from cobandits import environments
from cobandits.errors import ConfigurationError
from cobandits.lab.cells import Parameters, Simulation

__all__ = ["Candidate", "Experiment", "read_experiments", "told_rank"]

_RANK = 4  # that policies are told where the rank is not known

_SCALARS = ("name", "rounds", "trials", "seed", "rank", "tune")
_KEYS = (*_SCALARS, "environment", "vary", "policy")
_KINDS: dict[str, type] = {
    "name": str,
    "rounds": int,
    "trials": int,
    "seed": int,
    "rank": int,
    "tune": bool,
    "environment": dict,
    "vary": dict,
    "policy": list,
}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy of an experiment, its parameters, and its label in the results."""

    name: str
    label: str
    parameters: Parameters = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Policies on the same rounds of one environment, in each of the trials.

    Parameters
    ----------
    rank : int, optional
        The rank that policies are told; the environment's own, if it has one, where not given.
    tune : bool
        Whether to tune parameters that are not given, on separate trials.
    varied
        The environment's parameters that set this experiment apart from the others of its file.

    Examples
    --------
    >>> experiment = Experiment(
    ...     environment="synthetic",
    ...     environment_parameters={"dim": 5, "n_tasks": 3, "rank": 1},
    ...     candidates=(Candidate(name="ridge", label="ridge"),),
    ...     rounds=20,
    ...     trials=2,
    ... )
    >>> [str(cell) for cell in experiment.cells()]
    ['ridge on synthetic, trial 0', 'ridge on synthetic, trial 1']
    """

    name: str = ""
    environment: str
    environment_parameters: Parameters = field(default_factory=dict)
    candidates: tuple[Candidate, ...]
    rounds: int
    trials: int = 3
    seed: int = 0
    rank: int | None = None
    tune: bool = False
    varied: Parameters = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("rounds", 1), ("trials", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ConfigurationError(
                    f"{name} must be at least {least}, got {getattr(self, name)}"
                )
        labels = [candidate.label for candidate in self.candidates]
        if not labels:
            raise ConfigurationError("an experiment needs at least one policy")
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise ConfigurationError(
                f"two policies are called {', '.join(twice)}; give one of them a label of its own "
                "(label = ... in TOML, name:label=... as an option)"
            )

    def cells(self, trials: Sequence[int] | None = None) -> list[Simulation]:
        """Return the cells trial by trial, with all policies in each."""
        numbers = range(self.trials) if trials is None else trials
        return [self._cell(one, trial) for trial in numbers for one in self.candidates]

    def check(self) -> None:
        """Make the environment and every policy once, to find errors before the run."""
        environment = environments.make(self.environment, self.environment_parameters)
        for candidate in self.candidates:
            self._cell(candidate, 0).make_policy(environment)

    @property
    def setting(self) -> str:
        """The environment and its parameters, in a line."""
        parameters = [
            key if value is True else f"{key} {value}"
            for key, value in self.environment_parameters.items()
        ]
        return ", ".join([self.environment, *parameters])

    @property
    def description(self) -> str:
        """The setting, rounds, trials and seed, in a line."""
        return self.described(f"{self.rounds} rounds")

    def described(self, length: str) -> str:
        """Return the description, with what was played in place of the number of rounds."""
        told = "" if self.rank is None else f"; policies are told rank {self.rank}"
        return f"{self.setting}; {length}, {self.trials} trials, seed {self.seed}{told}"

    def _cell(self, candidate: Candidate, trial: int) -> Simulation:
        return Simulation(
            environment=self.environment,
            environment_parameters=self.environment_parameters,
            policy=candidate.name,
            policy_parameters=candidate.parameters,
            rank=self.rank,
            rounds=self.rounds,
            seed=self.seed,
            trial=trial,
        )


def told_rank(environment: str, parameters: Parameters) -> int | None:
    """Return the rank that policies are told by default: 4, or min(d, T) if that is less.

    None if the environment has a rank of its own.

    >>> told_rank("synthetic", {"dim": 9, "n_tasks": 8, "rank": 7}) is None
    True
    """
    made = environments.make(environment, parameters)
    return None if hasattr(made, "rank") else min(_RANK, made.dim, made.n_tasks)


def read_experiments(path: str | Path) -> list[Experiment]:
    r"""Read experiments from a TOML file: one per combination of the values that vary.

    The file has ``rounds``, and may have ``name``, ``trials``, ``seed``, ``rank`` and ``tune``;
    a table ``[environment]`` and for each policy a table ``[[policy]]``, both with a ``name``
    and parameters. A policy may have a ``label``. A table ``[vary]`` has lists of values for
    parameters of the environment.

    >>> import tempfile
    >>> text = "rounds = 9\npolicy = [{name = 'ridge'}]\nenvironment = {name = 'digits'}"
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "one.toml")
    ...     _ = path.write_text(text)
    ...     read_experiments(path)[0].candidates
    (Candidate(name='ridge', label='ridge', parameters={}),)
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is no text in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is no TOML: {error}") from error
    _resolve_files(content, path.parent)
    try:
        return _experiments(content, path.stem)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _resolve_files(content: dict[str, Any], folder: Path) -> None:
    """Make the environment's files relative to the folder of the experiment's file."""
    environment, vary = content.get("environment"), content.get("vary")
    if isinstance(environment, dict) and isinstance(environment.get("file"), str):
        environment["file"] = str(folder / environment["file"])
    if isinstance(vary, dict) and isinstance(vary.get("file"), list):
        vary["file"] = [str(folder / x) if isinstance(x, str) else x for x in vary["file"]]


def _experiments(content: Mapping[str, Any], name: str) -> list[Experiment]:
    _check_keys(content)
    grid = {key: _values(values, key) for key, values in content.get("vary", {}).items()}
    combinations = (dict(zip(grid, values, strict=True)) for values in product(*grid.values()))
    return [_experiment(content, name, varied) for varied in combinations]


def _experiment(content: Mapping[str, Any], name: str, varied: Parameters) -> Experiment:
    environment = _named(content["environment"], "[environment]")
    tables = [_named(table, "[[policy]]") for table in content["policy"]]
    parameters = {**_parameters(environment, "name"), **varied}
    scalars = {key: content[key] for key in _SCALARS if key in content}
    if "rank" not in scalars:
        scalars["rank"] = told_rank(environment["name"], parameters)
    return Experiment(
        **{"name": name, **scalars},
        environment=environment["name"],
        environment_parameters=parameters,
        candidates=tuple(_candidate(table) for table in tables),
        varied=varied,
    )


def _values(values: object, key: str) -> list[Any]:
    """Return the values of a parameter that varies."""
    if not isinstance(values, list) or not values:
        raise ConfigurationError(f"{key} of [vary] must be a list of values, got {values!r}")
    for value in values:
        _parameters({key: value})
    return values


def _check_keys(content: Mapping[str, Any]) -> None:
    if unknown := sorted(set(content) - set(_KEYS)):
        raise ConfigurationError(f"no key {', '.join(unknown)}; choose from {', '.join(_KEYS)}")
    if missing := [key for key in ("rounds", "environment", "policy") if key not in content]:
        raise ConfigurationError(f"{', '.join(missing)} must be given")
    for key, value in content.items():
        kind = _KINDS[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ConfigurationError(f"{key} must be {_words(kind)}, got {value!r}")


def _words(kind: type) -> str:
    return {
        str: "a text",
        int: "a whole number",
        bool: "true or false",
        dict: "a table",
        list: "a list of tables, each [[policy]]",
    }[kind]


def _named(table: object, where: str) -> dict[str, Any]:
    if not isinstance(table, dict) or not isinstance(table.get("name"), str):
        raise ConfigurationError(f"{where} must have a name, a text")
    return table


def _candidate(table: Mapping[str, Any]) -> Candidate:
    label = table.get("label", table["name"])
    if not isinstance(label, str):
        raise ConfigurationError(f"the label of a policy must be a text, got {label!r}")
    return Candidate(
        name=table["name"], label=label, parameters=_parameters(table, "name", "label")
    )


def _parameters(table: Mapping[str, Any], *without: str) -> Parameters:
    parameters = {key: value for key, value in table.items() if key not in without}
    for key, value in parameters.items():
        if not isinstance(value, (str, int, float)):
            raise ConfigurationError(
                f"{key} must be a number, a text, true or false, got {value!r}"
            )
    return parameters
