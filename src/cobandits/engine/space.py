"""A space: tasks that learn together, with one schema, one policy and one log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

from cobandits.engine.codec import encoded
from cobandits.engine.encoding import Prepared, prepared
from cobandits.engine.fold import SpaceFold
from cobandits.engine.jobs import Job, Result
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
from cobandits.engine.settings import Settings
from cobandits.engine.writer import Writer

__all__ = ["Space"]


class Space:
    """Decides for any number of tasks, and learns from their rewards; made by an engine.

    Threads may share it. Whatever it answers is on disk.
    """

    def __init__(self, fold: SpaceFold, writer: Writer) -> None:
        self._fold, self._writer = fold, writer

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
