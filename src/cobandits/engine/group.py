"""Group commit: the requests of many callers become events, one transaction and their answers."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import LARGEST_VALUE
from cobandits.engine.answers import decision_answer, same_request
from cobandits.engine.codec import Struct
from cobandits.engine.core import Core, decision_key
from cobandits.engine.deciding import decide_batch
from cobandits.engine.encoding import Prepared, check_name, features
from cobandits.engine.errors import ConflictError, UnknownDecisionError
from cobandits.engine.events import Choice, Event, Kind, decision_body, request_of
from cobandits.engine.fold import SpaceFold
from cobandits.engine.ids import made_id
from cobandits.engine.jobs import Asked, Result, another, answer_each
from cobandits.engine.memory import Known
from cobandits.engine.messages import Activate, Activated, Answer, Decision, Reward, Rewarded, when
from cobandits.engine.outcomes import reward_body
from cobandits.engine.rules import Verdict, judge_activation, judge_reward
from cobandits.engine.stores import Batch
from cobandits.errors import DataError

__all__ = ["Group"]

Doubles = NDArray[np.float64]

_TEXTS = (str, bytes)


class _Staged(Struct, gc=False, eq=False):
    """What is to be written for a request; a decision is made when all are staged."""

    ticket: Asked
    fold: SpaceFold
    kind: Kind
    until: int | None
    ref: int | None = None
    value: float | None = None
    body: str | None = None
    key: str | None = None
    verdict: Verdict | None = None  # of a reward
    activated: Activated | None = None
    x: Doubles | None = None  # of the arm that was decided
    choice: Choice | None = None  # of a decision


class Group:
    """Takes requests in order, writes what they lead to at once, and answers all of them.

    A request that depends on another one of the same group is left for the next group.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._first = core.next_number()
        self._at = core.now()
        self._staged: list[_Staged] = []
        self._touched: set[tuple[int, object]] = set()

    def run(self, tickets: Iterable[Asked]) -> list[Asked]:
        """Answer the requests; return those that are left for the next group."""
        left = []
        for ticket in tickets:
            try:
                if not self._stage(ticket):
                    left.append(ticket)
            except Exception as error:  # of this request alone
                ticket.answer(error)
        if self._staged:
            self._write()
        return left

    # ---- From a request to an event

    def _stage(self, ticket: Asked) -> bool:
        """Answer a request or make its event; tell whether it is neither's turn yet."""
        fold = self._core.check_there(ticket.space)
        asked = ticket.request
        if isinstance(asked, Prepared):
            _renewed(asked, fold)  # where a new schema does not take it, it alone is refused
            return self._stage_decision(ticket, fold, asked)
        number = self._core.number_of(fold.number, asked.decision)
        what = fold.number, number if number is not None else decision_key(asked.decision)
        if what in self._touched:
            return False
        known = None if number is None else fold.memory.find(number)
        if known is None:
            raise UnknownDecisionError(
                f"there is no decision {asked.decision!r:.60} in {fold.name!r}; it may not have "
                "been answered yet: nothing was kept, so send it again"
            )
        if isinstance(asked, Reward):
            self._stage_reward(ticket, fold, asked, known)
        else:
            self._stage_activation(ticket, fold, asked, known)
        if self._staged and self._staged[-1].ticket is ticket:
            self._touched.add(what)  # what is answered at once holds nobody up
        return True

    def _stage_decision(self, ticket: Asked, fold: SpaceFold, asked: Prepared) -> bool:
        key = None
        if asked.id is not None:
            key = decision_key(asked.id)
            if (fold.number, key) in self._touched:
                return False
            number = self._core.store.find_key(fold.number, key)
            if number is not None:
                ticket.answer(self._again(number, asked))
                return True
            self._touched.add((fold.number, key))
        wait = fold.settings.wait
        until = None if wait is None else self._at + wait
        kind: Kind = "held" if asked.held else "decision"
        self._staged.append(_Staged(ticket, fold, kind, until, None, None, None, key))
        return True

    def _again(self, number: int, asked: Prepared) -> Decision:
        event = self._core.store.event(number)
        assert event is not None
        if not same_request(event, asked.text):
            raise ConflictError(
                f"the decision {asked.id!r:.60} was asked for with another content; the first "
                "stands: use another id"
            )
        return decision_answer(event, asked.id or "", repeated=True)

    def _stage_reward(self, ticket: Asked, fold: SpaceFold, asked: Reward, known: Known) -> None:
        value = _number(asked.value)
        fold.settings.check_reward(value)
        key = None if asked.key is None else check_name(asked.key, "key")
        taken = None if asked.taken is None else fold.memory.place(known.number, asked.taken)
        found = judge_reward(fold.settings, known, value, key, taken, self._at)
        if found.first is not None:
            ticket.answer(_rewarded(asked, found, found.first.number, found.first.at))
            return
        body = None if key is None and taken is None else reward_body(key, taken)
        rest = known.number, value, body, None, found
        self._staged.append(_Staged(ticket, fold, "reward", known.until, *rest))

    def _stage_activation(
        self, ticket: Asked, fold: SpaceFold, asked: Activate, known: Known
    ) -> None:
        status, wait = judge_activation(known, self._at), fold.settings.wait
        accepted = status == "accepted"
        until = known.until if not accepted else None if wait is None else self._at + wait
        expires = None if until is None else when(until)
        answer = Activated(status=status, decision=asked.decision, expires=expires)
        if not accepted:
            ticket.answer(answer)
            return
        staged = _Staged(ticket, fold, "activate", until, ref=known.number, activated=answer)
        self._staged.append(staged)

    # ---- From events to the log

    def _write(self) -> None:
        events = self._numbered()
        staged, folds = self._staged, self._core.folds
        keys = [
            (event.space, one.key, event.number)
            for one, event in zip(staged, events, strict=True)
            if one.key is not None
        ]

        def apply() -> None:
            for one, event in zip(staged, events, strict=True):
                folds[event.space].apply(event, x=one.x)

        try:
            self._core.commit(Batch(events=events, keys=keys), apply)
        except Exception as error:
            for one in staged:
                one.ticket.answer(another(error))
            return
        answers: list[Result] = [
            self._answer(one, event) for one, event in zip(staged, events, strict=True)
        ]
        answer_each([one.ticket for one in staged], answers)

    def _numbered(self) -> list[Event]:
        """Give numbers to all events, and decide; drop requests that the policy refuses."""
        while True:
            numbers = range(self._first, self._first + len(self._staged))
            for fold in {id(one.fold): one.fold for one in self._staged}.values():
                mine = [
                    (number, one)
                    for number, one in zip(numbers, self._staged, strict=True)
                    if one.fold is fold and isinstance(one.ticket.request, Prepared)
                ]
                if mine and not self._decide(fold, mine):
                    break
            else:
                return [self._event(one, n) for n, one in zip(numbers, self._staged, strict=True)]

    def _decide(self, fold: SpaceFold, mine: list[tuple[int, _Staged]]) -> bool:
        """Decide for one space; where that fails, answer its requests so and drop them."""
        asked = [_renewed(one.ticket.request, fold) for _, one in mine]
        numbers = [number for number, _ in mine]
        try:
            made = decide_batch(fold.learner, fold.settings, fold.seed, asked, numbers)
        except Exception as error:
            failed = {id(one) for _, one in mine}
            for _, one in mine:
                one.ticket.answer(error)
            self._staged = [one for one in self._staged if id(one) not in failed]
            return False
        for (_, one), choice in zip(mine, made, strict=True):
            one.choice = choice
        return True

    def _event(self, staged: _Staged, number: int) -> Event:
        fold, kind, until, choice = staged.fold, staged.kind, staged.until, staged.choice
        if choice is None:
            rest = staged.ref, until, staged.value, None, staged.body
            return Event(number, self._at, fold.number, kind, *rest)
        asked = staged.ticket.request
        assert isinstance(asked, Prepared)
        if asked.schema is fold.settings.schema:  # else it is read from the event
            staged.x = asked.phi[choice.arm].copy()  # of one arm, not of all
        body = decision_body(asked.text, choice)
        return Event(number, self._at, fold.number, kind, None, until, None, asked.task, body)

    def _answer(self, staged: _Staged, event: Event) -> Answer:
        asked = staged.ticket.request
        if isinstance(asked, Prepared):
            made = asked.id or made_id(event.number, self._core.secret)
            return decision_answer(event, made, choice=staged.choice, ids=asked.ids)
        if isinstance(asked, Reward):
            assert staged.verdict is not None
            return _rewarded(asked, staged.verdict, event.number, event.at)
        assert staged.activated is not None
        return staged.activated


def _rewarded(asked: Reward, found: Verdict, number: int, at: int) -> Rewarded:
    """Return the answer to a reward that is the event of a number and time."""
    return Rewarded(
        status=found.status,
        decision=asked.decision,
        value=found.value,
        number=number,
        at=when(at),
    )


def _renewed(asked: object, fold: SpaceFold) -> Prepared:
    """Return a request encoded by the present schema, which may be newer than the request."""
    assert isinstance(asked, Prepared)
    if asked.schema is fold.settings.schema:
        return asked
    event = Event(0, 0, 0, "decision", body=f'{{"request":{asked.text}}}')
    return asked._replace(phi=features(request_of(event), fold.settings.schema))


def _number(value: object) -> float:
    """Return a reward; refuse what is none."""
    try:
        found = math.nan if isinstance(value, _TEXTS) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if not abs(found) <= LARGEST_VALUE:
        raise DataError(
            f"a reward must be a number of at most {LARGEST_VALUE:g} in size, got {value!r:.60}"
        )
    return found
