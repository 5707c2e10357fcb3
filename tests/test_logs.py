"""Logs: what they refuse, and that they come back from a file as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.decisions import Decisions
from cobandits.environments import Synthetic
from cobandits.errors import DataError, ModelFileError
from cobandits.estimate import Estimate
from cobandits.evaluation import collect
from cobandits.logs import Log, LogWriter
from cobandits.policies import Ridge

ARRAYS = ("tasks", "arms", "chosen", "probabilities", "rewards")


def made(n: int = 4, K: int = 3, d: int = 2, **changed: Any) -> Log:
    """Return a log of n decisions, with some of its fields changed."""
    rng = np.random.default_rng(0)
    fields: dict[str, Any] = {
        "tasks": np.arange(n) % 2,
        "arms": rng.standard_normal((n, K, d)),
        "chosen": rng.integers(K, size=n),
        "probabilities": rng.uniform(0.1, 1, n),
        "rewards": rng.standard_normal(n),
        "policy": "old",
    }
    return Log(**{**fields, **changed})


def decided(chosen: list[int], policy: str = "a") -> Decisions:
    half = np.full(len(chosen), 0.5)
    return Decisions(chosen=np.array(chosen, np.int64), probabilities=half, policy=policy)


def assert_same(one: Log, other: Log) -> None:
    for name in ARRAYS:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert (one.policy, one.labels) == (other.policy, other.labels)


def test_sizes_and_chosen_features() -> None:
    log = made(n=5, K=3, d=2, tasks=[4, 0, 0, 4, 1], chosen=[0, 1, 2, 0, 1])
    assert (len(log), log.n_arms, log.dim, log.n_tasks) == (5, 3, 2, 5)
    assert log.labels == ()
    assert log.codes.tolist() == [4, 0, 0, 4, 1]
    assert isinstance(log.arms, np.ndarray)
    for n, arm in enumerate([0, 1, 2, 0, 1]):
        np.testing.assert_array_equal(log.features[n], log.arms[n, arm])


@given(st.lists(st.sampled_from(["shop", "site", "é", ""]), min_size=1, max_size=12))
def test_labels_are_numbered_as_they_first_appear(labels: list[str]) -> None:
    log = made(n=len(labels), tasks=labels)
    assert [log.labels[code] for code in log.codes] == labels
    assert log.n_tasks == len(set(labels))
    firsts = [labels.index(label) for label in log.labels]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tasks": []}, "n at least 1"),
        ({"tasks": [[0, 1, 0, 1]]}, "got shape"),
        ({"tasks": [0.0, 1.0, 0.0, 1.0]}, "whole numbers or labels of text"),
        ({"tasks": [0, 1, -1, 1]}, "numbered from 0, got -1"),
        ({"labels": ("a", "b")}, "tasks are numbers, so leave out labels"),
        ({"tasks": ["a", "b", "a", "c"], "labels": ("b", "a")}, "the task 'c' is not among the 2"),
        ({"tasks": ["a"] * 4, "labels": ("a", "a")}, "2 labels, but only 1 different"),
        ({"tasks": [0, 1]}, "for m = 2 tasks"),
        ({"arms": np.zeros((4, 2))}, "expected arms"),
        ({"arms": np.zeros((4, 0, 2))}, "expected arms"),
        ({"arms": np.full((4, 3, 2), np.nan)}, "NaN or an infinite"),
        ({"arms": np.full((4, 3, 2), "x")}, "real numbers"),
        ({"chosen": [0, 1, 2, 3]}, "arm 3 was never offered: arms are numbered 0 to 2"),
        ({"chosen": [0, -1, 2, 1]}, "arm -1 was never offered"),
        ({"chosen": [0.0, 1.0, 2.0, 1.0]}, "numbers of arms"),
        ({"chosen": [0, 1]}, "expected chosen"),
        ({"probabilities": [0.5, 0.0, 0.5, 0.5]}, "above 0 and at most 1"),
        ({"probabilities": [0.5, 1.1, 0.5, 0.5]}, "above 0 and at most 1"),
        ({"probabilities": [0.5, np.nan, 0.5, 0.5]}, "finite, got nan in decision 1"),
        ({"probabilities": [0.5]}, r"probabilities \(4,\)"),
        ({"rewards": [1.0, 2.0, np.inf, 3.0]}, "finite, got inf in decision 2"),
        ({"rewards": [1.0, 2.0]}, r"rewards \(4,\)"),
        ({"rewards": ["a", "b", "c", "d"]}, "a number for each decision"),
    ],
)
def test_what_is_no_log_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        made(**changed)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"tasks": ["é", "b", "é", ""]},
        {"tasks": ["a", "b", "a", "b"], "labels": ("c", "b", "a")},
        {"tasks": np.array([3, 0, 3, 0], np.uint8)},
        {"arms": np.ones((4, 3, 2), np.float32)},
        {"policy": ""},
    ],
)
def test_a_saved_log_comes_back(tmp_path: Path, changed: dict[str, Any]) -> None:
    log = made(**changed)
    log.save(tmp_path / "log.npz")
    assert_same(Log.load(tmp_path / "log.npz"), log)
    assert [path.name for path in tmp_path.iterdir()] == ["log.npz"]


def test_truncated_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    made(n=2).save(path)
    content = path.read_bytes()
    for end in range(0, len(content), 7):
        path.write_bytes(content[:end])
        with pytest.raises(ModelFileError, match="not a whole cobandits log"):
            Log.load(path)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    with pytest.raises(ModelFileError, match="there is no file"):
        Log.load(path)
    with pytest.raises(ModelFileError, match="cannot be read"):
        Log.load(tmp_path)
    Estimate(basis=np.eye(2), weights=np.eye(2), labels=("a", "b")).save(path)
    with pytest.raises(
        ModelFileError, match=r"holds a cobandits estimate, not a log; .*Estimate\.load"
    ):
        Log.load(path)
    with path.open("wb") as file:
        np.savez(file, tasks=np.array([object()]), allow_pickle=True)
    with pytest.raises(ModelFileError, match="not a whole cobandits log"):
        Log.load(path)


@pytest.mark.parametrize(
    ("version", "rewards", "message"),
    [(3, [1.0], "version 3; this release reads"), (1, [np.nan], r"not a whole .* \(DataError\)")],
)
def test_other_versions_and_wrong_contents_are_refused(
    tmp_path: Path, version: int, rewards: list[float], message: str
) -> None:
    log = made(n=1)
    arrays = {name: getattr(log, name) for name in ARRAYS} | {"rewards": np.array(rewards)}
    known = {"format": "cobandits-log", "version": version, "arrays": list(arrays)}
    header = json.dumps({**known, "policy": "", "labels": []})
    np.savez(tmp_path / "log.npz", header=np.frombuffer(header.encode(), np.uint8), **arrays)
    with pytest.raises(ModelFileError, match=message):
        Log.load(tmp_path / "log.npz")


def test_a_failed_save_leaves_the_old_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = made()
    old.save(tmp_path / "log.npz")

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        made(n=9).save(tmp_path / "log.npz")
    assert_same(Log.load(tmp_path / "log.npz"), old)


@given(st.integers(1, 11))
def test_parts_of_a_log_make_it_again(cut: int) -> None:
    whole = made(n=12)
    first, last = whole.select(slice(cut)), whole.select(np.arange(12) >= cut)
    assert (len(first), len(last)) == (cut, 12 - cut)
    assert_same(Log.concatenate([first, last]), whole)


def test_tasks_of_a_part_keep_their_numbers() -> None:
    whole = made(n=4, tasks=["b", "a", "c", "a"])
    part = whole.select(slice(1, None))
    assert part.codes.tolist() == whole.codes[1:].tolist() == [1, 2, 1]
    assert part.n_tasks == 3
    with pytest.raises(DataError, match="n at least 1"):
        whole.select(slice(0))


def test_a_policy_learns_from_a_log_as_from_its_rounds() -> None:
    environment = Synthetic(dim=2, n_tasks=3, rank=1, n_arms=3)
    first, second = Ridge(dim=2, n_tasks=3), Ridge(dim=2, n_tasks=3)
    log = collect(first, environment, rounds=10, seed=0)
    second.learn(log.codes, log.arms, log.decisions, log.rewards)
    np.testing.assert_allclose(first.posteriors.means, second.posteriors.means, rtol=1e-8)


def test_logs_of_different_kinds_stay_apart() -> None:
    with pytest.raises(DataError, match="2 features and 3 features"):
        Log.concatenate([made(d=2), made(d=3)])
    with pytest.raises(DataError, match="labels and numbers"):
        Log.concatenate([made(), made(tasks=["a", "b", "a", "b"])])
    with pytest.raises(DataError, match="no log"):
        Log.concatenate([])


def test_labels_keep_their_numbers_when_more_follow() -> None:
    first = made(n=2, tasks=["b", "a"])
    joined = Log.concatenate([first, made(n=2, tasks=["longer", "a"], policy="new")])
    assert joined.labels == ("b", "a", "longer")
    assert joined.policy == "old, new"


def test_a_writer_leaves_out_unknown_rewards_and_copies() -> None:
    writer = LogWriter()
    arms = np.arange(12.0).reshape(3, 2, 2)
    writer.add(np.array([0, 1, 2]), arms, decided([1, 0, 1]), [1.0, np.nan, 3.0])
    writer.add(np.array([1]), arms[:1], decided([0]), [np.nan])
    writer.add(np.empty(0, np.int64), arms[:0], decided([]), [])
    kept = arms[[0, 2]].copy()
    arms[:] = -1
    log = writer.log()
    assert len(writer) == len(log) == 2
    assert log.tasks.tolist() == [0, 2]
    assert log.rewards.tolist() == [1.0, 3.0]
    np.testing.assert_array_equal(log.arms, kept)


def test_a_writer_refuses_what_does_not_fit() -> None:
    writer = LogWriter()
    with pytest.raises(DataError, match="no decision with a known reward"):
        writer.log()
    with pytest.raises(DataError, match="a reward for each of 2 decisions"):
        writer.add(np.array([0, 1]), np.ones((2, 2, 1)), decided([0, 0]), [1.0])
    with pytest.raises(DataError, match="finite, got inf"):
        writer.add(np.array([0]), np.ones((1, 2, 1)), decided([0]), [np.inf])
    assert len(writer) == 0
