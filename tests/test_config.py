"""The constants of the shared policy: each is documented, and used."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from cobandits.policies.shared import (
    calibration_config,
    change_config,
    config,
    exploration_config,
    reward_config,
)

SHARED = Path(config.__file__).parent
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        config,
        calibration_config,
        change_config,
        exploration_config,
        reward_config,
    )
}


def documented(module: str) -> dict[str, str | None]:
    """Return the docstring that follows each constant, None where there is none."""
    body = ast.parse(Path(str(MODULES[module].__file__)).read_text("utf-8")).body
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


def used(module: str) -> set[str]:
    """Return the names that any module reads as ``config.NAME``, or of another such module."""
    return {
        node.attr
        for path in SHARED.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == module
    }


CONSTANTS = [
    (module, name)
    for module, found in MODULES.items()
    for name in sorted(vars(found))
    if name.isupper()
]


def of(module: str) -> set[str]:
    return {name for where, name in CONSTANTS if where == module}


@pytest.mark.parametrize("module", MODULES)
def test_all_names_of_a_module_are_constants(module: str) -> None:
    assert set(documented(module)) == of(module)
    assert of(module)


@pytest.mark.parametrize(("module", "name"), CONSTANTS)
def test_every_constant_is_followed_by_a_docstring(module: str, name: str) -> None:
    text = documented(module)[name]
    assert text is not None
    assert text.split("\n")[0].rstrip().endswith(".")


@pytest.mark.parametrize("module", MODULES)
def test_every_constant_is_used_and_no_other_name_is(module: str) -> None:
    assert used(module) == of(module)
