"""Every constant of the shared policy: its unit, why it has this value, and what it moves.

Modules read them as ``config.NAME``, so a study can set one without touching the code; only how
many candidates there are of each hyperparameter is fixed. Most values were chosen while looking at
trials of seed 7, as ``docs/shared-results.md`` says too. "Judgement" marks a value that was
reasoned, not searched for.
"""

from __future__ import annotations

# ---- When things happen: policy.py, state.py

REFIT_GROWTH = 1.25
"""Growth of the number of rewards since the last refit, as a factor, at which one is due.

Refits then cost a constant share of all work, however long a policy runs. A smaller value lowers
regret while the subspace is still being found (rounds 10 to 50 of synthetic 1) and takes more time.
"""

EXTRA_REWARDS = 4
"""Rewards beyond that growth after which a task's theta is learned in all directions again.

Keeps tasks with very few rewards from being relearned with each of them. Moves the regret of tasks
that get many rewards between two refits. Judgement.
"""

PENDING_LIMIT, PENDING_LEAST = 64, 8
"""Bounds of the number of rewards that wait to be stored and tested for drift.

As many wait as there are tasks, within these bounds; the next call stores and tests them first.
Testing one reward takes far longer than learning it, so they are tested in groups, and drift is
detected at most one group later. Moves the time per reward, hardly the regret.
"""

# ---- Exploration: exploration.py

REPEAT_RATIO = 3.0
"""Unknown share of an arm's prior variance, over the greedy arm's, above which it is neglected.

Where arms are diverse both are alike but for chance, where they repeat the ratio grows with every
reward. Chosen on seeds 0 to 2 of arms that never change and of synthetic tasks (2 explored too much
among diverse arms of few dimensions, 8 too little among few arms). Moves regret where arms repeat.
"""

# ---- Rows in memory: row_store.py

ROW_BYTES = 2**30
"""Memory for the rows of all tasks, in bytes; beyond it those of tasks with fewest are dropped.

One GiB holds 663,000 rows of 200 features. Moves regret only where that is too little.
"""

FEWEST_ROWS = 8
"""Rows that there is memory for in any case, as a multiple of the numbers per row."""

COMPRESSION = 2
"""Rows per task above which a refit compresses them, as a multiple of the numbers per row.

A compressed task has as many rows as there are numbers per row. With twice as many, compression
halves them at once, so it is rarely due. Changes results by no more than rounding.
"""

# ---- Posteriors: posteriors.py, reduced.py

EXTRA_DIRECTIONS, DIRECTIONS_PER_SHARED = 8, 2
"""Directions in which rewards move thetas between refits: 8, and 2 per direction of the rank.

Twice the rank leaves room for directions that are about to be found. Moves the time per reward, and
regret a little where tasks are related.
"""

POSTERIOR_BYTES, FEWEST_DIRECTIONS = 2**28, 4
"""Memory for the posteriors of all tasks, in bytes, and directions that they have in any case.

256 MiB hold 24 directions of 100,000 tasks. Moves regret only where there are very many tasks.
"""

LEAST_PRECISION = 1e-9
"""Least precision that rewards add in a direction, in units of the prior's, to count at all.

Less is rounding. Moves the posteriors of tasks whose rows were dropped, at a refit.
"""

CORRELATION_CUTOFF = 1e-10
"""Singular values, as a share of the largest, below which features count as dependent."""

# ---- The prior: empirical_bayes/prior.py

MOST_FEATURES = 256
"""The most features that a prior is learned for; more are reduced to principal directions.

Bounds the cost of a refit, which grows with the cube. Moves regret on MNIST (784 features).
"""

CONSTANT_VARIANCE = 1e-12
"""Variance of a feature, as a share of its mean square, below which it counts as constant."""

FIRST_NOISE = 0.1
"""Variance of the noise before anything is known, over that of the rewards. Judgement."""

DISTINCT_RATIO = 10.0
"""Variance of a direction, over that of a narrow one, above which tasks are said to share it.

Moves ``rank``, and with it how many directions rewards move thetas in. Judgement.
"""

NARROW_QUANTILE = 4
"""What counts as narrow: the direction at 1 / 4 of all, from the narrowest on. Judgement."""

NARROWEST_VARIANCE = 1e-12
"""Least variance of a direction, as a share of the widest: roots can be inverted."""

