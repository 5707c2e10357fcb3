"""What privacy costs: the error of thetas by epsilon, as a table and a picture.

Run it from the checkout, in the environment of `make test-federated`:

    .venv-federated/bin/python -m examples.federated.privacy docs/federated-privacy.svg
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from cobandits.environments import Problem, Synthetic
from cobandits.estimators import Independent
from cobandits.federated import FederatedAltGDMin, Node, Privacy, noise_multiplier

DIM, RANK, ROWS, NOISE = 100, 4, 50, 0.1
TASKS = (100, 1000, 4000)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
DELTA = 1e-5
CLIP = 0.3  # chosen on seed 0, as were the iterations
SEEDS = (1, 2, 3)
SERVER = FederatedAltGDMin(rank=RANK, dim=DIM, iterations=15, start_iterations=4, tolerance=0)


def problem(T: int, seed: int) -> Problem:
    """Return tasks of a low-rank world."""
    world = Synthetic(dim=DIM, n_tasks=T, rank=RANK, noise_std=NOISE)
    return world.problem(n_rows=ROWS, seed=seed)


def error(held: Problem, privacy: Privacy | None, seed: int) -> float:
    """Return the relative error of the thetas that a node learns with the basis."""
    node = Node(held.tasks, rank=RANK, privacy=privacy, rng=seed)
    theta = node.estimate(SERVER.fit([node.answer]).basis).theta
    return _relative(theta, held.theta)


def _relative(found: NDArray[np.floating], truth: NDArray[np.floating]) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def errors(T: int) -> dict[str, float]:
    """Return the mean error over seeds, by epsilon; without privacy; and of each task alone."""
    noises = {e: noise_multiplier(e, DELTA, SERVER.releases) for e in EPSILONS}
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        held = problem(T, seed)
        for e, sigma in noises.items():
            privacy = Privacy(clip=CLIP, noise_multiplier=sigma)
            found.setdefault(f"{e:g}", []).append(error(held, privacy, seed))
        found.setdefault("none", []).append(error(held, None, seed))
        alone = Independent().fit(held.tasks).theta
        found.setdefault("alone", []).append(_relative(alone, held.theta))
    return {name: float(np.mean(values)) for name, values in found.items()}


def draw(results: dict[int, dict[str, float]], path: str) -> None:
    """Draw the errors by epsilon."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for T, found in results.items():
        (line,) = axes.plot(EPSILONS, [found[f"{e:g}"] for e in EPSILONS], "o-", label=f"T = {T}")
        axes.axhline(found["none"], color=line.get_color(), linewidth=0.7, linestyle=":")
    axes.axhline(results[TASKS[0]]["alone"], color="0.4", linestyle="--", label="each task alone")
    axes.set(xscale="log", yscale="log", xlabel="epsilon, per task (delta = 1e-5)")
    axes.set(
        ylabel="relative error of theta", xticks=EPSILONS, xticklabels=map("{:g}".format, EPSILONS)
    )
    axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    results = {T: errors(T) for T in TASKS}
    names = list(results[TASKS[0]])
    print("| tasks |", " | ".join(names), "|")
    for T, found in results.items():
        print(f"| {T} |", " | ".join(f"{found[name]:.3f}" for name in names), "|")
    draw(results, sys.argv[1])
