"""
MovieLens users
===============

120 people rate films. A task is a person; a request offers a few films that they have rated, and
the reward is their rating. Every arm's reward is known, so regret is exact. The data come with
the extra ``real``.

People have a mean in common, since some films please nearly everyone, and tastes of their own.
Here a simple rival does well: one ridge regression for all plus one per user.
"""

from cobandits import Ridge, Shared, plots, simulate
from cobandits.environments.choices import Choices
from cobandits.policies import GlobalOwnRidge, GlobalRidge

users = Choices(data="movielens")
print(f"{users.n_tasks} users, {users.n_rounds} requests, {users.dim} features per film")

# %%
# One model for all; one for each; both, one on what the other leaves; and ``shared``, which finds
# out how much is common.

d, T = users.dim, users.n_tasks
policies = {
    "one for all": GlobalRidge(dim=d, n_tasks=T),
    "each alone": Ridge(dim=d, n_tasks=T, ridge=10.0),
    "global + own": GlobalOwnRidge(dim=d, n_tasks=T),
    "shared": Shared(dim=d, n_tasks=T),
}
traces = {
    name: simulate(policy, users, users.n_rounds, seed=10) for name, policy in policies.items()
}

# %%
# A round is one request of one user here.

figure = plots.regret({name: [trace.cumulative] for name, trace in traces.items()}, "MovieLens")
for name, trace in traces.items():
    print(f"{name:13s} regret per user {trace.regret_per_task:5.1f}")
