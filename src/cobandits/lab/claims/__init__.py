"""The paper's claims, each with a verdict from the records of a reproduction."""

from __future__ import annotations

from cobandits.lab.claims import estimation, floor, ranks, regret
from cobandits.lab.claims.base import Case, Claim, Verdict, judge, number
from cobandits.lab.claims.evidence import EVERY_ROUND, NAMES, Evidence
from cobandits.lab.claims.regret import Duel, duels

__all__ = [
    "NAMES",
    "Case",
    "Claim",
    "Duel",
    "Evidence",
    "Verdict",
    "beyond",
    "check",
    "judge",
    "number",
]

_CHECKS = (
    regret.lowest,
    regret.lead_grows,
    ranks.rank_free,
    floor.exponential,
    estimation.faster,
    estimation.little_from_trace_norm,
    estimation.contracts,
    regret.below_bound,
    estimation.saturates,
)
_BEYOND = (*(f"{name}{EVERY_ROUND}" for name in ("ridge", "thompson", "linucb")), "shared")


def check(evidence: Evidence) -> list[Claim]:
    """Return every claim with its verdict; a claim without any run is not tested.

    >>> {claim.verdict for claim in check(Evidence({}))}
    {'not tested'}
    """
    return [judged(evidence) for judged in _CHECKS]


def beyond(evidence: Evidence) -> list[Duel]:
    """Compare the paper's policy with those that learn after every reward.

    They are compared on the same arms and noise, trial by trial. The paper does not show this.
    """
    return duels(evidence, _BEYOND)
