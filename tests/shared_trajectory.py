"""A trajectory of a shared policy with refits and a change, and its moments by name."""

from __future__ import annotations

import copy
import functools
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from cobandits.logs import LogWriter
from cobandits.policies import Shared, gaussian
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import Hyperparameters, HyperparameterSelector
from cobandits.policies.shared.empirical_bayes.prior import Products
from tests.shared_states import state_of

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

TASKS, DIM, ARMS = 5, 4, 3
CHANGE = 70  # the round in which all thetas become others
MOMENTS = [
    "new",
    "first",
    "middle",
    "before a refit",
    "after a refit",
    "pending",
    "stored",
    "after a change",
]


def asked(n: int, T: int = TASKS, d: int = DIM) -> tuple[Codes, Floats]:
    """Return tasks, some of them more than once, and their arms in round n."""
    rng = np.random.default_rng([1, n])
    m = int(rng.integers(1, 2 * T))
    return rng.integers(T, size=m), 1 + rng.standard_normal((m, ARMS, d))


def paid(n: int, tasks: Codes, rows: Floats) -> Floats:
    """Return the rewards of chosen arms in round n; thetas share two directions."""
    rng = np.random.default_rng(2 + (n >= CHANGE))
    thetas = rng.standard_normal((TASKS, 2)) @ rng.standard_normal((2, rows.shape[1]))
    noise = 0.1 * np.random.default_rng([3, n]).standard_normal(len(tasks))
    return np.asarray(0.7 + np.einsum("md,md->m", rows, thetas[tasks]) + noise)


def play(policy: Shared, n: int, writer: LogWriter | None = None) -> tuple[Floats, Codes, Floats]:
    """Play round n, whatever was before, and return what was decided."""
    tasks, arms = asked(n, d=policy.dim)
    shares = policy.probabilities(tasks, arms)
    made = policy.decide(tasks, arms, np.random.default_rng([4, n]))
    decided = shares, made.chosen, made.probabilities
    rewards = paid(n, tasks, made.features(arms))
    policy.learn(tasks, arms, made, rewards)
    if writer is not None:
        writer.add(tasks, arms, made, rewards)
    return decided


@functools.cache
def moments() -> dict[str, int]:
    """Return how many rounds to play until each moment."""
    policy, refits, stored, changes = Shared(dim=DIM, n_tasks=TASKS), [], [], []
    for n in range(CHANGE + 30):
        before, used = (policy.estimate, policy.changes), state_of(policy).store.used
        play(policy, n)
        if policy.estimate is not before[0]:
            refits.append(n)
        elif state_of(policy).store.used != used:
            stored.append(n)
        if policy.changes != before[1]:
            changes.append(n)
    refit = next(n for n in refits if n > 20 and n - 1 not in refits)
    full = next(n for n in stored if n > 20)
    assert refit < CHANGE <= changes[0]
    assert full < CHANGE
    return {
        "new": 0,
        "first": 1,
        "middle": refit + 2,
        "before a refit": refit,
        "after a refit": refit + 1,
        "pending": full,
        "stored": full + 1,
        "after a change": changes[0] + 1,
    }


def played(rounds: int, **setting: Any) -> Shared:
    """Return a policy that has played so many rounds."""
    constants = {name: value for name, value in vars(config).items() if name.isupper()}
    given = {"dim": DIM, "n_tasks": TASKS, **setting}
    return copy.deepcopy(_played(rounds, _items(given), _items(constants), gaussian.COMPILED))


def _items(values: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(values.items()))


@functools.cache  # many tests begin at the same moments
def _played(
    rounds: int,
    setting: tuple[tuple[str, Any], ...],
    constants: tuple[tuple[str, Any], ...],
    compiled: bool,
) -> Shared:
    policy = Shared(**dict(setting))
    for n in range(rounds):
        play(policy, n)
    return policy


def request(policy: Shared, n: int, task: int) -> None:
    """Decide and learn request n, of a task."""
    rng = np.random.default_rng([6, n])
    tasks, arms = np.array([task]), rng.standard_normal((1, ARMS, policy.dim))
    made = policy.decide(tasks, arms, rng)
    policy.learn(tasks, arms, made, paid(0, tasks, made.features(arms)))


def late_request(policy: Shared, n: int, late: int = 1) -> None:
    """Learn request n of the last tasks, which take turns."""
    request(policy, 1000 + n, TASKS - 1 - n % late)


def joined_late(n: int, late: int = 1) -> Shared:
    """Return a policy of tasks with many rewards, of which the last ones have had n together.

    It shares, although so few tasks with so many rewards are predicted as well alone.
    """
    policy = Shared(dim=24, n_tasks=TASKS)
    best = HyperparameterSelector.best

    def sharing(selector: HyperparameterSelector, rows: Products) -> Hyperparameters:
        return best(selector, rows)._replace(shared=True)

    with mock.patch.object(HyperparameterSelector, "best", sharing):
        while policy.rewards < 400 or policy.refit_due(79):
            request(policy, policy.rewards, policy.rewards % (TASKS - late))
    for later in range(n):
        late_request(policy, later, late)
    return policy
