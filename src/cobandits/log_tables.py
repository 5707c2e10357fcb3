"""Logs from tables with one row for each arm of each request, read part by part."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError, MissingExtraError
from cobandits.frames import MISSING_CELLS, Frame
from cobandits.logs import Log
from cobandits.ragged import RaggedArms

__all__ = ["LogPart", "LogTable", "NamedArms"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_ROWS = 2**18  # of a part: 50 MB with 25 features


class NamedArms(NamedTuple):
    """Which of the arms of a whole table are offered in some requests."""

    codes: Codes  # (n, K), -1 where a request has fewer arms
    names: tuple[str, ...]  # by code; those of later requests are not there yet

    @classmethod
    def by_number(cls, n_requests: int, n_arms: int) -> NamedArms:
        """Return arms whose names are their numbers."""
        codes = np.broadcast_to(np.arange(n_arms), (n_requests, n_arms))
        return cls(codes, tuple(map(str, range(n_arms))))

    def sums(self, values: Floats | NDArray[np.bool_]) -> Floats:
        """Return the sum of values, (n, K), for each arm, (arms,)."""
        there = self.codes >= 0
        weights = values[there].astype(np.float64)
        return np.bincount(self.codes[there], weights, len(self.names)).astype(np.float64)


class LogPart(NamedTuple):
    """Some requests of a table, in order."""

    log: Log
    arms: NamedArms | None  # None if the table does not name arms
    extra: dict[str, Floats]  # (n, K) each: other columns; 0 where a request has fewer arms


@dataclass(frozen=True, kw_only=True)
class LogTable:
    """A Parquet, CSV or TSV file with the rows of a request one after another.

    In each request one row is chosen (1 or true, the others 0 or false); its probability and
    reward are read, those of other rows may be missing. Requests whose reward is missing are
    left out. Requests may differ in their number of arms, which are numbered by the order of
    their rows.
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
        arms: dict[str, int] = {}
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
            asked = _Asked(firsts, np.diff(np.r_[firsts, len(frame)]))
            part = self._part(frame, asked, names, labels, arms)
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
        self,
        frame: Frame,
        asked: _Asked,
        names: Sequence[str],
        labels: dict[str, None],
        arms: dict[str, int],
    ) -> LogPart | None:
        flags = self._numbers(frame, self.chosen)
        if not (np.isin(flags, (0, 1)).all() and (asked.sums(flags) == 1).all()):
            raise DataError(f"column {self.chosen} must be 1 in one row of each request, else 0")
        picked = np.flatnonzero(flags)  # rows, one per request
        rewards = self._numbers(frame, self.reward)[picked]
        known = ~np.isnan(rewards)
        if not known.any():
            return None
        given = np.stack([self._numbers(frame, name) for name in names], axis=1)
        tasks = _tasks(frame, self.task, asked)[known]
        if tasks.dtype.kind == "U":
            labels.update(dict.fromkeys(tasks.tolist()))
        log = Log(
            tasks=tasks,
            arms=asked.arms(given)[known],
            chosen=(picked - asked.firsts)[known],
            probabilities=self._numbers(frame, self.probability)[picked][known],
            rewards=rewards[known],
            labels=tuple(labels),
        )
        shown = known, slice(log.n_arms)
        extra = {e: asked.table(self._numbers(frame, e))[shown] for e in self.extra}
        named = self._named(frame, asked, arms)
        return LogPart(log, named and named._replace(codes=named.codes[shown]), extra)

    def _named(self, frame: Frame, asked: _Asked, arms: dict[str, int]) -> NamedArms | None:
        """Return the arms of the requests by name, if the table has them; add new ones to all."""
        if self.arm not in frame.columns:
            return None
        given = np.asarray(frame[self.arm].to_numpy()).tolist()
        codes = [arms.setdefault(str(name), len(arms)) for name in given]
        return NamedArms(asked.table(np.array(codes, np.int64), missing=-1), tuple(arms))

    def _numbers(self, frame: Frame, name: str) -> Floats:
        """Return a column as floats, (rows,); what is missing is NaN."""
        values = np.asarray(frame[name].to_numpy())
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(
                f"column {name} of {self.path.name} holds text; encode it, or name the features"
            ) from None


class _Asked(NamedTuple):
    """The rows of each request, and what becomes of a column of them."""

    firsts: Codes  # (n,)
    counts: Codes  # (n,)

    @property
    def is_even(self) -> bool:
        """Whether all requests have the same number of rows."""
        return bool((self.counts == self.counts[0]).all())

    def sums(self, values: Floats) -> Floats:
        """Return the sum over each request's rows, (n,)."""
        return np.asarray(np.add.reduceat(values, self.firsts))

    def arms(self, features: Floats) -> Floats | RaggedArms:
        """Return the features of the rows, (rows, d), by request."""
        n = len(self.counts)
        if self.is_even:
            return features.reshape(n, -1, features.shape[1])
        return RaggedArms(
            flat=features, counts=self.counts, numbers=self.places, offered=self.counts
        )

    def table(self, values: NDArray[Any], missing: int = 0) -> NDArray[Any]:
        """Return one value per row by request, (n, K), where requests have up to K rows."""
        shown = np.full((len(self.counts), self.counts.max()), missing, values.dtype)
        shown[np.repeat(np.arange(len(self.counts)), self.counts), self.places] = values
        return shown

    @property
    def places(self) -> Codes:
        """The place of each row in its request, from 0, (rows,)."""
        return np.arange(self.counts.sum()) - np.repeat(self.firsts, self.counts)


def _tasks(frame: Frame, name: str, asked: _Asked) -> NDArray[Any]:
    """Return the task of each request: whole numbers from 0, or labels."""
    values = np.asarray(frame[name].to_numpy())
    if (values != values[np.repeat(asked.firsts, asked.counts)]).any():
        raise DataError(f"column {name} differs within a request; a request has one task")
    tasks = values[asked.firsts]
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
    read = partial(
        polars.scan_csv,
        path,
        separator="\t" if suffix == ".tsv" else ",",
        null_values=list(MISSING_CELLS),
    )
    types = read(infer_schema_length=None).collect_schema()  # rewards may be missing at first
    return read(schema=types)


def _collected(table: Any, path: Path) -> Any:
    polars = importlib.import_module("polars")
    try:
        return table.collect()
    except (polars.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path.name} cannot be read ({reason})") from error
