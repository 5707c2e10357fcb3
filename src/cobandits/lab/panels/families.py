"""Families of panels: within each, panels differ only in their name and rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cobandits.lab.cells import Parameters
from cobandits.lab.panels.bandits import FAILURE, Bandits, Series, policies
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.panels.tuned import DIGITS, MNIST, SHORT, SYNTHETIC_1, SYNTHETIC_2, Tuned

__all__ = [
    "TRACENORM",
    "digit_pairs",
    "more_tasks",
    "size_1",
    "size_2",
    "synthetic_1",
    "synthetic_2",
]

_NOISE = 1e-3
_OPEN = {
    "noise": "standard deviation 1e-3 (the paper: variance 1e-6)",
    "moments": "one fit, to the first epoch",
    "shared": "not in the paper, drawn in black: this library's policy, as built in and told "
    "nothing; a tenth of the trials, for it takes ten times as long",
    "lrrl": "AltGDMin with step 0.4, to convergence (tolerance 1e-9) or L = 2000 iterations",
    "regret bound": f"Theorem 5.4 with delta = {FAILURE}, log to base 2, mean over trials",
}
TRACENORM = "penalty from the noise, whose std it is told; duality gap 1e-4 or 2000 iterations"


def size_1(rank: int, noise_std: float = _NOISE) -> Parameters:
    """Return the parameters of the paper's first synthetic data, without the number of tasks."""
    return {"dim": 100, "n_arms": 5, "rank": rank, "noise_std": noise_std}


def size_2(rank: int, noise_std: float = _NOISE) -> Parameters:
    """Return the parameters of the paper's second synthetic data, without the number of tasks."""
    return {"dim": 20, "n_arms": 5, "rank": rank, "noise_std": noise_std}


def synthetic_1(name: str, rank: int) -> Panel:
    """Return a panel of the first row of Figure 1."""
    tuned = SYNTHETIC_1[rank]
    bandits = _synthetic(
        "Synthetic data 1",
        rank,
        size_1(rank),
        policies(tuned, epochs=4, oracle=True),
        rounds=200,
        tasks=(10, 25, 50, 75, 100),
        quick_tasks=(10, 100),
    )
    texts = {"d": "100", "K": "5", "N": "200", "epochs": "4 of 50 rounds"}
    texts |= {"T, full run": "10, 25, 50, 75, 100", "r": str(rank), "trials, full run": "100"}
    return _panel(name, f"Regret, synthetic data 1, rank {rank}", bandits, texts | _open(tuned))


def synthetic_2(name: str, rank: int) -> Panel:
    """Return a panel of the third row of Figure 1."""
    tuned = SYNTHETIC_2[rank]
    bandits = _synthetic(
        "Synthetic data 2",
        rank,
        size_2(rank),
        policies(tuned, epochs=4, tracenorm=True, oracle=True),
        rounds=40,
        tasks=(10, 20, 30, 40, 50),
        quick_tasks=(10, 50),
    )
    texts = {"d": "20", "K": "5", "N": "40", "epochs": "4 of 10 rounds"}
    texts |= {"T, full run": "10, 20, 30, 40, 50 (not in the paper)", "r": str(rank)}
    texts |= {"trials, full run": "100"} | _open(tuned) | {"tracenorm": TRACENORM}
    return _panel(name, f"Regret, synthetic data 2, rank {rank}", bandits, texts)


def digit_pairs(name: str, rank: int) -> Panel:
    """Return a panel of the second row of Figure 1."""

    def bandits(scale: Scale) -> Bandits:
        rounds = (500 if scale.quick else 5000) if scale.mnist else (150 if scale.quick else 500)
        data = (
            "MNIST pairs, d = 784"
            if scale.mnist
            else "NOT MNIST: scikit-learn's embedded digits stand in, d = 64"
        )
        return Bandits(
            environment="mnist" if scale.mnist else "digits",
            size={"intercept": False, "noise_std": _NOISE},
            series=policies(MNIST if scale.mnist else DIGITS, epochs=5),
            rounds=rounds,
            rank=rank,
            tasks=(10, 45),
            trials=max(1, scale.trials // 10),
            title=f"{data}, K = 2, rank {rank} told, noise std 1e-3, 5 epochs of {rounds // 5}",
        )

    texts = {
        "data": "MNIST; where it cannot be fetched, scikit-learn's embedded digits stand in "
        "(d = 64, 500 rounds in a full run), and the picture says so",
        **{"d": "784, no intercept", "K": "2", "N, full run": "5000", "epochs": "5, equal"},
        **{"T": "10, 45 of the 45 pairs", "r": str(rank), "trials, full run": "10"},
        **{"L": "2000 (not in the paper for MNIST)"},
        **_open(MNIST),
        **{f"{name}, on the embedded digits": text for name, text in DIGITS.texts.items()},
    }
    del texts["regret bound"]
    return _panel(name, f"Regret, pairs of MNIST digits, rank {rank}", bandits, texts)


def more_tasks(name: str, rank: int) -> Panel:
    """Return Figure 2c: regret by number of tasks, in 100 rounds."""
    bandits = _synthetic(
        "Synthetic",
        rank,
        size_1(rank),
        policies(SHORT, epochs=4, oracle=True),
        rounds=100,
        tasks=(5, 10, 20, 40, 60, 80, 100),
        quick_tasks=(5, 20, 100),
    )
    texts = {"d": "100", "K": "5", "N": "100", "epochs": "4 of 25 rounds (not in the paper)"}
    texts |= {"T, full run": "5, 10, 20, 40, 60, 80, 100 (not in the paper)"}
    texts |= {"r": f"{rank} (not in the paper)", "trials, full run": "100"}
    return Panel(
        name=name,
        title="Regret a task by number of tasks, 100 rounds",
        parameters=texts | _open(SHORT),
        cells=lambda scale: bandits(scale).cells(scale.seed),
        draw=lambda records, scale: bandits(scale).draw_tasks(records),
    )


def _synthetic(
    name: str,
    rank: int,
    size: Parameters,
    series: Mapping[str, Series],
    *,
    rounds: int,
    tasks: Sequence[int],
    quick_tasks: Sequence[int],
) -> Callable[[Scale], Bandits]:
    """Return what a panel on synthetic data runs, in four epochs, at each scale."""

    def bandits(scale: Scale) -> Bandits:
        return Bandits(
            environment="synthetic",
            size=size,
            series=series,
            rounds=rounds,
            rank=rank,
            tasks=quick_tasks if scale.quick else tasks,
            trials=scale.trials,
            title=f"{name}: d = {size['dim']}, K = 5, rank {rank}, noise std 1e-3, "
            f"4 epochs of {rounds // 4}",
        )

    return bandits


def _panel(
    name: str, title: str, bandits: Callable[[Scale], Bandits], parameters: dict[str, str]
) -> Panel:
    return Panel(
        name=name,
        title=title,
        parameters=parameters,
        cells=lambda scale: bandits(scale).cells(scale.seed),
        draw=lambda records, scale: bandits(scale).draw(records),
    )


def _open(tuned: Tuned) -> dict[str, str]:
    """Return what the paper leaves open, with the values that are used."""
    return {**_OPEN, **tuned.texts}
