"""What a command says that is stopped."""

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
    """End with one line after an interrupt."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"cobandits: {farewell}", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
