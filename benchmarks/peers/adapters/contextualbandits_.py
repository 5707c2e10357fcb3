"""contextualbandits: its exact linear regression, one a task, asked for the arms of a request.

Its bandit policies have a model an arm on a common context, which arms with features of their
own do not fit. Its ``linreg.LinearRegression`` is what these policies are made of.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Peer, Setting, Unable

__all__ = ["PEERS", "UNABLE"]

Grid = Mapping[str, tuple[float | str, ...]]


class Greedy:
    """One ``LinearRegression`` a task; the arm with the highest prediction."""

    def __init__(
        self, setting: Setting, ridge: float, intercept: str = "without", **options: object
    ) -> None:
        from contextualbandits.linreg import LinearRegression

        self.models = [
            LinearRegression(
                lambda_=ridge,
                fit_intercept=intercept == "with",
                method="sm",  # Sherman-Morrison; the other, Cholesky, takes longer for one row
                use_float=False,
                **options,
            )
            for _ in range(setting.n_tasks)
        ]
        for model in self.models:  # one that was never fitted refuses to predict
            model.fit(np.zeros((1, setting.dim)), np.zeros(1))

    def scores(self, task: int, x: Floats) -> Floats:
        return np.asarray(self.models[task].predict(x))  # (K, d) -> (K,)

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        chosen = [self.scores(t, x).argmax() for t, x in zip(tasks, arms, strict=True)]
        return np.array(chosen, np.int64)

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        for i, (t, a) in enumerate(zip(tasks, chosen, strict=True)):
            self.models[t].partial_fit(arms[i, a : a + 1], rewards[i : i + 1])


class UCB(Greedy):
    """The arm with the highest upper bound."""

    def __init__(self, setting: Setting, ridge: float, alpha: float) -> None:
        super().__init__(setting, ridge)
        self.alpha = alpha

    def scores(self, task: int, x: Floats) -> Floats:
        return np.asarray(self.models[task].predict_ucb(x, alpha=self.alpha))


class Thompson(Greedy):
    """The arm that is best for drawn coefficients."""

    def __init__(self, setting: Setting, ridge: float, v_sq: float) -> None:
        super().__init__(setting, ridge, precompute_ts=True, precompute_ts_multiplier=v_sq)
        self.v_sq = v_sq
        self.rng = np.random.default_rng(setting.seed)

    def scores(self, task: int, x: Floats) -> Floats:
        model = self.models[task]
        return np.asarray(model.predict_thompson(x, v_sq=self.v_sq, random_state=self.rng))


RIDGES = (1e-3, 0.3, 1.0, 10.0, 30.0)
NOTE = "linreg.LinearRegression, one a task, float64, Sherman-Morrison"


def _peer(name: str, make: type[Greedy], grid: Grid, note: str) -> Peer:
    return Peer(
        name=f"contextualbandits {name}",
        library="contextualbandits",
        module="contextualbandits",
        make=make,
        grid=grid,
        exact=True,
        shares=False,
        note=note,
        most_numbers=10_000_000 if make is Thompson else None,
    )


PEERS = (
    _peer(
        "greedy",
        Greedy,
        {"ridge": (1e-3, 0.1, 0.3, 1.0, 3.0, 30.0, 100.0), "intercept": ("without", "with")},
        NOTE,
    ),
    _peer("UCB", UCB, {"ridge": RIDGES, "alpha": (1e-3, 0.03, 1.0)}, NOTE),
    _peer(
        "Thompson",
        Thompson,
        {"ridge": RIDGES, "v_sq": (1e-10, 1e-8, 1e-6)},
        f"{NOTE}; it draws with v_sq X'X for covariance, not with its inverse",
    ),
)

UNABLE = (
    Unable(
        name="contextualbandits online.LinUCB, online.LinTS and its other policies",
        library="contextualbandits",
        why="a policy has one model an arm and one context for all arms: "
        "arms cannot have features of their own",
    ),
)
