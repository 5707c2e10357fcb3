"""Let the policy ``shared`` play, and see what it has learned.

Run ``python examples/explain.py [PICTURE]``. It prints what the predictions of two tasks come from
and draws all tasks to ``PICTURE.png`` and ``PICTURE.svg`` (``sharing`` if none is given).
"""

from __future__ import annotations

import sys

from cobandits import plots
from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.simulate import simulate


def main(picture: str = "sharing") -> None:
    """Simulate tasks that ask at rates of their own, and explain the busiest and the quietest."""
    world = Synthetic(dim=30, n_tasks=25, rank=3, noise_std=0.1, unequal=True)
    policy = Shared(dim=world.dim, n_tasks=world.n_tasks)
    simulate(policy, world, rounds=60, seed=1)
    everything = policy.explain_all()
    busiest, quietest = everything.rewards.argmax(), everything.rewards.argmin()
    written = plots.save(plots.sharing(everything), picture)
    print(
        policy.explain(int(busiest)),
        policy.explain(int(quietest)),
        f"drawn: {', '.join(map(str, written))}",
        sep="\n\n",
    )


if __name__ == "__main__":
    main(*sys.argv[1:2])
