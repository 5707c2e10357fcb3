"""Azure Personalizer's calls, so that its clients move over by a new address and key.

An action is an arm, an event a decision, and `deferActivation` holds it. Features in bags and
namespaces are found by their names, with or without the namespaces: `[{"user": {"age": 30}}]` fits
a field `user.age` or `age` of the space's schema; others are left out. The task is the context's
feature `task`, or "default".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast

from cobandits.engine import Activate, Answer, Decide, Decision, Request, Reward, Space
from cobandits.service.calls import Exchange, Reply
from cobandits.wire.personalizer import RankAction, RankReply, RankRequest, RewardEvent

__all__ = ["SPACE", "activate_event", "rank", "reward_event"]

SPACE = "personalizer"  # that answers where the address names none


async def rank(exchange: Exchange) -> Reply:
    """Decide which action to show."""
    space = _space(exchange, 0)
    asked: RankRequest = exchange.message()
    schema = space.settings.schema
    context = _fields(asked.context_features or [], {"task", *schema.context})
    task = context.pop("task", "default")
    request = Decide(
        task=str(task)[:100] or "default",
        arms=[{**_fields(one.features, schema.arm.keys()), "id": one.id} for one in asked.actions],
        context=context if schema.context else None,
        exclude=asked.excluded_actions or (),
        held=bool(asked.defer_activation),
        id=asked.event_id,
    )
    made = cast(Decision, await _asked(exchange, space, request))
    exchange.service.metrics.decided(space.name)
    return Reply(201, _reply(made))


def _reply(made: Decision) -> RankReply:
    """Return the action to show first, and all with their probabilities."""
    known = {one.arm: one.probability or 0.0 for one in made.ranking}
    order = sorted(known, key=lambda arm: (arm != made.arm, -known[arm]))
    return RankReply(
        ranking=[RankAction(id=arm, probability=known[arm]) for arm in order],
        event_id=made.id,
        reward_action_id=made.arm,
    )


async def reward_event(exchange: Exchange) -> Reply:
    """Take the reward of an event."""
    space = _space(exchange, 1)
    asked: RewardEvent = exchange.message()
    await _asked(exchange, space, Reward(decision=exchange.places[-1], value=asked.value))
    return Reply(204)


async def activate_event(exchange: Exchange) -> Reply:
    """Take that an event was shown."""
    await _asked(exchange, _space(exchange, 1), Activate(decision=exchange.places[-1]))
    return Reply(204)


def _space(exchange: Exchange, others: int) -> Space:
    named = len(exchange.places) > others
    return exchange.service.space(exchange.places[0] if named else SPACE)


async def _asked(exchange: Exchange, space: Space, request: Request) -> Answer:
    (answer,) = await exchange.service.ask(space, [request])
    if isinstance(answer, Exception):
        raise answer
    return answer


def _fields(bags: list[dict[str, Any]], known: Collection[str]) -> dict[str, Any]:
    """Return the features that a schema knows, by their names there."""
    found: dict[str, Any] = {}
    for bag in bags:
        for path, value in _flat(bag, ""):
            names = (path, path.rpartition(".")[2])
            found.update({name: value for name in names if name in known})
    return found


def _flat(bag: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, value in bag.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
