"""Parameters of the baselines, tuned on trials that are never reported.

The paper gives neither the scale of its Thompson sampling nor a prior. Each value here is
the one in the grid of its policy with the least mean regret per task over trials -1 and -2, from ::

    cobandits simulate --tune --policy ridge --policy thompson --policy subspace-oracle
        --policy thompson:schedule=equal-M --tasks T --rounds N ...

with --dim 100 --tasks 50 --rounds 200 and M = 4 (synthetic 1; 100 rounds in panel 2c),
--dim 20 --tasks 30 --rounds 40 and M = 4 (synthetic 2), --env digits --tasks 45 --rounds 500 and
M = 5. One choice serves all numbers of tasks. For --env mnist --tasks 10 --rounds 1000, M = 5, only
trial -1 and scales 1e-3, 1e-2, 0.1 and ridges 0.1, 1, 10 were tried; a ridge of 30 does as well.
"""

from __future__ import annotations

from typing import NamedTuple

from cobandits.lab.cells import Parameters

__all__ = ["DIGITS", "MNIST", "SHORT", "SYNTHETIC_1", "SYNTHETIC_2", "Tuned"]


class Tuned(NamedTuple):
    """The parameters of each baseline."""

    ridge: Parameters
    thompson: Parameters
    thompson_by_epoch: Parameters
    oracle: Parameters

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the report on each baseline."""
        return {
            "thompson": f"updated every round; {_text(self.thompson)}, tuned on other trials",
            "thompson, by epoch": f"updated as epochs end; {_text(self.thompson_by_epoch)}, "
            "tuned on other trials",
            "ridge": f"greedy, updated every round; {_text(self.ridge)}, tuned on other trials",
        }


def _text(parameters: Parameters) -> str:
    return ", ".join(f"{key} = {value:g}" for key, value in parameters.items())


def _tuned(
    ridge: float,
    thompson: tuple[float, float],
    by_epoch: tuple[float, float],
    oracle: float = 1e-6,
) -> Tuned:
    """Return the parameters by name; Thompson sampling has a scale and a ridge."""
    return Tuned(
        ridge={"ridge": ridge},
        thompson={"scale": thompson[0], "ridge": thompson[1]},
        thompson_by_epoch={"scale": by_epoch[0], "ridge": by_epoch[1]},
        oracle={"ridge": oracle},
    )


SYNTHETIC_1 = {  # by rank
    2: _tuned(1e-4, (1e-3, 0.1), (1e-4, 1e-2)),
    4: _tuned(1e-2, (1e-4, 1e-2), (1e-4, 1e-4)),
    8: _tuned(1e-6, (1e-3, 1e-2), (1e-4, 1e-4)),
}
SYNTHETIC_2 = {  # by rank
    2: _tuned(1e-6, (1e-4, 1e-2), (1e-4, 1e-2)),
    3: _tuned(1e-6, (1e-2, 0.1), (1e-4, 1e-4)),
    4: _tuned(1e-2, (1e-3, 1e-2), (1e-4, 1e-4)),
}
SHORT = _tuned(1e-2, (1e-4, 1e-2), (1e-4, 1e-4))
MNIST = _tuned(10.0, (1e-2, 10.0), (1e-3, 10.0))
DIGITS = _tuned(1.0, (1e-3, 1.0), (1e-4, 1.0))
