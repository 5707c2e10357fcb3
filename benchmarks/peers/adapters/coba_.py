"""coba: LinUCB and LinTS with features of the arms, a learner for each task."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Peer, Setting, Unable

__all__ = ["PEERS", "UNABLE", "Coba"]


class Coba:
    """A learner for each task; it has no context, its actions are the arms' features."""

    def __init__(self, setting: Setting, *, learner: str, scale: float, **explore: float) -> None:
        from coba import learners

        make = partial(getattr(learners, learner), features=["a"], seed=setting.seed, **explore)
        self.learners = [make() for _ in range(setting.n_tasks)]
        self.scale = scale  # the ridge is 1: larger features have a smaller one

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        self.played = []
        chosen = []
        for task, actions in zip(tasks.tolist(), (self.scale * arms).tolist(), strict=True):
            action, probability = self.learners[task].predict(None, actions)
            self.played.append((action, probability))
            chosen.append(actions.index(action))
        return np.array(chosen, np.int64)

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        for task, (action, probability), reward in zip(
            tasks.tolist(), self.played, rewards.tolist(), strict=True
        ):
            self.learners[task].learn(None, action, reward, probability)


_SCALES = (0.2, 1.0, 5.0)  # a ridge of 25, 1 and 0.04

PEERS = (
    Peer(
        name="coba LinUCB",
        library="coba",
        module="coba",
        make=partial(Coba, learner="LinUCBLearner"),
        grid={"scale": _SCALES, "alpha": (0.0, 0.01, 0.1, 1.0)},
        exact=True,
        shares=False,
        note="its ridge is always 1: features are scaled instead",
    ),
    Peer(
        name="coba LinTS",
        library="coba",
        module="coba",
        make=partial(Coba, learner="LinTSLearner"),
        grid={"scale": _SCALES, "v": (0.0, 0.0001, 0.01, 1.0)},
        exact=True,
        shares=False,
        note="its ridge is always 1: features are scaled instead; every task draws the same "
        "numbers, since the learner's own generator has a fixed seed",
    ),
)

UNABLE = (
    Unable(
        name="coba LinUCB and LinTS, task as context",
        library="coba",
        why="features=['a', 'ax'] and the task one-hot keep a full matrix of d (T + 1) rows: 75 ms "
        "for a decision and its update at d = 100, T = 25 (coba 8.1.0), 0.8 GB a matrix at T = 100",
    ),
)
