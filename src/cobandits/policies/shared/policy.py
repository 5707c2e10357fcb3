"""The shared policy: its parameters, and how it decides, learns, saves and explains itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.archives import File
from cobandits.decisions import as_codes, check_shape, check_tasks, check_values
from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.policies.shared import checkpoint
from cobandits.policies.shared.change import OnChange
from cobandits.policies.shared.deciding import (
    bounds,
    choose,
    expected_rewards,
    intervals,
    probabilities,
)
from cobandits.policies.shared.empirical_bayes import DecomposedPrior
from cobandits.policies.shared.explain import Explanation, Explanations, explain, explain_all
from cobandits.policies.shared.exploration import Explore
from cobandits.policies.shared.learning import LearningPolicy
from cobandits.policies.shared.likelihoods import Rewards
from cobandits.policies.shared.state import State
from cobandits.policies.shared.task_drift import TaskChange
from cobandits.policies.shared.transitions import undone
from cobandits.policies.task_index import as_labels

__all__ = ["Shared"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class Shared(LearningPolicy):
    """A Gaussian prior that is learned from all tasks, and a posterior per task under it.

    A task's theta is updated after every reward. The prior is learned again from all rewards
    whenever their number has grown by a quarter, or has doubled once it is settled. No rank, ridge
    or horizon is needed.
    A task without rewards is predicted by the mean that all tasks have in common, if they have one.
    Where tasks have nothing in common, the prior has no preferred direction, and each task is
    a ridge regression of its own. How much is shared is decided by the errors in predicting
    rewards before they are learned. An intercept is learned too.

    When errors become far larger than they were, the tasks are taken to have changed:
    :attr:`changes` gets the number of rewards so far, a warning is logged, and what follows is up
    to ``on_change``.

    Tasks may come at any time: time and memory follow those that have had rewards. A task without
    any is decided by what the others have in common.

    Parameters
    ----------
    n_tasks : int, optional
        How many tasks are expected, to reserve no more room than for them. There may be more.
    labels : bool
        Whether tasks are known by any texts, numbers, dates or tuples, not by numbers from 0.
    explore : "needed", "always", "never" or "ucb"
        ``"always"`` is Thompson sampling: the best arm for a theta drawn from the posterior.
        ``"never"`` is greedy. ``"ucb"`` takes the arm with the highest value in the confidence set
        of its task in the learned subspace. ``"needed"`` is greedy, but raises and samples the
        value of an arm if two things hold. Greedy decisions teach little of it, as where arms
        repeat: a far larger share of its prior variance is left than of the greedy arm's. And its
        expected improvement on the best arm, times the number of the task's rewards so far, exceeds
        the expected loss of trying it once. Improvements beyond the highest reward so far do not
        count, and variances are scaled down where errors were smaller than expected.
    floor : float
        Share of the decisions that are uniformly random, so that no arm has probability 0.
    on_change : "adapt", "start-over" or "alert"
        What to do when tasks have changed. ``"adapt"`` starts over with the latest rewards, and
        keeps what was learned before until as many rewards have come again; as soon as that
        predicts rewards better, it is returned to, and while all rewards since are equal, it
        decides. So a false alarm, or rewards that were broken for a while, destroy nothing;
        :meth:`undo_change` returns to it at once. ``"start-over"``
        keeps nothing. ``"alert"`` goes on learning.
    rewards : "auto", "gaussian", "robust", "binary" or "count"
        Numbers with Gaussian noise, or with outliers or a noise by task; 0 and 1 (logistic
        regression); counts (Poisson regression). ``"auto"`` takes them for what they look like.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> policy, arms = Shared(dim=3, n_tasks=2), rng.standard_normal((2, 4, 3))
    >>> decisions = policy.decide([0, 1], arms, rng)
    >>> policy.learn([0, 1], arms, decisions, rewards=[1.0, 2.0])
    """

    name: ClassVar[str] = "shared"

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int | None = None,
        explore: Explore = "needed",
        floor: float = 0.0,
        labels: bool = False,
        on_change: OnChange = "adapt",
        rewards: Rewards = "auto",
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        if not 0 <= floor <= 1:
            raise ConfigurationError(f"floor must be a share from 0 to 1, got {floor}")
        options = ("explore", explore, Explore), ("on_change", on_change, OnChange)
        for name, value, kinds in (*options, ("rewards", rewards, Rewards)):
            if value not in (known := get_args(kinds)):
                raise ConfigurationError(f"{name} must be one of {', '.join(known)}, got {value!r}")
        self.explore, self.floor, self.labels = explore, float(floor), bool(labels)
        self.on_change, self._kind = on_change, rewards
        self._state = State.fresh(dim=dim, reserved=n_tasks, on_change=on_change, kind=rewards)

    @property
    def most_tasks(self) -> None:
        """There can be any number of tasks."""

    @property
    def rewards(self) -> int:
        """How many rewards have been learned."""
        return self._state.rewards

    @property
    def changes(self) -> tuple[int, ...]:
        """After how many rewards, in all, the tasks were each time found to have changed.

        The change itself may be a little earlier. A return to what was learned before counts too.
        """
        return self._state.changes

    @property
    def task_changes(self) -> tuple[TaskChange, ...]:
        """The single tasks that were found to have changed, and after how many rewards in all.

        A task that has changed alone starts again from the prior and its rewards since then. That
        cannot be undone.
        """
        return self._state.named_task_changes

    @property
    def half_life(self) -> float:
        """Rewards of a task after which one weighs half as much; infinite while tasks are still.

        Where tasks drift and ``on_change`` is ``"adapt"``, it is the one that has predicted best.
        """
        return self._state.forgetting.half_life

    def undo_change(self) -> None:
        """Return to what was learned before the tasks changed; rewards since then are forgotten."""
        before = undone(self._state)
        if before is None:
            raise ConfigurationError(
                "there is nothing to return to: no change was found, or as many rewards have come "
                "since, or on_change is not 'adapt'"
            )
        self._state = before

    @property
    def estimate(self) -> Estimate | None:
        """The thetas of the last refit, None before the first reward."""
        return self._state.estimate

    @property
    def prior(self) -> DecomposedPrior | None:
        """The prior that all tasks share, None before the first reward."""
        posteriors = self._state.posteriors
        return None if posteriors is None else posteriors.prior

    def expected_rewards(self, tasks: ArrayLike, arms: ArrayLike) -> Floats:
        """Return the expected rewards of arms, (m, K, d), within the range of rewards, (m, K)."""
        with self._lock:
            asked = self._check_tasks(tasks)
            offers = check_shape(arms, len(asked), self.dim)
            check_values(offers)
            return expected_rewards(self._state.deciding, asked, offers)

    def bounds(
        self, tasks: ArrayLike, arms: ArrayLike, *, confidence: ArrayLike = 0.9
    ) -> tuple[Floats, Floats]:
        """Return the least and the largest expected rewards of arms, (m, K) each.

        They are those of the thetas in a set that holds a task's own with this probability, one for
        all requests or (m,). So they hold for all arms at once. Before the first reward they are
        infinite.
        """
        sure = np.asarray(confidence, np.float64).reshape(-1, 1)
        if not ((sure > 0) & (sure < 1)).all():
            raise ConfigurationError(f"confidence must be between 0 and 1, got {confidence!r}")
        with self._lock:
            return bounds(self._state.deciding, *self._asked(tasks, arms), confidence=sure)

    def intervals(
        self, tasks: ArrayLike, arms: ArrayLike, *, confidence: float = 0.9
    ) -> tuple[Floats, Floats]:
        """Return intervals of the expected rewards of arms: their ends, (m, K) each.

        Each holds its own arm's expected reward with this probability; :meth:`bounds` hold for all
        arms at once. Their width follows from errors in predicting rewards, as that of
        :meth:`explain` does. Before the second reward they are infinite.
        """
        if not 0 < confidence < 1:
            raise ConfigurationError(f"confidence must be between 0 and 1, got {confidence!r}")
        with self._lock:
            asked = self._asked(tasks, arms)
            return intervals(self._state.deciding, *asked, confidence=confidence)

    def _asked(self, tasks: ArrayLike, arms: ArrayLike) -> tuple[NDArray[Any], Floats]:
        """Return the tasks, (m,), and arms, (m, K, d), of requests; refuse what they cannot be."""
        asked = self._check_tasks(tasks)
        offers = check_shape(arms, len(asked), self.dim)
        check_values(offers)
        return asked, offers

    @property
    def reward_kind(self) -> Rewards:
        """What rewards were said to be: the parameter ``rewards``."""
        return self._kind

    @property
    def likelihood(self) -> str:
        """What rewards are taken to be: "gaussian", "robust", "binary" or "count"."""
        return self._state.likelihood.name

    def explain(self, task: int | str | tuple[Any, ...]) -> Explanation:
        """Explain what a task's predictions come from and how certain they are; print it."""
        asked = as_labels([task]) if self.labels else check_tasks([task], None)
        (known,) = asked.tolist()
        with self._lock:
            state, scale = self._state, self._state.likelihood.scale
            learned = state.posteriors, state.selector, state.counts
            return explain(*learned, known, state.tasks, scale)

    def explain_all(self) -> Explanations:
        """Explain all tasks that have had rewards: what :func:`cobandits.plots.sharing` draws."""
        with self._lock:
            state = self._state
            return explain_all(state.posteriors, state.selector, state.counts, state.tasks)

    def save(self, path: File) -> None:
        """Write all that was learned, whole or not at all, to a path or a file open for bytes."""
        setting = {
            "dim": int(self.dim),
            "n_tasks": None if self.n_tasks is None else int(self.n_tasks),
            "explore": self.explore,
            "floor": self.floor,
            "labels": self.labels,
            "on_change": self.on_change,
            "rewards": self._kind,
        }
        with self._lock:
            checkpoint.save(path, setting, self._state)

    @classmethod
    def load(cls, path: File) -> Shared:
        """Load a policy that goes on as the saved one, to the last bit.

        Random numbers are the caller's: save the state of the generator too where the same
        decisions are wanted.
        """
        return checkpoint.load(path, cls._restored)

    @classmethod
    def _restored(cls, setting: dict[str, Any], state: State) -> Shared:
        (policy := cls(**setting)).restore(state)
        return policy

    def restore(self, state: State) -> None:
        """Replace the state by one that was saved, and that nothing else uses."""
        if (dim := state.store.width - 2) != self.dim:
            raise ConfigurationError(
                f"a state of {dim} features cannot be restored by a policy for {self.dim}; "
                "load the policy that it is of"
            )
        self._state = state

    # ---- Decisions

    def _check_tasks(self, tasks: ArrayLike, *, learning: bool = False) -> NDArray[Any]:
        return as_labels(tasks) if self.labels else as_codes(tasks)

    def _choose(
        self, tasks: Codes, arms: Floats, rng: np.random.Generator
    ) -> tuple[Codes, Floats | Callable[[], Floats]]:
        state = self._state.deciding
        places = state.tasks.find(tasks)
        return choose(state, places, arms, rng, explore=self.explore, floor=self.floor)

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        state = self._state.deciding
        places = state.tasks.find(tasks)
        return probabilities(state, places, arms, explore=self.explore, floor=self.floor)
