"""Where rows and rounds come from.

A new environment is one new file here: a class with a ``name`` and ``rounds``.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from cobandits.discovery import named_classes, pick
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
    """Make an environment from what a command line or a file can say.

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
    known = inspect.signature(kind).parameters
    if unknown := sorted(set(parameters) - set(known)):
        raise ConfigurationError(
            f"the environment {name} has no parameter {', '.join(unknown)}; "
            f"it has: {', '.join(known) or 'none'}"
        )
    needed = [key for key, one in known.items() if one.default is inspect.Parameter.empty]
    if missing := [key for key in needed if key not in parameters]:
        raise ConfigurationError(f"the environment {name} needs {', '.join(missing)}")
    hints = typing.get_type_hints(kind.__init__)
    for key, value in parameters.items():
        if not _is_of(value, hints.get(key, object)):
            raise ConfigurationError(
                f"{key} of the environment {name} must be {known[key].annotation}, got {value!r}"
            )
    return kind(**parameters)


def _is_of(value: object, hint: object) -> bool:
    """Tell whether a value is of the kind that a type hint says; any value if it says too much.

    >>> _is_of(3, float | None), _is_of(True, int), _is_of("few", int)
    (True, False, False)
    """
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return value in parts
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_is_of(value, part) for part in parts)
    if hint in (int, float):
        kinds = int if hint is int else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    if hint is Path:
        return isinstance(value, (str, Path))
    return isinstance(value, hint) if isinstance(hint, type) else True
