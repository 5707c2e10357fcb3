"""Every constant of the shared policy: its unit, why it has this value, and what it moves.

Those of clicks, counts and outliers are in ``reward_config``, of what is explored in
``exploration_config``.

Modules read them as ``config.NAME``, so a study can set one without touching the code; only how
many candidates there are of each hyperparameter is fixed. Most values were chosen while looking at
trials of seed 7, as ``docs/shared-results.md`` says too. "Judgement" marks a value that was
reasoned, not searched for.
"""

from __future__ import annotations

# ---- When things happen: policy.py, state.py

REFIT_GROWTH, SETTLED_GROWTH = 1.25, 2.0
"""Growth of the number of rewards since the last refit, as a factor, at which one is due.

The second where the last refit hardly moved predictions. Refits then cost a constant share of all
work, however long a policy runs. A smaller first value lowers regret while the subspace is still
being found (rounds 10 to 50 of synthetic 1) and takes more time.
"""

SETTLED_SHARE = 1e-3
"""Mean square by which a refit moves predictions, over their own, below which the prior is settled.

Also the share of the rewards' variance below which next to nothing is left to explain: then the
isotropic variance, which follows the bound of the noise down for long, need not have settled.
Moves how often the prior is learned once it is good, and so the time of long plays. Judgement.
"""

RELEARN_GROWTH = 1.5
"""Growth of a task's rewards, as a factor, at which its theta is learned in all directions again.

Moves the regret of tasks that leave what is shared, and the time per reward. Judgement.
"""

EXTRA_REWARDS = 4
"""Rewards beyond that growth after which a task's theta is learned in all directions again.

Keeps tasks with very few rewards from being relearned with each of them. Moves the regret of tasks
that get many rewards between two refits. Judgement.
"""

PENDING_LIMIT, PENDING_LEAST = 128, 8
"""Bounds of the number of rewards that wait to be stored and tested for drift.

As many wait as there are tasks, from half of the limit on that many; the next call stores and tests
them first. Testing one reward takes far longer than learning it, so they are tested in groups, and
drift is detected at most one group later. Moves the time per reward, hardly the regret.
"""

# ---- Rows in memory: row_store.py

ROW_BYTES = 2**30
"""Memory for the rows of all tasks, in bytes; beyond it those of tasks with fewest are dropped.

One GiB holds 663,000 rows of 200 features. Moves regret only where that is too little.
"""

FEWEST_ROWS = 8
"""Rows that there is memory for in any case, as a multiple of the numbers per row."""

COMPRESSION = 1.25
"""Rows per task above which a refit compresses them, as a multiple of the numbers per row.

A compressed task has as many rows as there are columns with numbers other than 0. Larger values
compress less often, and take more memory and larger files. Changes results by rounding alone.
"""

NEW_ROW_BYTES = 2**25
"""Memory for rows that have come since the last refit, in bytes, where stored rows take less.

Rows are compressed by a refit, so one is due when they take as much as that, or as the rows that it
stored. 32 MiB hold 190,000 rows of 20 features. Moves memory, and the time of very long plays.
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

SURE_MEAN = 4.0
"""Standard errors by which a feature's mean must differ from 0 for the feature to be centred.

With few rows chance would centre half of the features, and what they say would count as the
intercept. Moves the first ten rewards of all. Judgement.
"""

OWN_SIZES = 100
"""Rows from which on each feature has the size that it has in them, known to 14 %. Judgement."""
SIGNAL_RATIO, SIGNAL_FREEDOM = 8.0, 4.0
"""Variance of expected rewards over that of the noise before any is known, and how sure that is.

Divided by the first, that ratio has an F distribution with (4, 4) degrees of freedom. Without it
the likelihood of few rewards is flat, and takes all for noise or nothing, by chance. Its tails are
wide, so tasks that hardly differ are soon told to. The first chosen on seeds 900 to 959, the second
of 1, 2, 4 and 8 on seeds 81 to 98 of yogurt, catsup, chem97, and one and two tasks. Moves the first
forty rewards of all, one or two tasks, and regret where tasks hardly differ.
"""

MOST_FEATURES = 256
"""The most features that a prior is learned for; more are reduced to principal directions.

Bounds the cost of a refit, which grows with the cube. Moves regret on MNIST (784 features)."""

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

# ---- Low rank plus isotropic: empirical_bayes/factors.py, fit.py

MOST_COLUMNS = 12
"""The most directions that tasks share, beyond an isotropic part.

Fewer are taken where rewards do not ask for more. Moves the time of a refit. Judgement.
"""

COLUMN_PRECISION = 3.0
"""Precision of the numbers of L, in units of p over the variance of the rewards.

Larger values keep directions at 0 for longer. Moves regret while directions are being found (2 to
8 were alike), and of tasks with much noise.
"""

NEW_COLUMN = 0.03
"""Size of the numbers of a new column, in units of the variance of the rewards. Judgement."""

FIT_STEPS, FIT_TOLERANCE = 10, 1e-5
"""Steps of L-BFGS per refit, and the relative gain below which it stops earlier."""

ALONE_STEPS, ALONE_TOLERANCE, ALONE_NUMBERS = 10, 0.02, 2e5
"""Steps of MacKay's rule per refit for the prior without a preferred direction.

At most so many, until the isotropic variance changes by less than 2 %; and numbers in the rows
that they look at, since two variances need few. Moves the regret of unrelated tasks. Judgement.
"""

SHRINKING = 0.99
"""Gain of a step of MacKay's rule, over the one before, up to which their secant is trusted.

