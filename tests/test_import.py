"""What ``import cobandits`` loads: not the extras, and none of what only some functions need."""

from __future__ import annotations

import subprocess
import sys

NOT_LOADED = (
    "cobandits.cli",
    "cobandits.lab",
    "cobandits.plots",
    "cobandits.sklearn",
    "jinja2",
    "matplotlib",
    "pandas",
    "polars",
    "rich",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.special",
    "scipy.stats",
    "sklearn",
    "threadpoolctl",
    "typer",
)


def loaded(code: str) -> set[str]:
    """Return the modules that are loaded after some code, in a new process."""
    shown = subprocess.check_output(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"], text=True, timeout=120
    )
    return set(shown.split())


def test_a_plain_import_loads_no_extra_and_no_slow_part() -> None:
    assert sorted(loaded("import cobandits") & set(NOT_LOADED)) == []


def test_modules_that_are_loaded_would_be_seen() -> None:
    assert {"cobandits.plots", "scipy.stats"} <= loaded("import cobandits.plots, scipy.stats")
