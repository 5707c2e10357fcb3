"""What all shards say of their tasks, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cobandits.policies.shared.explain import Explanations

__all__ = ["joined_explanations"]


def joined_explanations(parts: Sequence[Explanations]) -> Explanations:
    """Return the tasks of all shards, shard after shard.

    The uncertainty before any reward follows from errors, which each shard knows of its own tasks:
    the mean over tasks stands for all.
    """
    counts = np.array([len(one.tasks) for one in parts])
    before = np.array([one.uncertainty_before for one in parts])
    return replace(
        parts[0],
        tasks=tuple(task for one in parts for task in one.tasks),
        rewards=np.concatenate([one.rewards for one in parts]),
        weights=np.concatenate([one.weights for one in parts]),
        shared=np.concatenate([one.shared for one in parts]),
        uncertainty=np.concatenate([one.uncertainty for one in parts]),
        uncertainty_before=float(counts @ before / counts.sum()),
    )
