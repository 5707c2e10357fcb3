"""What a space has done, from its log: events, decisions, reports, and logs out and in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from cobandits.engine.answers import decision_answer
from cobandits.engine.core import Core
from cobandits.engine.events import Event, Kind
from cobandits.engine.exchange import Past, export_table, import_events, past_of_log
from cobandits.engine.fold import SpaceFold
from cobandits.engine.history import (
    Record,
    batch_of,
    decided_again,
    find_event,
    record,
    record_in_log,
)
from cobandits.engine.messages import Decision
from cobandits.engine.policies import policy_copy
from cobandits.engine.reader import Reader
from cobandits.engine.report import Report, report
from cobandits.engine.settings import Settings
from cobandits.engine.stores import Batch, Query
from cobandits.engine.trajectories import Trajectory, log_of, trajectories, usable
from cobandits.engine.versions import SchemaVersion, schemas_of
from cobandits.engine.writer import Writer
from cobandits.logs import Log

__all__ = ["Logbook"]


class Logbook:
    """The reading half of a :class:`cobandits.engine.Space`."""

    def __init__(self, fold: SpaceFold, writer: Writer | Reader) -> None:
        self._fold, self._writer, self._core = fold, writer, writer.core

    @property
    def name(self) -> str:
        """Its name."""
        return self._fold.name

    @property
    def number(self) -> int:
        """The number of the event that made it: another space of the same name has another."""
        return self._fold.number

    @property
    def last(self) -> int:
        """The number of the last event in the log, of this or another space."""
        return self._core.last

    @property
    def deleted(self) -> bool:
        """Whether it was deleted; some of its events may still have to be erased."""
        return self._fold.number not in self._core.folds

    @property
    def settings(self) -> Settings:
        """What it was told."""
        return self._fold.settings

    @property
    def version(self) -> str:
        """The name of the present state: the event it began with, and the rewards since."""
        return self._fold.learner.deciding.version

    def schemas(self) -> list[SchemaVersion]:
        """Return the schemas that it has had, in order; the last one holds now."""
        return schemas_of(self._core.store, self._fold.number)

    # ---- What happened

    def events(
        self,
        *,
        after: int = 0,
        through: int | None = None,
        limit: int | None = None,
        newest: bool = False,
        task: str | None = None,
        kinds: Sequence[Kind] | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Iterator[Event]:
        """Yield events of this space in order, or the newest first; at most ``limit``.

        Their numbers are above ``after``, and up to ``through``.
        """
        return self._core.store.read(
            Query(
                after=after,
                through=through,
                limit=limit,
                newest=newest,
                task=task,
                kinds=None if kinds is None else tuple(kinds),
                since=None if since is None else round(since.timestamp() * 1e6),
                before=None if before is None else round(before.timestamp() * 1e6),
                space=self._fold.number,
            )
        )

    def decision(self, id: str) -> Record:  # noqa: A002
        """Return a decision from the log, with what was asked and what became of it."""
        event = find_event(self._core, self._fold.number, id)
        return self._writer.call(lambda: record(self._core, event))

    def decisions(self, **which: Any) -> Iterator[Record]:
        """Yield decisions with what became of them; ``which`` are as in :meth:`events`.

        They come from the log alone: the engine's thread is not asked.
        """
        found = self.events(kinds=("decision", "held"), **which)
        return (record_in_log(self._core, event) for event in found)

    def recompute(self, id: str) -> Decision:  # noqa: A002
        """Make a decision again, from the log alone; arm and probability are the same."""
        event = find_event(self._core, self._fold.number, id)
        batch = batch_of(self._core, event)
        past = Core(self._core.store)
        past.load(through=batch[0].number - 1)
        again = decided_again(past.folds[self._fold.number], batch)
        return decision_answer(event, id, choice=again[batch.index(event)])

    # ---- Reports, and logs in and out

    def report(self, since: datetime | None = None) -> Report:
        """Return what was earned, day by day, against what else could have been done."""
        version, last, now, waiting = self._writer.call(
            lambda: (
                self.version,
                self._core.last,
                self._core.now(),
                self._fold.learner.n_unlearned,
            )
        )
        policy = self._writer.call(lambda: policy_copy(self._fold.learner.policy))
        made = list(self._trajectories(last, since))
        return report(self.name, version, made, self.schemas()[-1], policy, waiting, now)

    def log(
        self, since: datetime | None = None, *, progress: Callable[[float], None] = lambda _: None
    ) -> Log:
        """Return the policy's decisions that have rewards, for evaluation and replay.

        ``progress`` is told the share of the log that was read.
        """
        schema, last = self.schemas()[-1], self._core.last
        found = []
        for one in self._trajectories(last, since):
            found.append(one)
            progress(one.event.number / last)
        return log_of(usable(found, schema.schema, schema.number), schema.schema)

    def export(self, path: str | Path) -> int:
        """Write the same to a Parquet file with a row per arm, which ``cobandits evaluate`` reads.

        Returns the number of decisions. The features are those of the schema, as numbers.
        """
        schema = self.schemas()[-1]
        found = usable(
            list(self._trajectories(self._core.last, None)), schema.schema, schema.number
        )
        return export_table(Path(path), found, schema.schema, self._core.secret)

    def import_past(self, past: Iterable[Past] | Log) -> int:
        """Learn from decisions that were made elsewhere; return how many there were.

        They become events, a thousand at a time: all of these, or none if one is refused. A
        :class:`cobandits.Log` is of vectors, for a space made with ``dim``.
        """
        given, count = iter(past_of_log(past) if isinstance(past, Log) else past), 0
        while part := list(islice(given, 1000)):
            self._writer.call(lambda part=part: self._import(part))  # type: ignore[misc]
            count += len(part)
        return count

    def _import(self, part: list[Past]) -> None:
        core, fold = self._core, self._fold
        core.check_there(fold.number)
        events = import_events(part, fold, core.next_number(), core.now())

        def apply() -> None:
            for event in events:
                fold.apply(event)

        core.commit(Batch(events=events), apply)

    def _trajectories(self, through: int, since: datetime | None) -> Iterator[Trajectory]:
        start = None if since is None else round(since.timestamp() * 1e6)
        store = self._core.store
        return trajectories(store, self._fold.number, through=through, since=start)
