"""The commands, put together."""

from __future__ import annotations

from typing import Annotated

import typer

import cobandits
from cobandits.cli.data import data
from cobandits.cli.estimate import estimate
from cobandits.cli.evaluate import evaluate
from cobandits.cli.fit import fit
from cobandits.cli.options import with_options
from cobandits.cli.predict import predict
from cobandits.cli.reproduce import reproduce
from cobandits.cli.run import run
from cobandits.cli.serve import keys, serve
from cobandits.cli.simulate import simulate
from cobandits.kernels import COMPILED

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(no_args_is_help=True)(with_options(fit))
app.command(no_args_is_help=True)(predict)
app.command()(with_options(estimate))
app.command()(with_options(simulate))
app.command(no_args_is_help=True)(with_options(evaluate))
app.command(no_args_is_help=True)(run)
app.command()(reproduce)
app.command()(serve)
app.add_typer(data, name="data")
app.add_typer(keys, name="keys")


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Learn many related tasks together: theta = basis x weights, one basis for all tasks."""
    if version:
        slow = "" if COMPILED else " (without compiled passes, which is slower: no C compiler?)"
        print(f"cobandits {cobandits.__version__}{slow}")
        raise typer.Exit
