"""The calls that read the log and tasks."""

from __future__ import annotations

from cobandits.service.calls import Call, Example
from cobandits.service.examples import (
    DECISION_PAGE,
    DECISION_RECORD,
    SHARING,
    TASK,
)
from cobandits.service.handlers import history
from cobandits.wire import (
    DecisionPage,
    DecisionQuery,
    DecisionRecord,
    LogQuery,
    OneDecision,
    SharingReply,
    TaskReply,
)

__all__ = ["reading_calls"]

IN = "/v1/spaces/{space}"


def reading_calls() -> list[Call]:
    """Return the calls."""
    return [*_log(), *_tasks()]


def _log() -> list[Call]:
    return [
        Call(
            name="list_decisions",
            method="GET",
            path=IN + "/decisions",
            role="read",
            does="List decisions with their rewards, page by page.",
            handler=history.list_decisions,
            query=DecisionQuery,
            answers={200: DecisionPage},
            problems=("unknown-space",),
            example=Example(answers=DECISION_PAGE),
        ),
        Call(
            name="read_decision",
            method="GET",
            path=IN + "/decisions/{decision}",
            role="read",
            does="Read a decision with what became of it; `recompute` makes it again.",
            handler=history.read_decision,
            query=OneDecision,
            answers={200: DecisionRecord},
            problems=("unknown-space", "unknown-decision"),
            example=Example(answers=DECISION_RECORD),
        ),
        Call(
            name="stream_log",
            method="GET",
            path=IN + "/log",
            role="read",
            does="All events of the space, a line of JSON each.",
            handler=history.stream_log,
            query=LogQuery,
            answers={200: None},
            problems=("unknown-space",),
            media=history.LINES,
        ),
    ]


def _tasks() -> list[Call]:
    return [
        Call(
            name="explain_task",
            method="GET",
            path=IN + "/tasks/{task}",
            role="read",
            does="What a task's predictions come from, and how certain they are.",
            handler=history.explain_task,
            answers={200: TaskReply},
            problems=("unknown-space", "unknown-task"),
            example=Example(answers=TASK),
        ),
        Call(
            name="sharing",
            method="GET",
            path=IN + "/sharing",
            role="read",
            does="How much tasks share: all of them on the map of the first two directions.",
            handler=history.sharing,
            answers={200: SharingReply},
            problems=("unknown-space",),
            example=Example(answers=SHARING),
        ),
    ]
