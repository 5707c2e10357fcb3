"""Checks of the paths that a command writes to, and numbers as text and as JSON."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobandits.errors import ConfigurationError

if TYPE_CHECKING:  # not every command prints a table
    from rich.console import Console
    from rich.table import Table

__all__ = ["check_file", "console", "new_table", "number", "plot_directory", "to_json", "writing"]

_WIDTH = 80  # columns, at least


def console(piped: int = _WIDTH) -> Console:
    """Return a console of 80 columns or more; of ``piped`` columns where there is no terminal."""
    from rich.console import Console

    made = Console(highlight=False)
    made.width = max(_WIDTH, made.width) if sys.stdout.isatty() else piped
    return made


def new_table() -> Table:
    """Return an empty table in the style of all commands."""
    from rich.table import Table

    return Table(box=None, pad_edge=False, header_style="bold")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise a ConfigurationError that names the path in place of an OSError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError(f"cannot write {path}: {reason}; name another place") from error


def check_file(path: Path, source: Path) -> None:
    """Refuse an output that cannot be written, or that would replace the input."""
    if path.is_dir():
        raise ConfigurationError(f"cannot write {path}: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise ConfigurationError(
            f"cannot write {path}: there is no directory {path.parent}; make it first"
        )
    if path.exists() and source.exists() and path.samefile(source):
        raise ConfigurationError(f"{path} is the input; name another file for the output")
    with writing(path), tempfile.TemporaryFile(dir=path.parent):
        pass


def plot_directory(path: Path) -> None:
    """Make the directory for pictures, and check that pictures can be written there."""
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"cannot write into {path}: it is a file; name a directory")
    from cobandits.plots.style import style  # pictures load much that commands do without

    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path), style():
            pass


def number(value: float) -> str:
    """Return a number with three digits, or a dash where there is none."""
    return f"{value:.3g}" if math.isfinite(value) else "-"


def to_json(columns: Mapping[str, object]) -> str:
    """Return one line of JSON, with null for numbers that are not finite."""
    return json.dumps(_finite(dict(columns)), allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    return value
