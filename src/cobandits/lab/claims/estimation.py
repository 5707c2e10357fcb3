"""Claims on the paper's estimator: how fast its error falls, and to what level."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used

from cobandits.lab.claims.base import Case, Claim, clearly_positive, few, listed, number
from cobandits.lab.claims.evidence import Evidence, Fitted, Setting

__all__ = ["contracts", "faster", "little_from_trace_norm", "saturates"]

_OFTEN = 0.95  # the share of the trials in which the claim must hold
_LITTLE = 0.5  # the share of the first error that is left by a "very minimal" improvement
_WRITTEN = 1e-3  # the noise std, by "variance 1e-6"
_SATURATION = 1e-6  # "the estimation error saturates close to 1e-6"


def _where(setting: Setting) -> dict[str, str]:
    return {
        "d": str(setting.parameters["dim"]),
        "r": str(setting.rank),
        "the noise std": number(setting.noise_std),
        "T": str(setting.n_tasks),
    }


def faster(evidence: Evidence) -> Claim:
    """Judge whether AltGDMin needs fewer iterations than AltGD to come to the floor."""
    claim = Claim(
        key="faster", text="AltGDMin converges faster than AltGD.", source="Figures 2a and 2d"
    )
    pairs = _pairs(evidence, "altgdmin", "altgd")
    if not pairs:
        return claim.untested("AltGDMin and AltGD were not run on the same rows.")
    cases = [
        Case(
            holds=_usually(ours.reached < theirs.reached for ours, theirs in here),
            where=_where(one),
        )
        for one, here in pairs.items()
    ]
    said = [_iterations(one, here) for one, here in pairs.items()]
    numbers = f"Median iterations until within 5 % of the floor: {listed(said)}."
    return claim.judged(cases, numbers, map(len, pairs.values()))


def _usually(outcomes: Iterable[bool]) -> bool:
    """Tell whether an outcome is true in most trials, by a sign test at the 5 % level."""
    seen = list(outcomes)
    if few(len(seen)):
        return 2 * sum(seen) > len(seen)
    chance = scipy.special.bdtrc(sum(seen) - 1, len(seen), 0.5)  # of as many or more
    return bool(chance < 0.05)


def _pairs(
    evidence: Evidence, ours: str, theirs: str
) -> dict[Setting, list[tuple[Fitted, Fitted]]]:
    """Return pairs of fits of two estimators to the same rows, by setting."""
    others = {(fit.setting, fit.trial): fit for fit in evidence.fitted if fit.estimator == theirs}
    pairs = {
        one: [(fit, others[one, fit.trial]) for fit in fits if (one, fit.trial) in others]
        for one, fits in evidence.fits(ours).items()
    }
    return {one: here for one, here in pairs.items() if here}


def _iterations(setting: Setting, pairs: Sequence[tuple[Fitted, Fitted]]) -> str:
    ours, theirs = zip(*pairs, strict=True)
    fewer = sum(a.reached < b.reached for a, b in pairs)
    trials = f"fewer in {fewer} of {len(pairs)}"
    return f"{_median(ours)} to {_median(theirs)} ({_told(setting)}; {trials})"


def _median(fits: Sequence[Fitted]) -> str:
    middle = float(np.median([fit.reached for fit in fits]))
    most = max(len(fit.errors) for fit in fits)
    return number(middle) if math.isfinite(middle) else f"not in {most}"


def _told(setting: Setting) -> str:
    dim, noise = setting.parameters["dim"], setting.noise_std
    return f"d = {dim}, r = {setting.rank}, noise std {number(noise)}"


def little_from_trace_norm(evidence: Evidence) -> Claim:
    """Judge whether the trace norm's error improves little as it iterates."""
    claim = Claim(
        key="trace-norm",
        text="With the trace norm the error improves very little.",
        source="section 6, Figures 2d and 2e",
    )
    groups = evidence.fits("tracenorm")
    if not groups:
        return claim.untested("The trace norm was not run.")
    left = {
        one: float(np.median([fit.errors[-1] / fit.errors[0] for fit in fits]))
        for one, fits in groups.items()
    }
    cases = [Case(holds=share >= _LITTLE, where=_where(one)) for one, share in left.items()]
    said = [_improved(one, fits) for one, fits in groups.items()]
    rivals = [
        _improved(one, fits) for one, fits in evidence.fits("altgdmin").items() if one in left
    ]
    numbers = f"Relative error from the start to the last iteration: {listed(said)}"
    numbers += f"; AltGDMin on the same rows: {listed(rivals)}." if rivals else "."
    return claim.judged(cases, numbers, map(len, groups.values()))


def _improved(setting: Setting, fits: Sequence[Fitted]) -> str:
    first, last = (float(np.median([fit.errors[at] for fit in fits])) for at in (0, -1))
    return f"{number(first)} to {number(last)} ({_told(setting)})"


class _Rates(NamedTuple):
    mean: float  # contraction per iteration, geometric mean
    slowest: float  # contraction of the slowest iteration
    bound: float


