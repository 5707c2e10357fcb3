"""Deciding and rewarding: the calls that must be fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from cobandits.engine import (
    Activate,
    Activated,
    Answer,
    Decide,
    Decision,
    Prepared,
    Reward,
    Rewarded,
    Space,
)
from cobandits.service.bridge import Answers
from cobandits.service.calls import Answered, Exchange, Reply, waited
from cobandits.service.problems import ProblemError, problem_of
from cobandits.wire import (
    ActivationReply,
    DecideBatch,
    DecideOne,
    DecisionReply,
    DecisionResult,
    DecisionResults,
    Ranked,
    RewardBatch,
    RewardOne,
    RewardReply,
    RewardResult,
    RewardResults,
)
from cobandits.wire.limits import ARMS, BATCH, NAME

__all__ = [
    "activate",
    "decide",
    "decide_batch",
    "decide_batch_directly",
    "decide_directly",
    "decision_reply",
    "reward",
    "reward_batch",
    "reward_directly",
]


def decide_directly(exchange: Exchange, answered: Answered) -> None:
    """Decide once."""
    service = exchange.service
    space = service.space(exchange.places[0])
    header = exchange.headers.get(b"idempotency-key")
    plain = _plain(space, exchange.body) if header is None else None
    request = _request(exchange.message(), header) if plain is None else plain[0]

    def done(found: Answer | Exception) -> None:
        if isinstance(found, Exception):
            answered(found)
            return
        decision = cast(Decision, found)
        service.metrics.decided(space.name)
        answered(Reply(200 if decision.repeated else 201, decision_reply(decision)))

    service.ask_directly(space, request, done)


async def decide(exchange: Exchange) -> Reply:
    """Do the same in a task."""
    return await waited(decide_directly, exchange)


def decide_batch_directly(exchange: Exchange, answered: Answered) -> None:
    """Decide many times: each gets its decision or its problem."""
    service = exchange.service
    space = service.space(exchange.places[0])
    requests: Sequence[Decide | Prepared] | None = _plain(space, exchange.body, many=True)
    if requests is None:
        asked: DecideBatch = exchange.message()
        requests = [_request(one, None) for one in asked.decisions]
    exchange.count(len(requests) - 1)

    def done(found: Answers | Exception) -> None:
        if isinstance(found, Exception):
            answered(found)
            return
        results = [_decision_result(one) for one in found]
        service.metrics.decided(space.name, sum(one.decision is not None for one in results))
        answered(Reply(200, DecisionResults(results)))

    service.ask_many_directly(space, requests, done)


async def decide_batch(exchange: Exchange) -> Reply:
    """Do the same in a task."""
    return await waited(decide_batch_directly, exchange)


def _decision_result(found: Answer | Exception) -> DecisionResult:
    if isinstance(found, Exception):
        return DecisionResult(problem=problem_of(found).document())
    return DecisionResult(decision=decision_reply(cast(Decision, found)))


def reward_directly(exchange: Exchange, answered: Answered) -> None:
    """Take one reward."""
    service = exchange.service
    space = service.space(exchange.places[0])
    asked: RewardOne = exchange.message()
    request = Reward(
        decision=exchange.places[1], value=asked.value, key=asked.key, taken=asked.taken
    )

    def done(found: Answer | Exception) -> None:
        if isinstance(found, Exception):
            answered(found)
            return
        rewarded = cast(Rewarded, found)
        service.metrics.rewarded(space.name, rewarded.status)
        answered(Reply(202, _reward_reply(rewarded)))

    service.ask_directly(space, request, done)


async def reward(exchange: Exchange) -> Reply:
    """Do the same in a task."""
    return await waited(reward_directly, exchange)


async def reward_batch(exchange: Exchange) -> Reply:
    """Take many rewards: each gets its status or its problem."""
    space = exchange.service.space(exchange.places[0])
    asked: RewardBatch = exchange.message()
    exchange.count(len(asked.rewards) - 1)
    requests = [
        Reward(decision=one.decision, value=one.value, key=one.key, taken=one.taken)
        for one in asked.rewards
    ]
    results = []
    for one in await exchange.service.ask(space, requests):
        if isinstance(one, Exception):
            results.append(RewardResult(problem=problem_of(one).document()))
        else:
            rewarded = cast(Rewarded, one)
            exchange.service.metrics.rewarded(space.name, rewarded.status)
            results.append(RewardResult(reward=_reward_reply(rewarded)))
    return Reply(200, RewardResults(results))


async def activate(exchange: Exchange) -> Reply:
    """Take that a held decision was shown."""
    space = exchange.service.space(exchange.places[0])
    (answer,) = await exchange.service.ask(space, [Activate(decision=exchange.places[1])])
    found = cast(Activated, _raised(answer))
    return Reply(
        202, ActivationReply(status=found.status, decision=found.decision, expires=found.expires)
    )


def _plain(space: Space, body: bytes, *, many: bool = False) -> list[Prepared] | None:
    """Return requests that need no message; all that is not plain, or too large, has one."""
    found = space.read(body, many=many)
    if found is None or len(found) > BATCH:
        return None
    for one in found:
        if len(one.task) > NAME or len(one.ids) > ARMS:
            return None
    return found


def _request(asked: DecideOne, header: bytes | None) -> Decide:
    """Return the engine's request."""
    given = asked.id
    if header is not None:
        if not header.isascii() or not 0 < len(header) <= NAME or not header.decode().isprintable():
            raise ProblemError(
                "invalid-request", f"Idempotency-Key must have 1 to {NAME} plain characters"
            )
        if given is not None and given != header.decode():
            raise ProblemError("invalid-request", "Idempotency-Key and id differ; send one of them")
        given = header.decode()
    return Decide(
        task=asked.task,
        arms=asked.arms,
        context=asked.context,
        exclude=asked.exclude,
        baseline=asked.baseline,
        held=asked.held,
        id=given,
    )


def _raised(answer: Answer | Exception) -> Answer:
    if isinstance(answer, Exception):
        raise answer
    return answer


def decision_reply(decision: Decision) -> DecisionReply:
    """Return a decision as a message."""
    return DecisionReply(
        id=decision.id,
        task=decision.task,
        arm=decision.arm,
        probability=decision.probability,
        version=decision.version,
        ranking=_ranking(decision),
        explored=decision.explored,
        proposed=decision.proposed,
        by=decision.by,
        mode=decision.mode,
        held=decision.held,
        at=decision.at,
        expires=decision.expires,
        repeated=decision.repeated,
    )


def _ranking(decision: Decision) -> list[Ranked]:
    """Return :attr:`Decision.ranking` as messages, which are made once."""
    found = list(map(Ranked, decision.arms, decision.chances))
    if -1.0 in decision.chances:  # excluded
        found = [one for one in found if one.probability is None or one.probability >= 0]
    found.sort(key=_falling)
    return found


def _falling(one: Ranked) -> float:
    return 1.0 if one.probability is None else -one.probability


def _reward_reply(rewarded: Rewarded) -> RewardReply:
    return RewardReply(
        status=rewarded.status,
        decision=rewarded.decision,
        value=rewarded.value,
        at=rewarded.at,
    )
