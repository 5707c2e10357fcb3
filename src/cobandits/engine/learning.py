"""Learning in the engine's thread: rewards in short slices, and priors learned beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from cobandits.engine.core import Core
from cobandits.engine.errors import StoreError
from cobandits.engine.fold import SpaceFold
from cobandits.engine.inbox import Inbox
from cobandits.engine.jobs import Command
from cobandits.engine.learner import Learner
from cobandits.engine.refits import Found, Refitter, task_of
from cobandits.engine.stores import Batch
from cobandits.errors import ClusterError, CobanditsError

__all__ = ["Learning"]

Save = Callable[[SpaceFold, bytes], None]

_SLICE = 0.002  # seconds of learning between two groups,
_FEW = 256  # or until requests wait, where fewer rewards do


@dataclass(eq=False)
class _Refit:
    """A prior that is being learned, or waits to be installed."""

    found: Found | None = None


def _learned_some(learner: Learner, *, is_found: bool) -> bool:
    """Learn some of what waits; tell whether there was anything to learn now.

    Where the new prior is found, only the policy with it learns on, until it is as far as what
    decides. To wait for more would be to wait for ever where rewards come fast.
    """
    if is_found:
        return not learner.has_caught_up and learner.step_ahead()
    return learner.step() or learner.step_ahead()


class Learning:
    """Lets spaces learn what waits, when the engine's thread has time for it.

    While a prior that takes long is learned, the stand-in of the policy decides and learns. The
    prior is installed when the policy with it has learned as much as the stand-in.
    """

    def __init__(self, core: Core, inbox: Inbox, save: Save) -> None:
        self._core, self._inbox, self._save = core, inbox, save
        self._refits: dict[int, _Refit] = {}  # by space: those under way
        self._refitter = Refitter()

    @property
    def refitting(self) -> tuple[int, ...]:
        """The spaces whose prior is being learned."""
        return tuple(self._refits)

    @property
    def busy(self) -> bool:
        """Whether rewards wait that could be learned, or a prior is being learned."""
        return bool(self._refits) or any(one.learner.ready for one in self._core.folds.values())

    @property
    def has_work(self) -> bool:
        """Whether there is something to do now."""
        return any(self._has_work(fold) for fold in self._core.folds.values())

    def _has_work(self, fold: SpaceFold) -> bool:
        learner, refit = fold.learner, self._refits.get(fold.number)
        if learner.lost:  # while a space is lost, others learn
            return False
        if refit is None:
            return learner.ready
        return refit.found is not None or learner.can_step_ahead

    def forget(self, space: int) -> None:
        """Let a refit that is under way come to nothing."""
        self._refits.pop(space, None)

    def close(self) -> None:
        """Give up what is under way."""
        self._refitter.close()

    # ---- In the engine's thread

    def step(self) -> None:
        """Learn what waits, for a short time; hand a refit that is due to another thread."""
        end = time.monotonic() + _SLICE
        for fold in list(self._core.folds.values()):
            if not self._has_work(fold):
                continue
            refit = self._refits.get(fold.number)
            is_found = refit is not None and refit.found is not None
            while _learned_some(fold.learner, is_found=is_found):
                hurry = self._inbox.has_requests and fold.learner.n_unlearned < _FEW
                if hurry or time.monotonic() > end:
                    return
            if refit is not None and refit.found is not None:
                self._install(fold, refit, refit.found)
            elif refit is None and fold.learner.refit_due:
                self._start(fold)

    def _start(self, fold: SpaceFold) -> None:
        try:
            task = task_of(fold.settings, fold.learner)
        except (StoreError, ClusterError):
            raise
        except CobanditsError:  # the reward is refused: in line it is left out, as in a replay
            self._refits[fold.number] = _Refit(Found())
            return
        refit = self._refits[fold.number] = _Refit()

        def later(action: Callable[[], None]) -> None:  # from another thread
            def act() -> None:
                if self._refits.get(fold.number) is refit:  # else rolled back, or deleted
                    action()

            self._inbox.put(Command(act))

        self._refitter.start(
            task,
            lambda stand_in: later(lambda: fold.learner.go_ahead(stand_in)),
            lambda found: later(lambda: self._learned(fold, refit, found)),
        )

    def _learned(self, fold: SpaceFold, refit: _Refit, found: Found) -> None:
        """Take a prior; it is installed once the policy with it has learned what decides has."""
        refit.found = found
        if found.successor is not None:
            fold.learner.succeed(found.successor)

    def _install(self, fold: SpaceFold, refit: _Refit, found: Found) -> None:
        """Write that a prior is installed, and install it."""

        def installed() -> None:
            fold.apply(event, found=found.learned)
            del self._refits[fold.number]
            if found.content and not fold.learner.lost:  # else it may not have been installed
                self._save(fold, fold.snapshot(found.content))
            fold.learner.take_over()

        event = self._core.next_event(fold.number, "install")
        if self._refits.get(fold.number) is refit:  # else a batch in doubt has changed it
            self._core.commit(Batch(events=[event]), installed)
