"""Files of named arrays and a header: versioned, written atomically, without pickle."""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ModelFileError
from cobandits.files import write_whole

__all__ = ["Archive", "Arrays", "File", "Header"]

File = str | Path | BinaryIO  # a path, or what is open for bytes
Arrays = dict[str, NDArray[Any]]
Header = dict[str, Any]
Content = TypeVar("Content")
_LOADERS = {"estimate": "Estimate.load", "log": "Log.load", "shared-policy": "Shared.load"}
_NPY = b"\x93NUMPY\x01\x00"  # how an array begins, in the format of most
_PIECE = 2**18  # bytes that are copied at once, which holds up other threads
Upgrade = Callable[[Header, Arrays], tuple[Header, Arrays]]


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A kind of file: its content, its version, and advice for when it cannot be read.

    >>> import tempfile
    >>> kind = Archive(holds="example", version=1, advice="make it again")
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "one")
    ...     kind.save(path, {"name": "a"}, {"x": np.arange(3)})
    ...     kind.load(path, lambda header, arrays: (header["name"], arrays["x"].tolist()))
    ('a', [0, 1, 2])
    """

    holds: str
    version: int
    advice: str
    upgrades: Mapping[int, Upgrade] = field(default_factory=dict)  # by version, to this one

    @property
    def format(self) -> str:
        """The format that the header names."""
        return f"cobandits-{self.holds}"

    def save(self, path: File, header: Header, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a header, as JSON, and arrays."""
        known = {"format": self.format, "version": self.version, "arrays": list(arrays)}
        text = json.dumps({**known, **header}).encode()
        content = {"header": np.frombuffer(text, np.uint8), **arrays}
        if not isinstance(path, str | Path):
            _write(path, content)
            return
        path, buffer = Path(path), io.BytesIO()
        _write(buffer, content)
        try:
            write_whole(path, buffer.getvalue())
        except FileNotFoundError:
            raise ModelFileError(
                f"{path} cannot be written: there is no folder {path.parent}; make it first"
            ) from None

    def load(self, path: File, make: Callable[[Header, Arrays], Content]) -> Content:
        """Read a file and return ``make(header, arrays)``."""
        path = Path(path) if isinstance(path, str | Path) else path
        try:
            content = path.read_bytes() if isinstance(path, Path) else path.read()
        except FileNotFoundError:
            raise ModelFileError(f"there is no file {path}; check the path") from None
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read ({error.strerror}); check it") from error
        try:
            return make(*self._parsed(content))
        except ModelFileError as error:
            raise ModelFileError(f"{path} {error}") from None
        except Exception as error:  # damaged bytes make zipfile, NumPy and json raise many kinds
            raise ModelFileError(
                f"{path} is not a whole cobandits {self.holds} ({type(error).__name__}); "
                f"it may be truncated or of another program: {self.advice}"
            ) from error

    def _parsed(self, content: bytes) -> tuple[Header, Arrays]:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            arrays = {name: _array(archive, member) for name, member in members.items()}
        header = json.loads(arrays["header"].tobytes())
        found = header["format"], header["version"]
        named = {name: arrays[name] for name in header["arrays"]}
        if found[0] == self.format and found[1] in self.upgrades:
            return self.upgrades[found[1]](header, named)
        if found[0] != self.format and str(found[0]).startswith("cobandits-"):
            other = str(found[0]).removeprefix("cobandits-")
            raise ModelFileError(
                f"holds a cobandits {other}, not a {self.holds}; load it with {_LOADERS[other]}"
                if other in _LOADERS
                else f"holds a cobandits {other}, not a {self.holds}; load another file"
            )
        if found != (self.format, self.version):
            raise ModelFileError(
                f"has format {found[0]!r} version {found[1]!r}; this release reads "
                f"{self.format!r} version {self.version}: upgrade cobandits, or {self.advice}"
            )
        return header, named


# ---- Arrays as ``np.savez`` writes them, piece by piece: other threads run in between


def _write(file: BinaryIO, arrays: Mapping[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                described = np.lib.format.header_data_from_array_1_0(values)
                np.lib.format.write_array_header_1_0(member, described)
                for piece in _pieces(values.T if described["fortran_order"] else values):
                    member.write(piece)


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Read an array, without pickle.

    NumPy has Python's compiler read each description, which takes longer than most arrays do.
    """
    with archive.open(name) as member:
        begin = member.read(len(_NPY) + 2)
        length = begin[len(_NPY) :]
        text = length + member.read(int.from_bytes(length, "little"))
        if begin.startswith(_NPY):
            shape, is_fortran, dtype = _described(text)
            if not dtype.hasobject:
                made = np.empty(shape[::-1] if is_fortran else shape, dtype)
                for piece in _pieces(made):
                    piece[:] = member.read(len(piece))
                if member.read(1):
                    raise ValueError(f"{name} has more values than it says")
                return made.T if is_fortran else made
        rest = io.BytesIO(begin + text[2:] + member.read())
    return np.asarray(np.lib.format.read_array(rest, allow_pickle=False))


def _pieces(values: NDArray[Any]) -> Iterator[memoryview]:
    """Yield the bytes of an array."""
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    for n in range(0, len(data), _PIECE):
        yield data[n : n + _PIECE]


@functools.lru_cache(1024)  # arrays of the same shapes come again and again
def _described(text: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array from its description."""
    return np.lib.format.read_array_header_1_0(io.BytesIO(text))
