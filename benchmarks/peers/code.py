"""Lines of user code: how much one writes to use a library for many tasks."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Callable, Iterable
from functools import partial
from types import CodeType, FunctionType

from benchmarks.peers.contract import Learner, Peer

__all__ = ["lines_of", "user_lines"]

_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
Definition = ast.ClassDef | ast.FunctionDef | ast.Assign | ast.AnnAssign


def user_lines(peer: Peer) -> int:
    """Count the lines of a learner's class, and of what it uses of its module.

    Blank lines, comments and docstrings do not count; imports of the library, which are inside of
    the class, do.
    """
    make = _unwrapped(peer.make)
    module = inspect.getmodule(make)
    assert module is not None
    return lines_of(inspect.getsource(module), _first_names(make))


def lines_of(source: str, names: Iterable[str]) -> int:
    """Count the lines of the named definitions and, in turn, of those that they use.

    >>> lines_of(
    ...     "def a():\\n    '''Says.'''\\n\\n    return b()  # it\\ndef b(): ...\\nc = 1", ["a"]
    ... )
    3
    """
    tree = ast.parse(source)
    known = {name: node for node in tree.body for name in _defined(node)}
    waiting, found = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            found.add(name)
            waiting += [node.id for node in ast.walk(known[name]) if isinstance(node, ast.Name)]
    silent = {line for name in found for line in _docstring_lines(known[name])}
    spoken = {line for name in found for line in _span(known[name])}
    return len(_with_tokens(source) & spoken - silent)


def _unwrapped(make: Callable[..., Learner]) -> Callable[..., Learner]:
    return _unwrapped(make.func) if isinstance(make, partial) else make


def _first_names(make: Callable[..., Learner]) -> list[str]:
    """Return the name of what makes a learner, or the names in it where it has none."""
    if isinstance(make, FunctionType) and make.__name__ == "<lambda>":
        return _names_in(make.__code__)
    return [make.__qualname__.partition(".")[0]]


def _names_in(code: CodeType) -> list[str]:
    inner = [
        name for part in code.co_consts if isinstance(part, CodeType) for name in _names_in(part)
    ]
    return [*code.co_names, *inner]


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _span(node: ast.stmt) -> range:
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _docstring_lines(node: ast.stmt) -> set[int]:
    """Return the lines of all docstrings in a definition."""
    found: set[int] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(inner):
            found |= set(_span(inner.body[0]))
    return found


def _with_tokens(source: str) -> set[int]:
    """Return the lines on which more than a comment stands."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        line
        for token in tokens
        if token.type not in _SILENT
        for line in range(token.start[0], token.end[0] + 1)
    }