Without any noise gains may stay the same for long, and secants then lead anywhere. Judgement.
"""

VARIANCE_STEP = 100.0
"""Largest change of the isotropic variance in one refit, as a factor: MacKay's rule overshoots."""

ISOTROPIC_STEPS, ISOTROPIC_TOLERANCE = 3, 0.4
"""Steps of that rule per refit before directions are fitted, until its log changes by less.

Moves how soon the parts that tasks have of their own are seen. Judgement.
"""

OWN_PSEUDO_TASKS = 0.3
"""Tasks without shared directions that the isotropic variance counts besides the true ones.

Larger values make tasks that leave the shared directions cheaper, and all others dearer.
"""

MOST_NOISE = 4.0
"""Largest variance of the noise, over that of the rewards: more explains nothing."""

CLEAR_GAIN, CLEAR_NOISES, CLEAR_STEPS = 1.5, tuple(1.5**j for j in range(9)), 3
"""Gain in likelihood, over the most that noise alone makes, by which a direction stands out.

Then how many times as large the noise may be without the others, and the steps of L-BFGS in which
such directions are learned again. With 1.2 regret is 2 % less at noise 1 (seeds 5100 to 5103), 3 %
more under heavy tails (5400 to 5423). Moves regret where there is much noise.
"""

LEAST_COLUMN = 1e-3
"""Variance of a direction, over the widest, below which tasks are not said to share it.

Columns of L below it are left out. Moves the time of a refit, and ``rank``. Judgement.
"""

LEAST_RHO = 1e-9
"""Least isotropic variance, over that of the noise: less changes nothing."""

FIT_NUMBERS, EXPLAINED_NUMBERS = 2e6, 5e5
"""Numbers in the rows that a prior is learned from; beyond, only the busiest tasks count.

16 MB of them. The second where next to nothing is left to explain: with 100 features four rows for
each number of L. Moves the time of a refit, and regret where many tasks have much noise.
"""

NOISE_SHARE, NOISE_SHARES = 0.3, (0.1, 0.75)
"""Least variance of the noise over the latest mean squared error: at first, and its bounds.

Larger ones find directions later where there is no noise, smaller ones fit noise. Moves regret
while directions are being found. Chosen of 0.6, 0.75 and 0.9 on seeds 4100 and 4300: with noise 1
they take 5 to 13, 8 to 17 and 9 to 19 % off, and with hardly any add 0, 1 and 1 %.
"""

ROWS_PER_NUMBER = 4.0
"""Rows for each number of L from which on the bound of the noise falls, with their number.

Moves regret where there is much noise, and what is learned of late tasks that are unlike others.
"""

SPREAD_REWARDS, SPREADS = 20, (1.0, 30.0)
"""Rewards that it takes to scale variances by how large errors are, and the bounds of the factor.

Moves how often intervals hold the truth, and what is explored; not the posterior means. Judgement.
"""

RECENT_DISCOUNT = 0.1
"""Weight of errors before the last refit in the latest mean squared error."""

LEAST_NOISE, LEAST_RESOLVED = 1e-10, 1e-12
"""Least variance of the noise, over that of the rewards and of thetas: less is lost in rounding."""

OUTLIER_RATIO = 50.0
"""Largest mean square of a task's rewards, in units of the median task's.

Rows of tasks beyond it have less weight while a prior is learned: an outlier does not set it.
"""

MEAN_SCALES = tuple(10.0 ** (j / 2) for j in range(-6, 7))
"""Candidates: variance of the mean of all thetas, in units of what least squares suggests.

None at all is a candidate too, as in the paper's worlds; real tasks have one. The evidence weighs
them. Moves the first decisions of a task, and regret where tasks have a mean in common. Judgement.
"""

MEAN_EVIDENCE = 10.0
"""Twice the log of the likelihood ratio at which a mean with fewer tasks than features counts half.

"Very strong" on the scale of Kass and Raftery. In the paper's worlds chance reaches 8, real tasks
pass it within about 30 rewards (seeds 20, 21 and 30). Moves the first decisions of the first tasks,
and regret where few tasks share directions and no mean.
"""

BLOCK_BYTES = 2**19
"""Memory for the rows of one block of tasks, in bytes: with what is computed of it, in a cache.

With 8 MiB a play of 100 tasks took a quarter more time, and 50 MB more at its peak (seed 400).
"""

KEPT_ROOTS = 3
"""For how many L and noises what follows of each task is kept while a prior is fitted.

Those where the fit starts and ends, and the one of the directions that stand out: each is asked for
several times, by turns. Moves the time of a refit, and its memory by a few megabytes each.
"""

# ---- Hyperparameters: empirical_bayes/selection.py

AS_GOOD = 1.01
"""Errors, over the least ones, up to which a candidate counts as equally good.

Of these the one that shrinks most is taken; otherwise unrelated tasks would share by chance. Once
tasks share, they go on while errors are no larger. With 1.03 unrelated tasks of 100 features gain
2 %, and where there are outliers or much noise sharing comes too late (seeds 100 to 107). Moves the
regret of unrelated tasks.
"""

OFFSET_REWARDS = 5
"""Rewards from which on a mean beyond their deviation is an offset before anything is predicted."""

CLEARLY_WORSE = 1.05
"""Errors without an offset, over those with one or the reverse, above which that is changed."""

ERROR_DISCOUNT = 0.5
"""Weight of earlier errors after every refit: what was best long ago may not be now."""
