"""What comes out of a log and goes into it: reports, exports, histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cobandits.cli.app import application
from cobandits.engine import Category, Decision, Engine, Number, Past, Schema, Space
from cobandits.engine.answers import decision_answer
from cobandits.engine.report import changed_alone
from cobandits.environments.replay import Replay
from cobandits.errors import DataError
from cobandits.log_tables import LogTable
from cobandits.policies import Shared
from cobandits.policies.shared.change import OnChange
from tests.shared_states import made, state_of

SCHEMA = Schema(arm={"price": Number(), "kind": Category(values=("hot", "cold"))})
PAYS = {"tea": 1.0, "cola": 0.0, "soup": 0.5}
ARMS = [
    {"id": "tea", "price": 3.5, "kind": "hot"},
    {"id": "cola", "price": 2.5, "kind": "cold"},
    {"id": "soup", "price": 5.0, "kind": "hot"},
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    now = [1_700_000_000.0]
    with Engine.open(tmp_path_factory.mktemp("a") / "a.db", clock=lambda: now[0]) as made:
        space = made.space("teas", SCHEMA, seed=1, floor=0.6, baseline_share=0.2)
        rng = np.random.default_rng(0)
        for n in range(300):
            now[0] += 600
            one = space.decide(f"shop {n % 3}", arms=ARMS, baseline="cola")
            if n % 10:
                space.reward(one.id, PAYS[one.arm] + rng.normal(0, 0.1))
        made.settle()
        yield made


@pytest.fixture
def space(engine: Engine) -> Space:
    return engine.space("teas")


def test_a_report_says_what_waits_for_the_end_of_its_window(tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    with Engine.open(tmp_path / "a.db", clock=lambda: now[0]) as engine:
        space = engine.space("teas", SCHEMA, window="1h", default_reward=0.0)
        for _ in range(3):
            space.reward(space.decide("berlin", arms=ARMS).id, 1.0)
        assert "decisions within their window: 3;" in str(space.report())
        now[0] += 3601
        space.decide("berlin", arms=ARMS)
        engine.settle()
        assert "decisions within their window: 1;" in str(space.report())
        assert space.report().days[0].mean == 1.0


def test_what_was_hardly_ever_done_is_not_estimated(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("teas", SCHEMA, seed=2, floor=0.15)
        for _ in range(100):
            one = space.decide("berlin", arms=ARMS)
            space.reward(one.id, PAYS[one.arm])
            engine.settle()  # the same decisions in every run
        found = space.report()
    assert "always tea" in found.estimates
    assert "always cola" not in found.estimates
    assert any(note.startswith("always cola is not estimated: the log") for note in found.notes)


def test_what_the_policy_never_does_is_not_estimated_by_what_it_does(tmp_path: Path) -> None:
    """Tea pays in Berlin and soup in Rome: soon the log has nothing else, and each pays 1."""
    pays = {"berlin": "tea", "rome": "soup"}
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("teas", SCHEMA, seed=2)
        for n in range(120):
            task = ("berlin", "rome")[n % 2]
            one = space.decide(task, arms=ARMS)
            space.reward(one.id, float(one.arm == pays[task]))
            engine.settle()  # the same decisions in every run
        found = space.report()
    assert found.policy is not None
    assert found.policy.mean > 0.8
    assert not {"always tea", "always soup", "random"} & set(found.estimates)
    assert any("always tea is not estimated: the log hardly" in note for note in found.notes)


def decisions(space: Space) -> list[Decision]:
    return [decision_answer(event, "") for event in space.events(kinds=["decision"])]


def test_a_report_compares_with_what_else_could_have_been_done(space: Space) -> None:
    found = space.report()
    assert found.policy is not None
    assert found.baseline is not None
    for name, truth in (("tea", 1.0), ("cola", 0.0), ("soup", 0.5)):
        one = found.estimates[f"always {name}"]
        assert one.low - 0.1 < truth < one.high + 0.1
    assert abs(found.estimates["random"].mean - 0.5) < 0.2
    assert found.estimates["baseline"].mean == found.estimates["always cola"].mean
    assert abs(found.baseline.mean) < 0.1
    assert found.baseline.high < found.policy.low
    assert found.without_reward == 0.1
    assert (found.tasks, found.waiting, found.changes) == (3, 0, ())
    assert sum(day.decisions for day in found.days) == 300
    assert len(found.days) == 4  # the first one begins at 22:13
    assert "policy earned" in str(found)


def test_an_exported_log_is_what_other_commands_read(space: Space, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    made = [one for one in decisions(space) if one.by == "policy"]
    assert 0 < space.export(path) < len(made)
    (part,) = LogTable(path=path).parts()
    log = space.log()
    np.testing.assert_array_equal(part.log.rewards, log.rewards)
    np.testing.assert_array_equal(part.log.probabilities, log.probabilities)
    np.testing.assert_array_equal(part.log.features, log.features)
    assert list(part.log.tasks) == list(log.tasks)
    rounds = list(Replay(log=log).rounds(10, seed=0))
    assert rounds[0].arms.shape[2] == SCHEMA.dim
    shown = CliRunner().invoke(
        application(), ["evaluate", str(path), "--policy", "random", "--json"]
    )
    assert shown.exit_code == 0, shown.output
    assert [one.name for one in tmp_path.iterdir()] == ["log.parquet"]


def test_history_is_learned_and_is_part_of_the_log(engine: Engine) -> None:
    space = engine.space("warm", SCHEMA)
    past = [
        Past(task=f"shop {n % 3}", arms=ARMS, chosen=name, reward=PAYS[name], probability=1 / 3)
        for n in range(20)
        for name in PAYS
    ]
    assert space.import_past(past) == 60
    engine.settle()
    assert space.policy().rewards == 60
    assert space.decide("shop 1", arms=ARMS).arm == "tea"
    wrong = Past(task="a", arms=ARMS, chosen="beer", reward=1.0)
    with pytest.raises(DataError, match="chosen must be the id of an arm"):
        space.import_past([past[0], wrong])
    assert space.policy().rewards == 60
    vectors = engine.space("vectors", dim=SCHEMA.dim)
    log = engine.space("teas").log()
    assert vectors.import_past(log) == len(log)
    engine.settle()
    assert vectors.policy().rewards == len(log)
    np.testing.assert_array_equal(vectors.log().features, log.features)
    assert engine.verify().ok


def test_nothing_to_report_yet(engine: Engine, tmp_path: Path) -> None:
    space = engine.space("empty", SCHEMA)
    found = space.report()
    assert (found.policy, found.estimates, found.days) == (None, {}, ())
    assert "fewer than 30 rewards" in found.notes[0]
    with pytest.raises(DataError, match="has a reward yet"):
        space.log()
    with pytest.raises(DataError, match="nothing to write"):
        space.export(tmp_path / "log.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("on_change", "follows"), [("adapt", "it started again"), ("alert", "learning went on")]
)
def test_a_report_says_what_followed_a_change_of_one_task(
    on_change: OnChange, follows: str
) -> None:
    policy = Shared(dim=2, on_change=on_change)
    policy.learn([4], np.ones((1, 1, 2)), made([0]), [1.0])
    policy.restore(replace(state_of(policy), task_changes=((1, 0),)))
    assert changed_alone(policy) == [f"task 4 changed after 1 rewards, and {follows}"]
