"""The constants of the shared policy: each is documented, and used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cobandits.policies.shared import config

SHARED = Path(config.__file__).parent


def documented() -> dict[str, str | None]:
    """Return the docstring that follows each constant, None where there is none."""
    body = ast.parse(Path(config.__file__).read_text("utf-8")).body
    found: dict[str, str | None] = {}
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign):
            names = [node for target in statement.targets for node in ast.walk(target)]
            text = docstring(following)
            found |= {node.id: text for node in names if isinstance(node, ast.Name)}
    return found


def docstring(statement: ast.stmt | None) -> str | None:
    """Return the text of a statement that is nothing but a string."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return str(statement.value.value)
    return None


def used() -> set[str]:
    """Return the names that any module reads as ``config.NAME``."""
    return {
        node.attr
        for path in SHARED.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "config"
    }


CONSTANTS = sorted(name for name in vars(config) if name.isupper())


def test_all_names_of_the_module_are_constants() -> None:
    assert sorted(documented()) == CONSTANTS
    assert len(CONSTANTS) > 40


@pytest.mark.parametrize("name", CONSTANTS)
def test_every_constant_is_followed_by_a_docstring(name: str) -> None:
    text = documented()[name]
    assert text is not None
    assert text.split("\n")[0].rstrip().endswith(".")


def test_every_constant_is_used_and_no_other_name_is() -> None:
    assert used() == set(CONSTANTS)
