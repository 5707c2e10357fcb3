"""What comes between two steps of a request: nobody waits for ever or is answered twice."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from cobandits.engine import (
    ClosedError,
    Decision,
    Engine,
    Reward,
    Schema,
    Space,
    StoreError,
    inbox,
)
from cobandits.engine.encoding import Prepared
from cobandits.engine.jobs import Call, Command, Job
from cobandits.engine.stores import Batch
from cobandits.errors import ConfigurationError, DataError
from cobandits.schema import Vector

ARMS = [{"id": "a", "features": [1.0, 2.0]}, {"id": "b", "features": [0.0, 2.5]}]
BODY = b'{"task":"t","arms":[{"id":"a","features":[1,2]},{"id":"b","features":[0,2.5]}]}'
LONGER = b'{"task":"t","arms":[{"id":"a","features":[1,2,3]}]}'


def read(space: Space, body: bytes) -> list[Prepared]:
    found = space.read(body)
    assert found is not None
    return found


def test_a_request_that_a_new_schema_does_not_take_is_refused_alone(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space, other = engine.space("a", dim=2), engine.space("b", dim=2)
        before = read(space, BODY)
        space.relearn(schema=Schema(arm={"features": Vector(size=3, missing="error")}))
        held, go = threading.Event(), threading.Event()

        def wait() -> None:
            held.set()
            go.wait(60)

        with ThreadPoolExecutor(1) as pool:  # so that all three are of one group
            waiting = pool.submit(space._writer.call, wait)
            held.wait(60)
            asked = [space.submit(before), space.submit(read(space, LONGER))]
            asked.append(other.submit(read(other, BODY)))
            go.set()
            waiting.result(60)
        refused, *fine = [one.result(60)[0] for one in asked]
        assert isinstance(refused, DataError)
        assert all(isinstance(one, Decision) for one in fine)


def test_callers_who_come_while_it_closes_are_told_so_once(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "a.db")
    space = engine.space("a", dim=2)
    ready, closed = threading.Barrier(9), threading.Event()

    def held(_: inbox.Inbox) -> None:
        ready.wait(60)
        closed.wait(60)

    with patch.object(inbox.Inbox, "check_room", held), ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(space.decide, "t", arms=ARMS) for _ in range(8)]
        ready.wait(60)
        engine.close()
        closed.set()
        for one in asked:
            with pytest.raises(ClosedError):
                one.result(60)


def test_closing_with_a_deletion_in_doubt(tmp_path: Path) -> None:
    engine = Engine.open(tmp_path / "a.db")
    spaces = [engine.space(name, dim=2) for name in ("a", "b", "c")]
    for space in spaces:
        space.reward(space.decide("t", arms=ARMS).id, 1.0)
    store = spaces[0]._core.store
    append = store.append

    def written_but_not_said(batch: Batch) -> None:
        append(batch)
        raise StoreError("the answer was lost")

    away = patch.object(type(store), "reconnect", side_effect=StoreError("away"))
    with patch.object(store, "append", written_but_not_said), away, pytest.raises(StoreError):
        engine.delete("b")
    engine.close()
    with Engine.open(tmp_path / "a.db") as again:
        assert "equal, bit for bit" in str(again.verify())


@pytest.mark.parametrize("seed", [-1, 2**128])
def test_a_seed_that_random_numbers_do_not_take_is_refused(tmp_path: Path, seed: int) -> None:
    with Engine.open(tmp_path / "a.db") as engine, pytest.raises(ConfigurationError, match="seed"):
        engine.space("a", dim=2, seed=seed)


def job() -> Call | Job:
    """Return a request, of a thread that waits for it or of another caller."""
    asked, thread = Reward(decision="a", value=1.0), next(_threads)
    return Call(1, asked) if thread else Job(1, [asked])


_threads = itertools.cycle([True, False])


class Bell:
    """In place of a lock: while it is waited for, requests come until it rings, or no more do."""

    def __init__(self, box: inbox.Inbox, *waits: int) -> None:
        self.box, self.waits, self.rung = box, iter(waits), False

    def acquire(self, timeout: float) -> bool:
        assert timeout > 0
        for _ in range(next(self.waits)):
            if not self.rung:
                self.box.put(job())
        rung, self.rung = self.rung, False
        return rung

    def release(self) -> None:
        assert not self.rung
        self.rung = True


@pytest.mark.parametrize(
    ("answered", "others", "waits", "found"),
    [
        (8, 0, (9, 12), 8),  # all who were answered have come back
        (8, 5, (12,), 13),  # those who are late are waited for
        (60, 7, (70,), 64),  # a transaction is large enough
        (8, 5, (3,), 8),  # it has taken long enough
        (7, 0, (9,), 1),  # they were few: perhaps nobody comes
        (7, 2, (), 2),
    ],
)
def test_callers_who_were_many_are_waited_for(
    answered: int, others: int, waits: tuple[int, ...], found: int
) -> None:
    box = inbox.Inbox()
    for _ in range(answered):
        box.put(job())
    assert len(box.collected(0.0)[0]) == answered
    for _ in range(others):
        box.put(job())
    with patch.object(box, "_bell", Bell(box, *waits)):
        assert len(box.collected(60.0, gather=1.0)[0]) == found


def test_a_command_is_not_kept_waiting_for_callers() -> None:
    box = inbox.Inbox()
    for _ in range(8):
        box.put(job())
    box.collected(0.0)
    box.put(job())
    threading.Timer(0.05, box.put, [Command(lambda: None)]).start()
    with patch.object(inbox, "_LONGEST", 60.0):
        tickets, commands = box.collected(60.0, gather=60.0)
    assert (len(tickets), len(commands)) == (1, 1)


def test_nobody_is_waited_for_while_there_is_other_work() -> None:
    box = inbox.Inbox()
    for count in (20, 2):
        for _ in range(count):
            box.put(Call(1, Reward(decision="a", value=1.0)))
        with patch.object(box, "_bell", Bell(box)):  # which would fail
            assert len(box.collected(0.0, gather=1.0)[0]) == count
