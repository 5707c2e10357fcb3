"""The shared policy over several shards."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.archives import File
from cobandits.decisions import Decisions
from cobandits.errors import ClusterError, ConfigurationError, DataError, ModelFileError
from cobandits.fast_checks import are_at_most
from cobandits.files import write_whole
from cobandits.policies.gaussian import COMPILED, TOO_LARGE
from cobandits.policies.shared import Explanation
from cobandits.policies.shared.empirical_bayes import DecomposedPrior
from cobandits.policies.shared.explain import Explanations
from cobandits.policies.shared.task_drift import TaskChange
from cobandits.sharded.container import VERSION, packed, unpacked
from cobandits.sharded.dealing import Deal
from cobandits.sharded.dealt import DealtPolicy
from cobandits.sharded.explaining import joined_explanations
from cobandits.sharded.hashing import shards_of
from cobandits.sharded.heads import ADVICE, Heads, LocalHeads, ProcessHeads, Source
from cobandits.sharded.ledger import Ledger
from cobandits.sharded.messages import Fitted
from cobandits.sharded.refits import PreparedRefit, StagedRefit
from cobandits.sharded.training import call

__all__ = ["ShardedShared"]

Floats = NDArray[np.floating]

_FILE = "sharded.json"


class ShardedShared(DealtPolicy):
    """:class:`~cobandits.policies.Shared` with its tasks dealt to several shards.

    Every task belongs to one shard, by a hash of its number or label. Decisions and rewards go
    there. Whenever the rewards of all shards have grown by a quarter, or have doubled once the
    prior is settled, it is learned from sums over all of them, and published. Each shard has as
    much memory and time as one ``Shared``, so memory, decisions per second and the tasks that a
    prior is learned from grow with the shards.

    Differences from ``Shared``: rewards are any numbers, as with ``rewards="gaussian"``. When
    tasks have changed, learning goes on, as with ``on_change="alert"``; each shard looks for
    changes among its own tasks, so one of all tasks is noted once per shard. The nearest tasks of
    an explanation are those of the same shard.
    Probabilities are computed with each decision. How sure predictions are, and the highest reward
    so far, are known per shard. Close it when done, or use it in a ``with`` statement.

    Parameters
    ----------
    shards : int or Heads
        How many, in this process; or shards that live elsewhere, such as
        :meth:`~cobandits.sharded.ProcessHeads.start` makes with the same parameters.
    explore, floor, labels
        As in ``Shared``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> policy, arms = ShardedShared(dim=3, shards=2), rng.standard_normal((4, 5, 3))
    >>> decisions = policy.decide([0, 1, 2, 3], arms, rng)
    >>> policy.learn([0, 1, 2, 3], arms, decisions, rewards=[1.0, 2.0, 0.0, 1.0])
    >>> policy.rewards
    4
    """

    name: ClassVar[str] = "shared"
    on_change: ClassVar[str] = "alert"
    reward_kind: ClassVar[str] = "gaussian"
    likelihood: ClassVar[str] = "gaussian"

    _prior: DecomposedPrior | None = None
    _largest: float = np.inf  # value that can be learned under it

    @property
    def rewards(self) -> int:
        """How many rewards have been learned."""
        return self._ledger.rewards

    @property
    def prior(self) -> DecomposedPrior | None:
        """The prior that all tasks share, None before the first reward."""
        return self._prior

    @property
    def changes(self) -> tuple[int, ...]:
        """After how many rewards, in all, the tasks of a shard were found to have changed."""
        return self._ledger.changes

    @property
    def task_changes(self) -> tuple[TaskChange, ...]:
        """The single tasks that were found to have changed, and after how many rewards in all."""
        return self._ledger.task_changes

    def explain(self, task: int | str | tuple[Any, ...]) -> Explanation:
        """Explain what a task's predictions come from and how certain they are; print it."""
        (shard,) = shards_of(self._check_tasks([task]), len(self._heads)).tolist()
        asked = [(task,) if number == shard else None for number in range(len(self._heads))]
        with self._lock:
            found: Explanation = self._heads.each("explain", asked)[shard]
        return found

    def explain_all(self) -> Explanations:
        """Explain all tasks that have had rewards: what :func:`cobandits.plots.sharing` draws."""
        with self._lock:
            return joined_explanations(call(self._heads, "explain_all"))

    def thetas(self, tasks: ArrayLike) -> Floats:
        """Return the thetas of tasks with their intercepts, (m, d + 1)."""
        asked = self._check_tasks(tasks)
        with self._lock:
            if self._prior is None:
                raise ConfigurationError("there are no thetas before the first reward; learn one")
            return self._asked("thetas", asked)

    # ---- Learning

    def refit_due(self, n_rewards: int = 1) -> bool:
        """Tell whether learning ``n_rewards`` more includes learning the prior."""
        return n_rewards > 0 and self._ledger.rewards + n_rewards >= self._ledger.due

    @property
    def run_length(self) -> int:
        """How many of the next rewards one :meth:`learn` takes with the bits of one call each."""
        return self._ledger.run_length if COMPILED and self._prior is not None else 1

    def snapshot(
        self, tasks: ArrayLike, arms: ArrayLike, decisions: Decisions, rewards: ArrayLike
    ) -> StagedRefit:
        """Have all shards hold rewards aside, for a refit; arguments are as in :meth:`learn`.

        ``learned()`` of what is returned learns the prior, in any thread; :meth:`install` takes
        what that returns. Until then the policy decides as before, and must learn nothing.
        """
        with self._lock:
            codes, rows, y = self._checked(tasks, arms, decisions, rewards)
            if not len(codes):
                raise DataError("a refit learns from new rewards, got none; give at least one")
            return self._stage(codes, rows, y)

    def install(self, found: PreparedRefit) -> None:
        """Take a prior that all shards have prepared; the bits are those of :meth:`learn`."""
        with self._lock:
            if found.staged is not self._staged:
                raise ConfigurationError(
                    "this refit is of another policy, was installed before, or the policy has "
                    "learned since; install it once"
                )
            self._change("install_prepared", [()] * len(self._heads))
            self._prior, self._staged = found.prior, None
            self._largest = min(call(self._heads, "largest_value"))
            self._ledger = self._after(found)

    def _after(self, found: PreparedRefit) -> Ledger:
        return self._ledger.after(found.staged.n_new, found.noted, found.growth)

    def _stage(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> StagedRefit:
        parts = Deal(tasks, len(self._heads)).parts(tasks, rows, rewards, empty=True)
        self._heads.each("stage", parts)
        self._staged = StagedRefit(
            self._heads,
            self._training,
            n_new=len(tasks),
            wanted=lambda one: one is self._staged,
        )
        return self._staged

    def _learn_rows(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> None:
        if not len(tasks):
            return
        if self.refit_due(len(tasks)):
            self.install(self._stage(tasks, rows, rewards).learned())
            return
        if not (are_at_most(rows, self._largest) and are_at_most(rewards, self._largest)):
            raise DataError(TOO_LARGE)  # before any shard has learned
        self._staged = None  # what is staged no longer follows
        parts = Deal(tasks, len(self._heads)).parts(tasks, rows, rewards)
        self._ledger = self._ledger.after(len(tasks), self._change("learn_rows", parts))

    def _change(self, method: str, parts: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Have shards change. If one fails, others may have changed, so none is asked again."""
        try:
            return self._heads.each(method, parts)
        except BaseException as error:
            self.close()
            if isinstance(error, ClusterError) or not isinstance(error, Exception):
                raise
            raise ClusterError(f"a shard has failed ({error!r}); {ADVICE}") from error

    # ---- Files

    def save(self, path: File) -> None:
        """Write all that was learned to a directory, or to a file open for bytes, without pickle.

        In a directory every shard writes its own part. It is complete when ``sharded.json`` is
        there, which is written last.
        """
        with self._lock:
            header = {"setting": self._setting, **self._ledger.saved()}
            if not isinstance(path, str | Path):
                path.write(packed(header, call(self._heads, "saved")))
                return
            folder = Path(path)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _FILE).unlink(missing_ok=True)
            shards = len(self._heads)
            self._heads.each("save", [(folder / _part(shard),) for shard in range(shards)])
            text = json.dumps({"version": VERSION, "shards": shards, **header})
            write_whole(folder / _FILE, text.encode())

    def saved_after(self, found: PreparedRefit) -> bytes:
        """Return what :meth:`save` writes once a refit is installed."""
        header = {"setting": self._setting, **self._after(found).saved()}
        return packed(header, found.staged.saved())

    @classmethod
    def load(cls, path: File, *, processes: bool = False, threads: int | None = 1) -> Self:
        """Load a policy that goes on as the saved one.

        ``processes`` starts one per shard, with ``threads`` as in
        :class:`~cobandits.sharded.ProcessHeads`.
        """
        header, sources = _read(path)
        heads: Heads
        if processes:
            heads = ProcessHeads.load(sources, threads=threads)
        else:
            heads = LocalHeads.load(sources)
        try:
            policy = cls(shards=heads, **header["setting"])
            policy._restore(header)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            heads.close()
            raise _not_whole(path, error) from error
        except BaseException:
            heads.close()
            raise
        return policy

    def restore(self, content: bytes) -> None:
        """Go on with what a file of as many shards holds; shards stay where they live."""
        header, parts = unpacked(content)
        if len(parts) != len(self._heads):
            raise ConfigurationError(
                f"a policy of {len(self._heads)} shards cannot take over {len(parts)}; load the "
                "file, or give one of as many"
            )
        with self._lock:
            self._staged = None
            self._change("take_over", [(part,) for part in parts])
            self._restore(header)

    def _restore(self, header: dict[str, Any]) -> None:
        """Take what was counted, and what shards know that have taken theirs."""
        found: list[Fitted] = call(self._heads, "fit", self._setting)
        self._ledger = Ledger.read(header, [one.room for one in found])
        if sum(one.rewards for one in found) != self.rewards:
            raise ValueError(f"shards have not had {self.rewards} rewards")
        if len({one.has_prior for one in found}) > 1:
            raise ValueError("some shards have a prior, and others have none")
        self._prior, self._largest = call(self._heads, "published_prior")[0], np.inf
        if self._prior is not None:
            self._largest = min(call(self._heads, "largest_value"))


def _read(path: File) -> tuple[dict[str, Any], list[Source]]:
    """Return the header of a directory or a file, and where its shards are."""
    if not isinstance(path, str | Path):
        header, parts = unpacked(path.read())
        return header, list(parts)
    folder = Path(path)
    try:
        header = json.loads((folder / _FILE).read_text())
        if header["version"] != VERSION:
            raise ModelFileError(
                f"{folder} has version {header['version']}, this release reads {VERSION}"
            )
        return header, [folder / _part(shard) for shard in range(int(header["shards"]))]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise _not_whole(folder, error) from error


def _not_whole(path: File, error: Exception) -> ModelFileError:
    return ModelFileError(f"{path} does not hold a whole sharded policy ({error}); save it again")


def _part(shard: int) -> str:
    return f"shard-{shard:03d}.npz"
