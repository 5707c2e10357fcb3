"""The panels of the paper's figures: each is one file here that defines ``PANEL``."""

from __future__ import annotations

import importlib
import pkgutil

from cobandits.lab.panels.base import Panel, Scale

__all__ = ["Panel", "Scale", "available"]


def available() -> dict[str, Panel]:
    """Return every panel of this package by its name, in the paper's order.

    >>> list(available())[:2]
    ['1a', '1b']
    """
    modules = (
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(__path__, f"{__name__}.")
    )
    panels = [module.PANEL for module in modules if hasattr(module, "PANEL")]
    return {panel.name: panel for panel in sorted(panels, key=lambda panel: panel.name)}
