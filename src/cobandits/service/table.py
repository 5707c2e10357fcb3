"""All calls of the API, with an example of each."""

from __future__ import annotations

from typing import Any

from cobandits.service.calls import Call, Example, Exchange, Reply, Table
from cobandits.service.examples import ASKED, DECIDED, KEY, REWARDED, SPACE, TEAS
from cobandits.service.handlers import decisions, operations, spaces
from cobandits.service.openapi import openapi
from cobandits.service.personalizer_calls import personalizer_calls
from cobandits.service.reading_calls import reading_calls
from cobandits.service.report_calls import report_calls
from cobandits.service.version_calls import version_calls
from cobandits.wire import (
    ActivationReply,
    ChangeSpace,
    CreateKey,
    CreateSpace,
    DecideBatch,
    DecideOne,
    DecisionReply,
    DecisionResults,
    DeletedReply,
    KeyReplies,
    KeyReply,
    Ready,
    RewardBatch,
    RewardOne,
    RewardReply,
    RewardResults,
    SpaceNames,
    SpaceReply,
)

__all__ = ["table"]

TEXT = "text/plain; charset=utf-8"
IN = "/v1/spaces/{space}"
ONE = IN + "/decisions/{decision}"

BUSY = ("overloaded", "disk-full")


_SPACES = [
    Call(
        name="create_space",
        method="POST",
        path="/v1/spaces",
        role="admin",
        does="Make a space: tasks that learn together.",
        handler=spaces.create_space,
        asks=CreateSpace,
        answers={201: SpaceReply, 200: SpaceReply},
        problems=("conflict", "disk-full"),
        loud=True,
        example=Example(asks=TEAS, answers=SPACE),
    ),
    Call(
        name="list_spaces",
        method="GET",
        path="/v1/spaces",
        role="read",
        does="List the spaces.",
        handler=spaces.list_spaces,
        answers={200: SpaceNames},
        example=Example(answers={"spaces": ["teas"]}),
    ),
    Call(
        name="read_space",
        method="GET",
        path=IN,
        role="read",
        does="Read a space and its settings.",
        handler=spaces.read_space,
        answers={200: SpaceReply},
        problems=("unknown-space",),
        example=Example(answers=SPACE),
    ),
    Call(
        name="change_space",
        method="PATCH",
        path=IN,
        role="admin",
        does="Change settings from now on; nothing that was learned is lost.",
        handler=spaces.change_space,
        asks=ChangeSpace,
        answers={200: SpaceReply},
        problems=("unknown-space", "disk-full"),
        loud=True,
        example=Example(asks={"floor": 0.05}, answers=SPACE),
    ),
    Call(
        name="delete_space",
        method="DELETE",
        path=IN,
        role="admin",
        does="Delete a space with all its events, for ever. Its name is free again.",
        handler=spaces.delete_space,
        answers={200: DeletedReply},
        problems=("unknown-space", "disk-full"),
        loud=True,
        example=Example(answers={"name": "teas", "events": 2614}),
    ),
]


_DECISIONS = [
    Call(
        name="decide",
        method="POST",
        path=IN + "/decisions",
        role="decide",
        does="Choose one of the arms. The decision is on disk before it is answered.",
        handler=decisions.decide,
        direct=decisions.decide_directly,
        asks=DecideOne,
        answers={201: DecisionReply, 200: DecisionReply},
        problems=("unknown-space", "conflict", *BUSY),
        idempotent=True,
        example=Example(asks=ASKED, answers=DECIDED),
    ),
    Call(
        name="decide_batch",
        method="POST",
        path=IN + "/decisions:batch",
        role="decide",
        does="Decide many times; each gets its decision or its problem.",
        handler=decisions.decide_batch,
        direct=decisions.decide_batch_directly,
        asks=DecideBatch,
        answers={200: DecisionResults},
        problems=("unknown-space", *BUSY),
        example=Example(asks={"decisions": [ASKED]}, answers={"results": [{"decision": DECIDED}]}),
    ),
    Call(
        name="activate",
        method="POST",
        path=ONE + "/activate",
        role="decide",
        does="Tell that a held decision was shown: its window begins.",
        handler=decisions.activate,
        answers={202: ActivationReply},
        problems=("unknown-space", "unknown-decision", "conflict", *BUSY),
        example=Example(
            answers={
                "status": "accepted",
                "decision": DECIDED["id"],
                "expires": DECIDED["expires"],
            }
        ),
    ),
]


