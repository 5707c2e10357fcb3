"""Panels on errors of theta: by iteration, and by the epochs of the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.lab.cells import Cell, Estimation, Parameters, Simulation
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.panels.families import TRACENORM, size_1, size_2
from cobandits.lab.panels.reading import by_noise, ordered, theory
from cobandits.lab.records import Record, array, scalar
from cobandits.plots import Errors, errors_by_epoch, errors_by_iteration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DATA_1", "DATA_2", "Data", "by_epoch", "by_iteration"]

Floats = NDArray[np.float64]
Records = Mapping[str, Sequence[Record]]

NOISES = {  # standard deviations, and the titles of their drawings
    1e-3: "noise std 1e-3 (variance 1e-6, as the paper writes)",
    1e-6: "noise std 1e-6",
}
_EPOCHS = 4
_ITERATIONS = 2000  # L
_STEP = 0.4  # c_gamma of AltGDMin
_ITERATIVE = ("altgdmin", "altgd", "tracenorm")
_POLICIES: dict[str, tuple[str, Parameters]] = {  # those that fit with an estimator
    "altgdmin": ("lrrl", {"schedule": f"equal-{_EPOCHS}"}),
    "altgd": ("lrrl", {"schedule": f"equal-{_EPOCHS}", "estimator": "altgd"}),
    "moments": ("moments", {"schedule": f"first-{_EPOCHS}"}),
    "tracenorm": ("tracenorm", {"schedule": f"equal-{_EPOCHS}"}),
}


@dataclass(frozen=True, kw_only=True)
class Data:
    """The synthetic data of a panel, and the estimators that are compared on it."""

    number: int
    rank: int
    n_tasks: int
    n_rows: int  # per task and epoch
    estimators: tuple[str, ...]

    def size(self, noise_std: float) -> Parameters:
        """Return the environment's parameters."""
        made = size_1 if self.number == 1 else size_2
        return {**made(self.rank, noise_std), "n_tasks": self.n_tasks}

    @property
    def title(self) -> str:
        """The line above the picture."""
        return (
            f"Synthetic data {self.number}: d = {self.size(0)['dim']}, T = {self.n_tasks}, "
            f"rank {self.rank}, {self.n_rows} rows per task"
        )

    @property
    def parameters(self) -> dict[str, str]:
        """The values that the paper gives, and those that it leaves open."""
        return {
            "d": str(self.size(0)["dim"]),
            "T": str(self.n_tasks),
            "r": f"{self.rank} (not in the paper)",
            "rows": f"{self.n_rows} a task in an epoch",
            "noise": "standard deviation 1e-3 (variance 1e-6, as written) and 1e-6",
            "step": f"{_STEP} for AltGDMin, 0.5 for AltGD",
            "sample splitting": f"off: {self.n_rows} rows are fewer than 2 L + 1 parts",
            "trials, full run": "100",
            "lines": "medians and the middle 80 % of trials (the paper: means, which show the "
            "worst trial where errors differ by orders of magnitude)",
        }

    def of_tracenorm(self, text: str) -> dict[str, str]:
        """Return the text on the trace norm, if it is one of the estimators."""
        return {"tracenorm": text} if "tracenorm" in self.estimators else {}

    def estimations(self, estimator: str, scale: Scale) -> list[Cell]:
        """Return the fits of an estimator to the rows of one epoch, at both levels of noise."""
        limit = {"iterations": _ITERATIONS} if estimator in _ITERATIVE else {}
        return [
            Estimation(
                seed=scale.seed,
                trial=trial,
                environment_parameters=self.size(noise),
                n_rows=self.n_rows,
                estimator=estimator,
                estimator_parameters=limit,
            )
            for noise in NOISES
            for trial in range(scale.trials)
        ]

    def starts(self, estimator: str, scale: Scale) -> list[Cell]:
        """Return the fits whose starts are epoch 0; none for an estimator without a start."""
        return self.estimations(estimator, scale) if estimator in _ITERATIVE else []

    def simulations(self, estimator: str, scale: Scale) -> list[Cell]:
        """Return the simulations of the policy that uses an estimator, at both levels of noise."""
        policy, parameters = _POLICIES[estimator]
        return [
            Simulation(
                seed=scale.seed,
                trial=trial,
                environment="synthetic",
                environment_parameters=self.size(noise),
                policy=policy,
                policy_parameters=parameters,
                rounds=_EPOCHS * self.n_rows,
            )
            for noise in NOISES
            for trial in range(scale.trials)
        ]


