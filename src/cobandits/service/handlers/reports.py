"""How a space does: its report, what versions would earn, and decisions from elsewhere."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import msgspec

from cobandits.engine.exchange import Past
from cobandits.service.calls import Exchange, Reply
from cobandits.service.jobs import Evaluation
from cobandits.wire import (
    AskEvaluation,
    Estimate,
    EvaluationReplies,
    EvaluationReply,
    ImportReply,
    PastBatch,
    ReportReply,
)

__all__ = [
    "PARQUET",
    "ask_evaluation",
    "export_log",
    "import_log",
    "list_evaluations",
    "read_evaluation",
    "report",
]

PARQUET = "application/vnd.apache.parquet"


async def report(exchange: Exchange) -> Reply:
    """Return how a space does."""
    space = exchange.service.space(exchange.places[0])
    found = await exchange.service.aside(space.report)
    return Reply(200, msgspec.convert(asdict(found), ReportReply))


async def ask_evaluation(exchange: Exchange) -> Reply:
    """Begin to evaluate a version."""
    space = exchange.service.space(exchange.places[0])
    asked: AskEvaluation = exchange.message()
    return Reply(202, _reply(exchange.service.evaluations.ask(space, asked.version)))


async def list_evaluations(exchange: Exchange) -> Reply:
    """Return the evaluations of a space."""
    space = exchange.service.space(exchange.places[0])
    found = exchange.service.evaluations.of(space.name)
    return Reply(200, EvaluationReplies([_reply(one) for one in found]))


async def read_evaluation(exchange: Exchange) -> Reply:
    """Return one evaluation."""
    name, evaluation = exchange.places
    space = exchange.service.space(name)
    return Reply(200, _reply(exchange.service.evaluations.find(space.name, evaluation)))


def _reply(found: Evaluation) -> EvaluationReply:
    values = [
        Estimate(
            method=one.method,
            value=one.value,
            low=one.low,
            high=one.high,
            n=one.n,
            effective_n=one.effective_n,
            cautions=list(one.cautions),
        )
        for one in found.values
    ]
    return EvaluationReply(
        id=found.id,
        version=found.version,
        state=found.state,
        progress=found.progress,
        asked=found.asked,
        decisions=found.decisions,
        values=values,
        error=found.error,
    )


async def import_log(exchange: Exchange) -> Reply:
    """Learn from decisions that were made elsewhere: all of them, or none."""
    space = exchange.service.space(exchange.places[0])
    asked: PastBatch = exchange.message()
    exchange.count(len(asked.decisions) - 1)
    past = [
        Past(
            task=one.task,
            arms=one.arms,
            chosen=one.chosen,
            reward=one.reward,
            context=one.context,
            probability=one.probability,
        )
        for one in asked.decisions
    ]
    return Reply(200, ImportReply(await exchange.service.aside(lambda: space.import_past(past))))


async def export_log(exchange: Exchange) -> Reply:
    """Return the decisions that have rewards as Parquet, a row per arm."""
    space = exchange.service.space(exchange.places[0])

    def exported() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            space.export(path)
            return path.read_bytes()

    return Reply(200, await exchange.service.aside(exported), PARQUET)