_REWARDS = [
    Call(
        name="reward",
        method="POST",
        path=ONE + "/rewards",
        role="reward",
        does="Tell what a decision has earned. It is on disk before it is answered.",
        handler=decisions.reward,
        direct=decisions.reward_directly,
        asks=RewardOne,
        answers={202: RewardReply},
        problems=("unknown-space", "unknown-decision", "conflict", "not-activated", *BUSY),
        example=Example(asks={"value": 1.0}, answers=REWARDED),
    ),
    Call(
        name="reward_batch",
        method="POST",
        path=IN + "/rewards:batch",
        role="reward",
        does="Tell many rewards; each gets its status or its problem.",
        handler=decisions.reward_batch,
        asks=RewardBatch,
        answers={200: RewardResults},
        problems=("unknown-space", *BUSY),
        example=Example(
            asks={"rewards": [{"decision": DECIDED["id"], "value": 1.0}]},
            answers={"results": [{"reward": REWARDED}]},
        ),
    ),
]


_KEYS = [
    Call(
        name="list_keys",
        method="GET",
        path="/v1/keys",
        role="admin",
        does="List the API keys, without their secrets.",
        handler=operations.list_keys,
        answers={200: KeyReplies},
        example=Example(answers={"keys": [KEY]}),
    ),
    Call(
        name="add_key",
        method="POST",
        path="/v1/keys",
        role="admin",
        does="Make an API key; its token is shown only now.",
        handler=operations.add_key,
        asks=CreateKey,
        answers={201: KeyReply},
        loud=True,
        example=Example(
            asks={"roles": ["decide"], "note": "web"},
            answers={**KEY, "token": "cb_9f86d081_..."},
        ),
    ),
    Call(
        name="revoke_key",
        method="DELETE",
        path="/v1/keys/{key}",
        role="admin",
        does="Revoke an API key at once.",
        handler=operations.revoke_key,
        answers={200: KeyReply},
        problems=("unknown-key",),
        loud=True,
        example=Example(answers={**KEY, "revoked": "2026-11-18T09:00:00+00:00"}),
    ),
]


_OPERATIONS = [
    Call(
        name="alive",
        method="GET",
        path="/livez",
        role=None,
        does="Whether the process runs.",
        handler=operations.alive,
        answers={200: None},
        media=TEXT,
    ),
    Call(
        name="ready",
        method="GET",
        path="/readyz",
        role=None,
        does="Whether decisions can be answered.",
        handler=operations.ready,
        answers={200: Ready},
        example=Example(answers={"status": "ready", "spaces": 1, "free_bytes": 10**10}),
    ),
    Call(
        name="measures",
        method="GET",
        path="/metrics",
        role="read",
        does="Measures as Prometheus reads them.",
        handler=operations.measures,
        answers={200: None},
        media="text/plain; version=0.0.4; charset=utf-8",
    ),
    Call(
        name="problem_page",
        method="GET",
        path="/problems/{kind}",
        role=None,
        does="What a kind of problem means.",
        handler=operations.problem_page,
        answers={200: None},
        problems=("unknown-path",),
        media=TEXT,
    ),
]


def table() -> Table:
    """Return all calls; the last is the description of the others."""
    calls = [*_SPACES, *_DECISIONS, *_REWARDS, *reading_calls(), *version_calls()]
    calls += [*report_calls(), *personalizer_calls(), *_KEYS, *_OPERATIONS]
    document: dict[str, Any] = {}

    async def describe(_: Exchange) -> Reply:
        return Reply(200, document)

    calls.append(
        Call(
            name="describe",
            method="GET",
            path="/openapi.json",
            role=None,
            does="This document.",
            handler=describe,
            answers={200: dict[str, Any]},
        )
    )
    document.update(openapi(calls))
    return Table(calls)
