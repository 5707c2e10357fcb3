"""The command line as tests run it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from cobandits.cli import main


class Result(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> str:
        """What stderr has besides lines of progress, which a busy machine makes it write."""
        lines = self.err.splitlines(keepends=True)
        return "".join(line for line in lines if not re.search(r", \d+ s$", line))

    @property
    def records(self) -> list[dict[str, Any]]:
        """The printed lines, each parsed as JSON; NaN and infinities are refused."""

        def refuse(text: str) -> float:
            raise AssertionError(f"{text} is no JSON")

        return [json.loads(line, parse_constant=refuse) for line in self.out.splitlines()]


Run = Callable[..., Result]


def command_line(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs ``cobandits`` with arguments."""

    def run(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        assert isinstance(ended.value.code, int)
        return Result(ended.value.code, *capsys.readouterr())

    return run
