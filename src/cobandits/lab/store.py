"""Records on disk, as Parquet: each survives a crash once it is added."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, TextIO

from cobandits.errors import ConfigurationError, MissingExtraError
from cobandits.files import write_whole
from cobandits.lab.cells import Cell
from cobandits.lab.records import Record
from cobandits.lab.runner import Jobs, Progress, Results, run_all

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Store"]

_MANY = 500  # parts before a merge, at least
_SHARE = 8  # and at least one part per 8 records: a merge rewrites them all
_KEYS = "columns"  # the names of a record's columns: null may also be a value


class Store:
    """The records in a directory, one per cell that was run; one process at a time may open it.

    A record that is added has a file of its own, under ``parts``. Many parts are merged into
    ``records.parquet``. A crash leaves whole files: at worst, a record is in both places.

    Parameters
    ----------
    directory
        Where records are kept; it is made if it is not there.

    Attributes
    ----------
    notes
        Messages on damaged files that were set aside.

    Examples
    --------
    >>> import tempfile
    >>> from cobandits.lab import Simulation
    >>> size = {"dim": 5, "n_tasks": 3, "rank": 1}
    >>> cell = Simulation(
    ...     environment="synthetic", environment_parameters=size, policy="ridge", rounds=20
    ... )
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Store(directory) as store:
    ...         store.add(cell.run())
    ...     with Store(directory) as store:
    ...         store.missing([cell]), len(store.records())
    ([], 1)
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.notes: list[str] = []
        self._parts = self.directory / "parts"
        self._merged = self.directory / "records.parquet"
        with self._writing():
            self._parts.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(self.directory)
            try:
                self._remove_leftovers()
                self._identities = set(self._read()["identity"].to_list())
            except BaseException:
                self.close()
                raise
        self._n_parts = len(self._part_files())

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None and self._n_parts:
                self.merge()
        finally:
            self.close()

    def close(self) -> None:
        """Release the directory; parts are not merged."""
        self._lock.close()

    def __len__(self) -> int:
        return len(self._identities)

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells without a record, each once."""
        distinct = {cell.identity: cell for cell in cells}
        return [cell for identity, cell in distinct.items() if identity not in self._identities]

    def add(self, record: Record) -> None:
        """Add a record; it is on the disk when this returns."""
        identity = str(record["identity"])
        frame = _polars().DataFrame([{**record, _KEYS: ",".join(record)}])
        with self._writing():
            write_whole(self._parts / f"{identity}.parquet", _bytes(frame))
            _sync(self._parts)
        self._identities.add(identity)
        self._n_parts += 1
        if self._n_parts >= max(_MANY, len(self) // _SHARE):
            self.merge()

    def records(self) -> dict[str, Record]:
        """Return all records by the identity of their cell."""
        frames = self._read().partition_by(_KEYS, maintain_order=True)
        alike = (frame.select(frame[_KEYS][0].split(",")).to_dicts() for frame in frames)
        return {record["identity"]: record for records in alike for record in records}

    def run_all(
        self, cells: Sequence[Cell], *, jobs: Jobs = 1, progress: Progress | None = None
    ) -> Results:
        """Yield cells with the records that are there, then run the others and add theirs."""
        missing = self.missing(cells)
        known = self.records() if len(missing) < len(cells) else {}
        for cell in cells:
            if cell.identity in known:
                yield cell, known[cell.identity]
        with contextlib.closing(run_all(missing, jobs=jobs, progress=progress)) as results:
            for cell, record in results:
                self.add(record)
                yield cell, record

    def merge(self) -> None:
        """Merge all records into one file."""
        with self._writing():
            parts = self._part_files()
            write_whole(self._merged, _bytes(self._read()))
            _sync(self.directory)
            for path in parts:  # they are in the one file now
                path.unlink(missing_ok=True)
        self._n_parts = 0

    def _read(self) -> pl.DataFrame:
        """Return all records as one table; set damaged files aside."""
        paths = [path for path in (self._merged, *self._part_files()) if path.exists()]
        found = [one for path in paths if (one := self._trusted(path)) is not None]
        empty = _polars().DataFrame(schema={"identity": str, _KEYS: str})
        frame: pl.DataFrame = _polars().concat([empty, *found], how="diagonal_relaxed")
        return frame.unique("identity", keep="first", maintain_order=True)

    def _trusted(self, path: Path) -> pl.DataFrame | None:
        content = io.BytesIO(path.read_bytes())  # an error of the disk is no damaged record
        try:
            frame: pl.DataFrame = _polars().read_parquet(content)
            _check(frame, None if path == self._merged else path.stem)
        except MemoryError:
            raise
        except (Exception, _polars().exceptions.PanicException) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            aside = path.with_suffix(".damaged")
            path.replace(aside)
            self.notes.append(f"{path} cannot be trusted ({reason}); it is now {aside.name}")
            return None
        return frame

    def _part_files(self) -> list[Path]:
        return sorted(self._parts.glob("*.parquet"))

    def _remove_leftovers(self) -> None:
        """Remove the unfinished files of a process that was killed."""
        for directory in (self.directory, self._parts):
            for path in directory.glob(".*.parquet.*"):
                path.unlink()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ConfigurationError(
                f"cannot use {self.directory}: {error.strerror or type(error).__name__}; make "
                "room or name another directory, then run again: finished cells are kept"
            ) from error


def _check(frame: pl.DataFrame, identity: str | None) -> None:
    """Refuse a table that no store wrote, or a part of another cell."""
    missing = {"identity", "configuration", "kind", _KEYS} - set(frame.columns)
    if missing:
        raise ValueError(f"no column {', '.join(sorted(missing))}")
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in frame["configuration"]]
    if digests != frame["identity"].to_list():
        raise ValueError("an identity that is not its configuration's")
    if identity is not None and digests != [identity]:
        raise ValueError("a record of another cell")


def _bytes(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _locked(directory: Path) -> TextIO:
    """Return the open lock of a directory; the system frees it when this process ends."""
    file = (directory / ".lock").open("a+", encoding="ascii")
    if sys.platform != "win32":  # which has no such locks
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            file.close()
            raise ConfigurationError(
                f"process {owner} is writing to {directory} now; wait for it or name another "
                "directory"
            ) from error
        except OSError:  # a file system without locks
            return file
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _sync(directory: Path) -> None:
    """Make new names in a directory survive a loss of power."""
    if sys.platform == "win32":  # where directories cannot be opened
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _polars() -> ModuleType:
    try:
        return importlib.import_module("polars")
    except ImportError as error:
        raise MissingExtraError("polars", "data") from error
