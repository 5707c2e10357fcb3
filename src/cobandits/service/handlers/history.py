"""Reading the log, tasks and versions; returning to a version."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from datetime import UTC
from itertools import islice

from cobandits.engine import Event, Space
from cobandits.engine.history import Record
from cobandits.engine.messages import when
from cobandits.engine.versions import Version
from cobandits.errors import DataError
from cobandits.service.calls import Exchange, Reply
from cobandits.service.handlers.decisions import decision_reply
from cobandits.service.problems import ProblemError
from cobandits.service.reading import encoded
from cobandits.service.state import Service
from cobandits.wire import (
    DecisionPage,
    DecisionQuery,
    DecisionRecord,
    LogQuery,
    Neighbour,
    OneDecision,
    Relearn,
    RewardRecord,
    SharingReply,
    TaskPoint,
    TaskReply,
    VersionReplies,
    VersionReply,
)

__all__ = [
    "explain_task",
    "list_decisions",
    "list_versions",
    "read_decision",
    "relearn",
    "restore_version",
    "sharing",
    "sharing_of",
    "stream_log",
    "version_file",
]

_LINES = 1000  # of the log that are read and sent at once
FILE = "application/octet-stream"
LINES = "application/jsonl"


async def list_decisions(exchange: Exchange) -> Reply:
    """Return a page of decisions."""
    space = exchange.service.space(exchange.places[0])
    asked: DecisionQuery = exchange.parameters()

    def read() -> list[Record]:
        found = space.decisions(
            after=asked.after,
            limit=asked.limit,
            task=asked.task,
            since=asked.since,
            before=asked.before,
        )
        return list(found)

    found = await exchange.service.aside(read)
    last = found[-1].decision.number if len(found) == asked.limit else None
    return Reply(200, DecisionPage(decisions=[_record(one) for one in found], next=last))


async def read_decision(exchange: Exchange) -> Reply:
    """Return a decision with what became of it, and made again if that is asked."""
    name, decision = exchange.places
    space = exchange.service.space(name)
    asked: OneDecision = exchange.parameters()
    record = _record(await exchange.service.aside(lambda: space.decision(decision)))
    if asked.recompute:
        again = await exchange.service.aside(lambda: space.recompute(decision))
        record = DecisionRecord(
            decision=record.decision,
            request=record.request,
            rewards=record.rewards,
            activated=record.activated,
            recomputed=decision_reply(again),
        )
    return Reply(200, record)


def _record(record: Record) -> DecisionRecord:
    rewards = [
        RewardRecord(at=when(one.at), value=one.value, key=one.key, taken=one.taken)
        for one in record.rewards
    ]
    return DecisionRecord(
        decision=decision_reply(record.decision),
        request=record.request,
        rewards=rewards,
        activated=record.activated,
    )


async def stream_log(exchange: Exchange) -> Reply:
    """Return all events of a space as lines of JSON, as they are in the log."""
    space = exchange.service.space(exchange.places[0])
    asked: LogQuery = exchange.parameters()
    return Reply(200, media=LINES, parts=_lines(exchange.service, space, asked.after))


async def _lines(service: Service, space: Space, after: int) -> AsyncIterator[bytes]:
    events = space.events(after=after)
    while chunk := await service.aside(lambda: list(islice(events, _LINES))):
        yield b"".join(map(_line, chunk))


def _line(event: Event) -> bytes:
    return encoded(event._asdict()) + b"\n"


# ---- Tasks


async def explain_task(exchange: Exchange) -> Reply:
    """Explain what a task's predictions come from."""
    name, task = exchange.places
    space = exchange.service.space(name)

    def explain() -> TaskReply:
        found = space.policy().explain(task)
        return TaskReply(
            task=task,
            rewards=found.rewards,
            shared=found.shared,
            rank=found.rank,
            nearest=[Neighbour(str(one.task), float(one.likeness)) for one in found.nearest],
            uncertainty=found.uncertainty,
            uncertainty_before=found.uncertainty_before,
        )

    try:
        return Reply(200, await exchange.service.aside(explain))
    except DataError as error:
        raise ProblemError("unknown-task", str(error)) from None


async def sharing(exchange: Exchange) -> Reply:
    """Return all tasks on the map of the first two directions."""
    space = exchange.service.space(exchange.places[0])
    return Reply(200, await exchange.service.aside(lambda: sharing_of(space)))


def sharing_of(space: Space) -> SharingReply:
    """Return the map of the tasks; it is empty before the first prior."""
    try:
        found = space.policy().explain_all()
    except DataError:
        return SharingReply(rank=0, spectrum=[], uncertainty_before=0.0, tasks=[])
    points = [
        TaskPoint(
            task=str(task),
            rewards=int(found.rewards[place]),
            x=float(found.weights[place, 0]),
            y=float(found.weights[place, 1]) if found.weights.shape[1] > 1 else 0.0,
            shared=float(found.shared[place]),
            uncertainty=float(found.uncertainty[place]),
        )
        for place, task in enumerate(found.tasks)
    ]
    return SharingReply(
        rank=found.rank,
        spectrum=found.spectrum.tolist(),
        uncertainty_before=float(found.uncertainty_before),
        tasks=points,
    )


# ---- Versions


async def list_versions(exchange: Exchange) -> Reply:
    """Return the versions of a space."""
    space = exchange.service.space(exchange.places[0])
    found = await exchange.service.aside(space.versions)
    return Reply(
        200, VersionReplies(present=space.version, versions=[_version(one) for one in found])
    )


async def restore_version(exchange: Exchange) -> Reply:
    """Return to the state that a version began with."""
    name, version = exchange.places
    space = exchange.service.space(name)
    return Reply(200, _version(await exchange.service.aside(lambda: space.rollback(version))))


async def relearn(exchange: Exchange) -> Reply:
    """Learn the log anew without the rewards of a time, and make that the present version."""
    space = exchange.service.space(exchange.places[0])
    asked: Relearn = exchange.message()
    found = await exchange.service.aside(
        lambda: space.relearn(since=asked.since, before=asked.before)
    )
    return Reply(200, _version(found))


async def version_file(exchange: Exchange) -> Reply:
    """Return a version's policy as a file that :meth:`cobandits.Shared.load` reads."""
    name, version = exchange.places
    space = exchange.service.space(name)

    def saved() -> bytes:
        buffer = io.BytesIO()
        space.policy(version).save(buffer)
        return buffer.getvalue()

    return Reply(200, await exchange.service.aside(saved), FILE)


def _version(version: Version) -> VersionReply:
    return VersionReply(
        name=version.name, kind=version.kind, at=version.at.astimezone(UTC), of=version.of
    )
