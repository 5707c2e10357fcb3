"""A space: tasks that learn together, with one schema, one policy and one log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

from cobandits.engine.codec import decoded, encoded
from cobandits.engine.comparison import Comparison, compared
from cobandits.engine.encoding import Prepared, prepared, read
from cobandits.engine.errors import ConflictError, UnknownVersionError
from cobandits.engine.fold import Relearned
from cobandits.engine.jobs import Answered, Call, Job, Result
from cobandits.engine.logbook import Logbook
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
from cobandits.engine.policies import SpacePolicy, close, placed, policy_copy
from cobandits.engine.relearning import Relearning
from cobandits.engine.settings import LEARNED, SHARDED
from cobandits.engine.uploads import upload_body, uploaded_policy
from cobandits.engine.versions import Version, settings_at, version_number, versions_of
from cobandits.errors import DataError
from cobandits.schema import Schema

__all__ = ["Space"]


class Space(Logbook):
    """Decides for any number of tasks, and learns from their rewards; made by an engine.

    Threads may share it. Whatever it answers is on disk.
    """

    def __repr__(self) -> str:
        return f"Space({self.name!r}, version={self.version!r})"

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
        self, decision: str, value: float, *, key: str | None = None, taken: str | None = None
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

    def read(self, text: bytes, *, many: bool = False) -> list[Prepared] | None:
        """Return requests for :meth:`submit` straight from their JSON, if they are plain.

        That is ``{"task": .., "arms": [{"id": .., "features": [..]}, ..]}`` or, of ``many``,
        ``{"decisions": [..]}``, in a space with ``dim``. None for others: make :class:`Decide`.
        """
        return read(text, self.settings.schema, many=many)

    def submit(
        self, requests: Sequence[Request | Prepared], *, plain: bool = False
    ) -> Future[list[Answer | Exception]]:
        """Do the same without waiting: the future gets what :meth:`ask` returns.

        ``plain`` requests were read from JSON, which saves reading them as the log has them.
        """
        future: Future[list[Answer | Exception]] = Future()
        future.set_running_or_notify_cancel()  # what was handed over cannot be taken back
        self.send(requests, future.set_result, plain=plain)
        return future

    def send(
        self, requests: Sequence[Request | Prepared], done: Answered, *, plain: bool = False
    ) -> None:
        """Do the same: the engine's thread gives the answers to ``done``, which must not fail."""
        self._writer.put(Job(self._fold.number, self._prepared(requests, plain), done))

    def _prepared(
        self, requests: Sequence[Request | Prepared], plain: bool = False
    ) -> list[Prepared | Reward | Activate | Exception]:
        schema = self.settings.schema
        found: list[Prepared | Reward | Activate | Exception] = []
        for one in requests:
            try:
                found.append(prepared(one, schema, plain=plain) if isinstance(one, Decide) else one)
            except Exception as error:  # of this request alone
                found.append(error)
        return found

    def _one(self, request: Prepared | Reward | Activate) -> Answer:
        call = Call(self._fold.number, request)
        self._writer.put(call)
        return _raised(call.wait())

    # ---- Versions

    def versions(self) -> list[Version]:
        """Return the versions, in order: each began with an event that its name tells."""
        return versions_of(self._core.store, self._fold.number)

    def policy(self, version: str | None = None) -> SpacePolicy:
        """Return a copy of the policy: as it is now, or as a version began.

        It is all in this process, also where the space has several shards.
        """
        if version is None:
            return self._writer.call(lambda: policy_copy(self._fold.learner.policy))
        number = version_number(self._core.store, self._fold.number, version)
        return self._core.version_policy(number)

    def compare(self, version: str, other: str | None = None, *, last: int = 100) -> Comparison:
        """Return how differently two versions would make the last decisions.

        ``other`` is the present state, if it is not given.
        """
        after = max(0, self._core.last - 20 * last)  # enough, unless other spaces have most events
        found = self.events(after=after, kinds=("decision", "held"))
        sides = [(self.policy(one), self._schema(one)) for one in (version, other)]
        return compared(list(found)[-last:], *sides)

    def _schema(self, version: str | None) -> Schema:
        """Return the schema that a version began with, or the present one."""
        if version is None:
            return self.settings.schema
        number = version_number(self._core.store, self._fold.number, version)
        return settings_at(self._core.store, self._fold.number, number).schema

    def upload(self, label: str, content: bytes) -> Version:
        """Keep a policy that :meth:`Shared.save` wrote as a version, to compare and return to.

        It decides nothing before :meth:`rollback` names it. The same label again is the same
        version; with another content it is a conflict.
        """
        body = upload_body(label, content)
        checked = self.settings
        uploaded_policy(content, checked)

        def keep() -> int:
            if self.settings.schema is not checked.schema:
                raise ConflictError(
                    "the space has got another schema meanwhile; upload a policy that fits it"
                )
            known = {one.label: one.number for one in self.versions() if one.label is not None}
            if label not in known:
                return self._writer.write(self._fold, "upload", body=body).number
            found = self._core.store.event(known[label])
            if found is None or found.body != body:
                raise ConflictError(
                    f"{label!r} is another file already, and stands: take a new label"
                )
            return found.number

        number = self._writer.call(keep)
        return next(one for one in self.versions() if one.number == number)

    def rollback(self, version: str) -> Version:
        """Return to the state that a version began with; rewards since then are forgotten.

        They stay in the log. Rewards that wait to be learned are learned by the new version.
        """
        number = version_number(self._core.store, self._fold.number, version)

        def roll_back() -> None:
            then = settings_at(self._core.store, self._fold.number, number)
            if different := self.settings.differences_in_policy(then):
                raise DataError(
                    f"{version} has another {' and '.join(different)} than now; learn the log "
                    "anew under that one: relearn(schema=...) or relearn(shards=...)"
                )
            body = encoded({"learned": self._fold.learner.learned}).decode()
            self._writer.write(self._fold, "rollback", ref=number, body=body)

        self._writer.call(roll_back)
        return self.versions()[-1]

    def relearn(
        self,
        *,
        since: datetime | None = None,
        before: datetime | None = None,
        schema: Schema | None = None,
        shards: int | None = None,
    ) -> Version:
        """Learn all anew: without the rewards of a span of time, or under other settings.

        Rewards that are left out stay in the log. From then on requests are encoded by the schema.
        With several shards, rewards are any numbers and changes of the tasks are noted; with one,
        both are as the space was made. It takes as long as learning all rewards; decisions go on.
        """
        self._check_relearns()
        changed = self._changed(schema, shards)
        if (since is None) != (before is None) or (since is None and not changed):
            raise DataError("give since and before, or a schema, or shards, or all of them")
        start, end = (0 if one is None else round(one.timestamp() * 1e6) for one in (since, before))
        found = Relearning(self._core.store, self._fold.number, start, end, changed)
        found.extend(self._writer.call(lambda: self._core.last))
        policy = placed(found.taught(), processes=self._core.processes)  # nobody waits for it

        def install() -> None:
            self._check_relearns()
            found.extend(self._core.next_number() - 1)
            made = Relearned(found, policy)
            self._writer.write(self._fold, "relearn", body=found.body(), found=made)
            self._writer.keep(self._fold)

        try:
            self._writer.call(install)
        except BaseException:
            if self._fold.learner.policy is not policy:
                close(policy)
            raise
        return self.versions()[-1]

    def _changed(self, schema: Schema | None, shards: int | None) -> dict[str, Any]:
        """Return the settings to learn the log anew under; refuse those that cannot be."""
        changed: dict[str, Any] = {}
        if schema is not None:  # as a replay reads it
            changed["schema"] = Schema.from_dict(decoded(encoded(schema.to_dict())))
        if shards is not None:
            changed |= {"shards": shards, **SHARDED}
        if shards == 1:  # what several shards have changed is as it was before
            made = settings_at(self._core.store, self._fold.number, self._fold.number)
            changed |= {name: getattr(made, name) for name in SHARDED}
        replace(self.settings, **changed)
        return changed

    def _check_relearns(self) -> None:
        if self.settings.frozen:
            raise ConflictError(
                "this space is frozen, and would learn all of its rewards; unfreeze it first: "
                "change(frozen=False)"
            )
        if self._fold.number <= self._core.store.folded():
            raise UnknownVersionError("old events were removed, so they cannot be learned anew")

    # ---- Settings

    def change(self, **settings: Any) -> None:
        """Change settings from now on: those of :data:`cobandits.engine.settings.CHANGEABLE`."""
        fold = self._fold

        def change() -> None:
            after = fold.settings.changed(**settings).to_dict()
            body = {name: after[name] for name in settings}
            if "frozen" in settings:
                body[LEARNED] = fold.learner.learned
            self._writer.write(fold, "change", body=encoded(body).decode())

        self._writer.call(change)


def _raised(result: Result) -> Answer:
    if isinstance(result, Exception):
        raise result
    return result