def contracts(evidence: Evidence) -> Claim:
    """Judge whether the error contracts at least as fast as Theorem 5.2 says.

    Measured while the error is well above the floor: each iteration, and their mean.
    """
    claim = Claim(
        key="contraction",
        text="An iteration leaves at most 1 - 0.5472 c_gamma / kappa^2 of the error.",
        source="Theorem 5.2",
    )
    found = evidence.fits("altgdmin")
    groups = {one: [r for fit in fits if (r := _rates(fit))] for one, fits in found.items()}
    groups = {one: rates for one, rates in groups.items() if rates}
    if not groups:
        return claim.untested("AltGDMin's error by iteration was not recorded.")
    steady = [Case(holds=_share(rates, "slowest") >= _OFTEN) for rates in groups.values()]
    on_average = [
        Case(holds=_kept_on_average(rates), where=_where(one)) for one, rates in groups.items()
    ]
    trials = [len(rates) for rates in groups.values()]
    if all(case.holds for case in steady):
        return claim.judged(steady, _speeds(groups), trials)
    judged = claim.judged(on_average, _speeds(groups), trials)
    if judged.verdict == "does not hold":
        return judged
    also = f" and {judged.condition}" if judged.condition else ""
    mean = f"the iterations are averaged{also}"
    return replace(judged, verdict="holds only if", condition=mean)


def _kept_on_average(rates: Sequence[_Rates]) -> bool:
    """Tell whether the mean contraction, averaged over trials, is below the bound."""
    return clearly_positive(np.array([rate.bound - rate.mean for rate in rates]))


def _share(rates: Sequence[_Rates], name: Literal["mean", "slowest"]) -> float:
    """Return the share of the fits whose contraction is within the bound."""
    return float(np.mean([getattr(rate, name) <= rate.bound for rate in rates]))


def _speeds(groups: Mapping[Setting, Sequence[_Rates]]) -> str:
    every = [rate for rates in groups.values() for rate in rates]
    n = len(every)
    said = [_speed(one, rates) for one, rates in groups.items()]
    return (
        f"What an iteration leaves of the error of theta, medians over fits: {'; '.join(said)}. On "
        f"average the bound is kept in {round(n * _share(every, 'mean'))} of {n} fits, by every "
        f"iteration in {round(n * _share(every, 'slowest'))}. (The theorem is about the "
        "distance of the basis, which the error of theta follows; it wants more rows than these, "
        "and fresh ones in each iteration.)"
    )


def _speed(setting: Setting, rates: Sequence[_Rates]) -> str:
    mean, slowest, bound = (number(float(x)) for x in np.median(np.array(rates), axis=0))
    return f"{mean} on average, {slowest} at its slowest, {bound} allowed ({_told(setting)})"


def _rates(fit: Fitted) -> _Rates | None:
    """Return the contraction of a fit and its bound; None where it is too short to measure."""
    fall = fit.falling()
    if len(fall) < 5 or not 0 < fit.step <= 0.5:
        return None
    mean = float((fall[-1] / fall[0]) ** (1 / (len(fall) - 1)))
    bound = fit.setting.theory(fit.trial).contraction(fit.step)
    return _Rates(mean, float((fall[1:] / fall[:-1]).max()), bound)


def saturates(evidence: Evidence) -> Claim:
    """Judge whether the error saturates near 1e-6, and at which noise."""
    claim = Claim(
        key="saturation",
        text="The estimation error saturates close to 1e-6, with noise of variance 1e-6.",
        source="section 6, Figure 2a",
    )
    found = evidence.fits("altgdmin")
    groups = [fits for one, fits in found.items() if one.parameters["dim"] == 100]
    if not groups:
        return claim.untested("Figure 2a was not run.")
    by_noise: dict[float, list[Fitted]] = defaultdict(list)
    for fits in groups:
        by_noise[fits[0].setting.noise_std] += fits
    levels = {noise: _level(by_noise[noise]) for noise in sorted(by_noise, reverse=True)}
    said = [
        f"{number(level)} with a noise std of {number(noise)}" for noise, level in levels.items()
    ]
    fitting = [noise for noise, level in levels.items() if _near(level)]
    judged = claim.judged(
        [Case(holds=_WRITTEN in fitting)],
        f"It saturates at {listed(said)}. {_which(levels, fitting)}",
        map(len, groups),
    )
    if fitting and _WRITTEN not in fitting:
        condition = f"{number(fitting[0])} is the standard deviation of the noise, not its variance"
        return replace(judged, verdict="holds only if", condition=condition)
    return judged


def _level(fits: Sequence[Fitted]) -> float:
    """Return the geometric mean of the last errors."""
    return float(np.exp(np.mean(np.log([fit.error for fit in fits]))))


def _near(level: float) -> bool:
    """Tell whether a level is within a factor of ten of the paper's."""
    return abs(math.log10(level / _SATURATION)) < 1


def _which(levels: Mapping[float, float], fitting: Sequence[float]) -> str:
    """Say which noise agrees with the paper's picture."""
    if not fitting:
        return "None of these is close to 1e-6."
    best = min(fitting, key=lambda noise: abs(math.log(levels[noise] / _SATURATION)))
    return f"The paper's picture fits a standard deviation of {number(best)}."
