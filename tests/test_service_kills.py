"""Kill -9 over HTTP: a short version of `make kill-service`."""

from __future__ import annotations

from pathlib import Path

from tests.faults import needs_faults
from tests.service_kills import killed_often


def test_nothing_that_was_answered_is_lost_or_learned_twice(tmp_path: Path) -> None:
    found = killed_often(tmp_path, kills=2, clients=4, answers=30)
    assert found.wrong == []
    assert found.decisions >= 20
    assert found.rewards >= 10
    assert found.recomputed >= found.decisions


@needs_faults
def test_nor_when_it_ends_between_write_and_reply(tmp_path: Path) -> None:
    hooks = [("fsync", "after"), ("swap", "before")]
    found = killed_often(tmp_path, kills=4, clients=4, answers=20, hooks=hooks)
    assert found.wrong == []
    assert set(found.at) == {"after fsync", "before swap", "at random"}
    assert found.recomputed >= found.decisions >= 20
