"""What a space answers: each case of decisions and rewards has one answer."""

from __future__ import annotations

import datetime
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from cobandits.engine import (
    Category,
    ClosedError,
    ConflictError,
    DamagedLogError,
    Decide,
    Decision,
    Engine,
    NotActivatedError,
    Number,
    OwnedError,
    Reward,
    Rewarded,
    Schema,
    Space,
    UnknownDecisionError,
    UnknownSpaceError,
    UnknownVersionError,
)
from cobandits.engine import engine as engine_module
from cobandits.engine.core import Core
from cobandits.engine.ids import made_id
from cobandits.engine.policies import policy_bytes
from cobandits.engine.settings import SHARDED
from cobandits.engine.stores import Store
from cobandits.engine.verify import live_state
from cobandits.errors import ConfigurationError, DataError

SCHEMA = Schema(
    context={"hour": Number()},
    arm={"price": Number(), "kind": Category(values=("hot", "cold"))},
    crosses=[("hour", "kind")],
)
ARMS = [
    {"id": "tea", "price": 3.5, "kind": "hot"},
    {"id": "cola", "price": 2.5, "kind": "cold"},
    {"id": "soup", "price": 5.0, "kind": "hot"},
]


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True, params=[1, 2], ids=["one", "sharded"])
def _shards(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make spaces in one piece, and with shards; here without processes, which start slowly."""
    if request.param == 1:
        return
    make = Engine.space

    def sharded(self: Engine, name: str, schema: Schema | None = None, **given: Any) -> Space:
        new = schema is not None or "dim" in given
        more = {"shards": request.param, **SHARDED} if new else {}
        return make(self, name, schema, **{**more, **given})

    def here(store: Store, clock: Any, **_: bool) -> Core:
        return Core(store, clock)

    monkeypatch.setattr(Engine, "space", sharded)
    monkeypatch.setattr(engine_module, "Core", here)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    with Engine.open(tmp_path / "shops.db", clock=clock) as made:
        yield made


def asked(space: Space, **given: Any) -> Decision:
    return space.decide("berlin", context={"hour": 14}, arms=ARMS, **given)


def learned(engine: Engine, space: Space) -> int:
    engine.settle()
    return space.policy().rewards


def test_a_decision_and_its_reward(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    made = asked(space)
    assert made.arm in ("tea", "cola", "soup")
    assert made.probability == pytest.approx(1 / 3)
    assert [one.probability for one in made.ranking] == pytest.approx([1 / 3] * 3)
    assert (made.number, made.by, made.mode, made.held, made.expires) == (
        2,
        "policy",
        "live",
        False,
        None,
    )
    answer = space.reward(made.id, 1.0)
    assert (answer.status, answer.value, answer.number) == ("accepted", 1.0, 3)
    assert learned(engine, space) == 1
    record = space.decision(made.id)
    assert record.decision == made
    assert record.request["context"] == {"hour": 14}
    assert [one.value for one in record.rewards] == [1.0]


def test_ids_are_made_in_order_and_cannot_be_guessed(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    ids = [asked(space).id for _ in range(20)]
    assert ids == sorted(ids)
    number, _, _ = ids[0].partition(".")
    with pytest.raises(UnknownDecisionError, match="no decision"):
        space.reward(f"{number}.0123456789", 1.0)
    with pytest.raises(DataError, match="form of ids that are made"):
        asked(space, id=ids[0])


def test_the_same_id_gets_the_first_answer_and_another_body_is_refused(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    first = asked(space, id="order-1")
    again = asked(space, id="order-1")
    assert first.id == again.id == "order-1"
    assert not first.repeated
    assert again.repeated
    assert (again.arm, again.number, again.ranking) == (first.arm, first.number, first.ranking)
    with pytest.raises(ConflictError, match="another content"):
        asked(space, id="order-1", exclude=["tea"])
    assert engine.space("other", SCHEMA).name == "other"
    elsewhere = asked(engine.space("other"), id="order-1")
    assert elsewhere.number != first.number


@pytest.mark.parametrize("name", [".", ".."])
def test_what_no_address_can_hold_is_no_id_and_no_name(engine: Engine, name: str) -> None:
    space = engine.space("teas", SCHEMA)
    with pytest.raises(DataError, match="no address can hold"):
        asked(space, id=name)
    with pytest.raises(DataError, match="no address can hold"):
        engine.space(name, SCHEMA)
    assert asked(space, id="...").id == "..."


def test_a_reward_counts_exactly_once(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    made = asked(space)
    first = space.reward(made.id, 1.0)
    again = space.reward(made.id, 1.0)
    assert (first.status, again.status) == ("accepted", "repeated")
    assert (again.number, again.at) == (first.number, first.at)
    with pytest.raises(ConflictError, match="has the reward 1, got 2"):
        space.reward(made.id, 2.0)
    assert learned(engine, space) == 1


def test_a_reward_before_its_decision_is_refused_and_may_come_again(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    with pytest.raises(UnknownDecisionError, match="send it again"):
        space.reward("order-1", 1.0)
    asked(space, id="order-1")
    assert space.reward("order-1", 1.0).status == "accepted"
    with pytest.raises(UnknownDecisionError):
        engine.space("other", SCHEMA).reward("order-1", 1.0)


def test_a_reward_after_the_window_is_kept_and_not_learned(engine: Engine, clock: Clock) -> None:
    space = engine.space("teas", SCHEMA, window="1h")
    made, other = asked(space), asked(space)
    assert made.expires == made.at + datetime.timedelta(hours=1)
    clock.now += 3600
    assert space.reward(other.id, 1.0).status == "accepted"  # the last moment
    clock.now += 1
    assert [space.reward(made.id, 1.0).status for _ in range(2)] == ["late", "late"]
    assert space.reward(other.id, 1.0).status == "repeated"
    assert learned(engine, space) == 1
    assert [e.value for e in space.events(kinds=["reward"])] == [1.0, 1.0]


def test_the_default_is_learned_when_the_window_ends(engine: Engine, clock: Clock) -> None:
    space = engine.space("teas", SCHEMA, window="1h", default_reward=0.0)
    made = asked(space)
    asked(space)
    space.reward(made.id, 1.0)
    assert learned(engine, space) == 0  # good ones would come first
    clock.now += 3601
    asked(space)
    assert learned(engine, space) == 2
    assert engine.verify().ok


def test_windows_end_without_any_request(engine: Engine, clock: Clock) -> None:
    space = engine.space("teas", SCHEMA, window="1h", default_reward=0.0)
    asked(space)
    clock.now += 3601
    until = threading.Event()
    for _ in range(200):
        if learned(engine, space):
            break
        until.wait(0.02)
    assert learned(engine, space) == 1
    assert [event.kind for event in space.events()][-1] == "tick"


def test_rewards_that_are_summed(engine: Engine, clock: Clock) -> None:
    space = engine.space("teas", SCHEMA, window="1h", rewards="sum")
    made = asked(space)
    assert space.reward(made.id, 1.0, key="click").value == 1.0
    assert space.reward(made.id, 1.0, key="click").status == "repeated"
    assert space.reward(made.id, 2.0).value == 3.0
    assert space.reward(made.id, 2.0).value == 5.0  # without a key each counts
    with pytest.raises(ConflictError):
        space.reward(made.id, 3.0, key="click")
    clock.now += 3601
    asked(space)
    assert learned(engine, space) == 1
    assert engine.verify().ok


def test_the_last_reward(engine: Engine, clock: Clock) -> None:
    space = engine.space("teas", SCHEMA, window="1h", rewards="last")
    made = asked(space)
    statuses = [space.reward(made.id, value).status for value in (1.0, 2.0, 2.0)]
    assert statuses == ["accepted", "accepted", "repeated"]
    clock.now += 3601
    asked(space)
    assert learned(engine, space) == 1


def test_what_was_taken_instead_is_learned(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    for n in range(30):
        taken = ("tea", "cola", "soup")[n % 3]  # whatever was decided
        space.reward(asked(space).id, float(taken == "cola"), taken=taken)
    engine.settle()
    assert asked(space).arm == "cola"
    with pytest.raises(DataError, match="taken must be an arm"):
        space.reward(asked(space).id, 1.0, taken="beer")
    assert engine.verify().ok


def test_a_held_decision_counts_when_it_is_activated(engine: Engine, clock: Clock) -> None:
    space = engine.space("teas", SCHEMA, window="1h", default_reward=0.0)
    shown, never = asked(space, held=True), asked(space, held=True)
    with pytest.raises(NotActivatedError, match="activate it first"):
        space.reward(shown.id, 1.0)
    clock.now += 1800
    activated = space.activate(shown.id)
    assert activated.status == "accepted"
    assert activated.expires == shown.at + datetime.timedelta(hours=1.5)
    assert space.activate(shown.id).status == "repeated"
    assert space.reward(shown.id, 1.0).status == "accepted"
    clock.now += 3601
    assert space.activate(never.id).status == "late"
    asked(space)
    assert learned(engine, space) == 1  # no default for what was never shown
    assert engine.verify().ok


def test_shadow_mode_takes_the_baseline(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA, mode="shadow")
    for _ in range(10):
        made = asked(space, baseline="soup")
        assert (made.arm, made.by, made.probability, made.mode) == (
            "soup",
            "baseline",
            1.0,
            "shadow",
        )
        space.reward(made.id, 1.0)
    assert asked(space).arm == "tea"  # the first, if none is named
    assert len({asked(space).proposed for _ in range(30)}) > 1
    space.change(mode="live")
    assert asked(space).by == "policy"
    assert engine.verify().ok


def test_the_baseline_has_its_share(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA, baseline_share=0.5, seed=3)
    made = [asked(space, baseline="soup") for _ in range(200)]
    kept = [one for one in made if one.by == "baseline"]
    assert 70 <= len(kept) <= 130  # 4 standard deviations
    assert {one.arm for one in kept} == {"soup"}
    assert engine.verify().ok


def test_a_ranking_has_the_likeliest_first_and_the_unknown_last(engine: Engine) -> None:
    made = asked(engine.space("teas", SCHEMA))
    arms, chances = ["a", "b", "c", "d", "e"], [0.1, None, 0.7, -1.0, 0.1]
    one = msgspec.structs.replace(made, arms=arms, chances=chances)
    assert one.ranking == (("c", 0.7), ("a", 0.1), ("e", 0.1), ("b", None))
    assert {one: 1}[msgspec.structs.replace(one)] == 1


def test_excluded_arms_are_never_chosen(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA, floor=0.5)
    for _ in range(20):
        made = asked(space, exclude=["tea"])
        assert {one.arm for one in made.ranking} == {"cola", "soup"}
    with pytest.raises(DataError, match="every arm is excluded"):
        asked(space, exclude=["tea", "cola", "soup"])
    with pytest.raises(DataError, match="exclude must be ids"):
        asked(space, exclude=["beer"])


def test_one_call_answers_several_requests_each_by_itself(engine: Engine) -> None:
    space = engine.space("teas", SCHEMA)
    good = Decide(task="berlin", arms=ARMS, context={"hour": 3}, id="a")
    wrong = Decide(task="berlin", arms=ARMS, context={"month": 3})
    ragged = Decide(task="rome", arms=ARMS[:2], exclude=["tea"])
    rewards = [Reward(decision="a", value=1.0), Reward(decision="b", value=1.0)]
    answers = space.ask([good, wrong, ragged, good, *rewards])
    assert isinstance(answers[0], Decision)
    assert "month: unknown" in str(answers[1])
    assert isinstance(answers[2], Decision)
    assert answers[2].arm == "cola"
    assert isinstance(answers[3], Decision)
    assert answers[3].repeated
    assert isinstance(answers[4], Rewarded)
    assert isinstance(answers[5], UnknownDecisionError)
    assert space.submit([]).result() == []
    (later,) = space.submit([good]).result(timeout=10)
    assert isinstance(later, Decision)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": ""}, "task must be a text"),
        ({"task": 7}, "task must be a text"),
        ({"arms": []}, "arms must be mappings"),
        ({"arms": [{"id": "a"}, {"id": "a"}]}, "different texts"),
        ({"arms": [{"id": "a", "colour": 1}]}, "unknown field 'colour'"),
        ({"arms": [{"id": "a", "price": "dear"}]}, "price: expected a number, got 'dear'"),
        ({"arms": [{"id": "a", "price": 1e80}]}, "scale them"),
        ({"context": {"hour": object()}}, "cannot be written as JSON"),
        ({"baseline": "beer"}, "baseline must be an arm"),
        ({"id": "x" * 2000}, "id must be a text"),
    ],
)
def test_requests_that_make_no_sense(engine: Engine, given: dict[str, Any], message: str) -> None:
    space = engine.space("teas", SCHEMA)
    with pytest.raises(DataError, match=message):
        space.decide(**{"task": "berlin", "arms": ARMS, **given})
    assert len(list(space.events())) == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e80, "1", None])
def test_rewards_that_are_no_numbers(engine: Engine, value: Any) -> None:
    space = engine.space("teas", SCHEMA)
    with pytest.raises(DataError, match="a reward must be a number"):
        space.reward(asked(space).id, value)


def test_spaces_and_their_settings(engine: Engine) -> None:
    with pytest.raises(UnknownSpaceError, match="make it with a schema"):
        engine.space("teas")
    space = engine.space("teas", SCHEMA, window="90s")
    assert engine.space("teas").settings == space.settings
    assert engine.space("teas", SCHEMA, window=90).name == "teas"
    with pytest.raises(ConfigurationError, match=r"other settings: window.*space.change"):
        engine.space("teas", window="1h")
    with pytest.raises(ConfigurationError, match="other settings: schema"):
        engine.space("teas", dim=3)
    space.change(window="1h", floor=0.25)
    assert engine.space("teas", window="1h").settings.floor == 0.25
    with pytest.raises(ConfigurationError, match="rewards cannot be changed"):
        space.change(rewards="sum")
    assert [one.name for one in engine.spaces()] == ["teas"]
    for wrong in ({"window": "soon"}, {"floor": 2}, {"rewards": "sum"}, {"default_reward": 0.0}):
        with pytest.raises(ConfigurationError):
            engine.space("other", SCHEMA, **wrong)
    with pytest.raises(ConfigurationError, match="named 'id'"):
        engine.space("other", Schema(arm={"id": Number()}))


def play(engine: Engine, space: Space, n: int, seed: int = 0, arm: int | None = None) -> None:
    """Decide and reward; take always the same arm, if it is given."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        arms = [
            {"id": str(k), "features": row.tolist()}
            for k, row in enumerate(rng.standard_normal((4, 3)))
        ]
        made = space.decide(f"task {rng.integers(5)}", arms=arms)
        taken = made.arm if arm is None else str(arm)
        space.reward(made.id, float(np.sum(arms[int(taken)]["features"])), taken=taken)
    engine.settle()


