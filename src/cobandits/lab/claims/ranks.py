"""The claim that the regret of Thompson sampling does not depend on the rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.lab.claims.base import Case, Claim, few, listed, number
from cobandits.lab.claims.evidence import EVERY_ROUND, Evidence, Setting

__all__ = ["rank_free"]

Floats = NDArray[np.float64]

_SAME = 1.1  # a factor between two regrets that still counts as the same


def rank_free(evidence: Evidence) -> Claim:
    """Judge whether Thompson sampling has the same regret whatever the rank of the truth."""
    claim = Claim(
        key="thompson-rank",
        text="The regret of Thompson sampling does not depend on the rank r.",
        source="section 6",
    )
    groups: dict[tuple[str, int], list[_Ranked]] = defaultdict(list)
    played = evidence.regrets("thompson") or evidence.regrets(f"thompson{EVERY_ROUND}")
    for setting, trials in played.items():
        if setting.environment == "synthetic":
            groups[setting.data, setting.n_tasks].append(_ranked(setting, trials))
    ranked = {
        key: sorted(found, key=lambda one: one.rank)
        for key, found in groups.items()
        if len(found) > 1
    }
    if not ranked:
        return claim.untested("Thompson sampling was not run with two ranks.")
    plain = max(_factor(one.regrets, other.regrets) for one, other in _pairs(ranked))
    scaled = max(_factor(one.in_lengths, other.in_lengths) for one, other in _pairs(ranked))
    numbers = (
        f"{_example(ranked)} Between two ranks it differs by a factor of up to {number(plain)}, "
        f"beyond chance; in units of the mean length of the trial's thetas, of {number(scaled)}."
    )
    counts = [len(one.regrets) for found in ranked.values() for one in found]
    judged = claim.judged([Case(holds=plain <= _SAME)], numbers, counts)
    if plain > _SAME >= scaled:
        unit = "regret is measured in units of the length of theta, about sqrt(r)"
        return replace(judged, verdict="holds only if", condition=unit)
    return judged


class _Ranked(NamedTuple):
    rank: int
    regrets: Floats  # (trial,)
    in_lengths: Floats  # (trial,), in units of the mean norm of the tasks' thetas


def _ranked(setting: Setting, trials: Mapping[int, float]) -> _Ranked:
    regrets = np.array([trials[trial] for trial in sorted(trials)])
    lengths = [np.linalg.norm(setting.theta(trial), axis=0).mean() for trial in sorted(trials)]
    return _Ranked(setting.rank, regrets, regrets / np.array(lengths))


def _pairs(
    ranked: Mapping[tuple[str, int], Sequence[_Ranked]],
) -> list[tuple[_Ranked, _Ranked]]:
    return [pair for found in ranked.values() for pair in combinations(found, 2)]


def _factor(one: Floats, other: Floats) -> float:
    """Return the factor between two regrets, at least 1, at the end of its interval next to 1."""
    n = min(len(one), len(other))
    mean, half = t_interval(np.log(one[:n] / other[:n]))
    return float(np.exp(max(0.0, abs(float(mean)) - (0 if few(n) else float(half)))))


def _example(ranked: Mapping[tuple[str, int], Sequence[_Ranked]]) -> str:
    data, n_tasks = max(ranked, key=lambda key: (len(ranked[key]), key[1]))
    said = [
        f"{number(float(one.regrets.mean()))} at r = {one.rank}" for one in ranked[data, n_tasks]
    ]
    return f"On {data}, T = {n_tasks} the regret per task is {listed(said)}."
