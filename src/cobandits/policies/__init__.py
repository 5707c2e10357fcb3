"""Policies: each decides for many tasks at once and learns from their rewards.

A new policy is one new file here: a subclass of ``Policy`` with a ``name``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from cobandits import estimators
from cobandits.discovery import check_parameters, named_classes, pick
from cobandits.errors import ConfigurationError
from cobandits.policies import schedules
from cobandits.policies.base import Informed, Policy
from cobandits.policies.conservative import Conservative
from cobandits.policies.lowrank import LRRL, Moments, TraceNormGreedy
from cobandits.policies.mtlr import MTLROFUL
from cobandits.policies.oracles import Oracle, Random, SubspaceOracle
from cobandits.policies.pertask import LinUCB, PerTask, Ridge, Thompson
from cobandits.policies.pooled import GlobalOwnRidge, GlobalRidge
from cobandits.policies.refitted import Refitted
from cobandits.policies.shared import Explanation, Explanations, Refit, Shared, Snapshot, refit

__all__ = [
    "LRRL",
    "MTLROFUL",
    "Conservative",
    "Explanation",
    "Explanations",
    "GlobalOwnRidge",
    "GlobalRidge",
    "Informed",
    "LinUCB",
    "Moments",
    "Oracle",
    "PerTask",
    "Policy",
    "Random",
    "Refit",
    "Refitted",
    "Ridge",
    "Shared",
    "Snapshot",
    "SubspaceOracle",
    "Thompson",
    "TraceNormGreedy",
    "available",
    "make",
    "refit",
]


def available() -> dict[str, type[Policy]]:
    """Return every policy of this package by its name on the command line.

    >>> available()["ridge"].__name__
    'Ridge'
    """
    return named_classes(__name__)


def make(
    name: str, parameters: Mapping[str, Any] | None = None, *, rounds: int, **setting: Any
) -> Policy:
    """Make a new policy from a name and parameters, as a command line or a file has them.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    parameters
        Of the policy's constructor. A ``schedule`` may be a text as in
        :func:`cobandits.policies.schedules.named`, an ``estimator`` the name of one.
    rounds : int
        Rounds in all, for schedules that need them.
    **setting
        Passed on to policies that take it: dim, n_tasks, rank, noise_std.

    Examples
    --------
    >>> make("thompson", {"scale": 0.5}, rounds=200, dim=3, n_tasks=2, rank=1).scale
    0.5
    """
    kind = pick("policy", name, available())
    known = inspect.signature(kind).parameters
    chosen = dict(parameters or {})
    if kind.default_schedule is not None:
        chosen.setdefault("schedule", kind.default_schedule)
    if "schedule" in known and isinstance(chosen.get("schedule"), str):
        chosen["schedule"] = schedules.named(chosen["schedule"], rounds)
    if "estimator" in known and isinstance(chosen.get("estimator"), str):
        chosen["estimator"] = estimators.make(chosen["estimator"], rank=setting.get("rank"))
    check_parameters(f"the policy {name}", kind, chosen, apart=("dim", "n_tasks"))
    offered = {key: value for key, value in setting.items() if key in known and value is not None}
    try:
        return kind(**{**offered, **chosen})
    except TypeError as error:
        raise ConfigurationError(f"the policy {name} cannot be made: {error}") from error
