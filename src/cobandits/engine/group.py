"""Group commit: the requests of many callers become events, one transaction and their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

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
from cobandits.engine.jobs import Ticket, another
from cobandits.engine.memory import Known
from cobandits.engine.messages import Activate, Activated, Answer, Decision, Reward, Rewarded, when
from cobandits.engine.outcomes import reward_body
from cobandits.engine.rules import judge_activation, judge_reward
from cobandits.engine.stores import Batch
from cobandits.errors import DataError

__all__ = ["Group"]

Doubles = NDArray[np.float64]

_TEXTS = (str, bytes)


class _Staged(Struct, frozen=True):
    """What is to be written for a request; a decision has its body when it is made."""

    ticket: Ticket
    fold: SpaceFold
    kind: Kind
    until: int | None
    ref: int | None = None
    value: float | None = None
    body: str | None = None
    key: str | None = None
    answer: Callable[[Event], Answer] | None = None  # of rewards and activations


class _Written(Struct, frozen=True):
    event: Event
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

    def run(self, tickets: Iterable[Ticket]) -> list[Ticket]:
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

    def _stage(self, ticket: Ticket) -> bool:
        """Answer a request or make its event; tell whether it is neither's turn yet."""
        fold = self._core.check_there(ticket.job.space)
        asked = ticket.request
        if isinstance(asked, Prepared):
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

    def _stage_decision(self, ticket: Ticket, fold: SpaceFold, asked: Prepared) -> bool:
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

    def _stage_reward(self, ticket: Ticket, fold: SpaceFold, asked: Reward, known: Known) -> None:
        value = _number(asked.value)
        fold.settings.check_reward(value)
        key = None if asked.key is None else check_name(asked.key, "key")
        taken = None if asked.taken is None else fold.memory.place(known.number, asked.taken)
        found = judge_reward(fold.settings, known, value, key, taken, self._at)

        def answer(number: int, at: int) -> Rewarded:
            return Rewarded(
                status=found.status,
                decision=asked.decision,
                value=found.value,
                number=number,
                at=when(at),
            )

        if found.first is not None:
            ticket.answer(answer(found.first.number, found.first.at))
            return
        body = None if key is None and taken is None else reward_body(key, taken)
        rest = (known.number, value, body, None, lambda event: answer(event.number, event.at))
        self._staged.append(_Staged(ticket, fold, "reward", known.until, *rest))

    def _stage_activation(
        self, ticket: Ticket, fold: SpaceFold, asked: Activate, known: Known
    ) -> None:
        status, wait = judge_activation(known, self._at), fold.settings.wait
        accepted = status == "accepted"
        until = known.until if not accepted else None if wait is None else self._at + wait
        expires = None if until is None else when(until)
        answer = Activated(status=status, decision=asked.decision, expires=expires)
        if not accepted:
            ticket.answer(answer)
            return
        staged = _Staged(ticket, fold, "activate", until, ref=known.number, answer=lambda _: answer)
        self._staged.append(staged)

    # ---- From events to the log

    def _write(self) -> None:
        written = self._numbered()
        keys = [
            (one.event.space, staged.key, one.event.number)
            for staged, one in zip(self._staged, written, strict=True)
            if staged.key is not None
        ]

        def apply() -> None:
            folds = self._core.folds
            for one in written:
                folds[one.event.space].apply(one.event, x=one.x)

        try:
            self._core.commit(Batch(events=[one.event for one in written], keys=keys), apply)
        except Exception as error:
            for staged in self._staged:
                staged.ticket.answer(another(error))
            return
        for staged, one in zip(self._staged, written, strict=True):
            staged.ticket.answer(self._answer(staged, one))

    def _numbered(self) -> list[_Written]:
        """Give numbers to all events, and decide; drop requests that the policy refuses."""
        while True:
            numbers = range(self._first, self._first + len(self._staged))
            choices: dict[int, Choice] = {}
            for fold in {id(one.fold): one.fold for one in self._staged}.values():
                mine = [
                    (number, one.ticket)
                    for number, one in zip(numbers, self._staged, strict=True)
                    if one.fold is fold and isinstance(one.ticket.request, Prepared)
                ]
                if mine and not self._decide(fold, mine, choices):
                    break
            else:
                pairs = zip(numbers, self._staged, strict=True)
                return [self._one(staged, n, choices.get(n)) for n, staged in pairs]

    def _decide(
        self, fold: SpaceFold, mine: list[tuple[int, Ticket]], choices: dict[int, Choice]
    ) -> bool:
        """Decide for one space; where that fails, answer its requests so and drop them."""
        asked = [_renewed(ticket.request, fold) for _, ticket in mine]
        numbers = [number for number, _ in mine]
        try:
            made = decide_batch(fold.learner, fold.settings, fold.seed, asked, numbers)
        except Exception as error:
            failed = {id(ticket) for _, ticket in mine}
            for _, ticket in mine:
                ticket.answer(error)
            self._staged = [one for one in self._staged if id(one.ticket) not in failed]
            return False
        choices.update(zip(numbers, made, strict=True))
        return True

    def _one(self, staged: _Staged, number: int, choice: Choice | None) -> _Written:
        fold, kind, until = staged.fold, staged.kind, staged.until
        if choice is None:
            rest = staged.ref, until, staged.value, None, staged.body
            return _Written(Event(number, self._at, fold.number, kind, *rest))
        asked = staged.ticket.request
        assert isinstance(asked, Prepared)
        body = decision_body(asked.text, choice)
        event = Event(number, self._at, fold.number, kind, None, until, None, asked.task, body)
        if asked.schema is not fold.settings.schema:  # changed since: it is read from the event
            return _Written(event, None, choice)
        return _Written(event, asked.phi[choice.arm].copy(), choice)  # of one arm, not of all

    def _answer(self, staged: _Staged, written: _Written) -> Answer:
        event, choice = written.event, written.choice
        if choice is None:
            assert staged.answer is not None
            return staged.answer(event)
        asked = staged.ticket.request
        assert isinstance(asked, Prepared)
        made = asked.id or made_id(event.number, self._core.secret)
        return decision_answer(event, made, choice=choice, ids=asked.ids)


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
