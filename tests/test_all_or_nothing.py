"""An update of the shared policy that is refused, fails or is interrupted leaves no trace."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.policies import Shared
from cobandits.policies import shared as package
from cobandits.policies.shared import config
from tests.shared_states import (
    assert_holds,
    assert_same,
    full_counts,
    made,
    n_dropped,
    saved,
    state_of,
)
from tests.shared_trajectory import (
    ARMS,
    DIM,
    TASKS,
    joined_late,
    late_request,
    moments,
    play,
    played,
)

Floats = NDArray[np.floating]

SHARED = "cobandits.policies.shared"


def assert_alike(policy: Shared, twin: Shared, start: int, rounds: int) -> None:
    """Play with both, and compare what they decide and what they hold."""
    for n in range(start, start + rounds):
        for a, b in zip(play(policy, n), play(twin, n), strict=True):
            np.testing.assert_array_equal(a, b)
    assert_same(policy, twin)


# ---- refused


@pytest.mark.parametrize(
    ("tasks", "chosen", "rewards", "message"),
    [
        ([0, 1], [0, 1], [1.0, np.nan], "reward 1 is nan"),
        ([0, 1], [0, ARMS], [1.0, 2.0], "was never offered"),
        ([0, -1], [0, 1], [1.0, 2.0], "task -1"),
        ([0, 1], [0, 1], [1.0], "a reward for each of 2"),
        ([0, 1], [0, 1], [1.0, 1e200], "can be squared"),
        ([0, 1], [0, 1], [1.0, 1e80], "can be squared"),
        ([0, 1], [0, 1], [1.0, 9e74], "too large"),  # for the posteriors alone
    ],
)
@pytest.mark.parametrize("moment", ["middle", "pending", "stored"])
def test_a_refused_update_leaves_no_trace(
    moment: str, tasks: list[int], chosen: list[int], rewards: list[float], message: str
) -> None:
    """Neither where pending rewards are about to be stored."""
    start = moments()[moment]
    policy = played(start)
    assert not policy.refit_due(2)
    before, twin = saved(policy), copy.deepcopy(policy)
    with pytest.raises(DataError, match=message):
        policy.learn(tasks, np.ones((2, ARMS, DIM)), made(chosen), rewards)
    assert_holds(policy, before)
    assert_alike(policy, twin, start, 5)


def test_rewards_without_a_shape_and_arms_of_another_are_refused() -> None:
    policy = played(8)
    before, arms = saved(policy), np.ones((2, ARMS, DIM))
    for alone in (1.0, np.float64(1.0), np.array(1.0)):
        with pytest.raises(DataError, match=r"a reward for each of 1 decisions, got \(\)"):
            policy.learn([0], arms[:1], made([0]), alone)
    with pytest.raises(DataError, match="expected arms"):
        policy.learn([0, 1], arms[:, :, :2], made([0, 1]), [1.0, 1.0])
    assert_holds(policy, before)


def test_a_refused_update_of_a_new_task_leaves_no_trace() -> None:
    policy, rng = Shared(dim=3, n_tasks=5), np.random.default_rng(0)
    arms = rng.standard_normal((3, 4, 3))
    for _ in range(9):
        decided = policy.decide([0, 1, 2], arms, rng)
        policy.learn([0, 1, 2], arms, decided, decided.features(arms) @ np.arange(1, 4))
    assert not policy.refit_due()
    before, untouched = saved(policy), copy.deepcopy(policy)
    for features, reward in ((9e74, 1.0), (1.0, -9e74), (9e74, 9e74)):
        with pytest.raises(DataError, match="too large"):
            policy.learn([4], np.full((1, 4, 3), features), made([0]), [reward])
    assert before.arrays["store.tasks"].tolist() == [0, 1, 2]
    assert_holds(policy, before)
    for each in (policy, untouched):
        for n in range(30):
            each.learn([n % 5], arms[:1], made([0]), [0.1 * n])
    assert_same(policy, untouched)


# ---- failed


def raising(error: type[BaseException]) -> Callable[..., None]:
    def fails(*_: object, **__: object) -> None:
        raise error("no")

    return fails


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("moment", "where"),
    [
        ("before a refit", f"{SHARED}.laplace.fit_priors"),
        ("before a refit", f"{SHARED}.empirical_bayes.HyperparameterSelector.following"),
        ("before a refit", "cobandits.policies.gaussian.GaussianPosteriors.set_from_rows"),
        ("before a refit", f"{SHARED}.row_store.RowStore.added"),
        ("before a refit", f"{SHARED}.row_store.RowStore.with_room"),
        ("before a refit", f"{SHARED}.posteriors.TaskPosteriors.predict_errors"),
        ("before a refit", f"{SHARED}.refitting.Estimate"),
        ("before a change", f"{SHARED}.laplace.fit_priors"),
        ("before a change", f"{SHARED}.posteriors.TaskPosteriors.of"),
        ("before a change", f"{SHARED}.refitting.Estimate"),
        ("middle", "cobandits.policies.gaussian.GaussianPosteriors.learn_in_directions"),
        ("pending", f"{SHARED}.empirical_bayes.HyperparameterSelector.scored"),
        ("pending", f"{SHARED}.drift.DriftDetector.after"),
        ("pending", f"{SHARED}.row_store.RowStore.added"),
    ],
)
def test_an_update_that_fails_midway_leaves_no_trace(
    monkeypatch: pytest.MonkeyPatch, moment: str, where: str, error: type[BaseException]
) -> None:
    """Neither where all would be forgotten, since tasks have changed."""
    when = {**moments(), "before a change": moments()["after a change"] - 1}[moment]
    policy = played(when)
    before, twin = saved(policy), copy.deepcopy(policy)
    with monkeypatch.context() as patch:
        patch.setattr(where, raising(error))
        with pytest.raises((DataError, error), match="no"):
            play(policy, when)
    assert_holds(policy, before)
    assert_alike(policy, twin, when, 5)
    assert bool(policy.changes) == (moment == "before a change")


def test_rows_that_cannot_be_learned_from_are_said_to_differ_in_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    when = moments()["before a refit"]
    policy = played(when)
    monkeypatch.setattr(f"{SHARED}.laplace.fit_priors", raising(np.linalg.LinAlgError))
    with pytest.raises(DataError, match=r"differ too much in size .*\(no\); scale them to about 1"):
        play(policy, when)


def before_relearning() -> tuple[Shared, int]:
    """Return a policy whose next late request, n, has both late tasks learned whole again."""
    policy = joined_late(2, late=2)
    for n in range(2, 79):
        twin = copy.deepcopy(policy)
        late_request(twin, n, late=2)
        if (full_counts(twin) > full_counts(policy)).tolist() == [False] * 3 + [True] * 2:
            assert state_of(twin).due == state_of(policy).due  # by no refit
            return policy, n
        policy = twin
    raise AssertionError("no request has them learned again")


def test_thetas_that_were_learned_again_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are set in place before the new rewards are learned, which fails."""
    policy, n = before_relearning()
    before, twin = saved(policy), copy.deepcopy(policy)
    late_request(twin, n, late=2)
    where = "cobandits.policies.gaussian.GaussianPosteriors.learn_in_directions"
    with monkeypatch.context() as patch:
        patch.setattr(where, raising(MemoryError))
        with pytest.raises(MemoryError, match="no"):
            late_request(policy, n, late=2)
    assert_holds(policy, before)
    late_request(policy, n, late=2)
    assert_same(policy, twin)


