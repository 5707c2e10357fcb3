"""Trajectories of the shared policy that were recorded once, through its public calls only.

A change of the code that is to change no result is checked against them: bit for bit on a machine
like the one that recorded them, elsewhere with the recorded decisions and to a tolerance.
``python -m tests.golden`` records them again, where results are meant to change.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from cobandits.decisions import Decisions, Round
from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.policies.gaussian import COMPILED
from cobandits.policies.shared import config

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Trajectory = dict[str, NDArray[Any]]
Reward = Callable[[Round, Codes], Floats]

FOLDER = Path(__file__).parent
LOOKS = 8  # batches, after which what is known of all tasks is looked at


def as_paid(asked: Round, chosen: Codes) -> Floats:
    """Return the rewards of the world itself."""
    return np.asarray(asked.rewards[np.arange(len(chosen)), chosen])


def clicks(asked: Round, chosen: Codes) -> Floats:
    """Return 1 where the world's reward is high, else 0."""
    return (as_paid(asked, chosen) > 1.0) * 1.0


def whole(asked: Round, chosen: Codes) -> Floats:
    """Return the rewards of the world itself, without what rounding did to whole numbers."""
    return np.rint(as_paid(asked, chosen))


@contextmanager
def little_memory() -> Iterator[None]:
    """Hold rows of a few tasks only, and posteriors in four directions."""
    with (
        mock.patch.object(config, "ROW_BYTES", 1),
        mock.patch.object(config, "POSTERIOR_BYTES", 1),
    ):
        yield


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A world, and how a policy meets it."""

    world: Synthetic
    rounds: int
    setting: dict[str, Any] = field(default_factory=dict)
    reward: Reward = as_paid
    singly: bool = False  # one request at a time, in place of rounds
    alone_from: int | None = None  # the round from which only the first task asks
    same_arms: bool = False  # those of the first round in all
    saved_at: int | None = None  # the batch after which it is saved and loaded
    dtype: type[np.floating] = np.float64
    within: Callable[[], AbstractContextManager[None]] = nullcontext

    def batches(self) -> Iterator[Round]:
        """Yield what is asked at a time."""
        first: Round | None = None
        for n, asked in enumerate(self.world.rounds(self.rounds, seed=11)):
            first = first or asked
            of_arms = first if self.same_arms else asked
            alone = self.alone_from is not None and n >= self.alone_from
            whole = Round(
                tasks=asked.tasks,
                arms=of_arms.arms.astype(self.dtype),
                means=of_arms.means,
                rewards=of_arms.means + asked.rewards - asked.means,
            )
            yield from _split(whole, 1 if alone else len(asked.tasks), singly=self.singly)


def _split(asked: Round, m: int, *, singly: bool) -> Iterator[Round]:
    """Yield the first requests of a round, together or one by one."""
    for some in [slice(i, i + 1) for i in range(m)] if singly else [slice(m)]:
        yield Round(
            tasks=asked.tasks[some],
            arms=asked.arms[some],
            means=asked.means[some],
            rewards=asked.rewards[some],
        )


def _world(**parameters: Any) -> Synthetic:
    return Synthetic(**{"dim": 20, "n_tasks": 12, "rank": 2, "noise_std": 0.1, **parameters})


SCENARIOS = {
    "related": Scenario(world=_world(), rounds=50),
    "unrelated": Scenario(world=_world(dim=6, n_tasks=8, unrelated=True), rounds=60),
    "correlated": Scenario(world=_world(correlation=0.8, shift=2.0), rounds=40),
    "drift": Scenario(world=_world(dim=8, replaced=True), rounds=60),
    "late": Scenario(world=_world(late=0.25, unequal=True), rounds=60),
    "over-budget": Scenario(world=_world(), rounds=40, within=little_memory),
    "far-over-budget": Scenario(
        world=_world(dim=4, n_tasks=20, unequal=True), rounds=60, within=little_memory
    ),
    "same-arms": Scenario(world=_world(dim=3, n_tasks=4), rounds=120, same_arms=True),
    "one-task-goes-on": Scenario(world=_world(), rounds=80, alone_from=20),
    "single-requests": Scenario(world=_world(dim=8, n_tasks=6), rounds=40, singly=True),
    "sampled": Scenario(
        world=_world(dim=8, noise_std=1.0), rounds=30, setting={"explore": "always", "floor": 0.1}
    ),
    "greedy": Scenario(world=_world(), rounds=30, setting={"explore": "never", "floor": 0.02}),
    "rare-clicks": Scenario(
        world=_world(dim=5, n_tasks=6, outcome="clicks", rate=0.05), rounds=60, reward=whole
    ),
    "counts": Scenario(
        world=_world(dim=5, n_tasks=6, outcome="counts", rate=0.8), rounds=50, reward=whole
    ),
    "clicks": Scenario(world=_world(dim=5, n_tasks=6), rounds=80, reward=clicks),
    "saved": Scenario(world=_world(), rounds=40, saved_at=17),
    "float32": Scenario(world=_world(dim=5), rounds=30, dtype=np.float32),
    "wide": Scenario(world=_world(dim=258, n_tasks=280), rounds=8),
}


def fingerprint() -> str:
    """Return all that the last bits depend on: processor, BLAS, versions, extension."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = {line.split(":")[1].strip() for line in lines if line.startswith("model name")}
    blas = sorted(
        f"{part['internal_api']} {part['version']} {part.get('architecture')} "
        f"{part['num_threads']} threads"
        for part in threadpool_info()
    )
    parts = [
        platform.machine(),
        *sorted(models),
        *blas,
        f"numpy {np.__version__}",
        f"compiled {COMPILED}",
    ]
    return "; ".join(parts)


