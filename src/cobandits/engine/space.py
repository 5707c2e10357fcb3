"""A space: tasks that learn together, with one schema, one policy and one log."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, cast

from cobandits.engine.answers import decision_answer
from cobandits.engine.codec import encoded
from cobandits.engine.core import Core
from cobandits.engine.encoding import Prepared, prepared
from cobandits.engine.events import Event, Kind
from cobandits.engine.exchange import Past, export_table, import_events, past_of_log
from cobandits.engine.fold import SpaceFold
from cobandits.engine.history import Listed, Record, batch_of, decided_again, find_event, record
from cobandits.engine.jobs import Job, Result
from cobandits.engine.learner import policy_bytes
from cobandits.engine.messages import (
    Activate,
    Activated,
    Answer,
    Decide,
    Decision,
    Request,
    Reward,
    Rewarded,
)
from cobandits.engine.reader import Reader
from cobandits.engine.relearning import Relearning
from cobandits.engine.report import Report, report
from cobandits.engine.settings import Settings
from cobandits.engine.stores import Batch, Query
from cobandits.engine.trajectories import Trajectory, log_of, trajectories
from cobandits.engine.versions import Version, version_number, versions_of
from cobandits.engine.writer import Writer
from cobandits.logs import Log
from cobandits.policies import Shared

__all__ = ["Space"]


class Space(Listed):
    """Decides for any number of tasks, and learns from their rewards; made by an engine.

    Threads may share it. Whatever it answers is on disk.
    """

    def __init__(self, fold: SpaceFold, writer: Writer | Reader) -> None:
        self._fold, self._writer, self._core = fold, writer, writer.core

    def __repr__(self) -> str:
        return f"Space({self.name!r}, version={self.version!r})"

    @property
    def name(self) -> str:
        """Its name."""
        return self._fold.name

    @property
    def settings(self) -> Settings:
        """What it was told."""
        return self._fold.settings

    @property
    def version(self) -> str:
        """The name of the present state: the event it began with, and the rewards since."""
        return self._fold.learner.version

    # ---- Requests

    def decide(
        self,
        task: str,
        *,
        arms: Sequence[Mapping[str, Any]],
        context: Mapping[str, Any] | None = None,
        exclude: Sequence[str] = (),
        baseline: str | None = None,
        held: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> Decision:
        """Choose one of the arms; parameters are as in :class:`Decide`."""
        asked = Decide(
            task=task,
            arms=arms,
            context=context,
            exclude=exclude,
            baseline=baseline,
            held=held,
            id=id,
        )
        return cast(Decision, self._one(prepared(asked, self.settings.schema)))

    def reward(
        self,
        decision: str,
        value: float,
        *,
        key: str | None = None,
        taken: str | None = None,
    ) -> Rewarded:
        """Take the reward of a decision, by its id; parameters are as in :class:`Reward`."""
        asked = Reward(decision=decision, value=value, key=key, taken=taken)
        return cast(Rewarded, self._one(asked))

    def activate(self, decision: str) -> Activated:
        """Take that a held decision was shown; its window begins."""
        return cast(Activated, self._one(Activate(decision=decision)))

    def ask(self, requests: Sequence[Request]) -> list[Answer | Exception]:
        """Answer several requests in one call: a result, or the error, for each.

        Requests take effect in order. Decisions that do not depend on others are made together.
        """
        job = Job(self._fold.number, self._prepared(requests))
        self._writer.put(job)
        return job.wait()

    def submit(self, requests: Sequence[Request]) -> Future[list[Answer | Exception]]:
        """Do the same without waiting: the future gets what :meth:`ask` returns."""
        future: Future[list[Answer | Exception]] = Future()
        job = Job(self._fold.number, self._prepared(requests), future.set_result)
        self._writer.put(job)
        return future

    def _prepared(
        self, requests: Sequence[Request]
    ) -> list[Prepared | Reward | Activate | Exception]:
        schema = self.settings.schema
        found: list[Prepared | Reward | Activate | Exception] = []
        for one in requests:
            try:
                found.append(prepared(one, schema) if isinstance(one, Decide) else one)
            except Exception as error:  # of this request alone
                found.append(error)
        return found

    def _one(self, request: Prepared | Reward | Activate) -> Answer:
        job = Job(self._fold.number, [request])
        self._writer.put(job)
        (result,) = job.wait()
        return _raised(result)

    # ---- What happened

    def events(
        self,
        *,
        after: int = 0,
        limit: int | None = None,
        task: str | None = None,
        kinds: Sequence[Kind] | None = None,
        since: datetime | None = None,
        before: datetime | None = None,
    ) -> Iterator[Event]:
        """Yield events of this space in order: with numbers above ``after``, at most ``limit``."""
        return self._core.store.read(
            Query(
                after=after,
                limit=limit,
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

    def recompute(self, id: str) -> Decision:  # noqa: A002
        """Make a decision again, from the log alone; arm and probability are the same."""
        event = find_event(self._core, self._fold.number, id)
        batch = batch_of(self._core, event)
        past = Core(self._core.store)
        past.load(through=batch[0].number - 1)
        again = decided_again(past.folds[self._fold.number], batch)
        return decision_answer(event, id, choice=again[batch.index(event)])

    # ---- Versions

    def versions(self) -> list[Version]:
        """Return the versions, in order: each began with an event that its name tells."""
        return versions_of(self._core.store, self._fold.number)

    def policy(self, version: str | None = None) -> Shared:
        """Return a copy of the policy: as it is now, or as a version began."""
        if version is None:
            content = self._writer.call(lambda: policy_bytes(self._fold.learner.policy))
            return Shared.load(io.BytesIO(content))
        number = version_number(self._core.store, self._fold.number, version)
        return self._core.version_policy(number)

    def rollback(self, version: str) -> Version:
        """Return to the state that a version began with; rewards since then are forgotten.

        They stay in the log. Rewards that wait to be learned are learned by the new version.
        """
        number = version_number(self._core.store, self._fold.number, version)

        def roll_back() -> None:
            body = encoded({"learned": self._fold.learner.learned}).decode()
            self._writer.write(self._fold, "rollback", ref=number, body=body)

        self._writer.call(roll_back)
        return self.versions()[-1]

    def relearn(self, *, since: datetime, before: datetime) -> Version:
        """Learn all anew without the rewards of a span of time, such as wrong ones.

        They stay in the log. It takes as long as all rewards take to learn; decisions go on.
        """
        start, end = (round(one.timestamp() * 1e6) for one in (since, before))
        found = Relearning(self._core.store, self._fold.number, start, end)
        found.extend(self._writer.call(lambda: self._core.last))
        policy = found.taught()

        def install() -> None:
            found.extend(self._core.next_number() - 1)
            self._writer.write(self._fold, "relearn", body=found.body(), found=(found, policy))
            self._writer.keep(self._fold)

        self._writer.call(install)
        return self.versions()[-1]

    # ---- Reports, and logs in and out

    def report(self, since: datetime | None = None) -> Report:
        """Return what was earned, day by day, against what else could have been done."""
        version, last, waiting = self._writer.call(
            lambda: (self.version, self._core.last, len(self._fold.learner.waiting))
        )
        made = list(self._trajectories(last, since))
        return report(self.name, version, made, self.settings.schema, self.policy(), waiting)

    def log(self, since: datetime | None = None) -> Log:
        """Return the policy's decisions that have rewards, for evaluation and replay."""
        return log_of(list(self._trajectories(self._core.last, since)), self.settings.schema)

    def export(self, path: str | Path) -> int:
        """Write the same to a Parquet file with a row per arm, which ``cobandits evaluate`` reads.

        Returns the number of decisions. The features are those of the schema, as numbers.
        """
        found = self._trajectories(self._core.last, None)
        return export_table(Path(path), found, self.settings.schema, self._core.secret)

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
        events = import_events(part, fold, core.next_number(), core.now())

        def apply() -> None:
            for event in events:
                fold.apply(event)

        core.commit(Batch(events=events), apply)

    def _trajectories(self, through: int, since: datetime | None) -> Iterator[Trajectory]:
        start = None if since is None else round(since.timestamp() * 1e6)
        store = self._core.store
        return trajectories(store, self._fold.number, through=through, since=start)

    # ---- Settings

    def change(self, **settings: Any) -> None:
        """Change the window, default reward, floor, mode or baseline's share, from now on."""
        fold = self._fold

        def change() -> None:
            after = fold.settings.changed(**settings).to_dict()
            body = encoded({name: after[name] for name in settings}).decode()
            self._writer.write(fold, "change", body=body)

        self._writer.call(change)


def _raised(result: Result) -> Answer:
    if isinstance(result, Exception):
        raise result
    return result
