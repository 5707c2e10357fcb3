"""What a claim is, and how the cases that it covers give its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Literal, NamedTuple

__all__ = ["FEW", "Case", "Claim", "Verdict", "judge", "listed", "number"]

FEW = 5  # with fewer trials an interval says nothing, and the means alone decide

Verdict = Literal["holds", "holds only if", "does not hold", "not tested"]

_LEAST = 0.25  # the share of the cases that a condition must leave
_SECOND = 0.1  # the share of the cases that a second thing in it must save


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says, whether it holds here, and the numbers behind that."""

    key: str  # one word, for links
    text: str  # what the paper says
    source: str  # where it says so
    verdict: Verdict = "not tested"
    condition: str = ""  # of "holds only if"
    numbers: str = ""  # one or two sentences
    trials: tuple[int, ...] = ()  # of each setting

    @property
    def outcome(self) -> str:
        """The verdict with its condition.

        >>> Claim(key="a", text="", source="", verdict="holds only if", condition="r = 2").outcome
        'holds only if r = 2'
        """
        return f"{self.verdict} {self.condition}".strip()

    @property
    def basis(self) -> str:
        """How many trials the verdict rests on.

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
        """Return the claim with the verdict over these cases, and the trials of each setting."""
        verdict, condition = judge(cases)
        return replace(
            self, verdict=verdict, condition=condition, numbers=numbers, trials=tuple(trials)
        )

    def untested(self, why: str) -> Claim:
        """Return the claim as one that nothing was run for."""
        return replace(self, verdict="not tested", numbers=why)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One setting that a claim covers: where it is, and whether the claim holds there."""

    holds: bool
    where: Mapping[str, str] = field(default_factory=dict)


def judge(cases: Sequence[Case]) -> tuple[Verdict, str]:
    """Return the verdict over all cases, and the condition under which it holds, if there is one.

    A condition fixes one thing that is known of a case, or two, to values with which the claim
    never failed. Of several the one that leaves the most cases is taken, two things only if they
    leave clearly more; one that leaves less than a quarter is no condition.

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
    kept: int  # cases that it leaves
    text: str
    second: int  # cases, to weigh a second thing against what it keeps


def _condition(cases: Sequence[Case], name: str) -> _Condition:
    """Fix one thing to the values with which the claim never failed."""
    values = [case.where[name] for case in cases]
    failing = {case.where[name] for case in cases if not case.holds}
    kept = sum(value not in failing for value in values)
    return _Condition(kept, _values(name, set(values), failing), 0)


def _two_conditions(cases: Sequence[Case], first: str, second: str) -> _Condition:
    """Leave out values of the first thing with which the claim mostly failed; fix the second."""
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
    """Return in words that a thing has one of those values that are not failing."""
    good = sorted(values - failing, key=_rank)
    if len(good) > 1 and all(value.isdigit() for value in values):
        if all(int(good[0]) > int(value) for value in failing):
            return f"{name} is at least {good[0]}"
        if all(int(good[-1]) < int(value) for value in failing):
            return f"{name} is at most {good[-1]}"
    return f"{name} is {listed(good, 'or')}"


def _rank(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdigit() else (0, value)


def listed(words: Sequence[str], last: str = "and") -> str:
    """Return the words as a list in a sentence.

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
