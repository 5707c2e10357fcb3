"""The first decision of a fresh process, with nothing but a library and its adapter there.

``python -m benchmarks.peers.first adapter peer parameters`` prints the seconds.
"""

from __future__ import annotations

from time import perf_counter

_BEGAN = perf_counter()  # before anything else is imported


def main(adapter: str, name: str, parameters: str) -> float:
    """Import, make a small learner, decide and learn once; return the seconds of it."""
    import json
    from importlib import import_module

    import numpy as np

    from benchmarks.peers.contract import Setting

    peers = import_module(adapter).PEERS
    [peer] = [one for one in peers if one.name == name]
    learner = peer.make(Setting(dim=5, n_tasks=2, n_arms=3, seed=0), **json.loads(parameters))
    tasks, arms = np.arange(2), np.random.default_rng(0).standard_normal((2, 3, 5))
    chosen = learner.decide(tasks, arms)
    seconds = perf_counter() - _BEGAN
    learner.learn(tasks, arms, chosen, np.ones(2))  # not timed, but it has to work
    return seconds


if __name__ == "__main__":
    import sys

    print(main(*sys.argv[1:]))
