"""MNIST: fetched once, checked, and kept in the user's cache directory.

Only :func:`fetch_mnist` uses the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from cobandits.datasets import sources
from cobandits.datasets.sources import Bytes
from cobandits.datasets.tables import LabelledTable
from cobandits.errors import CobanditsError, ConfigurationError, DataError
from cobandits.files import write_whole
from cobandits.progress import ProgressBar

__all__ = ["fetch_mnist", "mnist", "mnist_path"]

_FETCH = "run: cobandits data fetch mnist"

# Of the original files without their headers, train before test.
CHECKSUMS = (
    "5b92582eb909c82a9bfefcd44acbe9233be3eb5b419a44cf211022ad2bf4bf96",  # pixels
    "671ff9d70b4811116d55c3dd479efa7a981e2e62753ef7a6d5c15fea81e63d27",  # labels
)


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
    except sources.DAMAGE as error:
        raise DataError(f"{path} cannot be read or is damaged ({error}); {_FETCH}") from error
    if not _are_original(images, labels):
        raise DataError(f"{path} does not hold the original MNIST (wrong checksum); {_FETCH}")
    return images, labels


def _are_original(images: Bytes, labels: Bytes) -> bool:
    arrays = (np.ascontiguousarray(images, np.uint8), np.ascontiguousarray(labels, np.uint8))
    return tuple(hashlib.sha256(array.data).hexdigest() for array in arrays) == CHECKSUMS


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

    The sources are tried in turn. Files are only accepted with the checksum of the original.

    Parameters
    ----------
    force : bool
        Fetch it even if it is there already.
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
    for source, get in sources.SOURCES.items():
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
