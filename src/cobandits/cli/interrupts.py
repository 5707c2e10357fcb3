"""The message of a command that is interrupted."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

__all__ = ["RESUMABLE", "interruptible"]

RESUMABLE = "stopped; the same command goes on from here"
_INTERRUPTED = 130  # what shells expect: 128 and the number of the signal


@contextlib.contextmanager
def interruptible(farewell: str) -> Iterator[None]:
    """Print one line and exit with 130 after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"cobandits: {farewell}", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
