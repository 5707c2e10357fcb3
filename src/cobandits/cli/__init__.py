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
        from cobandits.cli.app import application

        given = sys.argv[1:] if arguments is None else list(arguments)
        application(given[0] if given else None)(args=given, prog_name="cobandits")
    except CobanditsError as error:
        print(f"cobandits: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(2)
