"""Pages made from templates, with their pictures inside."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cobandits.errors import ConfigurationError, MissingExtraError
from cobandits.files import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "Rows",
    "data_uri",
    "markdown",
    "picture_file",
    "render",
    "write_experiment",
    "write_page",
]

Rows = Sequence[Mapping[str, str]]  # a table: every row has the same columns

_LARGEST = 150_000  # bytes of an SVG; of a larger one the PNG is shown
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
_SIGNS = {
    "holds": "✓",
    "holds only if": "◐",
    "does not hold": "✗",
    "not tested": "\N{EN DASH}",
}


def render(template: str, content: Mapping[str, object]) -> str:
    """Return a template of this package, filled with content."""
    return _environment().get_template(template).render(content)


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror}; make room or name another directory"
        ) from error


def write_experiment(
    out: str | Path,
    *,
    title: str,
    setting: str,
    standings: Rows,
    figures: Mapping[str, Path],
    notes: Sequence[str] = (),
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write ``report.html`` of a reader's own experiment; return its path.

    Parameters
    ----------
    standings
        One row per policy; every row has the same columns.
    figures
        The path of each picture, without .svg and .png, by its caption.
    facts
        The machine and the versions, by name.
    """
    pictures = [
        {"caption": caption, "source": data_uri(picture_file(stem))}
        for caption, stem in figures.items()
    ]
    content = {
        "title": title,
        "setting": setting,
        "standings": standings,
        "pictures": pictures,
        "notes": notes,
        "facts": facts or {},
    }
    page = Path(out, "report.html")
    write_page(page, render("experiment.html.j2", content))
    return page


def picture_file(stem: Path) -> Path:
    """Return the file of a picture to show: the SVG, or the PNG if that is too large."""
    svg = stem.with_name(stem.name + ".svg")
    return svg if svg.stat().st_size <= _LARGEST else stem.with_name(stem.name + ".png")


def data_uri(path: Path) -> str:
    """Return a picture as a data URI."""
    content = base64.b64encode(path.read_bytes()).decode()
    return f"data:{_TYPES[path.suffix]};base64,{content}"


def markdown(rows: Rows) -> str:
    """Return a table in Markdown, with numbers flush right.

    >>> print(markdown([{"policy": "ridge", "regret": "10"}]))
    | policy | regret |
    |---|---:|
    | ridge | 10 |
    """
    if not rows:
        return ""
    right = _number_columns(rows)
    rule = ["---:" if column in right else "---" for column in rows[0]]
    lines = [rows[0].keys(), rule, *(row.values() for row in rows)]
    text = [f"| {' | '.join(_cell(value) for value in line)} |" for line in lines]
    return "\n".join([text[0], text[1].replace(" ", ""), *text[2:]])


def _cell(text: str) -> str:
    """Return a text in one line, as a cell of a Markdown table."""
    return " ".join(text.replace("|", "\\|").split())


def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("jinja2", "cli") from error
    environment = Environment(
        loader=PackageLoader("cobandits.lab"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        cell=_cell, markdown=markdown, numbers=_number_columns, sign=_SIGNS.get, slug=_slug
    )
    return environment


def _slug(text: str) -> str:
    return text.replace(" ", "-")


def _number_columns(rows: Rows) -> set[str]:
    """Return the columns that hold numbers, in some row at least: they are aligned right.

    >>> sorted(_number_columns([{"policy": "a", "above": "best"}, {"policy": "b", "above": "+2"}]))
    ['above']
    """
    return {column for row in rows for column, value in row.items() if _is_numeric(value)}


def _is_numeric(text: str) -> bool:
    return re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?( ± \S+)?( \(.*\))?", text) is not None
