"""Write the page of the command line: every command with its arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from sphinx.application import Sphinx
from typer.main import get_command

from cobandits.cli.app import app as commands

_HEAD = """\
# Command line

`pip install 'cobandits[cli]'` brings the command `cobandits`. `cobandits COMMAND --help` prints
what stands here.
"""


def described(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield the sections of a command and of the commands in it."""
    path = context.command_path
    yield f"## {path}\n"
    yield f"{(command.help or '').strip()}\n"
    usage = command.collect_usage_pieces(context)
    yield f"```text\n{' '.join([path, *usage])}\n```\n"
    rows = [row for one in command.params if (row := one.get_help_record(context))]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows)
        yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from described(inner, click.Context(inner, info_name=name, parent=context))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def write_page(app: Sphinx, _config: object) -> None:
    """Write the page."""
    command = get_command(commands)
    context = click.Context(command, info_name="cobandits")
    text = "\n".join([_HEAD, *described(command, context)])
    path = Path(app.srcdir) / "reference" / "commands.md"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx reads it."""
    app.connect("config-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
