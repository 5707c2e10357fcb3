"""Decisions of one space, made together: a pure function of state, requests and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cobandits.engine.encoding import Prepared
from cobandits.engine.events import Choice
from cobandits.engine.ids import stream_at, uniforms
from cobandits.engine.learner import Learner
from cobandits.engine.policies import SpacePolicy
from cobandits.engine.settings import Settings
from cobandits.ragged import RaggedArms

__all__ = ["decide_batch"]

Floats = NDArray[np.floating]

_DRAWS = 1 << 64  # the policy's stream is apart from that of single events
# Where a choice is not certain, the probabilities of the arms that were not chosen take 50
# microseconds per pair of arms. They are shown, and nothing depends on them, so they are worked out
# for few arms only, and not where many requests wait.
_PAIRS, _FEW = 60, 4


def decide_batch(
    learner: Learner, settings: Settings, seed: int, asked: Sequence[Prepared], numbers: list[int]
) -> list[Choice]:
    """Return a choice for each request; ``numbers`` are those of their events, rising."""
    policy, base, learned = learner.deciding
    tasks, arms = [one.task for one in asked], _arms(asked)
    made = policy.decide(tasks, arms, stream_at(seed, numbers[0] + _DRAWS))
    picked, probabilities = made.chosen.tolist(), made.probabilities.tolist()
    kept = _kept_for_baseline(settings, seed, numbers)
    pairs = _PAIRS if len(asked) <= _FEW else 0
    choices = []
    for one, arm, p, keep in zip(asked, picked, probabilities, kept, strict=True):
        chances, used = _chances(policy, one, arm, p, pairs)
        pairs -= used
        choices.append(
            Choice(
                arm=one.baseline if keep else arm,
                probability=1.0 if keep else p,
                base=base,
                learned=learned,
                chances=chances,
                batch=numbers[0],
                size=len(asked),
                proposed=arm,
                by="baseline" if keep else "policy",
                mode=settings.mode,
            )
        )
    return choices


def _arms(asked: Sequence[Prepared]) -> Floats | RaggedArms:
    """Return the arms of all requests, as an array where they have as many."""
    phis = [one.phi for one in asked]
    plain = len({phi.shape for phi in phis}) == 1
    if plain and all(one.n_available == len(one.ids) for one in asked):
        return np.concatenate(phis).reshape(len(phis), *phis[0].shape)  # np.stack takes longer
    return RaggedArms.of(phis, [one.available for one in asked])


def _kept_for_baseline(settings: Settings, seed: int, numbers: list[int]) -> list[bool]:
    """Return which decisions the baseline makes."""
    if settings.mode == "shadow" or not settings.baseline_share:
        return [settings.mode == "shadow"] * len(numbers)
    thrown = uniforms(seed, np.array(numbers, np.int64))
    kept: list[bool] = (thrown < settings.baseline_share).tolist()
    return kept


def _chances(
    policy: SpacePolicy, one: Prepared, arm: int, p: float, pairs: int
) -> tuple[list[float | None], int]:
    """Return the policy's probabilities of all arms, None where not known, and the pairs used."""
    K = one.n_available
    rest = policy.floor / K
    if p == (1 - policy.floor) + rest or K == 1:  # certain, but for the floor
        found: list[float | None] = [rest] * len(one.ids)
        if len(one.ids) > K:
            found = [rest if ok else -1.0 for ok in one.available.tolist()]
        found[arm] = p
        return found, 0
    if pairs < K * (K - 1):
        only: list[float | None] = [None] * len(one.ids)
        if len(one.ids) > K:
            only = [None if ok else -1.0 for ok in one.available.tolist()]
        only[arm] = p
        return only, 0
    table = policy.probabilities([one.task], [one.phi], available=[one.available])[0]
    others = 1 - table[arm]
    scaled = table * ((1 - p) / others if others > 0 else 0.0)  # with that of the chosen, 1 in all
    scaled[arm], scaled[~one.available] = p, -1.0
    return scaled.tolist(), K * (K - 1)
