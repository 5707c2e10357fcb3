"""The models that ``cobandits fit`` can write, and the one that the verdict prefers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cobandits.diagnostics import Sharing
from cobandits.diagnostics.few_rows import has_few_rows, shared_fit
from cobandits.diagnostics.verdict import ALL, MEAN
from cobandits.discovery import pick
from cobandits.estimate import Estimate
from cobandits.estimators import CommonMean, LowRank, Pooled
from cobandits.frames import INTERCEPT
from cobandits.tasks import TaskRows

__all__ = ["BEST", "CHOICES", "fitted", "preferred"]

BEST = "best"
CHOICES = (BEST, *ALL)


def preferred(asked: str, report: Sharing | None, tasks: TaskRows) -> str:
    """Return the model to write: the one that was asked for, or the best by held-out errors.

    The shared basis if nothing could be held out; own slopes, shrunken, where each task's own
    mean is best and there is no intercept to hold it.
    """
    model = pick("model", asked, dict(zip(CHOICES, CHOICES, strict=True)))
    if model == BEST:
        model = "shared" if report is None else report.best
    return "independent" if model == MEAN and not _has_intercept(tasks) else model


def fitted(
    model: str, tasks: TaskRows, shared: LowRank, seed: int, progress: Callable[[int], None]
) -> Estimate:
    """Fit one of the models to all rows."""
    if model == MEAN:
        return _own_means(tasks)
    others = {
        "common": CommonMean(),
        "pooled": Pooled(),
        "independent": CommonMean(mean="constant"),
    }
    if model == "shared" and has_few_rows(tasks):
        return shared_fit(tasks, shared, seed)
    estimator = others.get(model, shared)
    return estimator.fit(tasks.compact(), rng=seed, progress=lambda i, *_: progress(i))


def _has_intercept(tasks: TaskRows) -> bool:
    return INTERCEPT in (tasks.feature_names or ())


def _own_means(tasks: TaskRows) -> Estimate:
    """Return each task's mean, shrunken to that of all, as the weight of the intercept."""
    found = CommonMean().fit(tasks.rewards_alone().compact())
    basis = np.array([[float(name == INTERCEPT)] for name in tasks.feature_names or ()])
    return Estimate(
        basis=basis,
        weights=found.theta,
        labels=tasks.labels,
        status=found.status,
        estimator=found.estimator,
        feature_names=tasks.feature_names,
    )
