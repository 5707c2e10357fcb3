"""Every constant of clicks, counts and outliers; ``config`` has all others, and says how."""

from __future__ import annotations

# ---- Clicks and counts: likelihoods.py, working_rows.py

FEWEST_TO_TELL = 100
"""Rewards before ``rewards="auto"`` takes whole numbers for clicks or counts. Judgement.

A rate of 0.25 is taken for one of 0.2 in one of seven cases then; rates rise as a policy learns.
"""

HIGHEST_CLICK_RATE = 0.2
"""Share of ones up to which ``rewards="auto"`` takes 0 and 1 for clicks.

Synthetic tasks gain at any rate, real ones (households that choose one of four brands) lose at
rates of 0.4 to 0.8. Chosen on seeds 1000 to 1003 of both.
"""

LEAST_DISPERSION = 0.8
"""Variance of whole rewards, over their mean, above which they count as counts.

Of counts it is at least 1, but for chance, and of ratings from 0 to 5 about 0.3. Judgement.
"""

LINKED_COMPRESSION = 8
"""In place of ``COMPRESSION``: a compressed row is no longer weighted again with its theta."""

LARGEST_PREDICTOR = 12.0
"""Largest linear predictor, in size, that rewards are made Gaussian near.

Clicks of 1 in 160,000; counts of as many. Beyond it weights are lost in rounding.
"""

PREDICTOR_VARIANCE = 1.0
"""Variance of the linear predictor before anything is known, and as directions are penalised.

Judgement.
"""

LEAST_RESOLVED = 1e-12
"""Least variance of a linear predictor: less is lost in rounding."""

PREDICTOR_STEP = 1.5
"""Largest step of a linear predictor in one Newton step: it cannot diverge. Judgement."""

LAPLACE_PASSES, LAPLACE_TOLERANCE = 12, 0.03
"""Most Newton steps of all thetas with each refit, and the step of a predictor that ends them.

Thetas are near their modes before, so few are needed. Moves the time of a refit.
"""

CERTAIN_LOG_ODDS = 4.0
"""Log-odds beyond which nothing is gained: 98 %. Judgement."""

MODE_STEPS, MODE_TOLERANCE = 50, 1e-9
"""Most steps to the mode of one linear predictor, and the step at which it is found."""

AS_GOOD_NATS = 1.0
"""Log-likelihood that a candidate may lose to the best one to count as equally good.

In place of ``AS_GOOD`` where the noise is known. Moves the regret of unrelated tasks. Judgement.
"""

# ---- Outliers and noise that differs by task: likelihoods.py, working_rows.py

OUTLIER_SIZE = 3.0
"""Errors beyond it, in standard deviations, count as if they were as large as this. Judgement."""

OUTLIER_RATIO_SQUARED = 49.0
"""Squared errors over their usual size beyond which they are outliers: 7 standard deviations.

Fewer would be found where a prior is not learned yet, and errors differ by task. Judgement.
"""

FEWEST_OUTLIERS, OUTLIER_SHARE = 4, 0.004
"""Outliers, in number and as a share of errors, beyond which rewards are weighted. Judgement."""

NOISE_PSEUDO_ROWS, LEAST_NOISE_RATIO, LEAST_LEFT = 12.0, 0.01, 0.1
"""The weight of all tasks' noise in that of one, in rows, and the least ratio of the two.

The last is the least of an error that learning its row leaves.

The first was chosen on seeds 1000 to 1002 of outliers, heavy tails and noise by task, of 4 and 12.
"""

ROBUST_FITS = 3
"""Fits of the prior when rows are weighted first, each with the weights that the last one suggests.

Moves regret after outliers were first seen. Chosen on seeds 100 to 107 of synthetic outliers.
"""
