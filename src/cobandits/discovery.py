"""Classes that are found by their name, without a registry."""

from __future__ import annotations

import importlib
import inspect
import numbers
import pkgutil
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from cobandits.errors import ConfigurationError

__all__ = ["check_parameters", "named_classes", "pick"]

Found = TypeVar("Found")


def named_classes(package: str) -> dict[str, Any]:
    """Return the classes in a package's modules that define a ``name``, by that name."""
    found: dict[str, Any] = {}
    path = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(path, f"{package}."):
        for member in vars(importlib.import_module(module.name)).values():
            name = vars(member).get("name") if isinstance(member, type) else None
            if isinstance(name, str) and f"{member.__module__}.".startswith(f"{module.name}."):
                found[name] = member
    return dict(sorted(found.items()))


def pick(what: str, name: str, known: Mapping[str, Found]) -> Found:
    """Return the entry with a name, or raise an error that lists the names.

    >>> pick("fruit", "pear", {"apple": 1})
    Traceback (most recent call last):
    ...
    cobandits.errors.ConfigurationError: no fruit 'pear'; choose from apple
    """
    if name not in known:
        raise ConfigurationError(f"no {what} {name!r}; choose from {', '.join(known)}")
    return known[name]


def check_parameters(
    what: str, kind: type, parameters: Mapping[str, object], *, apart: Collection[str] = ()
) -> None:
    """Refuse parameters that a class does not have, or that have the wrong type.

    Parameters
    ----------
    what : str
        What the class is called in messages.
    apart
        Parameters of the class that are not for the user to give.
    """
    known = {
        key: one for key, one in inspect.signature(kind).parameters.items() if key not in apart
    }
    if unknown := sorted(set(parameters) - set(known)):
        raise ConfigurationError(
            f"{what} has no parameter {', '.join(unknown)}; it has: {', '.join(known) or 'none'}"
        )
    hints = typing.get_type_hints(kind.__init__)  # type: ignore[misc]
    for key, value in parameters.items():
        if not _is_of(value, hints.get(key, object)):
            raise ConfigurationError(f"{key} of {what} must be {_said(hints[key])}, got {value!r}")


def _is_of(value: object, hint: object) -> bool:
    """Return whether a value matches a type hint; True for hints that are not understood.

    >>> _is_of(3, float | None), _is_of(True, int), _is_of("few", int)
    (True, False, False)
    """
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return value in parts
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_is_of(value, part) for part in parts)
    if hint in (int, float):
        kind = numbers.Integral if hint is int else numbers.Real  # NumPy's too
        return isinstance(value, kind) and not isinstance(value, bool)
    if hint is Path:
        return isinstance(value, (str, Path))
    return isinstance(value, hint) if isinstance(hint, type) else True


def _said(hint: object) -> str:
    """Return in words which values a type hint allows.

    >>> _said(float | Literal["auto"])
    "a number or 'auto'"
    """
    words: dict[object, str] = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "a text",
        types.NoneType: "nothing",
    }
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if parts := typing.get_args(hint):
        return " or ".join(map(_said, parts))
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")
