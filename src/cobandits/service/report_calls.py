"""The calls that say how a space does, and the one that takes decisions from elsewhere."""

from __future__ import annotations

from cobandits.service.calls import Call, Example
from cobandits.service.examples import ASKED, EVALUATION, REPORT
from cobandits.service.handlers import reports
from cobandits.wire import (
    AskEvaluation,
    EvaluationReplies,
    EvaluationReply,
    ImportReply,
    PastBatch,
    ReportReply,
)

__all__ = ["report_calls"]

IN = "/v1/spaces/{space}"


def report_calls() -> list[Call]:
    """Return the calls."""
    return [*_REPORTS, *_EVALUATIONS]


_REPORTS = [
    Call(
        name="report",
        method="GET",
        path=IN + "/report",
        role="read",
        does="What was earned, day by day, against what else could have been done.",
        handler=reports.report,
        answers={200: ReportReply},
        problems=("unknown-space",),
        example=Example(answers=REPORT),
    ),
    Call(
        name="export_log",
        method="GET",
        path=IN + "/log.parquet",
        role="read",
        does="Decisions with rewards as Parquet, for `cobandits evaluate` and others.",
        handler=reports.export_log,
        answers={200: None},
        problems=("unknown-space", "invalid-request"),
        media=reports.PARQUET,
    ),
    Call(
        name="import_log",
        method="POST",
        path=IN + "/log:import",
        role="admin",
        does="Start warm: learn from decisions that were made elsewhere, all or none.",
        handler=reports.import_log,
        asks=PastBatch,
        answers={200: ImportReply},
        problems=("unknown-space", "disk-full"),
        loud=True,
        example=Example(
            asks={"decisions": [{**ASKED, "chosen": "tea", "reward": 1.0}]},
            answers={"imported": 1},
        ),
    ),
]


_EVALUATIONS = [
    Call(
        name="ask_evaluation",
        method="POST",
        path=IN + "/evaluations",
        role="read",
        does="Begin to estimate what a version would earn, from the log.",
        handler=reports.ask_evaluation,
        asks=AskEvaluation,
        answers={202: EvaluationReply},
        problems=("unknown-space", "overloaded"),
        example=Example(asks={"version": "present"}, answers=EVALUATION),
    ),
    Call(
        name="list_evaluations",
        method="GET",
        path=IN + "/evaluations",
        role="read",
        does="List the evaluations since the service started.",
        handler=reports.list_evaluations,
        answers={200: EvaluationReplies},
        problems=("unknown-space",),
        example=Example(answers={"evaluations": [EVALUATION]}),
    ),
    Call(
        name="read_evaluation",
        method="GET",
        path=IN + "/evaluations/{evaluation}",
        role="read",
        does="Read an evaluation: its state, or what it found.",
        handler=reports.read_evaluation,
        answers={200: EvaluationReply},
        problems=("unknown-space", "unknown-evaluation"),
        example=Example(answers=EVALUATION),
    ),
]
