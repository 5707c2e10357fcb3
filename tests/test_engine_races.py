"""What comes between two steps of a request: nobody waits for ever or is answered twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
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
from cobandits.engine.jobs import Call, Job
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


def job() -> Job:
    return Job(1, [Reward(decision="a", value=1.0)])


@pytest.mark.parametrize(
    ("answered", "others", "waits", "found"),
    [
        (8, 0, [3, 4, 9], 8),  # all who were answered have come back
        (8, 5, [3, 0, 9], 17),  # one who is late is waited for
        (8, 5, [1, 1, 1, 1, 1, 1, 1, 1], 9),  # it has taken long enough
        (60, 7, [54, 3, 9], 64),  # a transaction is large enough
        (7, 0, [9], 1),  # they were few: perhaps nobody comes
    ],
)
def test_callers_who_were_many_are_waited_for(
    answered: int, others: int, waits: list[int], found: int
) -> None:
    box, coming = inbox.Inbox(), iter(waits)
    for _ in range(answered):
        box.put(job())
    assert len(box.collected(0.0)[0]) == answered
    if others:
        for _ in range(others):
            box.put(job())
    else:  # somebody comes while nothing waits
        threading.Timer(0.01, box.put, [job()]).start()
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        for _ in range(next(coming)):
            box.put(job())

    times = SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0])
    with patch("cobandits.engine.inbox.time", times):
        assert len(box.collected(60.0, gather=1.0)[0]) == found


@pytest.mark.parametrize(("patience", "threads"), [(0.0, False), (60.0, True)])
def test_nobody_is_waited_for_while_there_is_other_work_or_by_threads(
    patience: float, threads: bool
) -> None:
    box = inbox.Inbox()
    for count in (20, 2):
        for _ in range(count):
            box.put(Call(1, Reward(decision="a", value=1.0)) if threads else job())
        with patch("cobandits.engine.inbox.time", None):  # which would fail
            assert len(box.collected(patience, gather=1.0)[0]) == count
