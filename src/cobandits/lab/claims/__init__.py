"""The paper's claims, each with a verdict from the records of a reproduction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cobandits.lab.cells import Record
from cobandits.lab.claims import estimation, floor, ranks, regret
from cobandits.lab.claims.base import Case, Claim, Verdict, judge, number
from cobandits.lab.claims.evidence import EVERY_ROUND, NAMES, Evidence
from cobandits.lab.claims.regret import Duel, duels

__all__ = ["NAMES", "Case", "Claim", "Duel", "Verdict", "beyond", "check", "judge", "number"]

Records = Mapping[str, Mapping[str, Sequence[Record]]]

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
_BEYOND = tuple(f"{name}{EVERY_ROUND}" for name in ("ridge", "thompson", "linucb"))


def check(records: Records) -> list[Claim]:
    """Return every claim with its verdict, from the records of each panel and series.

    A claim is judged by what the records say was run, whatever panels and series are called;
    where nothing was run for it, it is not tested.

    >>> {claim.verdict for claim in check({})}
    {'not tested'}
    """
    evidence = Evidence(records)
    return [judged(evidence) for judged in _CHECKS]


def beyond(records: Records) -> list[Duel]:
    """Return the paper's policy against single-task ones that learn after every reward.

    On the same arms and noise, trial by trial. The paper does not show this.
    """
    return duels(Evidence(records), _BEYOND)
