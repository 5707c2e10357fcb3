"""
What would another policy have earned?
======================================

A rule has decided for a while, with a fifth of its decisions at random. Its log tells what other
policies would have earned, without showing them to anyone. As this log is made up, we can also
let the policies play, and compare.
"""

import numpy as np

from cobandits import Ridge, Shared, Synthetic, evaluate, plots, relearn
from cobandits.evaluation import collect
from cobandits.plots import Interval
from cobandits.policies import Policy, Random

world = Synthetic(dim=8, n_tasks=20, rank=2, noise_std=0.5, n_arms=4)
d, T = world.dim, world.n_tasks
log = collect(Random(dim=d, n_tasks=T), world, rounds=300, seed=0)
past, later = log.select(slice(0, 2000)), log.select(slice(2000, None))

# %%
# Policies learn from the first third of the log, and are judged on the rest.

candidates: dict[str, Policy] = {
    "ridge": Ridge(dim=d, n_tasks=T),
    "shared": Shared(dim=d, n_tasks=T),
}
values = {}
for name, policy in candidates.items():
    relearn(policy, past)
    values[name] = evaluate(policy, later)
    print(
        name, {method: f"{one.low:.2f} to {one.high:.2f}" for method, one in values[name].items()}
    )

# %%
# The truth: the mean reward of what each would choose.

truth = next(iter(world.rounds(1, seed=0))).truth
assert truth is not None
arms = np.asarray(later.arms)
means = np.einsum("nkd,dn->nk", arms, truth.theta[:, later.codes])
rng = np.random.default_rng(0)
for name, policy in candidates.items():
    chosen = policy.decide(later.codes, arms, rng).chosen
    print(f"{name:7s} would have earned {means[np.arange(len(later)), chosen].mean():.2f}")

# %%
figure = plots.intervals(
    {
        name: {method: Interval(one.value, one.low, one.high) for method, one in found.items()}
        for name, found in values.items()
    }
)
