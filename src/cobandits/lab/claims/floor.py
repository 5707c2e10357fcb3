"""The claim that the error falls to the noise floor, and stays there."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from cobandits.lab.claims.base import Case, Claim, number
from cobandits.lab.claims.evidence import OURS, Evidence, Fitted, Setting

__all__ = ["exponential"]

_STAYS = 1.1  # times the floor: the largest error after the floor was reached
_STRAIGHT = 0.9  # R^2 of the logarithm of the error by iteration, in the median
_OFTEN = 0.95  # the share of the trials in which the claim must hold
_CLOSE = 10  # times the error with the true basis: the largest error of a good first fit


def exponential(evidence: Evidence) -> Claim:
    """Judge whether AltGDMin's error falls exponentially to the floor, and stays there."""
    claim = Claim(
        key="exponential",
        text="The error falls exponentially to the noise floor and stays there.",
        source="Theorem 5.3, Figures 2a and 2d",
    )
    groups, epochs = evidence.fits("altgdmin"), _epochs(evidence)
    if not groups:
        return claim.untested("AltGDMin's error by iteration was not recorded.")
    cases = [
        Case(holds=_at_floor(fits) >= _OFTEN and _straight(fits) >= _STRAIGHT, where=_where(one, 1))
        for one, fits in groups.items()
    ]
    cases += [
        Case(holds=float(np.mean(here)) >= _OFTEN, where=_where(one, n_epochs))
        for (one, n_epochs), here in epochs.items()
    ]
    numbers = _at_floor_told(groups) + _epochs_told(epochs)
    return claim.judged(cases, numbers, [*map(len, groups.values()), *map(len, epochs.values())])


def _at_floor_told(groups: Mapping[Setting, Sequence[Fitted]]) -> str:
    every = [fit for fits in groups.values() for fit in fits]
    return (
        f"By iteration (Figures 2a and 2d), {round(_at_floor(every) * len(every))} of {len(every)} "
        "fits come within 5 % of the error of the least-squares optimum and stay within 10 %; on "
        "the way log error is a straight line by iteration, with R² of "
        f"{number(min(_straight(fits) for fits in groups.values()))} or more."
    )


def _epochs_told(epochs: Mapping[tuple[Setting, int], Sequence[bool]]) -> str:
    if not epochs:
        return ""
    every = [good for here in epochs.values() for good in here]
    return (
        f" In the policy, the fit to the first epoch comes within ten times the error of one "
        f"who knows the basis in {sum(every)} of {len(every)} runs."
    )


def _epochs(evidence: Evidence) -> dict[tuple[Setting, int], list[bool]]:
    """Return whether each first fit of the policy is good, by setting and number of epochs."""
    found: dict[tuple[Setting, int], list[bool]] = defaultdict(list)
    for one in evidence.played:
        n_epochs = len(one.fit_errors)
        if one.policy == OURS and one.setting.environment == "synthetic" and n_epochs:
            rows = one.setting.rounds // n_epochs
            limit = _CLOSE * one.setting.theory(one.trial).oracle_error(rows)
            found[one.setting, n_epochs].append(bool(one.fit_errors[0] <= limit))
    return dict(found)


def _where(setting: Setting, n_epochs: int) -> dict[str, str]:
    """Return the properties of a setting, for a condition."""
    dim, r, T = setting.parameters["dim"], setting.rank, setting.n_tasks
    ratio = setting.rounds // n_epochs * T // (r * (dim + T - r))
    return {"the ratio of rows to parameters": str(ratio), "d": str(dim), "T": str(T), "r": str(r)}


def _at_floor(fits: Sequence[Fitted]) -> float:
    """Return the share of the fits that reach the floor and stay there."""
    return float(np.mean([_stays(fit) for fit in fits]))


def _stays(fit: Fitted) -> bool:
    if math.isinf(fit.reached):
        return False
    return bool(fit.errors[int(fit.reached) :].max() <= _STAYS * fit.floor)


def _straight(fits: Sequence[Fitted]) -> float:
    """Return R^2 of log error by iteration while it falls, in the median over trials."""
    falls = [np.log(fit.falling()) for fit in fits]
    found = [_r_squared(fall) for fall in falls if len(fall) > 2]
    return float(np.median(found)) if found else 0.0


def _r_squared(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    return float(np.corrcoef(np.arange(len(values)), values)[0, 1] ** 2)
