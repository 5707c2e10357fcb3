"""Drift detection: notice when rewards no longer follow what was learned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config
from cobandits.policies.shared.reader import Part, Reader, refused

__all__ = ["DriftDetector", "log_ratios"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, kw_only=True, eq=False)
class DriftDetector:
    """A one-sided CUSUM test (Page 1954) of whether squared errors exceed their baseline.

    An error is evidence only if two things are above their baselines: its square, and the ratio of
    its square to the variance that the model predicts. So neither new tasks raise the alarm, whose
    errors are large but expected, nor does an overconfident model. It takes four tasks to raise
    it, or all where fewer are active. The baseline is a running mean, in which outliers are
    capped, and ratios too, since an overconfident prior is soon replaced. Only the first error that
    is not 0 is not capped: where clicks are rare, all rewards before the first click are 0, and
    predicted to be.
    """

    rows: int = 0  # rewards so far
    baseline: Doubles = field(default_factory=lambda: np.zeros(2))  # mean squared error, and ratio
    evidence: float = 0.0  # log-likelihood ratio of a change
    task_evidence: dict[int, float] = field(default_factory=dict)  # since evidence was 0

    def after(
        self, tasks: Codes, squares: Doubles, expected: Doubles, *, n_active: int
    ) -> DriftDetector:
        """Return the detector after squared errors, (m,), and the expected ones, (m,).

        ``n_active`` is the number of tasks that have had rewards.
        """
        weighed = self
        if self.rows >= change_config.DRIFT_LEAST_ROWS:
            weighed = self._weighed(tasks, self._gains(squares, expected), n_active)
            if self.baseline[0] > 0:
                squares = np.minimum(squares, change_config.DRIFT_CAP * self.baseline[0])
        ratios = np.minimum(squares / expected, change_config.DRIFT_CAP)
        m = len(squares)
        memory = max(change_config.DRIFT_LEAST_ROWS, change_config.DRIFT_MEMORY * n_active)
        weight = m / (min(self.rows, memory) + m)
        now = np.array([squares.sum(), ratios.sum()]) / m
        baseline = self.baseline + weight * (now - self.baseline)
        return replace(weighed, baseline=baseline, rows=self.rows + m)

    def onset(self, squares: Doubles, expected: Doubles) -> int:
        """Return the first of these errors, (m,), that a change explains better than the baseline.

        From it on their log-likelihood ratios have the largest sum.
        """
        sums = np.cumsum(self._gains(squares, expected)[::-1])[::-1]
        return int(sums.argmax())

    def sums(self, tasks: Codes, squares: Doubles, expected: Doubles) -> Doubles:
        """Return the log-likelihood ratios of a change of errors, (m,), summed per task, (m,).

        Where a task adds as much as it can to the evidence so far, it is that.
        """
        sums = np.bincount(tasks, self._gains(squares, expected))[tasks]
        known = [self.task_evidence.get(task, 0.0) for task in tasks.tolist()]
        return np.where(np.array(known) >= self._most_per_task, known, sums)

    @property
    def _most_per_task(self) -> float:
        """The most that a task adds to the evidence, where many are active."""
        return (
            change_config.DRIFT_TASK_SHARE
            * change_config.DRIFT_THRESHOLD
            / change_config.DRIFT_TASKS
        )

    def _gains(self, squares: Doubles, expected: Doubles) -> Doubles:
        """Return the log-likelihood ratios of a change to none, (m,)."""
        usual, usual_ratio = np.maximum(self.baseline, _TINY)
        most, most_ratio = change_config.DRIFT_CAP * usual, change_config.DRIFT_CAP * usual_ratio
        capped, ratios = np.minimum(squares, most), np.minimum(squares / expected, most_ratio)
        return log_ratios(change_config.DRIFT_CAP * np.minimum(capped / most, ratios / most_ratio))

    def saved(self) -> Part:
        """Return what a checkpoint holds of the detector."""
        arrays = {
            "baseline": self.baseline,
            "evidence_tasks": np.array(list(self.task_evidence), np.int64),
            "task_evidence": np.array(list(self.task_evidence.values()), np.float64),
        }
        return Part({"rows": self.rows, "evidence": self.evidence}, arrays)

    @classmethod
    def read(cls, reader: Reader, *, n_tasks: int) -> DriftDetector:
        """Read what :meth:`saved` returned."""
        tasks = reader.codes("evidence_tasks", (None,), below=n_tasks)
        gains = reader.doubles("task_evidence", tasks.shape)
        if len(np.unique(tasks)) < len(tasks):
            raise refused("drift.evidence_tasks that are not different")
        return cls(
            rows=reader.count("rows"),
            evidence=reader.number("evidence"),
            baseline=reader.doubles("baseline", (2,)),
            task_evidence=dict(zip(tasks.tolist(), gains.tolist(), strict=True)),
        )

    def _weighed(self, tasks: Codes, gains: Doubles, n_active: int) -> DriftDetector:
        """Return the detector with log-likelihood ratios, (m,), added, capped per task."""
        evidence, by_task = self.evidence + float(np.minimum(gains, 0).sum()), self.task_evidence
        if self.evidence + float(gains.sum()) > 0:  # else it is 0, whatever is capped
            raising = min(change_config.DRIFT_TASKS, max(1, n_active))  # tasks
            most = change_config.DRIFT_TASK_SHARE * change_config.DRIFT_THRESHOLD / raising
            by_task = dict(by_task)
            up = np.flatnonzero(gains > 0)
            for task, gain in zip(tasks[up].tolist(), gains[up].tolist(), strict=True):
                before = by_task.get(task, 0.0)
                by_task[task] = min(most, before + gain)
                evidence += by_task[task] - before
            if evidence > 0:
                return replace(self, evidence=evidence, task_evidence=by_task)
        return replace(self, evidence=0.0, task_evidence={})

    @property
    def calibration(self) -> float:
        """Mean ratio of squared errors to the expected ones, at most 1."""
        if self.rows < change_config.DRIFT_LEAST_ROWS:
            return 1.0
        return float(np.clip(self.baseline[1], change_config.LEAST_CALIBRATION, 1))

    @property
    def raised(self) -> bool:
        """Whether there is enough evidence of a change."""
        return self.evidence > change_config.DRIFT_THRESHOLD


def log_ratios(larger: Doubles) -> Doubles:
    """Return log-likelihood ratios, (m,), of a larger variance of Gaussian errors to the usual one.

    ``larger``, (m,), are squared errors over their baseline.
    """
    ratio = change_config.DRIFT_RATIO
    return 0.5 * (larger * (1 - 1 / ratio) - math.log(ratio))
