"""Write the page of the command line: every command with its arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from cobandits.cli.app import application

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_HEAD = """\
# Command line

`pip install '.[cli]'` brings the command `cobandits`. `cobandits COMMAND --help` prints
what stands here.
"""


def page() -> str:
    """Return the page, as Markdown."""
    command = get_command(application())
    return "\n".join([_HEAD, *described(command, _context(command, "cobandits", None))])


def described(command: Any, context: Any) -> Iterator[str]:
    """Yield the sections of a command and of the commands in it; types are those of Typer."""
    path = context.command_path
    yield f"## {path}\n"
    yield f"{(command.help or '').strip()}\n"
    yield f"```text\n{' '.join([path, *command.collect_usage_pieces(context)])}\n```\n"
    rows = [row for one in command.params if (row := one.get_help_record(context))]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (
            f"| `{_cell(name)}` | {_cell(text).replace('<', '&lt;')} |" for name, text in rows
        )
        yield ""
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        inner = command.get_command(context, name)
        yield from described(inner, _context(inner, name, context))


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.make_context(name, [], parent=parent, resilient_parsing=True)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def write_page(app: Sphinx, _config: object) -> None:
    """Write the page; a file that would not change is left alone."""
    text, path = page(), Path(app.srcdir) / "reference" / "commands.md"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the page before Sphinx looks for pages."""
    app.connect("config-inited", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
