"""Answers that are made while the disk is waited for are those that are given when it is there."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from unittest.mock import patch

import pytest

from cobandits.engine import (
    Answer,
    Decide,
    Decision,
    Engine,
    Request,
    Reward,
    Space,
    StoreError,
)
from cobandits.engine.disk import Disk
from cobandits.engine.jobs import Draft, Result
from cobandits.engine.stores import Batch, SQLiteStore
from cobandits.service.bridge import Bridge, One
from cobandits.service.calls import Reply

ARMS = [{"id": "a", "features": [1.0, 2.0]}, {"id": "b", "features": [0.0, 2.5]}]


@pytest.mark.parametrize("early", [False, True])
def test_drafts_are_the_answers(tmp_path: Path, early: bool) -> None:
    """Whether they are made before the answers or only after: each is made once."""
    drafts: list[Draft] = []
    found: list[list[Result]] = []
    with Engine.open(tmp_path / "a.db") as engine, patch.object(Disk, "is_slow", True):
        space = engine.space("s", dim=2)
        first = space.decide("t", arms=ARMS)
        asked: list[Request] = [
            Reward(decision="unknown", value=1.0),
            Decide(task="t", arms=ARMS),
            Reward(decision=first.id, value=1.0),
        ]

        def drafted(draft: Draft) -> None:
            drafts.append(draft)
            if early:
                draft()

        space.send(asked, found.append, drafted=drafted)
        engine.settle()
        assert "equal, bit for bit" in str(engine.verify())
    made = dict(drafts[0]())
    assert sorted(made) == [1, 2]  # and none of the one that was refused
    assert all(found[0][place] is answer for place, answer in made.items())


def test_a_draft_that_does_not_get_to_the_disk_is_not_the_answer(tmp_path: Path) -> None:
    drafts: list[Draft] = []
    found: list[list[Result]] = []
    with Engine.open(tmp_path / "a.db") as engine, patch.object(Disk, "is_slow", True):
        space = engine.space("s", dim=2)
        with patch.object(SQLiteStore, "append", side_effect=StoreError("full")):
            space.send([Decide(task="t", arms=ARMS)], found.append, drafted=drafts.append)
            engine.status()
        ((_, never),) = drafts[0]()
        assert isinstance(found[0][0], StoreError)
        again = space.decide("t", arms=ARMS)
        assert isinstance(never, Decision)
        assert never.number == again.number  # numbers have no gaps
        assert [event.number for event in space.events(kinds=("decision",))] == [again.number]


@pytest.mark.parametrize(("wait", "slow"), [(0.0, False), (0.0004, False), (0.0006, True)])
def test_a_disk_is_slow_where_a_thread_waits_long_for_it(wait: float, slow: bool) -> None:
    disk, clock = Disk(), [0.0, 0.0]
    with patch("cobandits.engine.disk.time") as times:
        times.perf_counter, times.thread_time = lambda: clock[0], lambda: clock[1]
        for count in range(40):
            assert disk.is_slow is (slow and count % 16 != 0)  # what is measured is measured alone
            with disk.transaction():
                clock[0] += 0.001 + (wait if count % 16 == 0 else 1.0)
                clock[1] += 0.001


@pytest.mark.parametrize("fails", [False, True])
def test_replies_are_made_while_the_disk_is_waited_for_and_sent_after_it(
    tmp_path: Path, fails: bool
) -> None:
    happened: list[str] = []
    made = threading.Event()

    def make(_: Answer) -> Reply:
        happened.append("made")
        made.set()
        return Reply(201)

    def append(self: SQLiteStore, batch: Batch) -> None:
        assert made.wait(60)  # the loop makes the reply meanwhile
        if fails:
            raise StoreError("nothing was kept")
        written(self, batch)
        happened.append("written")

    async def ask(space: Space) -> None:
        end = asyncio.get_running_loop().create_future()
        decide = Decide(task="t", arms=[{"id": "a", "features": [1.0]}])
        one = One(make, lambda *_: end.set_result("sent"), lambda _: end.set_result("refused"))
        Bridge(10).ask_one(space, decide, one)
        happened.append(await end)

    written = SQLiteStore.append
    with Engine.open(tmp_path / "a.db") as engine, patch.object(Disk, "is_slow", True):
        space = engine.space("s", dim=1)
        with patch.object(SQLiteStore, "append", append):
            asyncio.run(ask(space))
    assert happened == (["made", "refused"] if fails else ["made", "written", "sent"])
