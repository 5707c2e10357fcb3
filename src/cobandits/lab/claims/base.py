"""Claims, and the verdicts that follow from the cases that a claim covers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval

__all__ = ["Case", "Claim", "Verdict", "clearly_positive", "few", "judge", "listed", "number"]

Floats = NDArray[np.float64]

_FEW = 5  # with fewer trials an interval says little, and the mean alone decides

Verdict = Literal["holds", "holds only if", "does not hold", "not tested"]

_LEAST = 0.25  # the share of the cases that a condition must keep
_SECOND = 0.1  # the share of the cases that a second property must keep in addition


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper, with its verdict and the numbers behind it."""

    key: str  # for links
    text: str
    source: str  # the place in the paper
    verdict: Verdict = "not tested"
    condition: str = ""  # of "holds only if"
    numbers: str = ""  # one or two sentences
    trials: tuple[int, ...] = ()  # per setting

    @property
    def outcome(self) -> str:
        """The verdict with its condition, if it has one.

        >>> Claim(key="a", text="", source="", verdict="holds only if", condition="r = 2").outcome
        'holds only if r = 2'
        """
        return f"{self.verdict} {self.condition}".strip()

    @property
    def basis(self) -> str:
        """The number of trials behind the verdict, in words.

        >>> Claim(key="a", text="", source="", trials=(3, 1, 3)).basis
        '1 to 3 trials a setting'
        """
        if not self.trials:
            return ""
        least, most = min(self.trials), max(self.trials)
        if most == 1:
            return "one trial a setting"
        return f"{most if least == most else f'{least} to {most}'} trials a setting"

    def judged(self, cases: Sequence[Case], numbers: str, trials: Iterable[int]) -> Claim:
        """Return the claim with the verdict over these cases, and the trials per setting."""
        verdict, condition = judge(cases)
        return replace(
            self, verdict=verdict, condition=condition, numbers=numbers, trials=tuple(trials)
        )

    def untested(self, why: str) -> Claim:
        """Return the claim as not tested, and why."""
        return replace(self, verdict="not tested", numbers=why)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One setting that a claim covers, and whether the claim holds there."""

    holds: bool
    where: Mapping[str, str] = field(default_factory=dict)


def judge(cases: Sequence[Case]) -> tuple[Verdict, str]:
    """Return the verdict over all cases, and the condition of "holds only if".

    A condition restricts one property of the cases, or two, to values with which the claim
    never failed. The condition that keeps the most cases is taken; one on two properties must
    keep clearly more, and one that keeps less than a quarter of the cases does not count.

    >>> judge([Case(holds=n > 10, where={"T": str(n)}) for n in (10, 25, 50)])
    ('holds only if', 'T is at least 25')
    """
    if not cases:
        return "not tested", ""
    if all(case.holds for case in cases):
        return "holds", ""
    names = list(cases[0].where)
    found = [_condition(cases, name) for name in names]
    found += [_two_conditions(cases, *pair) for pair in permutations(names, 2)]
    best = max(found, default=_Condition(0, "", 0), key=lambda one: one.kept - _SECOND * one.second)
    if best.kept < _LEAST * len(cases):
        return "does not hold", ""
    return "holds only if", best.text


class _Condition(NamedTuple):
    kept: int  # cases
    text: str
    second: int  # all cases if there is a second property, which is then weighed; else 0


def _condition(cases: Sequence[Case], name: str) -> _Condition:
    """Restrict one property to the values with which the claim never failed."""
    values = [case.where[name] for case in cases]
    failing = {case.where[name] for case in cases if not case.holds}
    kept = sum(value not in failing for value in values)
    return _Condition(kept, _values(name, set(values), failing), 0)


def _two_conditions(cases: Sequence[Case], first: str, second: str) -> _Condition:
    """Leave out values of the first property with which the claim mostly failed."""
    values = {case.where[first] for case in cases}
    failing = {value for value in values if _mostly_fails(cases, first, value)}
    rest = [case for case in cases if case.where[first] not in failing]
    if not failing or not rest:
        return _Condition(0, "", 0)
    text = _values(first, values, failing)
    if all(case.holds for case in rest):
        return _Condition(len(rest), text, 0)
    also = _condition(rest, second)
    return _Condition(also.kept, f"{text} and {also.text}", len(cases))


def _mostly_fails(cases: Sequence[Case], name: str, value: str) -> bool:
    here = [case.holds for case in cases if case.where[name] == value]
    return 2 * sum(here) < len(here)


def _values(name: str, values: set[str], failing: set[str]) -> str:
    """Say in words that a property has one of the values that did not fail."""
    good = sorted(values - failing, key=_rank)
    if len(good) > 1 and all(value.isdigit() for value in values):
        if all(int(good[0]) > int(value) for value in failing):
            return f"{name} is at least {good[0]}"
        if all(int(good[-1]) < int(value) for value in failing):
            return f"{name} is at most {good[-1]}"
    return f"{name} is {listed(good, 'or')}"


def _rank(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdigit() else (0, value)


def clearly_positive(differences: Floats) -> bool:
    """Tell whether the mean over trials is above zero, by more than its 95 % t-interval.

    With fewer than five trials the mean alone decides.

    >>> clearly_positive(np.array([1.0, 3.0])), clearly_positive(np.array([1.0, 3.0] * 3))
    (True, True)
    >>> clearly_positive(np.array([-1.0, 2.0])), clearly_positive(np.array([-1.0, 2.0] * 3))
    (True, False)
    """
    mean, half = t_interval(differences)
    return bool(mean > (0 if few(len(differences)) else half))


def few(n_trials: int) -> bool:
    """Tell whether there are too few trials for an interval."""
    return n_trials < _FEW


def listed(words: Sequence[str], last: str = "and") -> str:
    """Join words as a sentence does.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def number(value: float) -> str:
    """Return a number with three digits, a small one by its power of ten.

    >>> number(1234.5), number(0.001), number(2.34e-7)
    ('1230', '1e-3', '2.34e-7')
    """
    if not 0 < abs(value) < 0.01:
        return f"{float(f'{value:.3g}'):g}"
    digits, power = f"{value:.2e}".split("e")
    return f"{float(digits):g}e{int(power)}"
