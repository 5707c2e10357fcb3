"""
When tasks change
=================

At half time another basis replaces the one that tasks had in common. A policy that never forgets
goes on with what is no longer true. ``shared`` notices that its errors have grown, says so in the
log, and starts over; what it knew before is kept for a while, in case it was a false alarm.
"""

import logging

from cobandits import Ridge, Shared, Synthetic, plots, simulate

logging.basicConfig(format="%(levelname)s %(message)s", force=True)
world = Synthetic(dim=20, n_tasks=25, rank=2, noise_std=0.1, replaced=True)
d, T = world.dim, world.n_tasks
adapting, stubborn = Shared(dim=d, n_tasks=T), Shared(dim=d, n_tasks=T, on_change="alert")
traces = {
    "shared": simulate(adapting, world, 160, seed=2),
    "shared, alert only": simulate(stubborn, world, 160, seed=2),
    "ridge": simulate(Ridge(dim=d, n_tasks=T, ridge=0.1), world, 160, seed=2),
}

# %%
# The change comes after 80 rounds, that is after 2,000 rewards.

print("noticed after", adapting.changes, "rewards")
figure = plots.regret(
    {name: [trace.cumulative] for name, trace in traces.items()}, "another basis from round 81 on"
)