def _reloaded(policy: Shared) -> Shared:
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder, "policy"))
        return Shared.load(Path(folder, "policy"))


def play(scenario: Scenario, forced: Codes | None = None) -> Trajectory:
    """Return what a fresh policy decides, and what it knows in the end.

    With ``forced``, the decisions of all requests in turn, it learns from these instead.
    """
    world, rng = scenario.world, np.random.default_rng(5)
    shares, chosen, chances, weights, uncertainty = [], [], [], [], []
    with scenario.within():
        policy = Shared(dim=world.dim, n_tasks=world.n_tasks, **scenario.setting)
        for n, asked in enumerate(scenario.batches()):
            shares.append(policy.probabilities(asked.tasks, asked.arms))
            if forced is None:
                made = policy.decide(asked.tasks, asked.arms, rng)
            else:
                picked, forced = forced[: len(asked.tasks)], forced[len(asked.tasks) :]
                made = Decisions(chosen=picked, probabilities=np.ones(len(picked)), policy="")
            chosen.append(made.chosen)
            chances.append(made.probabilities)
            rewards = scenario.reward(asked, made.chosen)
            policy.learn(asked.tasks, asked.arms, made, rewards)
            if n == scenario.saved_at:
                policy = _reloaded(policy)
            if n % LOOKS == LOOKS - 1:
                explained = policy.explain_all()
                weights.append(explained.weights)
                uncertainty.append(explained.uncertainty)
        return {
            "shares": np.concatenate(shares),
            "chosen": np.concatenate(chosen),
            "chances": np.concatenate(chances),
            "weights": np.concatenate(weights),
            "uncertainty": np.concatenate(uncertainty),
            **_known(policy),
        }


def _known(policy: Shared) -> Trajectory:
    """Return what a policy has learned, as far as it says so."""
    assert policy.estimate is not None
    assert policy.prior is not None
    explained = policy.explain_all()
    return {
        "changes": np.array(policy.changes, np.int64),
        "rewards": np.array(policy.rewards),
        "theta": policy.estimate.theta[:, :8],
        "spectrum": explained.spectrum,
        "noise": np.array(policy.prior.noise),
        "shared": explained.shared,
    }


def path(name: str) -> Path:
    """Return where a scenario's trajectory is kept."""
    return FOLDER / f"{name}.npz"


def record(name: str) -> None:
    """Play a scenario and keep what happened."""
    arrays: Trajectory = {"fingerprint": np.array(fingerprint()), **play(SCENARIOS[name])}
    np.savez_compressed(path(name), allow_pickle=False, **arrays)
