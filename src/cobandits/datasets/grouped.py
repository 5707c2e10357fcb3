"""Real tables with a row per observation, as requests: some rows of one group are the arms.

Whoever gave the ratings, or the school that pupils went to, is a task. The reward of an arm is what
was observed, so it is known of every arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.datasets.choices import ChoiceTable
from cobandits.datasets.raw import raw_columns

__all__ = ["chem97", "exam", "insteval", "verbagg"]

Floats = NDArray[np.float64]

_TASKS = 120  # of a table, at most


@lru_cache(maxsize=1)
def insteval() -> ChoiceTable:
    """Return lectures at ETH Zurich, five to choose among, which a student (task) rated 1 to 5.

    Features are the department, how long ago the lecture was (in half-years), and whether it was
    for another department. Students have at least 30 ratings.
    """
    raw = raw_columns("lme4", "InstEval")
    age = _numbers(raw["lectage"])
    features = {
        **_dummies(raw["dept"], "dept "),
        "age": age - age.mean(),
        "service": _numbers(raw["service"]),
    }
    return _requests(raw["s"], features, raw["y"], arms=5, requests=30, least=30)


@lru_cache(maxsize=1)
def verbagg() -> ChoiceTable:
    """Return items of a questionnaire on verbal aggression, four to choose among.

    The reward is 1 where a person (task) answered "yes" or "perhaps". Features are the behaviour
    (curse, scold, shout), whose fault the situation is, and whether one does it or wants to.
    """
    raw = raw_columns("lme4", "VerbAgg")
    features = {
        **_dummies(raw["btype"]),
        "own fault": raw["situ"] == "self",
        "do": raw["mode"] == "do",
    }
    return _requests(raw["id"], features, raw["resp"] != "no", arms=4, requests=24, least=24)


@lru_cache(maxsize=1)
def exam() -> ChoiceTable:
    """Return pupils of schools (tasks) in London, four to choose among, by their exam score.

    Features are a reading test at entry, sex, and the band of verbal reasoning at entry.
    """
    raw = raw_columns("mlmRev", "Exam")
    bands = _dummies(raw["vr"])
    bands.pop("bottom 25%")
    features = {"reading": _numbers(raw["standLRT"]), "male": raw["sex"] == "M", **bands}
    return _requests(raw["school"], features, raw["normexam"], arms=4, requests=40, least=20)


@lru_cache(maxsize=1)
def chem97() -> ChoiceTable:
    """Return pupils of districts (tasks), five to choose among, by their A-level in chemistry.

    Features are sex, age (in half-years), and the mean of earlier exams (GCSE), both centred.
    """
    raw = raw_columns("mlmRev", "Chem97")
    features = {
        "male": raw["gender"] == "M",
        "age": _numbers(raw["age"]) / 6,
        "earlier": _numbers(raw["gcsecnt"]),
    }
    return _requests(raw["lea"], features, raw["score"], arms=5, requests=40, least=60)


def _requests(
    tasks: NDArray[Any],
    features: Mapping[str, NDArray[Any]],
    rewards: NDArray[Any],
    *,
    arms: int,
    requests: int,
    least: int,
) -> ChoiceTable:
    """Draw requests of tasks with at least so many rows, by a fixed seed."""
    rng = np.random.default_rng(0)
    labels, codes, counts = np.unique(tasks, return_inverse=True, return_counts=True)
    taken = rng.permutation(np.flatnonzero(counts >= least))[:_TASKS]
    drawn = [
        rng.permuted(np.tile(np.flatnonzero(codes == t), (requests, 1)), axis=1)[:, :arms]
        for t in taken
    ]
    rows = np.concatenate(drawn)  # (requests of all tasks, arms)
    table: Floats = np.column_stack(list(features.values())).astype(np.float64)
    return ChoiceTable(
        tasks=labels[np.repeat(taken, requests)],
        arms=table[rows],
        rewards=_numbers(rewards)[rows],
        feature_names=tuple(features),
    )


def _numbers(values: NDArray[Any]) -> Floats:
    return np.asarray(values, np.float64)


def _dummies(values: NDArray[Any], prefix: str = "") -> dict[str, Floats]:
    """Return a column of 0 and 1 per value."""
    text = values.astype(str)
    return {f"{prefix}{kind}": (text == kind).astype(np.float64) for kind in np.unique(text)}
