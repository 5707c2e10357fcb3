"""The commands, put together."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

import cobandits
from cobandits.cli.options import with_options
from cobandits.kernels import COMPILED

__all__ = ["application"]

# Each command, and the file that has it under the same name; in the order of the help.
_FILES = {
    "fit": "fit",
    "predict": "predict",
    "estimate": "estimate",
    "simulate": "simulate",
    "evaluate": "evaluate",
    "run": "run",
    "reproduce": "reproduce",
    "serve": "serve",
    "data": "data",
    "keys": "serve",
}
_OF_DATACLASSES = ("fit", "estimate", "simulate", "evaluate")  # whose options are their fields
_WITH_ARGUMENTS = ("fit", "predict", "evaluate", "run")  # alone, these print their help


def application(asked: str | None = None) -> typer.Typer:
    """Return the command line: with all commands, or with the one that is asked for.

    Commands load a good part of the library, so one that runs does not load the others.
    """
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(_root)
    for name in [asked] if asked in _FILES else _FILES:
        _add(app, name)
    return app


def _add(app: typer.Typer, name: str) -> None:
    found: Any = getattr(importlib.import_module(f"cobandits.cli.{_FILES[name]}"), name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
        return
    command = with_options(found) if name in _OF_DATACLASSES else found
    app.command(no_args_is_help=name in _WITH_ARGUMENTS)(command)


def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Learn many related tasks together: theta = basis x weights, one basis for all tasks."""
    if version:
        slow = "" if COMPILED else " (without compiled passes, which is slower: no C compiler?)"
        print(f"cobandits {cobandits.__version__}{slow}")
        raise typer.Exit
