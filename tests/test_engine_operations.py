"""Freezing, versions from files, other schemas, deleting: the log still leads to the state."""

from __future__ import annotations

import gc
import io
import json
import math
import random
import shutil
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits import Shared
from cobandits.decisions import check_values
from cobandits.engine import (
    Category,
    ConflictError,
    Decide,
    Decision,
    Engine,
    Number,
    Past,
    Reward,
    Rewarded,
    Schema,
    Space,
    UnknownDecisionError,
    UnknownSpaceError,
    UnknownVersionError,
)
from cobandits.engine import engine as engine_module
from cobandits.engine.codec import decoded, encoded
from cobandits.engine.encoding import arm_ids, prepared
from cobandits.engine.group import Group
from cobandits.engine.jobs import Asked, Job
from cobandits.engine.learning import Learning
from cobandits.engine.policies import policy_bytes
from cobandits.engine.retention import erase_events
from cobandits.errors import DataError
from cobandits.schema import Vector
from tests.engine_postgres import databases, needs_postgres

SECRET = "a task that nobody may read again"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Iterator[str]]:
    with databases() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a new database."""
    if request.param == "sqlite":
        return str(tmp_path / "a.db")
    return str(next(request.getfixturevalue("postgres")))


def played(space: Space, rounds: int, *, seed: int = 0, task: str = "a") -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        made = space.decide(task, arms=[{"features": [rng.gauss(0, 1), 1.0]} for _ in range(3)])
        space.reward(made.id, rng.random())


def taught(seed: int = 0, **options: object) -> bytes:
    """Return the file of a policy that was taught elsewhere."""
    policy = Shared(dim=2, labels=True, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    for _ in range(20):
        arms = rng.standard_normal((1, 3, 2))
        policy.learn(["a"], arms, policy.decide(["a"], arms, rng), [rng.random()])
    return policy_bytes(policy)


# ---- Freezing


def test_a_frozen_space_keeps_rewards_and_learns_them_when_it_goes_on(where: str) -> None:
    with Engine.open(where) as engine:
        space = engine.space("s", dim=2)
        played(space, 40)
        space.change(frozen=True)
        frozen = space.version
        played(space, 30, seed=1)
        engine.settle()
        assert space.version == frozen
        assert engine.verify().ok
    with Engine.open(where) as engine:  # by its snapshot
        space = engine.space("s")
        assert space.settings.frozen
        assert space.version == frozen
        played(space, 5, seed=2)
        assert space.version == frozen
        space.change(frozen=False)
        engine.settle()
        assert space.policy().rewards == 75
        assert engine.verify().ok


def test_a_log_without_snapshot_leads_to_the_same_frozen_state(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        played(space, 20)  # no prior is learned aside before 32
        with patch.object(Learning, "step"):  # the thread is slow: rewards wait
            played(space, 5, seed=1)
            space.change(frozen=True)
            frozen, state = space.version, policy_bytes(space.policy())
        played(space, 5, seed=2)
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.executescript("DELETE FROM snapshots; DELETE FROM snapshot_parts")
    connection.close()
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s")
        engine.settle()
        assert space.version == frozen
        assert policy_bytes(space.policy()) == state
        assert engine.verify().ok


# ---- Versions from files


def test_an_uploaded_version_is_compared_returned_to_and_replayed(where: str) -> None:
    content = taught()
    with Engine.open(where) as engine:
        space = engine.space("s", dim=2)
        played(space, 40)
        engine.settle()
        before = space.version
        found = space.upload("autumn", content)
        assert (found.kind, found.label) == ("upload", "autumn")
        assert space.upload("autumn", content) == found  # the same again
        with pytest.raises(ConflictError, match="another file"):
            space.upload("autumn", taught(1))
        assert space.version == before  # it decides nothing yet
        assert policy_bytes(space.policy("autumn")) == content
        assert space.policy(found.name).rewards == 20
        assert 0 <= space.compare("autumn").distance <= 1
        back = space.rollback("autumn")
        assert (back.kind, back.of) == ("rollback", found.name)
        played(space, 10, seed=3)
        engine.settle()
        assert space.policy().rewards == 30
        assert engine.verify().ok
    with Engine.open(where) as engine:
        assert engine.space("s").policy().rewards == 30


def not_a_policy() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, header=np.zeros(3, np.uint8))
    return buffer.getvalue()


def unknown_zip() -> bytes:
    """Return an archive that needs a later version of the format than there is."""
    content = bytearray(not_a_policy())
    content[content.find(b"PK\x01\x02") + 6] = 200
    return bytes(content)


def test_a_version_from_a_file_goes_on_under_the_settings_of_the_space(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        space.upload("roomy", taught(n_tasks=10))
        space.rollback("roomy")
        played(space, 40)
        engine.settle()
        assert (space.policy().rewards, space.policy().n_tasks) == (60, None)
        time.sleep(0.5)  # snapshots are written while nobody asks
        assert engine.verify().ok
        for name in ("a.db", "a.db-wal"):  # as a killed process leaves them
            shutil.copy(tmp_path / name, tmp_path / name.replace("a.db", "killed.db"))
        with Engine.open(tmp_path / "killed.db") as other:
            assert other.verify().ok
            assert policy_bytes(other.space("s").policy()) == policy_bytes(space.policy())


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    forged = io.BytesIO()
    with zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", bytes(2**23))
    content = taught()
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        for wrong, says in [
            (b"nothing", "no policy"),
            (content[:-100], "no policy"),
            (forged.getvalue(), "forged"),
            (policy_bytes(Shared(dim=3, labels=True)), "dim=3"),
            (policy_bytes(Shared(dim=2)), "labels=False"),
            (taught(explore="always"), "explore='always'"),
            (policy_bytes(Shared(dim=2, labels=True, rewards="binary")), "reward_kind='binary'"),
            (unknown_zip(), "no policy that Shared.save wrote .*zip"),
            (not_a_policy(), r"no policy that Shared.save wrote: it is not a whole"),
        ]:
            with pytest.raises(DataError, match=says):
                space.upload("x", wrong)
        for label in ("v12", "", "../x", "x" * 101, "present"):
            with pytest.raises(DataError, match="label"):
                space.upload(label, content)
        assert [one.kind for one in space.versions()] == ["space"]
        with pytest.raises(UnknownVersionError):
            space.rollback("autumn")


# ---- Deleting


def test_a_deleted_space_is_gone_and_the_others_stay(where: str) -> None:
    with Engine.open(where) as engine:
        gone, other = engine.space("gone", dim=2), engine.space("other", dim=2)
        played(gone, 40, task=SECRET)
        played(other, 10)
        made = gone.decide(SECRET, arms=[{"features": [1.0, 0.0]}], id="mine")
        engine.settle()
        count = len(list(gone.events()))
        assert engine.delete("gone") == count + 1  # and the deletion
        for refused in (
            lambda: gone.decide("a", arms=[{"features": [1.0, 0.0]}]),
            lambda: gone.reward(made.id, 1.0),
            lambda: gone.change(floor=0.1),
            lambda: engine.delete("gone"),
        ):
            with pytest.raises(UnknownSpaceError):
                refused()
        assert [one.name for one in engine.spaces()] == ["other"]
        played(other, 5, seed=1)
        assert engine.verify().ok
        again = engine.space("gone", dim=3)  # the name is free
        assert again.decide("a", arms=[{"features": [1.0, 0.0, 0.0]}], id="mine").id == "mine"
    with Engine.open(where) as engine:
        assert {one.name for one in engine.spaces()} == {"other", "gone"}
        engine.settle()
        assert engine.space("other").policy().rewards == 15
        assert engine.verify().ok
        kinds = [event.kind for event in engine._store.read()]
        assert kinds.count("gone") == count + 1
        assert all(event.task != SECRET for event in engine._store.read())


def test_what_is_deleted_cannot_be_read_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def plain(*given: Any, **named: Any) -> sqlite3.Connection:
        """Connect as with an SQLite that was built to leave erased bytes."""
        made: sqlite3.Connection = connect(*given, **named)
        made.execute("PRAGMA secure_delete=OFF")
        return made

    monkeypatch.setattr(sqlite3, "connect", plain)
    with Engine.open(tmp_path / "a.db") as engine:
        played(engine.space("gone", dim=2), 40, task=SECRET)
        played(engine.space("other", dim=2), 5)
    assert SECRET.encode() in (tmp_path / "a.db").read_bytes()
    with Engine.open(tmp_path / "a.db") as engine:
        engine.delete("gone")
    assert all(SECRET.encode() not in one.read_bytes() for one in tmp_path.iterdir())


def test_an_interrupted_deletion_is_finished(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        gone = engine.space("gone", dim=2)
        played(gone, 70, task=SECRET)  # a prior is due at 64 at the latest
        engine.settle()
        gone.rollback(gone.versions()[1].name)
        played(engine.space("other", dim=2), 5)
        with (
            patch.object(engine_module, "erase_events", side_effect=RuntimeError("killed")),
            pytest.raises(RuntimeError),
        ):
            engine.delete("gone")
        assert any(event.task == SECRET for event in engine._store.read())
        assert engine.verify().ok
    with Engine.open(tmp_path / "a.db", readonly=True) as engine:
        assert [one.name for one in engine.spaces()] == ["other"]
        assert engine.verify().ok
    with Engine.open(tmp_path / "a.db") as engine:
        assert [one.name for one in engine.spaces()] == ["other"]
        assert all(event.task != SECRET for event in engine._store.read())
        assert engine.verify().ok
        assert erase_events(engine._core, 99, 0) is None


# ---- Schemas

FIRST = Schema(arm={"price": Number(), "kind": Category(values=("hot", "cold"))})
SECOND = Schema(arm={"size": Number(), "kind": Category(values=("hot", "cold"))})
OTHER = Schema(arm={"size": Number(missing="error")})


def sold(space: Space, rounds: int, seed: int, number: str = "price") -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        arms = [{number: rng.random(), "kind": rng.choice(["hot", "cold"])} for _ in range(3)]
        made = space.decide(f"task {rng.randrange(3)}", arms=arms)
        space.reward(made.id, float(arms[int(made.arm)]["kind"] == "hot") + 0.1 * rng.random())


def test_a_space_gets_another_schema_and_learns_its_log_by_it(where: str) -> None:
    with Engine.open(where) as engine:
        space = engine.space("s", FIRST)
        sold(space, 60, 0)
        first = space.versions()[0].name
        old = next(iter(space.decisions())).decision
        engine.settle()
        found = space.relearn(schema=SECOND)
        assert found.kind == "relearn"
        assert [one.schema.dim for one in space.schemas()] == [FIRST.dim, SECOND.dim]
        engine.settle()
        assert (space.policy().rewards, space.policy().dim) == (60, SECOND.dim)
        sold(space, 40, 1, "size")
        engine.settle()
        assert engine.verify().ok
        again = space.recompute(old.id)
        assert (again.arm, again.probability) == (old.arm, old.probability)
        with pytest.raises(DataError, match="another schema"):
            space.rollback(first)
        assert space.compare(first).decisions == 100
        assert space.report().policy is not None
        assert len(space.log()) == 100
    with Engine.open(where) as engine:
        space = engine.space("s")
        assert space.settings.schema.dim == SECOND.dim
        made = space.decide("a", arms=[{"size": 1.0, "kind": "hot"}, {"size": 1.0}])
        space.reward(made.id, 1.0)
        engine.settle()
        assert space.policy().rewards == 101
        assert engine.verify().ok


def test_what_does_not_fit_another_schema_is_left_out(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", FIRST)
        sold(space, 20, 0)
        space.relearn(schema=OTHER)
        engine.settle()
        assert space.policy().rewards == 0
        made = [space.decide("a", arms=[{"size": 1.0}, {"size": n}]) for n in range(12)]
        for one in made:
            space.reward(one.id, 1.0)
        engine.settle()
        assert space.policy().rewards == 12
        assert len(space.log()) == 12
        assert engine.verify().ok
        with pytest.raises(DataError, match="since and before"):
            space.relearn()
        space.change(frozen=True)
        with pytest.raises(ConflictError, match="unfreeze it first"):
            space.relearn(schema=FIRST)


# ---- Requests from JSON

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
ARM = st.fixed_dictionaries(
    {},
    optional={
        "price": st.none() | st.integers(-(2**53), 2**53) | st.floats(-1e50, 1e50),
        "kind": st.sampled_from(["hot", "cold", "other", ""]) | TEXTS,
    },
)


@given(arms=st.lists(ARM, min_size=1, max_size=4), task=TEXTS)
def test_a_request_from_json_needs_no_second_reading(arms: list[dict[str, Any]], task: str) -> None:
    read = json.loads(json.dumps(arms))
    asked = Decide(task=task, arms=[{**arm, "id": str(n)} for n, arm in enumerate(read)])
    found: list[Any] = []
    for plain in (False, True):
        try:
            found.append(prepared(asked, FIRST, plain=plain))
        except DataError as error:
            found.append(str(error))
    if isinstance(found[0], str):
        assert found[0] == found[1]
        return
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


NUMBERS = st.floats(-1e60, 1e60) | st.integers(-(2**63), 2**63)
ODD = st.sampled_from(
    [None, True, "1.5", b"1.5", math.nan, math.inf, Decimal("0.1"), np.float32(0.1), [1.0], 1e80]
)
VECTORS = st.lists(NUMBERS, min_size=2, max_size=2) | st.lists(NUMBERS | ODD, max_size=3)
IDS = st.sampled_from(["a", "b", "c", "", None, 1, "\u00e9"]) | TEXTS


@given(
    rows=st.lists(VECTORS | VECTORS.map(np.array), min_size=1, max_size=3),
    ids=st.lists(IDS, min_size=3, max_size=3) | st.just([]),
    more=st.sampled_from([{}, {}, {"price": 1.0}]),
)
def test_vectors_are_read_as_the_log_has_them(
    rows: list[Any], ids: list[Any], more: dict[str, Any]
) -> None:
    """The fast way of plain vectors gives what the general one gives, from the text in the log."""
    schema = Schema(arm={"features": Vector(size=2, missing="error")})
    arms: list[dict[str, Any]] = [{"features": row, **more} for row in rows]
    for arm, name in zip(arms, ids, strict=False):
        arm["id"] = name
    try:
        text = encoded({"task": "t", "arms": arms}).decode()
        read = decoded(text)
        names = arm_ids(read)
        phi = schema.encode([{k: v for k, v in arm.items() if k != "id"} for arm in read["arms"]])
        check_values(phi)
    except DataError:
        with pytest.raises(DataError):
            prepared(Decide(task="t", arms=arms), schema)
        return
    found = prepared(Decide(task="t", arms=arms), schema)
    assert (found.text, found.ids) == (text, names)
    assert found.phi.tobytes() == phi.tobytes()
    assert found.n_available == len(found.available) == len(names)


def test_refusals_leave_nothing_in_memory(tmp_path: Path) -> None:
    """An error holds the frame that raised it, and so the requests of its group: a cycle."""
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        for _ in range(50):
            (refused,) = space.ask([Reward(decision="none", value=1.0)])
            assert isinstance(refused, Exception)
        gc.collect()
        assert sum(type(one) is Job for one in gc.get_objects()) < 5


def test_errors_of_single_requests_do_not_stay_in_memory(tmp_path: Path) -> None:
    """An error holds the request that raised it, which the garbage collector does not look at."""
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        for _ in range(50):
            with pytest.raises(UnknownDecisionError):
                space.reward("none", 1.0)
        gc.collect()
        assert sum(type(one) is UnknownDecisionError for one in gc.get_objects()) < 5


def test_the_same_request_many_times_is_answered_in_few_groups(tmp_path: Path) -> None:
    """A batch of repetitions must not keep the engine's thread busy for as many turns."""
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        arms = [{"features": [1.0, 0.0]}]
        made = space.decide("a", arms=arms, id="one")
        groups = 0
        run = Group.run

        def counted(self: Group, tickets: Any) -> list[Asked]:
            nonlocal groups
            groups += 1
            return run(self, tickets)

        with patch.object(Group, "run", counted):
            again = space.ask([Decide(task="a", arms=arms, id="two")] * 100)
            unknown = space.ask([Reward(decision="none", value=1.0)] * 100)
            rewards = space.ask([Reward(decision=made.id, value=1.0)] * 100)
        assert [isinstance(one, Decision) and one.repeated for one in again] == [False] + [
            True
        ] * 99
        assert all(isinstance(one, UnknownDecisionError) for one in unknown)
        statuses = [one.status for one in rewards if isinstance(one, Rewarded)]
        assert statuses == ["accepted"] + ["repeated"] * 99
        assert groups <= 6
        assert engine.verify().ok


