"""Rows on disk, for shards larger than memory: raw files, read into one buffer."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.tasks.rows import TaskRows
from cobandits.tasks.shards import Block
from cobandits.tasks.sources import Source

__all__ = ["OnDisk"]


class OnDisk(NamedTuple):
    """A recipe whose rows stay on the node's disk: each piece of the source is a block.

    Every pass reads all blocks, one after the other, into one buffer of the size of the
    largest. Raw files are read as fast as the disk (or the page cache) gives them, where
    Parquet would be decoded in each pass. They are removed when the shard is.

    Parameters
    ----------
    source
        The rows; it is read once for each node that gets the shard.
    directory
        Where to write; by default the system's directory for temporary files.
    """

    source: Source
    directory: str | None = None

    def blocks(self) -> Sequence[Block]:
        """Write the pieces to files, and return them as blocks."""
        folder = Path(tempfile.mkdtemp(prefix="cobandits-", dir=self.directory))
        buffer = _Buffer()
        weakref.finalize(buffer, shutil.rmtree, folder, ignore_errors=True)
        return [
            _RawBlock(folder / f"{number}.raw", piece, buffer)
            for number, piece in enumerate(self.source.pieces())
        ]


class _Buffer:
    """The memory that all blocks of a shard are read into."""

    def __init__(self) -> None:
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def read(self, path: Path) -> NDArray[np.uint8]:
        """Return the content of a file, in memory that is overwritten by the next one."""
        size = path.stat().st_size
        if len(self._bytes) < size:
            self._bytes = np.empty(size, np.uint8)
        with path.open("rb", buffering=0) as file:
            view = self._bytes.data[:size]
            while len(view):
                view = view[file.readinto(view) :]
        return self._bytes[:size]


class _RawBlock:
    """Tasks whose rows and rewards are in a raw file."""

    def __init__(self, path: Path, tasks: TaskRows, buffer: _Buffer) -> None:
        self._path, self._buffer = path, buffer
        with path.open("wb") as file:
            file.write(np.ascontiguousarray(tasks.rows).data)
            file.write(np.ascontiguousarray(tasks.rewards).data)
        self._dtype, self._n_rows = tasks.dtype, tasks.n_rows
        self._tasks = tasks.emptied()

    @property
    def stays(self) -> bool:
        """Whether the rows stay in memory: no."""
        return False

    def load(self) -> TaskRows:
        """Read the rows; they are overwritten when another block of the shard is loaded."""
        values = self._buffer.read(self._path).view(self._dtype)
        cut = self._n_rows * self._tasks.dim
        rows, rewards = values[:cut].reshape(self._n_rows, -1), values[cut:]
        self._tasks.lend(rows, rewards)
        return self._tasks
