"""Logs from tables with one row for each arm of each request, read part by part."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError, MissingExtraError
from cobandits.frames import Frame
from cobandits.logs import Log

__all__ = ["LogPart", "LogTable"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_ROWS = 2**18  # of a part: 50 MB with 25 features


class LogPart(NamedTuple):
    """Some requests of a table, in order."""

    log: Log
    extra: dict[str, Floats]  # (n, K) each: other columns that were asked for


@dataclass(frozen=True, kw_only=True)
class LogTable:
    """A Parquet, CSV or TSV file with the rows of a request one after another.

    In each request one row is chosen (1 or true, the others 0 or false); its probability and
    reward are read, those of other rows may be missing. Requests whose reward is missing are
    left out. Arms are numbered by the order of their rows.
    """

    path: Path
    request: str = "request"
    task: str = "task"
    arm: str = "arm"
    chosen: str = "chosen"
    probability: str = "probability"
    reward: str = "reward"
    features: tuple[str, ...] = ()  # all other columns if none are given
    extra: tuple[str, ...] = ()  # columns with a number for each arm that are no features
    rows: int = _ROWS  # that are read at once

    def parts(self) -> Iterator[LogPart]:
        """Yield the log part by part; tasks keep their numbers."""
        table = _scanned(self.path)
        names = self._features(table.collect_schema().names())
        labels: dict[str, None] = {}
        seen: set[Any] = set()
        start, size = 0, self.rows
        while len(frame := _collected(table.slice(start, size), self.path)):
            ids = np.asarray(frame[self.request].to_numpy())
            firsts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
            if len(frame) == size:  # the last request may go on
                if len(firsts) == 1:
                    size *= 2
                    continue
                frame, firsts = frame[: firsts[-1]], firsts[:-1]
            _check_apart(ids[firsts].tolist(), seen, self.request)
            part = self._part(frame, firsts, names, labels)
            if part is not None:
                yield part
            start += len(frame)

    def _features(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the features; refuse a table that lacks a column."""
        needed = (self.request, self.task, self.chosen, self.probability, self.reward)
        used = {*needed, self.arm, *self.extra}
        features = self.features or tuple(name for name in columns if name not in used)
        missing = [name for name in (*needed, *self.extra, *features) if name not in columns]
        if missing:
            raise DataError(
                f"{self.path.name} has no column {', '.join(missing)}; it has: "
                f"{', '.join(columns)}; name others with the options of the same name"
            )
        if not features:
            raise DataError(f"{self.path.name} has no columns with features; add at least one")
        return features

    def _part(
        self, frame: Frame, firsts: Codes, names: Sequence[str], labels: dict[str, None]
    ) -> LogPart | None:
        counts = np.diff(np.r_[firsts, len(frame)])
        n, width = len(firsts), int(counts[0])
        if (counts != width).any():
            raise DataError(
                f"requests of {self.path.name} have {counts.min()} to {counts.max()} rows; "
                "all need as many arms"
            )
        flags = self._numbers(frame, self.chosen).reshape(n, width)
        if not (np.isin(flags, (0, 1)).all() and (flags.sum(axis=1) == 1).all()):
            raise DataError(f"column {self.chosen} must be 1 in one row of each request, else 0")
        rewards = self._numbers(frame, self.reward).reshape(n, width)[flags == 1]
        known = ~np.isnan(rewards)
        if not known.any():
            return None
        given = np.stack([self._numbers(frame, name) for name in names], axis=1)
        probabilities = self._numbers(frame, self.probability).reshape(n, width)[flags == 1]
        tasks = _tasks(frame, self.task, firsts)[known]
        if tasks.dtype.kind == "U":
            labels.update(dict.fromkeys(tasks.tolist()))
        log = Log(
            tasks=tasks,
            arms=given.reshape(n, width, -1)[known],
            chosen=flags.argmax(axis=1)[known],
            probabilities=probabilities[known],
            rewards=rewards[known],
            labels=tuple(labels),
        )
        extra = {e: self._numbers(frame, e).reshape(n, width)[known] for e in self.extra}
        return LogPart(log, extra)

    def _numbers(self, frame: Frame, name: str) -> Floats:
        """Return a column as floats, (rows,); what is missing is NaN."""
        values = np.asarray(frame[name].to_numpy())
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"column {name} of {self.path.name} holds text; encode it, or name the features"
            ) from None


def _tasks(frame: Frame, name: str, firsts: Codes) -> NDArray[Any]:
    """Return the task of each request: whole numbers from 0, or labels."""
    values = np.asarray(frame[name].to_numpy())
    owners = np.repeat(firsts, np.diff(np.r_[firsts, len(values)]))
    if (values != values[owners]).any():
        raise DataError(f"column {name} differs within a request; a request has one task")
    tasks = values[firsts]
    numbers = tasks.dtype.kind in "iu"
    return tasks if numbers else np.array([str(label) for label in tasks.tolist()])


def _check_apart(ids: list[Any], seen: set[Any], name: str) -> None:
    """Refuse a request whose rows are not together; remember those of this part."""
    again = seen.intersection(ids)
    if again or len(set(ids)) < len(ids):
        which = next((one for k, one in enumerate(ids) if one in again or one in ids[:k]), ids[0])
        raise DataError(f"the rows of request {which} are apart; sort the table by {name}")
    seen.update(ids)


def _scanned(path: Path) -> Any:
    """Return a table that is not read yet."""
    try:
        polars = importlib.import_module("polars")
    except ImportError as error:
        raise MissingExtraError("polars", "data") from error
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path")
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        return polars.scan_parquet(path)
    if suffix not in (".csv", ".tsv"):
        raise DataError(f"{path.name}: expected a file that ends in .parquet, .pq, .csv or .tsv")
    return polars.scan_csv(path, separator="\t" if suffix == ".tsv" else ",")


def _collected(table: Any, path: Path) -> Any:
    polars = importlib.import_module("polars")
    try:
        return table.collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path.name} cannot be read ({reason})") from error