def test_requests_leave_nothing_for_the_garbage_collector(tmp_path: Path) -> None:
    """What refers to itself keeps arms and texts in memory, and is a tenth of the CPU time.

    Twelve objects per request would be 1,200; other threads may leave a few.
    """
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        arms = [{"features": [1.0, 0.0]}, {"features": [0.0, 1.0]}]

        def ask() -> None:
            for _ in range(20):
                made = space.decide("a", arms=arms)
                space.reward(made.id, 1.0)
                asked = [Decide(task="b", arms=arms), Decide(task="c", arms=arms)]
                space.ask(asked)
                space.submit(asked).result()

        space.change(frozen=True)  # a fit may leave something
        ask()
        gc.collect()
        gc.disable()
        try:
            ask()
            found = gc.collect()
        finally:
            gc.enable()
        assert found < 200


def test_what_is_learned_without_an_event_is_not_learned_again_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an import: the last event is a prior, and many rewards were learned after it."""
    rng = np.random.default_rng(0)
    past = [
        Past(
            task=f"task {n % 7}",
            arms=[{"id": "a", "features": rng.standard_normal(2).tolist()}],
            chosen="a",
            reward=float(rng.standard_normal()),
        )
        for n in range(290)
    ]
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("s", dim=2)
        space.import_past(past)
        engine.settle()
        version, began = space.version, space.versions()[-1].name
        last, first_policy = engine.status().events, policy_bytes(space.policy(began))
        assert version == f"v{last}+{290 - space.policy(began).rewards}"
        assert space.policy(began).rewards < 290
    learned: list[int] = []
    monkeypatch.setattr(Shared, "learn", lambda *given: learned.append(1))
    for _ in range(2):
        with Engine.open(tmp_path / "a.db") as engine:
            assert engine.space("s").version == version
            assert engine.status().events == last + 1  # one more, however often it is opened
    assert not learned
    monkeypatch.undo()
    with Engine.open(tmp_path / "a.db") as engine:
        assert policy_bytes(engine.space("s").policy(began)) == first_policy
        assert engine.verify().ok
