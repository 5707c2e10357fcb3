"""Claims on regret: which policy has the least, how it changes with T, and the bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import holm, t_interval, t_test
from cobandits.lab.claims.base import Case, Claim, clearly_positive, few, listed, number
from cobandits.lab.claims.evidence import EVERY_ROUND, NAMES, OURS, Evidence, Setting

__all__ = ["Duel", "below_bound", "corrected", "duels", "lead_grows", "lowest"]

Floats = NDArray[np.float64]

RIVALS = ("moments", "thompson", "tracenorm")  # in the paper
_FAILURE = 0.05  # delta of Theorem 5.4


@dataclass(frozen=True, kw_only=True)
class Duel:
    """The regrets of the paper's policy and another one in the same trials of a setting."""

    setting: Setting
    against: str
    ours: Floats  # regret per task, (trial,)
    theirs: Floats

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.ours)

    @property
    def lead(self) -> tuple[float, float]:
        """How much lower ours is: the mean over trials, and half of its 95 % interval."""
        mean, half = t_interval(self.theirs - self.ours)
        return float(mean), float(half)

    @property
    def won(self) -> bool:
        """Whether ours is lower, by more than chance."""
        return clearly_positive(self.theirs - self.ours)

    @property
    def lost(self) -> bool:
        """Whether ours is higher, by more than chance."""
        return clearly_positive(self.ours - self.theirs)

    @property
    def where(self) -> dict[str, str]:
        """The properties of the setting, for a condition."""
        setting = self.setting
        return {
            "the environment": setting.environment,
            "the data set": setting.data,
            "the rival": NAMES.get(self.against, self.against),
            "r": str(setting.rank),
            "T": str(setting.n_tasks),
        }


def duels(evidence: Evidence, rivals: Sequence[str]) -> list[Duel]:
    """Compare the paper's policy with each rival, in each setting where both were run."""
    found = [
        duel
        for rival in rivals
        for setting, ours in evidence.regrets(OURS).items()
        if (duel := _duel(setting, rival, ours, _met(setting, evidence.regrets(rival))))
    ]
    return sorted(found, key=lambda duel: _order(duel.setting))


def corrected(found: Sequence[Duel]) -> list[int]:
    """Return for each duel 1 if ours is lower, -1 if it is higher, and 0 if chance could do it.

    The duels are tested together, by paired t-tests with Holm's correction at 5 %. With fewer than
    five trials the mean alone decides.
    """
    clear = holm(np.array([t_test(duel.theirs - duel.ours) for duel in found]))
    return [
        int(np.sign(duel.lead[0])) if few(duel.trials) or beyond_chance else 0
        for duel, beyond_chance in zip(found, clear, strict=True)
    ]


def _met(setting: Setting, regrets: Mapping[Setting, dict[int, float]]) -> dict[int, float]:
    """Return a rival's regrets in a setting; a rival that is told no rank met the same rounds."""
    return regrets.get(setting) or regrets.get(replace(setting, rank=0), {})


def _duel(
    setting: Setting, rival: str, ours: Mapping[int, float], theirs: Mapping[int, float]
) -> Duel | None:
    trials = sorted(set(ours) & set(theirs))
    if not trials:
        return None
    return Duel(
        setting=setting,
        against=rival,
        ours=np.array([ours[trial] for trial in trials]),
        theirs=np.array([theirs[trial] for trial in trials]),
    )


def _order(setting: Setting) -> tuple[bool, str, int, int]:
    return setting.environment != "synthetic", setting.data, setting.rank, setting.n_tasks


def lowest(evidence: Evidence) -> Claim:
    """Judge whether the paper's policy has the least regret everywhere."""
    claim = Claim(
        key="lowest",
        text="LRRL-AltGDMin has the lowest regret of the paper's policies everywhere.",
        source="Figure 1, section 6",
    )
    found = duels(evidence, _paper_rivals(evidence))
    if not found:
        return claim.untested("The paper's policy and a rival were not run together.")
    outcomes = corrected(found)
    cases = [
        Case(holds=outcome >= 0, where=duel.where)
        for duel, outcome in zip(found, outcomes, strict=True)
    ]
    numbers = _score(found, outcomes) + _every_round(evidence)
    return claim.judged(cases, numbers, (duel.trials for duel in found))


def _paper_rivals(evidence: Evidence) -> list[str]:
    """Return the paper's baselines; Thompson sampling by epoch, if it was run."""
    every = f"thompson{EVERY_ROUND}"
    return [every if name == "thompson" and not evidence.regrets(name) else name for name in RIVALS]


def _score(found: Sequence[Duel], outcomes: list[int]) -> str:
    lost = [duel for duel, outcome in zip(found, outcomes, strict=True) if outcome < 0]
    rivals = listed(list(dict.fromkeys(duel.where["the rival"] for duel in found)))
    text = f"Against the paper's baselines ({rivals}): lower in {outcomes.count(1)} of "
    text += f"{len(found)} comparisons, corrected together, higher in {len(lost)}"
    if rest := outcomes.count(0):
        text += f", too close to tell in {rest}"
    if not lost:
        return f"{text}."
    worst = min(lost, key=lambda duel: duel.lead[0] / duel.theirs.mean())
    return f"{text} ({_lost_to(lost)}; the worst: {_told(worst)})."


