"""What a wheel holds, and which machines it says it is for."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tools.check_dist import check_sources, found

ROOT = Path(__file__).parents[1]
CORE = ("LICENSE", "README.md", "pyproject.toml", "setup.py")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the sources whose C code no compiler takes; it is optional."""
    monkeypatch.delenv("COBANDITS_EXTENSION", raising=False)
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


def folder_with(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([], "there are one sdist and one wheel"),
        (["a-1.tar.gz", "a-1-py3-none-any.whl"], "expected -cp311-abi3-"),
        (["a-1.tar.gz", "a-1-cp311-cp311-manylinux_2_17_x86_64.whl"], "expected -cp311-abi3-"),
    ],
)
def test_a_folder_without_the_right_wheel_is_refused(
    tmp_path: Path, names: list[str], why: str
) -> None:
    with pytest.raises(SystemExit, match=why):
        found(folder_with(tmp_path, *names))


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="compares with a git checkout")
def test_an_sdist_is_compared_with_the_tracked_files(tmp_path: Path) -> None:
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    tracked = {name for name in listed if not name.startswith(".")}
    check_sources(sdist_of(tmp_path, tracked | {"PKG-INFO"}))
    for other in (tracked - {"examples/explain.py"}, tracked | {"docs/untracked.md"}):
        with pytest.raises(
            SystemExit, match=r"only: \['(examples/explain.py|docs/untracked.md)'\]"
        ):
            check_sources(sdist_of(tmp_path, other))


def sdist_of(folder: Path, names: set[str]) -> Path:
    with tarfile.open(folder / "cobandits-1.tar.gz", "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"cobandits-1/{name}"))
    return folder / "cobandits-1.tar.gz"
