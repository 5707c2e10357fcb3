"""The messages of Azure Personalizer's API, version 1.0, as its clients send and read them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from cobandits.wire.asked import Anything, Name, Value
from cobandits.wire.limits import ARMS

__all__ = ["RankAction", "RankReply", "RankRequest", "RankableAction", "RewardEvent"]

Bags = list[Anything]


class RankableAction(Struct, frozen=True, kw_only=True):
    """An action: an arm with its features."""

    id: Name
    features: Bags


class RankRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    """Ask which action to show."""

    actions: Annotated[list[RankableAction], Meta(min_length=1, max_length=ARMS)]
    context_features: Bags | None = None
    excluded_actions: list[Name] | None = None
    event_id: Name | None = None
    defer_activation: bool | None = None


class RankAction(Struct, frozen=True, kw_only=True):
    """An action, and the probability with which it is chosen."""

    id: str
    probability: float


class RankReply(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which action to show."""

    ranking: list[RankAction]
    event_id: str
    reward_action_id: str


class RewardEvent(Struct, frozen=True, kw_only=True):
    """What an event has earned."""

    value: Value
