"""
Pairs of digits
===============

A task shows images of two digits, and the larger one pays 1. There are 45 pairs of ten digits.
The images are the small ones that come with scikit-learn.
"""

import numpy as np
from matplotlib.figure import Figure

from cobandits import Ridge, Shared, plots, simulate
from cobandits.environments.pairs import DigitPairs

pairs = DigitPairs(n_tasks=45)
d, T = pairs.dim, pairs.n_tasks
shared = Shared(dim=d, n_tasks=T)
traces = {
    "shared": simulate(shared, pairs, 150, seed=7),
    "ridge": simulate(Ridge(dim=d, n_tasks=T, ridge=1.0), pairs, 150, seed=7),
}

# %%
# Regret is the number of mistakes per pair.

figure = plots.regret({name: [trace.cumulative] for name, trace in traces.items()}, "digits")

# %%
# What all pairs have in common can be looked at: the widest directions of what was learned are
# images themselves. Red pixels speak for the larger digit, blue ones against it.

estimate = shared.estimate
assert estimate is not None
directions = np.linalg.svd(estimate.theta[:64], full_matrices=False)[0][:, :4]
pictures = Figure(figsize=(7.2, 2.0), layout="constrained")
for k, axes in enumerate(pictures.subplots(1, 4)):
    limit = np.abs(directions[:, k]).max()
    axes.imshow(directions[:, k].reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set_title(f"direction {k + 1}", fontsize=9)
    axes.set_axis_off()
