"""From ``pip install`` to the first decision: ``python -m benchmarks.peers.install '{...}'``.

In a fresh virtual environment, with pip's cache off: the download counts. Making the environment
does not; nor does building our own wheel, which others find built on the registry.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from benchmarks.peers.play import Parameters

__all__ = ["Install", "measure"]

ROOT = Path(__file__).parents[2]
OURS = "cobandits"
_BUILT = ("*.so", "*.egg-info", "__pycache__")
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet")


@dataclass(frozen=True, kw_only=True)
class Install:
    """Seconds from nothing to a decision."""

    pip: float = 0.0  # pip install
    first: float = 0.0  # import, make, decide, in a fresh process
    failed: str = ""  # why there are no seconds


def measure(
    *, library: str, version: str, adapter: str, peer: str, parameters: Parameters
) -> Install:
    """Install a library into a fresh environment, and let a peer decide there."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wanted = _wheel(place) if library == OURS else f"{library}=={version}"
        subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
        python = str(place / "venv" / "bin" / "python")
        words = [python, *_PIP, "install", "--no-cache-dir", wanted]
        pip, _ = _timed(words if library == "numpy" else [*words, "numpy"])  # arms are arrays
        words = ["-m", "benchmarks.peers.first", adapter, peer, json.dumps(dict(parameters))]
        _, first = _timed([python, *words])
        return Install(pip=pip, first=float(first))


def _wheel(place: Path) -> str:
    """Build a wheel of a copy of this repository, so that nothing is left in it."""
    source = place / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns(*_BUILT))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    _timed([sys.executable, *_PIP, "wheel", "--no-deps", "-w", str(place), str(source)])
    [wheel] = place.glob("*.whl")
    return str(wheel)


def _timed(words: Sequence[str]) -> tuple[float, str]:
    """Return the seconds that a command took, and what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    began = perf_counter()
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr)
    return perf_counter() - began, done.stdout


if __name__ == "__main__":
    print(json.dumps(asdict(measure(**json.loads(sys.argv[1])))))
