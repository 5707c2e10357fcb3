"""House rules that a machine can check: the length of files and of functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "cobandits"
LONGEST_FILE = 300
LONGEST_FUNCTION = 40  # lines, with decorators, signature and docstring

FILES = sorted(path for path in SOURCE.rglob("*") if path.suffix in {".py", ".pyi", ".c", ".h"})
PYTHON = [path for path in FILES if path.suffix == ".py"]


def name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def functions(text: str) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of lines of each function."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - first + 1


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_no_function_is_too_long(path: Path) -> None:
    found = functions(path.read_text(encoding="utf-8"))
    assert [(name, lines) for name, lines in found if lines > LONGEST_FUNCTION] == []


def test_the_lines_of_a_function_include_its_decorators_and_those_inside_it() -> None:
    text = "@cache\n@property\ndef outer():\n    def inner():\n        pass\n    return inner\n"
    assert list(functions(text)) == [("outer", 6), ("inner", 2)]


def test_all_kinds_of_files_are_seen() -> None:
    assert {path.suffix for path in FILES} == {".py", ".pyi", ".c", ".h"}
    assert SOURCE / "__init__.py" in PYTHON
