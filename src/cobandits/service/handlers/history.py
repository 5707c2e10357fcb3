"""Reading the log and tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import islice

from cobandits.engine import Event, Space
from cobandits.engine.history import Record
from cobandits.engine.messages import when
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
    RewardRecord,
    SharingReply,
    TaskPoint,
    TaskReply,
)

__all__ = [
    "explain_task",
    "list_decisions",
    "read_decision",
    "sharing",
    "sharing_of",
    "stream_log",
]

_LOOKED_AT = 10_000  # decisions for one page: with a rare arm it may be short, and `next` goes on
_LINES = 1000  # of the log that are read and sent at once
LINES = "application/jsonl"


async def list_decisions(exchange: Exchange) -> Reply:
    """Return a page of decisions."""
    space = exchange.service.space(exchange.places[0])
    asked: DecisionQuery = exchange.parameters()

    def read() -> tuple[list[Record], int | None]:
        records = space.decisions(
            after=asked.after,
            limit=_LOOKED_AT,
            task=asked.task,
            since=asked.since,
            before=asked.before,
        )
        found: list[Record] = []
        for count, one in enumerate(records, 1):
            found += [one] if _wanted(one, asked) else []
            if len(found) == asked.limit or count == _LOOKED_AT:
                return found, one.decision.number
        return found, None

    found, after = await exchange.service.aside(read)
    return Reply(200, DecisionPage(decisions=[_record(one) for one in found], next=after))


def _wanted(one: Record, asked: DecisionQuery) -> bool:
    return (
        asked.arm in (None, one.decision.arm)
        and asked.by in (None, one.decision.by)
        and asked.rewarded in (None, bool(one.rewards))
    )


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
