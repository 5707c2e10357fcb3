"""The calls that read the log, tasks and versions, and the one that returns to a version."""

from __future__ import annotations

from cobandits.service.calls import Call, Example
from cobandits.service.examples import (
    DECISION_PAGE,
    DECISION_RECORD,
    SHARING,
    TASK,
    VERSION,
    VERSIONS,
)
from cobandits.service.handlers import history
from cobandits.wire import (
    DecisionPage,
    DecisionQuery,
    DecisionRecord,
    LogQuery,
    OneDecision,
    Relearn,
    SharingReply,
    TaskReply,
    VersionReplies,
    VersionReply,
)

__all__ = ["reading_calls"]

IN = "/v1/spaces/{space}"


_RELEARN = Call(
    name="relearn",
    method="POST",
    path=IN + "/relearn",
    role="admin",
    does="Learn the log anew without the rewards of a time that was wrong; becomes a version.",
    handler=history.relearn,
    asks=Relearn,
    answers={200: VersionReply},
    problems=("unknown-space", "disk-full"),
    loud=True,
    example=Example(
        asks={"since": "2026-11-17T14:00:00Z", "before": "2026-11-17T15:00:00Z"}, answers=VERSION
    ),
)


def reading_calls() -> list[Call]:
    """Return the calls."""
    return [*_log(), *_tasks(), *_versions()]


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


def _versions() -> list[Call]:
    return [
        Call(
            name="list_versions",
            method="GET",
            path=IN + "/versions",
            role="read",
            does="List the versions: the states that can be returned to.",
            handler=history.list_versions,
            answers={200: VersionReplies},
            problems=("unknown-space",),
            example=Example(answers=VERSIONS),
        ),
        Call(
            name="restore_version",
            method="POST",
            path=IN + "/versions/{version}/restore",
            role="admin",
            does="Return to the state that a version began with; later rewards stay in the log.",
            handler=history.restore_version,
            answers={200: VersionReply},
            problems=("unknown-space", "unknown-version", "disk-full"),
            loud=True,
            example=Example(answers=VERSION),
        ),
        _RELEARN,
        Call(
            name="version_file",
            method="GET",
            path=IN + "/versions/{version}/file",
            role="read",
            does="A version's policy as a file, for cobandits.Shared.load.",
            handler=history.version_file,
            answers={200: None},
            problems=("unknown-space", "unknown-version"),
            media=history.FILE,
        ),
    ]
