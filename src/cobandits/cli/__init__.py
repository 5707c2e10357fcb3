"""The command ``cobandits``; it needs the extra ``cli``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence

from cobandits.errors import CobanditsError, MissingExtraError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 0, or with 2 and one line on stderr."""
    try:
        for package in ("typer", "rich"):
            if importlib.util.find_spec(package) is None:
                raise MissingExtraError(package, "cli")
        from cobandits.cli.app import app

        app(args=None if arguments is None else list(arguments), prog_name="cobandits")
    except CobanditsError as error:
        print(f"cobandits: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
