"""The panels of the paper's figures: each is one file here that defines ``PANEL``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from cobandits.lab.panels.base import Panel, Scale

__all__ = ["Panel", "Scale", "available", "found_in"]


def available() -> dict[str, Panel]:
    """Return every panel of this package by its name, in the paper's order.

    >>> list(available())[:2]
    ['1a', '1b']
    """
    return found_in(__path__, __name__)


def found_in(path: Iterable[str], package: str) -> dict[str, Panel]:
    """Return what the modules of a package define as ``PANEL``, by name and in order."""
    modules = (
        importlib.import_module(found.name) for found in pkgutil.iter_modules(path, f"{package}.")
    )
    panels = [module.PANEL for module in modules if hasattr(module, "PANEL")]
    return {panel.name: panel for panel in sorted(panels, key=lambda panel: panel.name)}
