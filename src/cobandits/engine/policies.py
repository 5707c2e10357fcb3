"""The policy of a space: one :class:`Shared`, or shards in processes where it outgrows one.

A policy that decides has its shards in processes. Copies, such as those of a replay or of an older
version, have them in this process. Both have the same bits.
"""

from __future__ import annotations

import functools
import io
from typing import Any, BinaryIO, cast

import numpy as np

from cobandits.engine.settings import Settings
from cobandits.policies.shared import Refit, Shared, Snapshot
from cobandits.policies.shared.checkpoint import load
from cobandits.sharded import PreparedRefit, ShardedShared, StagedRefit
from cobandits.sharded.container import is_sharded

__all__ = [
    "Learned",
    "SpacePolicy",
    "Staged",
    "close",
    "going_on",
    "install",
    "is_lost",
    "n_shards",
    "placed",
    "policy_bytes",
    "policy_copy",
    "policy_for",
    "policy_parts",
    "read_policy",
    "shared_for",
    "started",
    "warm_up",
]

SpacePolicy = Shared | ShardedShared
Staged = Snapshot | StagedRefit  # what a prior is learned from
Learned = Refit | PreparedRefit  # a prior that may be installed


def shared_for(settings: Settings) -> Shared:
    """Return a policy in one piece that has learned nothing."""
    return Shared(
        dim=settings.schema.dim,
        labels=True,
        explore=settings.explore,
        on_change=settings.on_change,
        rewards=settings.reward_kind,
        floor=settings.floor,
    )


def policy_for(settings: Settings, *, processes: bool = False) -> SpacePolicy:
    """Return a policy that has learned nothing, in this process or with shards in some."""
    if settings.shards == 1:
        return shared_for(settings)
    setting: dict[str, Any] = {
        "dim": settings.schema.dim,
        "labels": True,
        "explore": settings.explore,
        "floor": settings.floor,
    }
    if processes:
        return ShardedShared.in_processes(settings.shards, threads=None, **setting)
    return ShardedShared(shards=settings.shards, **setting)


def n_shards(policy: SpacePolicy) -> int:
    """Return how many shards a policy has."""
    return len(policy.heads) if isinstance(policy, ShardedShared) else 1


# ---- Learning


def install(policy: SpacePolicy, found: Learned) -> None:
    """Install a prior that was learned from a snapshot of the policy."""
    if isinstance(policy, ShardedShared):
        assert isinstance(found, PreparedRefit)
        policy.install(found)
    else:
        assert isinstance(found, Refit)
        policy.install(found)


# ---- Processes


def is_lost(policy: SpacePolicy) -> bool:
    """Tell whether a shard is gone, with what it has learned."""
    return isinstance(policy, ShardedShared) and policy.lost


def started(settings: Settings) -> SpacePolicy:
    """Return a new policy whose processes answer: the engine's thread does not wait for them."""
    policy = policy_for(settings, processes=True)
    if isinstance(policy, ShardedShared):
        try:
            policy.wait()
        except BaseException:
            policy.close()
            raise
    return policy


def close(policy: SpacePolicy) -> None:
    """End the processes of a policy, if it has any."""
    if isinstance(policy, ShardedShared):
        policy.close()


def placed(policy: SpacePolicy, *, processes: bool) -> SpacePolicy:
    """Return a policy of this process, with its shards in processes where it is to decide."""
    if processes and isinstance(policy, ShardedShared):
        return read_policy(policy_bytes(policy), processes=True)
    return policy


# ---- Files


class _Parts(io.RawIOBase):
    """A file that is only written, kept in parts: to make one of them holds up other threads."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def writable(self) -> bool:
        """Tell that it may be written."""
        return True

    def write(self, data: Any) -> int:
        """Keep what was written."""
        self.written.append(bytes(data))
        return len(data)


def policy_parts(policy: SpacePolicy) -> list[bytes]:
    """Return all that a policy has learned, as parts of a file."""
    parts = _Parts()
    policy.save(cast(BinaryIO, parts))
    return parts.written


def policy_bytes(policy: SpacePolicy) -> bytes:
    """Return all that a policy has learned."""
    return b"".join(policy_parts(policy))


def read_policy(content: bytes, *, processes: bool = False) -> SpacePolicy:
    """Return the policy of a file of either kind."""
    if is_sharded(content):
        return ShardedShared.load(io.BytesIO(content), processes=processes, threads=None)
    return Shared.load(io.BytesIO(content))


def policy_copy(policy: SpacePolicy) -> SpacePolicy:
    """Return a policy of this process with the same state, which goes its own way."""
    return read_policy(policy_bytes(policy))


def going_on(present: SpacePolicy, version: SpacePolicy, settings: Settings) -> SpacePolicy:
    """Return the policy of a space with what a version has learned, as a snapshot keeps it.

    Shards of the present one take it over where they live: no process is started.
    """
    content = policy_bytes(version)
    if isinstance(present, ShardedShared):
        present.restore(content)
        return present
    twin = shared_for(settings)
    twin.restore(load(io.BytesIO(content), lambda _, state: state))
    return policy_copy(twin)


@functools.cache
def warm_up() -> None:
    """Load what is loaded when a policy first decides and learns, so that no request waits."""
    policy, rng = Shared(dim=2, explore="always"), np.random.default_rng(0)
    for y in (0.0, 1.0, 0.5):
        arms = rng.standard_normal((1, 3, 2))
        made = policy.decide([0], arms, rng)
        policy.learn([0], arms, made, [y * float(made.probabilities[0])])
