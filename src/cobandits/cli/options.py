"""Options that several commands share, and commands whose options are fields of dataclasses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, get_type_hints

import typer

__all__ = ["Cluster", "Jobs", "JsonTrials", "Seed", "with_options"]

Jobs = Annotated[int, typer.Option(min=1, metavar="INT", help="Processes to run in.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Run on the Dask cluster there, tcp://host:8786; not with --jobs."
    ),
]
Seed = Annotated[
    int, typer.Option(min=0, metavar="INT", help="The same seed gives the same results.")
]
JsonTrials = Annotated[
    bool, typer.Option("--json", help="Print one JSON object a line, for each trial.")
]


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command with one option per field of the dataclasses that a function takes.

    typer reads the options of a command from its signature, so the command gets the fields
    of all dataclasses, in their order, as its parameters.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Size:
    ...     tasks: Annotated[int, typer.Option(help="Tasks, T.")] = 50
    >>> def show(size: Size) -> None:
    ...     print(size.tasks)
    >>> list(inspect.signature(with_options(show)).parameters)
    ['tasks']
    """
    groups = [kind for name, kind in get_type_hints(function).items() if name != "return"]

    @functools.wraps(function)
    def command(**given: object) -> None:
        function(
            *(group(**{one.name: given[one.name] for one in fields(group)}) for group in groups)
        )

    signatures = [inspect.signature(group, eval_str=True) for group in groups]
    parameters = [one for signature in signatures for one in signature.parameters.values()]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    return command