def test_decisions_are_made_again_from_the_log_alone(engine: Engine) -> None:
    space = engine.space("vectors", dim=3, floor=0.2)
    play(engine, space, 80)
    made = [event.number for event in space.events(kinds=["decision"])]
    records = [space.decision(space_id(engine, number)) for number in made[::20]]
    assert {one.decision.version for one in records} != {"v1+0"}
    for one in records:
        assert space.recompute(one.decision.id) == one.decision


def space_id(engine: Engine, number: int) -> str:
    return made_id(number, engine._store.meta("secret"))


def test_the_state_is_the_same_after_opening_again(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("vectors", dim=3)
        play(engine, space, 140)  # priors are due at 64 and 128 at the latest
        before = space._fold.snapshot()
        assert len(space.versions()) > 2
        assert engine.verify().ok
    with Engine.open(tmp_path / "a.db") as engine:
        assert engine.space("vectors")._fold.snapshot() == before
        assert engine.verify().ok
        for saved in engine._store.snapshots(1):
            engine._store.forget_snapshot(saved)
        engine._writer._begin_closing = lambda: setattr(engine._writer, "_closing", True)  # type: ignore[method-assign, union-attr]
    with Engine.open(tmp_path / "a.db") as engine:  # without any snapshot
        engine.settle()
        assert engine.space("vectors")._fold.snapshot() == before


@pytest.mark.parametrize(
    ("change", "shows"),
    [
        ("UPDATE log SET value = value + 1e-9 WHERE number = 41", "leads to another state"),
        (
            """UPDATE log SET body = replace(body, '"probability":', '"probability":0.5,"x":')
            WHERE number = 2""",
            "decision 2 was",
        ),
        ("UPDATE log SET at = at + 1000000000000 WHERE number = 30", "event 31 at"),
        ("DELETE FROM log WHERE number = 31", "event 32"),
    ],
)
def test_verify_notices_what_was_changed(
    engine: Engine, tmp_path: Path, change: str, shows: str
) -> None:
    space = engine.space("vectors", dim=3, seed=1)
    play(engine, space, 30, arm=0)
    assert engine.verify().ok
    with closing(sqlite3.connect(tmp_path / "shops.db")) as other:
        assert other.execute(change).rowcount == 1
        other.commit()
    assert shows in verdict(engine)


def verdict(engine: Engine) -> str:
    try:
        return str(engine.verify())
    except DamagedLogError as error:
        return str(error)


def test_a_floor_that_changed_during_a_refit(engine: Engine) -> None:
    """The prior of a snapshot was learned under the old floor; decisions go by the new one."""
    space = engine.space("vectors", dim=3)
    play(engine, space, 10)
    learned_before = policy_bytes(space.policy())
    space.change(floor=0.3)
    content = space._fold.snapshot(learned_before)
    space._fold.restore(content, space._fold.last)
    assert space.policy().floor == 0.3
    assert engine.verify().ok


def test_rolling_back(engine: Engine) -> None:
    space = engine.space("vectors", dim=3)
    play(engine, space, 70)  # a prior is due at 64 at the latest
    there = space.versions()[1]
    then = space.policy(there.name)
    found = space.compare(space.versions()[0].name)  # of four arms each is as likely
    assert (found.decisions, found.rewards) == (70, (0, 70))
    assert found.distance == pytest.approx(0.75, abs=0.05)
    same = space.compare(there.name, there.name)
    assert (same.other_arm, same.distance) == (0, 0)
    back = space.rollback(there.name)
    assert (back.kind, back.of, space.version) == ("rollback", there.name, f"{back.name}+0")
    assert space.policy().rewards == then.rewards
    play(engine, space, 60, seed=1)
    space.rollback(back.name)
    assert space.policy().rewards == then.rewards
    space.rollback(space.versions()[0].name)
    assert space.policy().rewards == 0
    assert engine.verify().ok
    with pytest.raises(UnknownVersionError, match=r"versions\(\) lists them"):
        space.rollback("v2")


def test_wrong_rewards_are_left_out(tmp_path: Path, clock: Clock) -> None:
    """What is learned without them is what would have been learned if they had never come."""
    found = {}
    for name in ("poisoned", "clean"):
        with Engine.open(tmp_path / f"{name}.db", clock=clock) as engine:
            space = engine.space("vectors", dim=3, seed=5)
            play(engine, space, 50, arm=0)
            clock.now += 100
            wrong = space.decide("task 1", arms=[{"features": [1, 2, 3]}])
            if name == "poisoned":
                space.reward(wrong.id, 1000.0)
            clock.now += 100
            play(engine, space, 50, seed=1, arm=0)
            if name == "poisoned":
                since = datetime.datetime.fromtimestamp(clock.now - 150, datetime.UTC)
                hundred = datetime.timedelta(seconds=100)
                made = space.relearn(since=since, before=since + hundred)
                assert (made.kind, space.version) == ("relearn", f"{made.name}+0")
            assert engine.verify().ok
            found[name] = policy_bytes(space.policy())
        with Engine.open(tmp_path / f"{name}.db", clock=clock) as engine:
            assert policy_bytes(engine.space("vectors").policy()) == found[name]
    assert found["poisoned"] == found["clean"]


def test_old_events_are_folded_into_a_snapshot(tmp_path: Path, clock: Clock) -> None:
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        space = engine.space("vectors", dim=3, window="1h", default_reward=0.0)
        play(engine, space, 60)
        clock.now += 3601
        old = space.decide("x", arms=[{"features": [1, 2, 3]}], held=True)
        recent = space.decide("x", arms=[{"features": [1, 2, 3]}])
        engine.settle()
        removed = engine.forget(datetime.datetime.fromtimestamp(clock.now + 1, datetime.UTC))
        kept = list(space.events())
        assert removed > 100
        assert [event.number for event in kept] == [1, recent.number]  # it waits for its reward
        with pytest.raises(UnknownDecisionError):
            space.activate(old.id)
        with pytest.raises(UnknownVersionError, match="no version"):
            space.rollback("v5")
        assert space.reward(recent.id, 1.0).status == "accepted"
        assert engine.verify().ok
        clock.now += 3601
        play(engine, space, 40, seed=1)
        assert engine.verify().ok
        state = live_state(space._fold)
    with Engine.open(tmp_path / "a.db", clock=clock) as engine:
        assert live_state(engine.space("vectors")._fold) == state
        assert engine.verify().ok


def test_one_process_decides_and_others_read(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("vectors", dim=3)
        play(engine, space, 40)
        with pytest.raises(OwnedError, match="readonly=True"):
            Engine.open(tmp_path / "a.db")
        with Engine.open(tmp_path / "a.db", readonly=True) as reader:
            seen = reader.space("vectors")
            assert seen.version == space.version
            assert reader.verify().ok
            with pytest.raises(OwnedError, match="opened for reading"):
                seen.decide("x", arms=[{"features": [1, 2, 3]}])
            with pytest.raises(OwnedError):
                seen.change(floor=0.1)
    with pytest.raises(ClosedError, match="open it again"):
        space.decide("x", arms=[{"features": [1, 2, 3]}])


def test_many_threads_get_their_own_answers(engine: Engine) -> None:
    space = engine.space("vectors", dim=2)
    found: list[tuple[str, Decision]] = []

    def work(n: int) -> None:
        for k in range(20):
            task = f"task {n}.{k}"
            made = space.decide(task, arms=[{"features": [n, k]}, {"features": [k, n]}])
            found.append((task, made))
            space.reward(made.id, float(n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(task == made.task for task, made in found)
    assert len({made.number for _, made in found}) == 160
    assert learned(engine, space) == 160
    assert engine.verify().ok


def test_a_request_is_read_as_it_was_written(engine: Engine) -> None:
    """Values of NumPy and dates are decided on as they will be read from the log again."""
    space = engine.space("mixed", Schema(arm={"x": Number(), "kind": Category(values=("1", "2"))}))
    arms: list[dict[str, Any]] = [
        {"x": np.float32(0.1), "kind": np.int64(1)},
        {"x": float("nan"), "kind": 2.0},
    ]
    made = space.decide("a", arms=arms)
    space.reward(made.id, np.float64(1.0))
    engine.settle()
    assert engine.verify().ok
