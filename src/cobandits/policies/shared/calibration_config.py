"""Constants of stated variances: units, why they have these values, and what they move.

They move stated intervals and nothing that decides. Those that are not called judgement were chosen
on seeds 0 to 3 of the worlds of ``benchmarks/calibration.py``.
"""

from __future__ import annotations

LEFT_OUT_NUMBERS, LEAST_FREE = 5e4, 1e-9
"""Numbers in the rows that are left out one by one after a fit, and the least share that is free.

500 rows of 100 features tell an error to 6 %. More of them make a refit take longer. Judgement.
"""

LEAST_FREE_OF_AGED = 0.1
"""Least degrees of freedom per weight of rewards that are being forgotten.

Their weights are less than what the posterior is told, so leverages may exceed them. Moves stated
intervals while tasks drift. Judgement.
"""

EXCESS_CHANGE, EXCESS_DECAY = 0.4, 0.8
"""Change of the excess of errors per fit: standard deviation of its log, and the share that stays.

There are about a quarter more rewards with every fit, so L fits their noise less.
"""

UNKNOWNS_POWER = 3
"""Power of unknowns per reward by which errors under a new L count as those under the last one.

L is determined when there are more rewards than unknowns, and not before: about a threshold. Moves
intervals at few rewards per task.
"""

FEW_REWARDS = 20
"""Rewards at which variances are scaled by half of what errors say, on a log scale. Judgement."""

LEAST_FACTOR = 1e-6
"""Least factor of variances, and the inverse of the largest: beyond, it is rounding. Judgement."""