DATA_1 = Data(number=1, rank=4, n_tasks=100, n_rows=50, estimators=("altgdmin", "altgd", "moments"))
DATA_2 = Data(
    number=2,
    rank=3,
    n_tasks=30,
    n_rows=10,
    estimators=("altgdmin", "altgd", "tracenorm", "moments"),
)


def by_iteration(name: str, data: Data) -> Panel:
    """Return a panel of errors by iteration in the first epoch."""
    return Panel(
        name=name,
        title=f"Error by iteration, synthetic data {data.number}",
        parameters={
            **data.parameters,
            "L": f"{_ITERATIONS}, or until a step gains less than 1e-9 of the cost; "
            "a fit that stopped keeps its last error",
            **data.of_tracenorm(
                "from theta = 0 on, until the duality gap is 1e-6 of the cost; penalty from the "
                "noise, whose std it estimates"
            ),
            "floor": "least squares from the truth on, dotted",
            "contraction": f"Theorem 5.2 with c_gamma = {_STEP} and each trial's condition "
            "number, from the error of the start on, dashed; median over trials",
        },
        cells=lambda scale: {one: data.estimations(one, scale) for one in data.estimators},
        draw=lambda records, _: _draw_iterations(records, data),
        average="medians",
    )


def by_epoch(name: str, data: Data) -> Panel:
    """Return a panel of errors by epoch, from the start on."""
    return Panel(
        name=name,
        title=f"Error by epoch, synthetic data {data.number}",
        parameters={
            **data.parameters,
            "K": "5",
            "epochs": f"{_EPOCHS} of {data.n_rows} rounds, each fitted from the last basis on; "
            "0 is the start on the rows of one epoch",
            "moments": "one fit, to the first epoch, as the paper's policy does",
            **data.of_tracenorm(f"{TRACENORM}; epoch 0 is theta = 0"),
        },
        cells=lambda scale: {
            one: data.starts(one, scale) + data.simulations(one, scale) for one in data.estimators
        },
        draw=lambda records, _: _draw_epochs(records, data),
        average="medians",
    )


def _draw_iterations(records: Records, data: Data) -> Figure:
    groups = {name: by_noise(trials) for name, trials in records.items()}
    drawings = [
        Errors(
            title=text,
            curves={
                name: [array(record, "errors") for record in groups[name][noise]]
                for name in data.estimators
                if name in _ITERATIVE
            },
            levels={
                name: [scalar(record, "error") for record in groups[name][noise]]
                for name in data.estimators
                if name not in _ITERATIVE
            },
            floor=_floor(groups["altgdmin"][noise]),
            bound=_slowest(groups["altgdmin"][noise]),
        )
        for noise, text in NOISES.items()
    ]
    return errors_by_iteration(drawings, f"{data.title}, at most {_ITERATIONS} iterations")


def _draw_epochs(records: Records, data: Data) -> Figure:
    groups = {name: by_noise(trials) for name, trials in records.items()}
    drawings = [
        Errors(
            title=text,
            curves={name: _epochs(groups[name][noise]) for name in data.estimators},
            floor=_floor(ordered(groups["altgdmin"][noise], "estimation")),
        )
        for noise, text in NOISES.items()
    ]
    return errors_by_epoch(drawings, data.title)


def _floor(records: Sequence[Record]) -> list[float]:
    return [scalar(record, "floor") for record in records]


def _slowest(records: Sequence[Record]) -> Floats:
    """Return the largest errors that Theorem 5.2 allows, median over trials, (L,)."""
    steps = np.arange(_ITERATIONS)
    curves = [
        array(record, "errors")[0] * theory(record).contraction(_STEP) ** steps
        for record in records
    ]
    return np.asarray(np.median(curves, axis=0))


def _epochs(records: Sequence[Record]) -> list[Floats]:
    """Return each trial's errors, (5,): at the start, NaN if it has none, and by epoch."""
    runs = ordered(records, "simulation")
    starts = [array(one, "errors")[0] for one in ordered(records, "estimation")]
    return [
        np.concatenate([[start], _held(array(run, "fit_errors"))])
        for start, run in zip(starts or [np.nan] * len(runs), runs, strict=True)
    ]


def _held(errors: Floats) -> Floats:
    """Return the errors after each epoch; an estimate that is not refitted keeps its error."""
    return np.pad(errors, (0, _EPOCHS - len(errors)), mode="edge")
