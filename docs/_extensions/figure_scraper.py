"""Find the pictures of a gallery example: figures that pyplot does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

from cobandits.plots.style import style

_SEEN = "__figures_seen__"


def scrape(_block: object, block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]) -> str:
    """Save every figure that the last block left in a variable; return how to show them."""
    variables = block_vars["example_globals"]
    seen = variables.setdefault(_SEEN, [])
    found = [value for value in list(variables.values()) if isinstance(value, Figure)]
    new = [figure for figure in found if not any(figure is one for one in seen)]
    paths = []
    for figure, path in zip(new, block_vars["image_path_iterator"], strict=False):
        with style():
            figure.savefig(path, dpi=150)
        paths.append(path)
    seen.extend(new)
    return str(figure_rst(paths, gallery_conf["src_dir"]))
