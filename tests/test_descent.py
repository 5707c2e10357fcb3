"""A few steps of L-BFGS within bounds, against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from numpy.typing import NDArray
from scipy.optimize import minimize, rosen, rosen_der

from cobandits.policies.shared.empirical_bayes.descent import Bounds, descend

Doubles = NDArray[np.float64]


def rosenbrock(x: Doubles) -> tuple[float, Doubles]:
    """Return the value and the gradient of Rosenbrock's function; it is curved and narrow."""
    return float(rosen(x)), np.asarray(rosen_der(x), np.float64)


@pytest.mark.parametrize(
    "bounds", [Bounds(-np.inf, np.inf), Bounds(-np.inf, 0.3), Bounds(1.5, 4.0), Bounds(0.2, 0.2)]
)
@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_is_that_of_scipy(bounds: Bounds, seed: int) -> None:
    start = np.random.default_rng(seed).uniform(0.5, 1.5, 6)
    start[-1] = np.clip(start[-1], *bounds)
    found = descend(rosenbrock, start, bounds, steps=500, tolerance=1e-15)
    within = scipy.optimize.Bounds([-np.inf] * 5 + [bounds.least], [np.inf] * 5 + [bounds.most])
    theirs = minimize(rosen, start, jac=rosen_der, bounds=within, options={"ftol": 1e-15})
    assert bounds.least <= found[-1] <= bounds.most
    assert rosen(found) <= theirs.fun + 1e-7


def test_no_step_makes_it_worse_also_where_there_is_no_value() -> None:
    """The logarithm has none beyond 0: such steps are shortened."""

    def barrier(x: Doubles) -> tuple[float, Doubles]:
        if (x <= 0).any():
            return np.inf, np.zeros_like(x)
        return float((50 * x - np.log(x)).sum()), 50 - 1 / x

    start = np.array([2.0, 3.0])
    values = [barrier(start)[0]]
    for steps in range(1, 30):
        bounds = Bounds(-np.inf, np.inf)
        values.append(barrier(descend(barrier, start, bounds, steps=steps, tolerance=0.0))[0])
    assert (np.diff(values) <= 0).all()
    assert values[-1] == pytest.approx(barrier(np.array([0.02, 0.02]))[0], abs=1e-3)