# ---- interrupted at any step


class Steps:
    """Counts the calls of and by functions of the package, and interrupts one of them.

    It ends with :meth:`State.observe`, which moves posteriors in place, at once. Where thetas are
    learned again, they are set in place before that, and put back. A lock that is released is no
    step: all is done by then.
    """

    def __init__(self, interrupted_at: int = 0) -> None:
        self.taken, self._at = 0, interrupted_at
        self._folder = str(Path(package.__file__).parent)

    def __call__(self, frame: FrameType, event: str, called: object) -> None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if event not in ("call", "c_call") or not file.startswith(self._folder):
            return
        if getattr(called, "__name__", "") == "__exit__":
            return
        if getattr(called, "__module__", "") == "slipcover.probe":  # not where it has been before
            return
        if name == "observe":
            sys.setprofile(None)
            return
        self.taken += 1
        if self.taken == self._at:
            raise KeyboardInterrupt

    def run(self, action: Callable[[Shared], object], policy: Shared) -> bool:
        """Tell whether the action was interrupted."""
        sys.setprofile(self)
        try:
            action(policy)
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
        return False


def assert_interruptible(policy: Shared, update: Callable[[Shared], object], most: int) -> None:
    """Interrupt an update at so many of its steps, at all of them if there are fewer."""
    before, reference, whole = saved(policy), copy.deepcopy(policy), Steps()
    update(copy.deepcopy(policy))  # what is computed once per process counts in no run
    assert not whole.run(update, reference)
    after = saved(reference)
    assert whole.taken > 10
    for step in np.unique(np.linspace(1, whole.taken, most).round().astype(int)).tolist():
        twin = copy.deepcopy(policy)
        assert Steps(interrupted_at=step).run(update, twin)
        assert_holds(twin, before)
        update(twin)
        assert_holds(twin, after)


@pytest.mark.parametrize(
    ("moment", "within"),
    [
        ("new", 2**30),
        ("before a refit", 2**30),
        ("before a refit", 1),
        ("before a change", 2**30),
        ("pending", 2**30),
        ("pending", 1),
    ],
)
def test_an_update_can_be_interrupted_at_any_step(
    monkeypatch: pytest.MonkeyPatch, moment: str, within: int
) -> None:
    """In a refit, in one that drops rows, when tasks have changed, and when rows are stored."""
    monkeypatch.setattr(config, "ROW_BYTES", within)
    monkeypatch.setattr(config, "FEWEST_ROWS", 4)
    when = {**moments(), "before a change": moments()["after a change"] - 1}[moment]
    policy = played(when, dim=DIM if within > 1 else 2 * DIM)
    if "pending" in moment:
        while not state_of(policy).must_absorb or policy.refit_due(TASKS * 2):
            play(policy, when)
            when += 1
    if within == 1:
        assert n_dropped(policy) > 0
    assert_interruptible(policy, lambda each: play(each, when), most=60)


def test_learning_thetas_again_can_be_interrupted_at_any_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two tasks are learned again in all directions, one after the other."""
    monkeypatch.setattr(config, "BLOCK_BYTES", 1)
    policy, n = before_relearning()
    assert_interruptible(policy, lambda each: late_request(each, n, late=2), most=200)
