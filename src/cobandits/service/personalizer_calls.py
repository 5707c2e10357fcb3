"""Personalizer's calls: at its own addresses, and below each space."""

from __future__ import annotations

from cobandits.service.calls import Call, Example
from cobandits.service.handlers import personalizer
from cobandits.wire.personalizer import RankReply, RankRequest, RewardEvent

__all__ = ["personalizer_calls"]

HEADER = b"ocp-apim-subscription-key"
RANK = {
    "contextFeatures": [{"task": "berlin"}, {"time": {"hour": 14}}],
    "actions": [
        {"id": "tea", "features": [{"price": 3.5}, {"kind": "hot"}]},
        {"id": "cola", "features": [{"price": 2.5}, {"kind": "cold"}]},
    ],
    "excludedActions": [],
    "eventId": "75269AD0-BFEE-4598-8196-C57383D38E10",
    "deferActivation": False,
}
RANKED = {
    "ranking": [{"id": "tea", "probability": 0.98}, {"id": "cola", "probability": 0.02}],
    "eventId": RANK["eventId"],
    "rewardActionId": "tea",
}
UNKNOWN = ("unknown-space", "unknown-decision", "conflict", "overloaded", "disk-full")


def personalizer_calls() -> list[Call]:
    """Return the calls; a client's endpoint is the service, or `/spaces/{space}` of it."""
    return [*_calls("", ""), *_calls("/spaces/{space}", "_in_space")]


def _calls(prefix: str, suffix: str) -> list[Call]:
    at = prefix + "/personalizer/v1.0"
    return [_rank(at, suffix), _reward(at, suffix), _activate(at, suffix)]


def _rank(at: str, suffix: str) -> Call:
    return Call(
        name="rank" + suffix,
        method="POST",
        path=at + "/rank",
        role="decide",
        does="Personalizer's Rank: which action to show.",
        handler=personalizer.rank,
        asks=RankRequest,
        answers={201: RankReply},
        problems=("unknown-space", "conflict", "overloaded", "disk-full"),
        header=HEADER,
        example=Example(asks=RANK, answers=RANKED),
    )


def _reward(at: str, suffix: str) -> Call:
    return Call(
        name="reward_event" + suffix,
        method="POST",
        path=at + "/events/{event}/reward",
        role="reward",
        does="Personalizer's Reward.",
        handler=personalizer.reward_event,
        asks=RewardEvent,
        answers={204: None},
        problems=(*UNKNOWN, "not-activated"),
        header=HEADER,
        example=Example(asks={"value": 1.0}),
    )


def _activate(at: str, suffix: str) -> Call:
    return Call(
        name="activate_event" + suffix,
        method="POST",
        path=at + "/events/{event}/activate",
        role="decide",
        does="Personalizer's Activate.",
        handler=personalizer.activate_event,
        answers={204: None},
        problems=UNKNOWN,
        header=HEADER,
    )
