"""What ``import cobandits`` loads, and what it says where there is no compiled code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cobandits
from cobandits import compiled
from cobandits.policies import propensities

PACKAGE = Path(cobandits.__file__).parent
LIGHT = {"cobandits", "cobandits.compiled", "cobandits.errors", "cobandits.simulate"}
NOT_LOADED = (
    "cobandits.cli",
    "cobandits.lab",
    "cobandits.plots",
    "cobandits.sklearn",
    "importlib.metadata",
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


def printed(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run some code in a new process."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, **environment},
    )


def loaded(code: str) -> set[str]:
    """Return the modules that are loaded after some code, in a new process."""
    return set(printed(f"{code}; import sys; print(*sys.modules)").stdout.split())


def test_a_plain_import_loads_nothing_but_the_names() -> None:
    found = loaded("import cobandits")
    assert {name for name in found if name.split(".")[0] == "cobandits"} == LIGHT
    assert not {"numpy", "scipy", *NOT_LOADED} & found


def test_the_library_loads_no_extra_and_no_slow_part() -> None:
    assert sorted(loaded("from cobandits import *") & set(NOT_LOADED)) == []


def test_modules_that_are_loaded_would_be_seen() -> None:
    assert {"cobandits.plots", "scipy.stats"} <= loaded("import cobandits.plots, scipy.stats")


def test_every_public_name_is_there() -> None:
    for name in cobandits.__all__:
        found = getattr(cobandits, name)
        assert found.__name__ == name
        assert getattr(cobandits, name) is found
    assert {*cobandits.__all__, "__version__"} <= set(dir(cobandits))
    with pytest.raises(AttributeError, match="module 'cobandits' has no attribute 'Shred'"):
        _ = cobandits.Shred


def test_the_loop_keeps_its_name_whatever_is_imported_first() -> None:
    code = "import cobandits.simulate; from cobandits import simulate; print(callable(simulate))"
    assert printed(code).stdout == "True\n"


@pytest.fixture
def without_compiled_code(tmp_path: Path) -> Path:
    """Return a folder with a copy of the package that has no compiled code."""
    copy = tmp_path / "cobandits"
    junk = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(PACKAGE, copy, ignore=junk)
    return tmp_path


def test_without_compiled_code_the_first_import_says_so_once(without_compiled_code: Path) -> None:
    code = "import cobandits; from cobandits import LowRank; import cobandits.compiled"
    ended = printed(code, PYTHONPATH=str(without_compiled_code), PYTHONWARNINGS="default")
    assert ended.stderr.count("runs without its compiled code") == 1


@pytest.mark.skipif(not compiled.BUILT, reason="there is no compiled code")
def test_with_compiled_code_nothing_is_said() -> None:
    code = "import cobandits; from cobandits import LowRank"
    assert printed(code, PYTHONWARNINGS="default").stderr == ""


@pytest.mark.skipif(not propensities.COMPILED, reason="the compiled half is not built")
def test_a_play_of_the_shared_policy_does_not_load_scipys_special_functions() -> None:
    """Loading them takes longer than a thousand decisions."""
    found = loaded(
        "from cobandits.environments import Synthetic\n"
        "from cobandits.policies import Shared\n"
        "from cobandits.randomness import stream\n"
        "policy, rng = Shared(dim=5, n_tasks=3), stream(0, 'policy', 0)\n"
        "world = Synthetic(dim=5, n_tasks=3, rank=1, n_arms=3, noise_std=0.1)\n"
        "for asked in world.rounds(30, seed=0, trial=0):\n"
        "    told = asked.outcome(policy.decide(asked.tasks, asked.arms, rng))\n"
        "    policy.learn(told.tasks, told.arms, told.decisions, told.rewards)\n"
        "pass"
    )
    assert "cobandits.policies.shared.policy" in found
    assert "scipy.special" not in found