# ---- Expectation and maximisation: empirical_bayes/em.py

LEAST_NOISE = 1e-10
"""Least variance of the noise, over that of the rewards: less is lost in rounding."""

LEAST_RESOLVED = 1e-12
"""Least variance of the noise, over that of the thetas: less is lost in rounding."""

LEAST_FREE_ROWS = 1e-3
"""Least degrees of freedom that are left for the noise, as a share of the rows."""

OUTLIER_RATIO = 10.0
"""Largest mean over tasks, in units of their median: a few outliers do not set it."""

NOISE_STEP = 10.0
"""Largest change of the noise in one iteration, as a factor: MacKay's rule can overshoot."""

MEAN_SCALES = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Candidates: variance of the mean of all thetas, in units of their covariance.

0 is no mean in common, as in the paper's worlds; real tasks have one. The evidence decides. Moves
the first decisions of a task, and regret wherever tasks have a mean in common. Judgement.
"""

EM_ROWS, EM_FEWEST, EM_MOST = 150, 5, 40
"""EM iterations per refit: 150 over the mean number of rows per task, but from 5 to 40.

Few rows per task converge slowly and are cheap, many quickly. More iterations lower regret at many
tasks of low rank (T = 100, r = 2) and take more time.
"""

EM_FINAL = 5
"""EM iterations under the selected hyperparameters, so that covariance and noise suit them."""

EM_WORK = 4e9
"""Multiplications of all EM iterations of a refit; beyond, only the busiest tasks count."""

BLOCK_BYTES = 2**23
"""Memory for the rows of one block of tasks, in bytes: about what a cache holds."""

# ---- Hyperparameters: empirical_bayes/selection.py

SHRINKAGE_PSEUDO_TASKS = (3.0, 12.0, 1e6)
"""Candidates: the weight of an isotropic covariance in that of the prior, in tasks.

3 shares as much as the data allow, a million makes every task a ridge regression of its own. Moves
regret wherever tasks are few or unrelated.
"""

NOISE_SHARES = (0.0, 0.03, 0.3)
"""Candidates: the least variance of the noise, over that of the rewards.

Larger ones shrink thetas more. Moves regret while rewards are few, and makes intervals wide where
the true noise is far less.
"""

OFFSETS = (False, True)
"""Candidates: whether rewards have a mean in common that no feature explains."""

AS_GOOD = 1.01
"""Errors, over the least ones, up to which a candidate counts as equally good.

Of these the one that shrinks most is taken; otherwise unrelated tasks would share by chance. Moves
the regret of unrelated tasks.
"""

CLEARLY_WORSE = 1.05
"""Errors without an offset, over those with one, above which an offset is used."""

ERROR_DISCOUNT = 0.5
"""Weight of earlier errors after every refit: what was best long ago may not be now."""

# ---- Drift detection: drift.py

DRIFT_RATIO = 4.0
"""Squared errors over their baseline under the alternative hypothesis of the test."""

DRIFT_THRESHOLD = 40.0
"""Evidence, a log-likelihood ratio, above which tasks are taken to have changed.

A false alarm every e^40 rewards, were errors Gaussian and independent, which real ones are not.
Lower values detect a change a few rewards earlier.
"""

DRIFT_CAP = 16.0
"""Squared error over its baseline at which each error is capped: no outlier is a change.

In the baseline itself, also the ratio of a squared error to the expected one at which it is capped.
"""

DRIFT_TASKS, DRIFT_TASK_SHARE = 4, 1.01
"""Tasks that it takes to raise the alarm, and the most that one adds, over an equal share."""

DRIFT_MEMORY, DRIFT_LEAST_ROWS = 20, 30
"""Rewards per task that the baseline averages, and rewards in all before there is one."""

RETURN_MARGIN, RETURN_THRESHOLD = 0.25, 40.0
"""Evidence that each reward takes from a kept state, and evidence that it takes to return to it.

Units are those of the log-likelihood ratio in ``DRIFT_THRESHOLD``, and the threshold is the same.
The margin is that of errors half a variance smaller. Move how soon a false alarm is undone.
Judgement.
"""

LEAST_CALIBRATION = 1e-6
"""Least factor by which variances are scaled where errors are smaller than expected."""

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
"""Variance of the linear predictor before anything is known. Judgement."""

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
