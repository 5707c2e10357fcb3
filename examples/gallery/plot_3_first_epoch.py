"""
Where the paper's policy loses
==============================

The policy of the paper plays at random for a quarter of the rounds, fits once, and is nearly
perfect after that. Ridge regression per task shares nothing, but learns from the first reward on.
"""

from cobandits import LRRL, Ridge, Shared, Synthetic, plots, simulate
from cobandits.policies.schedules import EqualEpochs

ROUNDS = 200
world = Synthetic(dim=100, n_tasks=50, rank=4)  # as in Figure 1b of the paper
d, T = 100, 50
policies = {
    "lrrl": LRRL(dim=d, n_tasks=T, rank=4, schedule=EqualEpochs(rounds=ROUNDS, epochs=4)),
    "ridge": Ridge(dim=d, n_tasks=T, ridge=0.01),
    "shared": Shared(dim=d, n_tasks=T),
}
traces = {name: simulate(policy, world, ROUNDS, seed=5) for name, policy in policies.items()}

# %%
figure = plots.regret(
    {name: [trace.cumulative] for name, trace in traces.items()},
    "d = 100, T = 50, r = 4, four epochs of 50 rounds",
)

# %%
# Which share of the regret falls into the first epoch?

for name, trace in traces.items():
    share = trace.cumulative[49] / trace.cumulative[-1]
    print(f"{name:7s} {trace.cumulative[-1]:6.1f} in all, {share:.0%} of it in the first epoch")
