"""Every constant of changes of tasks; ``config`` has all others, and says how."""

from __future__ import annotations

# ---- One task that changes alone: task_drift.py, mending.py

TASK_THRESHOLD = 12.0
"""Evidence, a log-likelihood ratio, above which a task is looked at for a change.

Three errors far beyond the usual. It is only a nomination: predictions decide. Lower values look
more often, and mend a reward or two earlier.
"""

TASK_LEAST = 8
"""Rewards of a task before its errors are compared with its own baseline. Judgement."""

TASK_PSEUDO_REWARDS, TASK_MEMORY = 4.0, 30.0
"""The weight of all tasks' baseline in that of one, in rewards, and rewards that one averages.

Judgement.
"""

GAIN_LEAST, GAIN_MEMORY = 100.0, 5000.0
"""Log-likelihood ratios before any task is looked at, and how many their moments average.

Of the last 100 more than 3 are of outliers where 1 % of the rewards are. Judgement.
"""

RESTART_SHARE = 0.7
"""Squared errors of a task that starts again, over its own, below which it does. Judgement."""

TASK_PATIENCE = 40
"""Rewards since the onset after which predictions must have said that a task has changed.

Otherwise its errors are taken for what they are from now on. Judgement.
"""

GENERAL_EVIDENCE, GENERAL_SHARE = 1.0, 0.5
"""Evidence above which a task seems to have changed, and the share of such tasks at an alarm.

Above that share all tasks are taken to have changed, below it each is looked at alone. One capped
error has an evidence of 5, and one in thirty of usual ones more than 1. Judgement.
"""

TASK_CHANGES_KEPT = 1000
"""Changes of single tasks that a policy remembers, the latest ones."""

# ---- Forgetting: forgetting.py

HALF_LIVES = (324.0, 108.0, 36.0, 12.0, 4.0)
"""Rewards of a task after which one weighs half as much: candidates, besides never.

All rewards together weigh as much as six with the shortest. Steps of 2 were no better (seeds 500
and 501 of a subspace that turns). Move regret where tasks drift, and the time of a refit.
"""

FORGETTING_AGES = 2.0
"""Rewards per task, in half-lives, from which on a half-life is tried. Judgement."""

FORGETTING_EVIDENCE, FORGETTING_RETURN = 30.0, 3.0
"""Evidence, a log-likelihood ratio, to begin to forget, and against a half-life, to leave it.

It tells how sure a gain is, not how large. Where nothing changes chance reached 5 (seeds 100 and
101), and pixels of MNIST 19 with gains that seem large (trial 0, after 3,000 rounds); pixels of
digits reach 40, with gains that are sure and tiny: ``FORGETTING_GAIN`` is for these. Moves how soon
drift is followed, and so does that: a subspace that turns by 90 degrees in 100 rounds costs 28 per
task, with 10 in place of 30 it costs 21, with 40 42 (seeds 100 and 101).
"""

FORGETTING_GAIN = 7.0
"""Gain over all rewards of late, in nats, to begin to forget, where errors are Gaussian.

It is multiplied by the kurtosis of errors over that of Gaussian ones: 1 to 3 in synthetic worlds
that drift, 4 to 100 on pixels, on which a linear model errs rarely and much. Pixels of MNIST then
reach 5 in 2,000 rounds (trials 4, 6, 7, 8), of digits 16 in 5,000. A subspace that turns by 90
degrees in 1,000 rounds with noise 1 costs 94 per task, with 30 in place of 7 it costs 125 (seeds
100 and 101).
"""

FORGETTING_TIE = 1.0
"""Difference of losses, a log-likelihood ratio, up to which the longer half-life is taken."""

FORGETTING_CAP = 16.0
"""Squared error over the mean one of late at which each is capped: outliers do not decide."""

FORGETTING_MEMORY, FORGETTING_LEAST = 100.0, 200.0
"""Rewards per task that is looked at, and at least in all, after which a loss counts half.

With 10 in place of 100, drift under strong noise is noticed far later (seeds 500 and 501).
"""

LINE_PSEUDO_REWARDS = 20.0
"""Rewards without an error that each line in ``recalibration.py`` begins with. Judgement."""

FORGETTING_NUMBERS, FORGETTING_TASKS = 5e4, 4
"""Numbers in the rows of the tasks that candidates are compared on, and the fewest such tasks.

The first moves the time of a refit. With fewer tasks, where there are more, nothing is compared:
one task in which something happens would decide for all. It did on digits, after 1,500 rounds.
"""

# ---- A prior that forgets: forgetful.py

PRIOR_HALF_LIFE = 108.0
"""Half-life of the rows that a prior of its own is learned from; one of ``HALF_LIVES``.

With 36 the evidence comes later (seed 500 of a subspace that turns, noise 1). Once anything is
forgotten, all half-lives are compared under the prior that forgets, and a faster one is taken.
"""

PRIOR_EVIDENCE, PRIOR_GAIN = 10.0, 7.0
"""Evidence, and gains before and since the last refit, in nats, on which tasks are said to drift.

The gain is multiplied by the kurtosis of errors over that of Gaussian ones. Where nothing changes
the evidence is about 0 or below (seeds 500 to 503, noise 0.001 to 1). On digits a prior that was
badly fitted once gave 59, with a gain of 19 times the kurtosis, all between two refits (trial 0).
Where a subspace turns by 90 degrees in 1,000 rounds under noise 1, there are 30 nats after 400.
"""

PRIOR_NUMBERS, PRIOR_LEAST_TASKS = 3e4, 5
"""Numbers in the rows that such a prior is learned from, and the fewest tasks that it is.

Move the time of a refit. With more than 75 features there is time for fewer tasks, and none is.
"""

PRIOR_REWARDS = (54, 3)
"""Rewards per task between two refits at most, where it is learned: at least, and per feature.

Half of its half-life, or more where a refit costs more. Without a bound slow drift under noise 1 is
followed in one of two plays; with 64 features a play takes a fifth more time. Chosen on seeds 500,
501, 520 and 521.
"""

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

ROUNDING = 1e-24
"""Squared error, over the squared reward, up to which it is rounding and no evidence.

Some thousand times what double precision rounds a reward to. Moves only rewards with
next to no noise: less than 1e-12 of their level.
"""

RETURN_MARGIN, RETURN_THRESHOLD = 0.25, 40.0
"""Evidence that each reward takes from a kept state, and evidence that it takes to return to it.

Units are those of the log-likelihood ratio in ``DRIFT_THRESHOLD``, and the threshold is the same.
The margin is that of errors half a variance smaller. Move how soon a false alarm is undone.
Judgement.
"""

LEAST_CALIBRATION = 1e-6
"""Least factor by which variances are scaled where errors are smaller than expected."""
