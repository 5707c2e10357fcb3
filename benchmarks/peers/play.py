"""Play one peer on one workload: ``python -m benchmarks.peers.play '{"peer": ...}'``.

A process of its own for each peer, so that it holds no other library. It prints a line of JSON a
trial (:class:`Trial`), for one choice of parameters after the other. Where one takes longer than
the limit, a line says so, and is the last.

All rounds of a trial are drawn before the learner is made, so that what they take is in no
figure. Memory is what the system says this process holds (resident), at its peak, and how far
that is above what it held just before the learner was made. By then the library is imported, and
a learner of two features has decided and learned once, so that what it imports or compiles late
is not counted either. Buffers that were freed before and are used again are not seen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from time import process_time

import numpy as np

from benchmarks.memory import peak_bytes, reset_peak, resident_bytes
from benchmarks.peers import adapters
from benchmarks.peers.contract import Codes, Floats, Learner, Peer, Setting
from benchmarks.peers.workloads import Options
from cobandits import environments
from cobandits.decisions import Round
from cobandits.linalg import orthonormal

__all__ = ["STOPPED", "Parameters", "Play", "TooSlowError", "Trial", "play", "seed_of", "step"]

Parameters = Mapping[str, float | str]
STOPPED = "stopped"  # after so many seconds


@dataclass(frozen=True, kw_only=True)
class Play:
    """What to play."""

    peer: str
    environment: str
    options: Options
    rounds: int
    seed: int
    trials: Sequence[int]
    choices: Sequence[Parameters]
    limit: float  # CPU seconds of all trials of one choice

    def __str__(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What one trial showed."""

    trial: int
    regret: float  # per task, over all rounds
    at_random: float  # what playing at random is expected to have
    deciding: float  # CPU seconds, which other work does not change much
    learning: float  # CPU seconds
    decisions: int
    peak: int  # bytes
    added: int  # bytes above what was held before the learner was made

    @property
    def microseconds(self) -> float:
        """Of a decision with its update, all included."""
        return 1e6 * (self.deciding + self.learning) / self.decisions


class TooSlowError(Exception):
    """A choice of parameters takes longer than the limit."""


def play(told: Play) -> Iterator[Trial]:
    """Play each trial with each choice of parameters."""
    peer = adapters.peers()[told.peer]
    environment = environments.make(told.environment, told.options)
    for parameters in told.choices:
        _warm_up(peer, parameters)
        end = process_time() + told.limit
        for trial in told.trials:
            rounds = list(environment.rounds(told.rounds, seed=told.seed, trial=trial))
            setting = Setting(
                dim=environment.dim,
                n_tasks=environment.n_tasks,
                n_arms=rounds[0].arms.shape[1],
                seed=seed_of(told.seed, trial),
            )
            yield _played(peer.make, setting, rounds, parameters, trial, end)


def step(
    learner: Learner, tasks: Codes, arms: Floats, rewards: Floats
) -> tuple[Codes, float, float]:
    """Decide and learn once; return the chosen arms and the CPU seconds of each.

    ``rewards`` are those of all arms, (m, K).
    """
    began = process_time()
    chosen = learner.decide(tasks, arms)
    decided = process_time()
    paid = rewards[np.arange(len(tasks)), chosen]  # (m,); an arm that is none is an error here
    paying = process_time()
    learner.learn(tasks, arms, chosen, paid)
    return chosen, decided - began, process_time() - paying


def seed_of(seed: int, trial: int) -> int:
    """Return the seed of a learner's own draws."""
    return 1000 * seed + trial


def _played(
    make: Callable[..., Learner],
    setting: Setting,
    rounds: Sequence[Round],
    parameters: Parameters,
    trial: int,
    end: float,
) -> Trial:
    before = resident_bytes()
    reset_peak()
    learner = make(setting, **parameters)
    regret = at_random = deciding = learning = 0.0
    for asked in rounds:
        chosen, *seconds = step(learner, asked.tasks, asked.arms, asked.rewards)
        best = asked.means.max(axis=1).sum()
        regret += best - asked.means[np.arange(len(chosen)), chosen].sum()
        at_random += best - asked.means.mean(axis=1).sum()
        deciding, learning = deciding + seconds[0], learning + seconds[1]
        if process_time() > end:
            raise TooSlowError
    peak = peak_bytes()
    return Trial(
        trial=trial,
        regret=float(regret / setting.n_tasks),
        at_random=float(at_random / setting.n_tasks),
        deciding=deciding,
        learning=learning,
        decisions=sum(len(asked.tasks) for asked in rounds),
        peak=peak,
        added=max(0, peak - before),
    )


def _warm_up(peer: Peer, parameters: Parameters) -> None:
    """Let all be imported, and take the buffers of BLAS."""
    orthonormal(np.eye(500))
    learner = peer.make(Setting(dim=2, n_tasks=1, n_arms=2, seed=0), **parameters)
    step(learner, np.zeros(1, np.int64), np.eye(2)[None], np.array([[1.0, 0.0]]))


if __name__ == "__main__":
    asked_for = Play(**json.loads(sys.argv[1]))
    try:
        for done in play(asked_for):
            print(json.dumps(asdict(done)), flush=True)
    except TooSlowError:
        print(json.dumps({STOPPED: asked_for.limit}))
