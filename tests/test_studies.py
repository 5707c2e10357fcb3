"""Studies: their verdicts on constructed records, and that all of them run and draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from cobandits.environments import Synthetic
from cobandits.lab import Cell, Estimation, Record, Simulation
from cobandits.lab.claims import Claim
from cobandits.lab.panels import Scale
from cobandits.lab.records import scalar
from cobandits.lab.studies import available
from cobandits.lab.studies.s3 import fall
from cobandits.lab.studies.sweeps import exponent
from cobandits.lab.traffic import Traffic
from cobandits.plots import save
from cobandits.theory import Theory
from tests.constructed import fit, play

STUDIES = available()
FULL = Scale(trials=100)
SMALL = Scale(trials=20)  # two trials each


def judged(name: str, record: Callable[[Cell], Record], scale: Scale = SMALL) -> Claim:
    judge = STUDIES[name].judge
    assert judge is not None
    lines = STUDIES[name].cells(scale)
    return judge({line: [record(cell) for cell in cells] for line, cells in lines.items()})


def size(cell: Cell, name: str) -> float:
    assert isinstance(cell, Estimation | Simulation)
    return float(cell.environment_parameters[name] or 0)


def fitted(errors: Callable[[Estimation], Sequence[float]]) -> Callable[[Cell], Record]:
    def record(cell: Cell) -> Record:
        assert isinstance(cell, Estimation)
        return fit(cell, errors(cell), 1e-9)

    return record


@pytest.mark.parametrize("name", STUDIES)
def test_a_full_run_has_ten_trials_and_a_quick_one_is_small(name: str) -> None:
    cells = [cell for line in STUDIES[name].cells(FULL).values() for cell in line]
    assert {cell.trial for cell in cells} == set(range(10))
    quick = STUDIES[name].cells(Scale(trials=3, quick=True))
    assert sum(map(len, quick.values())) <= 16


@pytest.mark.parametrize("name", ["s2", "s6", "s7", "s8"])
def test_a_quick_run_is_drawn_and_judged(name: str, tmp_path: Path) -> None:
    scale = Scale(trials=1, quick=True)
    study = STUDIES[name]
    records = {line: [cell.run() for cell in cells] for line, cells in study.cells(scale).items()}
    save(study.draw(records, scale), tmp_path / name)
    assert study.judge is not None
    assert study.judge(records).verdict != "not tested"


@pytest.mark.parametrize(("power", "said"), [(1, "holds"), (4, "does not hold")])
def test_recovery_by_rank(power: int, said: str) -> None:
    def errors(cell: Estimation) -> list[float]:
        r, T = size(cell, "rank"), size(cell, "n_tasks")
        return [1e-6 if cell.n_rows >= (40 + T) * r**power / T else 1.0]

    claim = judged("s1", fitted(errors))
    assert claim.verdict == said
    assert "of up to" in claim.numbers


@pytest.mark.parametrize(
    ("power", "scale", "said"),
    [(1.0, 0.3, "holds"), (1.3, 1e-3, "does not hold"), (1.0, 30.0, "does not hold")],
)
def test_noise_that_is_left(power: float, scale: float, said: str) -> None:
    claim = judged("s2", fitted(lambda cell: [scale * size(cell, "noise_std") ** power / 5]))
    assert claim.verdict == said


@pytest.mark.parametrize(("share", "said"), [(1.2, "holds"), (0.8, "does not hold")])
def test_contraction_by_condition_and_step(share: float, said: str) -> None:
    def errors(cell: Estimation) -> list[float]:
        step = float(cell.estimator_parameters["step"] or 0)
        promised = -np.log1p(-0.5472 * step / size(cell, "condition") ** 2)
        return [float(error) for error in np.exp(-share * promised * np.arange(4000))]

    claim = judged("s3", fitted(errors))
    assert claim.verdict == said
    assert "kappa -2" in claim.numbers


def test_the_fall_is_measured_on_the_way_down() -> None:
    (cell,) = STUDIES["s3"].cells(Scale(trials=1, quick=True))["by step"][:1]
    assert isinstance(cell, Estimation)
    errors = [1.0, 0.9, 0.5, *(0.1 * 0.5**k for k in range(10)), *[1e-4] * 5, 1e-9, 1e-9]
    assert fall(fit(cell, errors[:13], 0)) == pytest.approx(np.log(2))
    assert np.isnan(fall(fit(cell, [1.0, 1.0, 1.0], 0)))


@pytest.mark.parametrize(("power", "said"), [(1.0, "holds"), (1.5, "does not hold")])
def test_time_by_size(power: float, said: str) -> None:
    def record(cell: Cell) -> Record:
        assert isinstance(cell, Estimation)
        product = cell.n_rows * size(cell, "n_tasks") * size(cell, "dim") * size(cell, "rank")
        times = {"seconds_fitting": 61 * product**power, "iterations": 60}
        return fit(cell, [1.0], 0) | times

    assert judged("s4", record).verdict == said


@pytest.mark.parametrize(("power", "said"), [(1.0, "holds"), (1.5, "does not hold")])
def test_regret_by_its_bound(power: float, said: str) -> None:
    def record(cell: Cell) -> Record:
        assert isinstance(cell, Simulation)
        world = Synthetic(**cell.environment_parameters)  # type: ignore[arg-type]
        theta = world.problem(n_rows=1, seed=0, trial=cell.trial).theta
        bound = Theory.of(theta, rank=world.rank, noise_std=1e-3).regret_bound(cell.rounds, 0.05)
        return play(cell, bound**power / world.n_tasks)

    assert judged("s5", record).verdict == said


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.01, "holds"), (1.2, "does not hold")],
)
def test_a_fixed_basis_by_its_regret(ratio: float, said: str) -> None:
    def record(cell: Cell) -> Record:
        assert isinstance(cell, Simulation)
        return play(cell, 10 * (ratio if "basis" in cell.policy_parameters else 1))

    assert judged("s6", record).verdict == said


def test_means_up_to_a_size() -> None:
    def record(cell: Cell) -> Record:
        assert isinstance(cell, Simulation)
        return play(cell, 1.0, [1.0 if size(cell, "shift") < 0.6 else 5.0])

    assert judged("s7", record).outcome == "holds only if the size of the means is 0.25 or 0.5"


@pytest.mark.parametrize(
    ("more", "of_tasks", "said"),
    [
        (1500, 0, "holds"),
        (2500, 0, "does not hold"),
        (0, 100, "holds only if the size is features, d, rank, r or rows per task, n"),
    ],
)
def test_bytes_by_size(more: int, of_tasks: int, said: str) -> None:
    def record(cell: Cell) -> Record:
        assert isinstance(cell, Traffic)
        d, r, T = (size(cell, name) for name in ("dim", "rank", "n_tasks"))
        sent = 16 * d * r + 8 * r**2 + more
        weighed = {"bytes": sent + of_tasks * T, "most_bytes": sent}
        return fit(cell, [1.0], 0) | weighed

    assert judged("s8", record).outcome == said


def test_the_bytes_of_a_fit_are_those_of_basis_gradient_and_products() -> None:
    def sent(**changes: int) -> float:
        size = {"dim": 30, "n_tasks": 20, "rank": 3, **changes}
        cell = Traffic(environment_parameters=size, n_rows=40, estimator="altgdmin")
        return scalar(cell.run(), "bytes")

    assert sent(n_tasks=80) == sent()
    assert sent(dim=60) - sent() == pytest.approx(16 * 30 * 3, abs=20)  # and longer headers
    assert sent(rank=6) - sent() == pytest.approx(16 * 30 * 3 + 8 * (6**2 - 3**2), abs=20)


def test_an_exponent_has_the_interval_of_its_trials() -> None:
    sizes = np.array([1.0, 2.0, 8.0])
    found = exponent(sizes, np.array([sizes**0.9, 7 * sizes**1.1]))
    assert found.value == pytest.approx(1.0)
    assert found.half == pytest.approx(12.706 * 0.1, rel=1e-3)
    assert str(exponent(sizes, sizes[None] ** 2)) == "2.00"
