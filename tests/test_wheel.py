"""What a wheel holds, and which machines it says it is for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
CORE = ("LICENSE", "README.md", "pyproject.toml", "setup.py")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the sources whose C code no compiler takes."""
    copy = tmp_path / "checkout"
    junk = shutil.ignore_patterns("*.so", "*.pyd", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", copy / "src", ignore=junk)
    for name in CORE:
        shutil.copy(ROOT / name, copy)
    for source in (copy / "src/cobandits/compiled").glob("*.c"):
        source.write_text("#error this does not compile\n")
    return copy


def wheel(checkout: Path) -> Path:
    code = "from setuptools import build_meta; build_meta.build_wheel('made')"
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=240)
    (made,) = (checkout / "made").glob("*.whl")
    return made


def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_a_wheel_without_compiled_code_is_for_every_platform(checkout: Path) -> None:
    made = wheel(checkout)
    assert made.name.endswith("-py3-none-any.whl")
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules <= {str(Path(name)) for name in names(made)}
    assert not [name for name in names(made) if name.endswith((".so", ".pyd"))]


def test_what_an_earlier_build_left_behind_is_not_taken(checkout: Path) -> None:
    module = checkout / "src/cobandits/short_lived.py"
    module.write_text('"""A module that is removed before the next build."""\n')
    first = names(wheel(checkout))
    module.unlink()
    left = checkout.glob("build/lib*/cobandits/compiled")
    for folder in left:
        (folder / "_pass.abi3.so").write_bytes(b"of other sources")
    second = names(wheel(checkout))
    assert first - second == {"cobandits/short_lived.py"}
    assert second < first


def test_a_failed_compilation_is_an_error_where_the_extension_is_required(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COBANDITS_EXTENSION", "required")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        wheel(checkout)
    assert b"this does not compile" in failed.value.stdout + failed.value.stderr
