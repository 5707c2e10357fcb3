"""What rewards of a space are: said once, checked at the door, the same after opening again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cobandits.engine import Decide, Decision, Engine, Past, Reward, Space
from cobandits.errors import ConfigurationError, DataError

ARMS = [{"features": [1.0, 0.0]}, {"features": [0.0, 1.0]}]


def click(space: Space, rounds: int) -> None:
    """Let tasks have rare clicks."""
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        made = space.ask([Decide(task=f"{t}", arms=ARMS) for t in range(10)])
        values = (rng.random(10) < 0.1).astype(float).tolist()
        space.ask(
            [
                Reward(decision=one.id, value=value)
                for one, value in zip(made, values, strict=True)
                if isinstance(one, Decision)
            ]
        )


def test_clicks_are_learned_as_clicks(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=2, reward_kind="binary")
        click(space, 25)  # there is a refit between 100 and 200 rewards in any case
        engine.settle()
        assert space.policy().likelihood == "binary"
        plain = engine.space("b", dim=2, reward_kind="gaussian")
        click(plain, 25)
        engine.settle()
        assert plain.policy().likelihood == "gaussian"
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a")
        assert space.settings.reward_kind == "binary"
        assert engine.verify().ok
        with pytest.raises(ConfigurationError, match="reward_kind"):
            engine.space("a", reward_kind="count")


@pytest.mark.parametrize(
    ("kind", "fine", "wrong", "message"),
    [("binary", 1, 0.5, "0 or 1"), ("count", 7, -1, "whole numbers of at least 0")],
)
def test_other_rewards_are_refused(
    tmp_path: Path, kind: str, fine: float, wrong: float, message: str
) -> None:
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("a", dim=2, reward_kind=kind)
        made = space.decide("x", arms=ARMS)
        with pytest.raises(DataError, match=message):
            space.reward(made.id, wrong)
        assert space.reward(made.id, fine).status == "accepted"
        past = Past(task="x", arms=ARMS, chosen="0", probability=1.0, reward=wrong)
        with pytest.raises(DataError, match=message):
            space.import_past([past])
        assert [event.kind for event in space.events()] == ["space", "decision", "reward"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"reward_kind": "clicks"}, "reward_kind must be one of auto, gaussian"),
        ({"reward_kind": "binary", "default_reward": 0.5, "window": "1h"}, "must be 0 or 1"),
        ({"reward_kind": "binary", "rewards": "sum", "window": "1h"}, "take reward_kind='count'"),
    ],
)
def test_settings_that_contradict_each_other(
    tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with Engine.open(tmp_path / "a.db") as engine, pytest.raises(ConfigurationError, match=message):
        engine.space("a", dim=2, **given)


def test_logs_of_before_do_not_say_it(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Engine.open(path) as engine:
        click(engine.space("a", dim=2), 5)
        engine.settle()
    with closing(sqlite3.connect(path)) as database:  # as the release before has written it
        body = json.loads(database.execute("SELECT body FROM log WHERE number = 1").fetchone()[0])
        assert body["settings"].pop("reward_kind") == "auto"
        database.execute("UPDATE log SET body = ? WHERE number = 1", (json.dumps(body),))
        database.execute("DELETE FROM snapshots")
        database.commit()
    with Engine.open(path) as engine:
        space = engine.space("a", dim=2, reward_kind="auto")  # no other setting
        click(space, 1)
        engine.settle()
        assert engine.verify().ok
