"""Finding what has a name: discovered, not registered."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, TypeVar

from cobandits.errors import ConfigurationError

__all__ = ["named_classes", "pick"]

Found = TypeVar("Found")


def named_classes(package: str) -> dict[str, Any]:
    """Return the classes with a ``name`` of their own that a package's modules define, by name."""
    found: dict[str, Any] = {}
    path = importlib.import_module(package).__path__
    for module in pkgutil.iter_modules(path, f"{package}."):
        for member in vars(importlib.import_module(module.name)).values():
            name = vars(member).get("name") if isinstance(member, type) else None
            if isinstance(name, str) and member.__module__ == module.name:
                found[name] = member
    return dict(sorted(found.items()))


def pick(what: str, name: str, known: Mapping[str, Found]) -> Found:
    """Return what is known by a name, or say which names are known.

    >>> pick("fruit", "pear", {"apple": 1})
    Traceback (most recent call last):
    ...
    cobandits.errors.ConfigurationError: no fruit 'pear'; choose from apple
    """
    if name not in known:
        raise ConfigurationError(f"no {what} {name!r}; choose from {', '.join(known)}")
    return known[name]
