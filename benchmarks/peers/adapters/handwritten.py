"""What an engineer writes by hand: a ridge regression per task, in plain NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.peers.contract import Codes, Floats, Peer, Setting

__all__ = ["PEERS"]

Grid = Mapping[str, tuple[float | str, ...]]


class Ridge:
    """Greedy on a ridge regression per task, kept by the Sherman-Morrison formula."""

    def __init__(self, setting: Setting, ridge: float, intercept: str = "without") -> None:
        self.intercept = intercept == "with"
        d, T = setting.dim + self.intercept, setting.n_tasks
        self.P = np.tile(np.eye(d) / ridge, (T, 1, 1))  # (ridge I + X'X)^-1 of each task
        self.theta = np.zeros((T, d))
        self.product = np.empty((d, d))

    def scores(self, task: int, x: Floats) -> Floats:
        return np.asarray(x @ self.theta[task])  # (K, d) -> (K,)

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        rows = zip(tasks, self.features(arms), strict=True)
        return np.array([self.scores(t, x).argmax() for t, x in rows], np.int64)

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        rows = zip(tasks, self.features(arms), chosen, rewards, strict=True)
        for t, x, a, y in rows:
            self.update(t, x[a], y)

    def features(self, arms: Floats) -> Floats:
        if not self.intercept:
            return arms
        return np.concatenate([arms, np.ones((*arms.shape[:2], 1))], axis=2)

    def update(self, task: int, x: Floats, y: float) -> None:
        P, theta = self.P[task], self.theta[task]
        Px = P @ x
        gain = Px / (1 + x @ Px)
        theta += gain * (y - x @ theta)
        P -= np.multiply(gain[:, None], Px, out=self.product)


class LinUCB(Ridge):
    """Each arm gets a bonus of ``alpha`` standard deviations."""

    def __init__(self, setting: Setting, ridge: float, alpha: float) -> None:
        super().__init__(setting, ridge)
        self.alpha = alpha

    def scores(self, task: int, x: Floats) -> Floats:
        variance = ((x @ self.P[task]) * x).sum(axis=1)
        return np.asarray(super().scores(task, x) + self.alpha * np.sqrt(variance))


class LinTS(Ridge):
    """The arms' values are drawn together from the posterior, with a noise of ``scale``."""

    def __init__(self, setting: Setting, ridge: float, scale: float) -> None:
        super().__init__(setting, ridge)
        self.scale = scale
        self.rng = np.random.default_rng(setting.seed)

    def scores(self, task: int, x: Floats) -> Floats:
        covariance = self.scale**2 * x @ self.P[task] @ x.T  # (K, K): as of x theta
        mean = super().scores(task, x)
        return self.rng.multivariate_normal(mean, covariance, check_valid="ignore", method="eigh")


RIDGES = (1e-3, 0.3, 1.0, 10.0, 30.0)


def _peer(name: str, make: type[Ridge], grid: Grid) -> Peer:
    return Peer(
        name=f"by hand, {name}",
        library="numpy",
        module="numpy",
        make=make,
        grid=grid,
        exact=True,
        shares=False,
        note="one regression per task, float64, a Python loop over the requests",
    )


PEERS = (
    _peer(
        "ridge",
        Ridge,
        {"ridge": (1e-3, 0.1, 0.3, 1.0, 3.0, 30.0, 100.0), "intercept": ("without", "with")},
    ),
    _peer("LinUCB", LinUCB, {"ridge": RIDGES, "alpha": (1e-3, 0.03, 1.0)}),
    _peer("LinTS", LinTS, {"ridge": RIDGES, "scale": (1e-4, 1e-3, 0.03)}),
)
