"""The shared policy over several processes: tasks are dealt to shards, all under one prior.

A shard (:class:`Head`) holds the rows and the posteriors of its tasks. Decisions and rewards go to
the shard of their task. The prior is learned from sums over all shards, so rows never move, and is
published to each of them.
"""

from cobandits.sharded.head import Head
from cobandits.sharded.heads import Heads, LocalHeads, ProcessHeads
from cobandits.sharded.policy import ShardedShared
from cobandits.sharded.refits import PreparedRefit, StagedRefit

__all__ = [
    "Head",
    "Heads",
    "LocalHeads",
    "PreparedRefit",
    "ProcessHeads",
    "ShardedShared",
    "StagedRefit",
]
