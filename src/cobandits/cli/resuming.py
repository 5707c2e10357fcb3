"""What a command says that can be stopped and goes on when it is given again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer

__all__ = ["resumable"]

_INTERRUPTED = 130  # what shells expect: 128 and the number of the signal


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """Say, after an interrupt, that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        print("cobandits: stopped; the same command goes on from here", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
