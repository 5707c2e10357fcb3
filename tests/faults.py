"""Faults between a process and its system: compiles `faults.c`, which a process is started with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["compiled", "needs_faults"]

_SOURCE = Path(__file__).with_name("faults.c")
_COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_faults = pytest.mark.skipif(
    _COMPILER is None or sys.platform != "linux", reason="faults need a C compiler and Linux"
)


def compiled(folder: Path) -> Path:
    """Return the library to name in LD_PRELOAD."""
    assert _COMPILER is not None
    made = folder / "faults.so"
    command = [_COMPILER, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*command, "-o", str(made), str(_SOURCE), "-ldl"], check=True)
    return made
