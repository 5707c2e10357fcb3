"""The smallest piece of an experiment: one policy in one trial of one environment."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from cobandits import environments, policies
from cobandits.environments import Environment
from cobandits.errors import ConfigurationError
from cobandits.policies import Policy
from cobandits.simulate import simulate
from cobandits.traces import Trace

__all__ = ["Cell", "Parameters", "make_policy", "run"]

Parameters = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One policy in one trial of one environment, as plain data.

    Parameters
    ----------
    rank : int, optional
        What policies are told; the environment's own rank, if it has one, where not given.
    trial : int
        Environments and policies draw from streams of the seed and the trial. Trials that
        are reported count from 0; negative ones are for tuning.

    Examples
    --------
    >>> a = Cell(environment="synthetic", policy="ridge", rounds=9, policy_parameters={"ridge": 1})
    >>> b = Cell(environment="synthetic", policy="ridge", rounds=9, policy_parameters={"ridge": 2})
    >>> len(a.identity), a.identity == b.identity
    (64, False)
    """

    environment: str
    environment_parameters: Parameters = field(default_factory=dict)
    policy: str
    policy_parameters: Parameters = field(default_factory=dict)
    rank: int | None = None
    rounds: int
    seed: int = 0
    trial: int = 0

    @property
    def identity(self) -> str:
        """A digest of all that the cell says, whatever the order of its parameters."""
        try:
            text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the parameters of {self} must be finite numbers, texts, true or false: {error}"
            ) from error
        return hashlib.sha256(text.encode()).hexdigest()

    def __str__(self) -> str:
        said = ",".join(f"{key}={value}" for key, value in self.policy_parameters.items())
        policy = f"{self.policy}:{said}" if said else self.policy
        return f"{policy} on {self.environment}, trial {self.trial}"


def run(cell: Cell, progress: Callable[[int, int], None] | None = None) -> Trace:
    """Run a cell; the result depends on nothing but what the cell says.

    >>> size = {"dim": 5, "n_tasks": 3, "rank": 1}
    >>> cell = Cell(environment="synthetic", environment_parameters=size, policy="ridge", rounds=20)
    >>> run(cell).regret_per_task == run(cell).regret_per_task
    True
    """
    environment = environments.make(cell.environment, cell.environment_parameters)
    policy = make_policy(cell, environment)
    return simulate(
        policy, environment, cell.rounds, cell.seed, trial=cell.trial, progress=progress
    )


def make_policy(cell: Cell, environment: Environment) -> Policy:
    """Make the cell's policy, fresh, for its environment."""
    rank = getattr(environment, "rank", None) if cell.rank is None else cell.rank
    return policies.make(
        cell.policy,
        cell.policy_parameters,
        rounds=cell.rounds,
        dim=environment.dim,
        n_tasks=environment.n_tasks,
        rank=rank,
        noise_std=environment.noise_std,
    )
