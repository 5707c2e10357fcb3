"""Environments: sources of rows and rounds.

A new environment is one new file here: a class with a ``name`` and ``rounds``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from cobandits.discovery import check_parameters, named_classes, pick
from cobandits.environments.base import Environment
from cobandits.environments.synthetic import Problem, Synthetic
from cobandits.errors import ConfigurationError

__all__ = ["Environment", "Problem", "Synthetic", "available", "make"]


def available() -> dict[str, type[Environment]]:
    """Return every environment of this package by its name on the command line.

    >>> available()["synthetic"].__name__
    'Synthetic'
    """
    return named_classes(__name__)


def make(name: str, parameters: Mapping[str, Any]) -> Environment:
    """Make an environment from its name and parameters.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    parameters
        Of the environment's constructor.

    Examples
    --------
    >>> make("synthetic", {"dim": 10, "n_tasks": 4, "rank": 2}).n_tasks
    4
    """
    kind = pick("environment", name, available())
    check_parameters(f"the environment {name}", kind, parameters)
    known = inspect.signature(kind).parameters
    needed = [key for key, one in known.items() if one.default is inspect.Parameter.empty]
    if missing := [key for key in needed if key not in parameters]:
        raise ConfigurationError(f"the environment {name} needs {', '.join(missing)}")
    return kind(**parameters)
