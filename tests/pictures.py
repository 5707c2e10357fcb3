"""What tests look for in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.text import Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def left_title(axes: Axes) -> Text:
    """Return the text above the axes, at the left."""
    title = axes.get_title(loc="left")
    found = (one for one in axes.get_children() if isinstance(one, Text))
    return next(text for text in found if text.get_text() == title)
