"""Studies: what the paper states and none of its panels shows. Each is a file with a ``PANEL``.

``docs/reproduction/rules.md`` says beforehand by which rules they are judged.
"""

from __future__ import annotations

from cobandits.lab.panels import Panel, found_in

__all__ = ["available"]


def available() -> dict[str, Panel]:
    """Return every study by its name.

    >>> list(available())[:2]
    ['s1', 's2']
    """
    return found_in(__path__, __name__)
