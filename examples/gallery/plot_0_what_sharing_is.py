"""
What sharing is
===============

Forty tasks have 30 features each, but differ in two directions only. Twelve rows do not determine
30 numbers of one task. All rows together determine the two directions, and then twelve rows are
plenty for two weights.
"""

import numpy as np
from matplotlib.figure import Figure

from cobandits import Independent, LowRank, Synthetic

world = Synthetic(dim=30, n_tasks=40, rank=2, noise_std=0.3)
problem = world.problem(n_rows=12, seed=3)

# %%
# Each task alone, by ridge regression, and all together.

alone = Independent(ridge=1.0).fit(problem.tasks)
together = LowRank(rank=2).fit(problem.tasks)

# %%
# The plane of the two true directions. What a theta has outside of it is drawn as a grey line, to
# scale: the truth has none.

plane = problem.basis  # (30, 2)
shown = {
    "the truth": problem.theta,
    "each task alone": alone.theta,
    "learned together": together.theta,
}
figure = Figure(figsize=(9.6, 3.4), layout="constrained")
panels = figure.subplots(1, 3, sharex=True, sharey=True)
for axes, (title, theta) in zip(panels, shown.items(), strict=True):
    inside = plane.T @ theta  # (2, 40)
    outside = np.linalg.norm(theta - plane @ inside, axis=0)
    axes.vlines(inside[0], inside[1], inside[1] + outside, color="0.7", linewidth=1)
    axes.scatter(*inside, s=18, color="#0072B2", zorder=2)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel("first direction")
    axes.set_aspect("equal")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("second direction")

# %%
# How far is each from the truth?

for name, theta in shown.items():
    error = np.linalg.norm(theta - problem.theta) / np.linalg.norm(problem.theta)
    print(f"{name:17s} relative error {error:.2f}")
