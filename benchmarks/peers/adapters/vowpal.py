"""Vowpal Wabbit: ``--cb_explore_adf`` with features of the arms, in one workspace for all tasks."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Peer, Setting

__all__ = ["PEERS", "Vowpal"]

_APART = 64  # --lrq keeps the factors of a feature in the slots that follow its own


class Vowpal:
    """An example for each arm, kept from the decision until its reward is known."""

    def __init__(self, setting: Setting, options: str, *, alone: bool) -> None:
        from vowpalwabbit import Example, Workspace

        self.vw = Workspace(
            f"--quiet --cb_explore_adf --noconstant -b 20 --random_seed {setting.seed} {options}"
        )
        self.example = partial(Example, self.vw)
        self.dim, self.alone = setting.dim, alone
        self.draws = random.Random(setting.seed)

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        self.asked = []
        for task, rows in zip(tasks.tolist(), arms.tolist(), strict=True):
            context, examples = self._context(task), self._examples(task, rows)
            chances = self.vw.predict(context + examples)
            arm = self.draws.choices(range(len(rows)), chances)[0]
            self.asked.append((context, examples, arm, chances[arm]))
        return np.array([arm for _, _, arm, _ in self.asked], np.int64)

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        for (context, examples, arm, chance), reward in zip(
            self.asked, rewards.tolist(), strict=True
        ):
            examples[arm].set_label_string(f"0:{-reward}:{chance}")
            self.vw.learn(context + examples)
            self.vw.finish_example(context + examples)

    def _context(self, task: int) -> list[Any]:
        return [] if self.alone else [self.example(f"shared |t t{task}")]

    def _examples(self, task: int, rows: list[list[float]]) -> list[Any]:
        """Give numbered features, which takes less time than to write and parse text."""
        if self.alone:
            slots = range(task * self.dim, (task + 1) * self.dim)
        else:
            slots = range(0, _APART * self.dim, _APART)
        examples = [self.example({"a": list(zip(slots, row, strict=True))}) for row in rows]
        for example in examples:
            example.setup_example()
        return examples


def make(
    setting: Setting, *, flags: str, alone: bool = False, updates: str = "", **options: float | str
) -> Vowpal:
    """Make a learner with fixed flags and options that are tuned, named as on the command line."""
    words = [f"--{name} {value}" for name, value in options.items()]
    return Vowpal(setting, " ".join([flags, updates, *words]), alone=alone)


def _peer(
    name: str, flags: str, *, shares: bool, note: str, **grid: tuple[float | str, ...]
) -> Peer:
    return Peer(
        name=f"vw {name}",
        library="vowpalwabbit",
        module="vowpalwabbit",
        make=partial(make, flags=flags, alone=not shares),
        grid=grid,
        exact=False,
        shares=shares,
        note=note,
    )


def _peers(explore: str, flag: str, tuned: str, values: tuple[float, float, float]) -> list[Peer]:
    """Return the four modes of one way to explore, of which one option is tuned as well."""
    low_rank = {"learning_rate": (1.0, 4.0), tuned: values[:2]}
    return [
        _peer(
            f"{explore}, independent",
            flag,
            shares=False,
            note="features numbered apart for each task",
            updates=("--invariant",),
            learning_rate=(0.005, 0.02, 0.1, 0.5),
            **{tuned: values},
        ),
        _peer(
            f"{explore}, interactions",
            f"{flag} -q ta --ignore_linear t",
            shares=True,
            note="weights common to all tasks plus weights of each task",
            updates=("", "--invariant --adaptive"),
            learning_rate=(0.5, 2.0, 16.0),
            **{tuned: values[:2]},
        ),
        *(
            _peer(
                f"{explore}, --{option}",
                f"{flag} --power_t 0.75",
                shares=True,
                note="weights common to all tasks plus low-rank weights of task and feature",
                **{option: ("ta4", "ta8", "ta16")},
                **low_rank,
            )
            for option in ("lrq", "lrqfa")
        ),
    ]


PEERS = (
    *_peers("squarecb", "--squarecb", "gamma_scale", (1000.0, 100.0, 10.0)),
    *_peers("epsilon", "", "epsilon", (0.0, 0.01, 0.05)),
)
