"""
Many shops
==========

Fifty shops choose among five offers of 40 features. What tells shops apart has three directions,
which nobody knows. Four policies meet the same customers.
"""

from collections.abc import Callable

from cobandits import LRRL, Policy, Ridge, Shared, Synthetic, plots, simulate
from cobandits.policies import GlobalRidge
from cobandits.policies.schedules import EqualEpochs

ROUNDS, TRIALS = 120, 3
shops = Synthetic(dim=40, n_tasks=50, rank=3, noise_std=0.1)

# %%
# ``shared`` is told nothing. The paper's policy is told the rank and the number of rounds.
# ``ridge`` learns each shop alone, ``one for all`` takes all shops for the same.

d, T = shops.dim, shops.n_tasks
makers: dict[str, Callable[[], Policy]] = {
    "shared": lambda: Shared(dim=d, n_tasks=T),
    "lrrl": lambda: LRRL(dim=d, n_tasks=T, rank=3, schedule=EqualEpochs(rounds=ROUNDS, epochs=4)),
    "ridge": lambda: Ridge(dim=d, n_tasks=T, ridge=1.0),
    "one for all": lambda: GlobalRidge(dim=d, n_tasks=T),
}

# %%
# Regret is what the best offers would have brought more.

curves = {
    name: [simulate(make(), shops, ROUNDS, seed=1, trial=k).cumulative for k in range(TRIALS)]
    for name, make in makers.items()
}
figure = plots.regret(curves, "50 shops, 40 features, 3 directions in common")

# %%
# The sum after the last round, per shop:

for name, trials in curves.items():
    print(f"{name:12s} {sum(trial[-1] for trial in trials) / TRIALS:6.1f}")