def _lost_to(lost: Sequence[Duel]) -> str:
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for duel in lost:
        counts[duel.where["the rival"], duel.setting.data] += 1
    return listed([f"{n} to {rival} on {data}" for (rival, data), n in counts.items()])


def _told(duel: Duel) -> str:
    setting = duel.setting
    return (
        f"r = {setting.rank}, T = {setting.n_tasks}, a regret per task of "
        f"{number(float(duel.ours.mean()))} to {number(float(duel.theirs.mean()))}"
    )


def _every_round(evidence: Evidence) -> str:
    """Compare with policies that learn after every reward, which the paper omits."""
    found = duels(evidence, [f"thompson{EVERY_ROUND}", f"ridge{EVERY_ROUND}"])
    if not found or not evidence.regrets("thompson"):
        return ""
    outcomes = corrected(found)
    return (
        f" Against single-task policies that learn after every reward it is lower in "
        f"{outcomes.count(1)} of {len(found)} and higher in {outcomes.count(-1)}."
    )


def lead_grows(evidence: Evidence) -> Claim:
    """Judge whether the lead of the paper's policy grows with the number of tasks."""
    claim = Claim(key="tasks", text="Its lead grows with the number of tasks T.", source="Figure 1")
    groups: dict[tuple[str, str, int], list[Duel]] = defaultdict(list)
    for duel in duels(evidence, _paper_rivals(evidence)):
        groups[duel.setting.data, duel.against, duel.setting.rank].append(duel)
    grown = [group for group in groups.values() if len(group) > 1]
    if not grown:
        return claim.untested("No setting was run with two numbers of tasks.")
    slopes = [_slope(group) for group in grown]
    cases = [
        Case(
            holds=clearly_positive(slope),
            where={k: v for k, v in group[0].where.items() if k != "T"},
        )
        for slope, group in zip(slopes, grown, strict=True)
    ]
    best = max(grown, key=lambda group: _gain(group)[1] - _gain(group)[0])
    least, most = _gain(best)
    first, last = best[0].setting, best[-1].setting
    rises, falls = (
        sum(case.holds for case in cases),
        sum(clearly_positive(-slope) for slope in slopes),
    )
    numbers = (
        f"Over {len(cases)} lines of a rival on a data set, the lead a task rises with log T in "
        f"{rises}, falls in {falls}, and is too close to tell in {len(cases) - rises - falls}. It "
        f"rises most on {first.data} with r = {first.rank} against "
        f"{NAMES[best[0].against]}, from {number(least)} at T = {first.n_tasks} to "
        f"{number(most)} at T = {last.n_tasks}."
    )
    return claim.judged(cases, numbers, (len(slope) for slope in slopes))


def _slope(group: Sequence[Duel]) -> Floats:
    """Return how much the lead per task rises when T doubles, (trial,)."""
    n = min(duel.trials for duel in group)
    leads = np.array([(duel.theirs - duel.ours)[:n] for duel in group])  # (T, trial)
    doublings = np.log2([duel.setting.n_tasks for duel in group])
    return np.asarray(np.polyfit(doublings, leads, 1)[0])


def _gain(group: Sequence[Duel]) -> tuple[float, float]:
    return group[0].lead[0], group[-1].lead[0]


def below_bound(evidence: Evidence) -> Claim:
    """Judge whether the regret of all tasks stays below the bound of Theorem 5.4."""
    claim = Claim(
        key="bound",
        text="Regret is below 2 mu sigma_max sqrt(r N T log(1/delta)) (1 + log log N).",
        source="Theorem 5.4",
    )
    shares = {
        setting: [_share(setting, trial, regret) for trial, regret in trials.items()]
        for setting, trials in evidence.regrets(OURS).items()
        if setting.environment == "synthetic"
    }
    if not shares:
        return claim.untested("The paper's policy was not run on synthetic tasks.")
    cases = [
        Case(
            holds=float(np.mean(np.array(here) < 1)) >= 1 - _FAILURE,
            where={"the data set": one.data, "r": str(one.rank), "T": str(one.n_tasks)},
        )
        for one, here in shares.items()
    ]
    every = np.concatenate([np.array(here) for here in shares.values()])
    numbers = (
        f"Below it in {int(np.sum(every < 1))} of {len(every)} runs with delta = {_FAILURE}. The "
        f"regret is {number(float(np.median(every)))} of the bound in the median and "
        f"{number(float(every.max()))} at most."
    )
    return claim.judged(cases, numbers, (len(here) for here in shares.values()))


def _share(setting: Setting, trial: int, regret: float) -> float:
    """Return the regret of all tasks as a share of its bound."""
    return regret * setting.n_tasks / setting.theory(trial).regret_bound(setting.rounds, _FAILURE)
