"""``cobandits data``: the data sets that environments can use."""

from __future__ import annotations

from typing import Annotated

import typer

from cobandits import datasets
from cobandits.cli.output import console, new_table
from cobandits.discovery import pick

__all__ = ["data"]

data = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List the data sets that environments can use, and fetch MNIST.",
)


@data.command("list")
def show() -> None:
    """List the data sets, and which of them can be used now."""
    table = new_table()
    table.add_column("name", no_wrap=True)
    for name in ("rows", "features", "choices"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source", no_wrap=True)
    table.add_column("there now")
    for name, (rows, features, classes, source) in datasets.KNOWN.items():
        table.add_row(name, f"{rows:,}", str(features), str(classes), source, _state(name))
    console().print(table)


def _state(name: str) -> str:
    if datasets.is_there(name):
        return "yes"
    if name != "mnist":
        return f"no; extra {'real' if name in datasets.REAL else 'sklearn'}"
    damaged = datasets.mnist_path().is_file()
    return "damaged; fetch it" if damaged else "no; fetch it"


@data.command(no_args_is_help=True)
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"One of {', '.join(datasets.KNOWN)}.")
    ],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Fetch it again, even if it is there.")
    ] = False,
) -> None:
    """Fetch a data set into the user's cache; COBANDITS_CACHE names another directory."""
    pick("data set", name, datasets.KNOWN)
    if name != "mnist":
        load = datasets.choice_data if name in datasets.REAL else datasets.builtin
        load(name)
        print(f"{name} is there already: it comes with {datasets.KNOWN[name].source}")
        return
    source = datasets.fetch_mnist(force=force)
    path = datasets.mnist_path()
    print(f"mnist is there already: {path}" if source is None else f"from {source}: {path}")
