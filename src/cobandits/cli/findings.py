"""The results of a fit to a user's file, as text and as JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cobandits.cli.output import number
from cobandits.diagnostics import Sharing, Spectrum
from cobandits.diagnostics.verdict import IN_WORDS, MODELS
from cobandits.estimate import Estimate
from cobandits.estimators import LowRank
from cobandits.frames import INTERCEPT
from cobandits.tasks import TaskRows

__all__ = ["Findings", "doubts"]

_SHOWN_VALUES = 10  # singular values that are shown


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """The fit to a file, its spectrum and its held-out errors."""

    notes: tuple[str, ...]  # on the columns of the file
    counts: NDArray[np.int64]  # rows per task, (T,)
    model: str  # that is written
    preferred: bool  # by held-out errors; else it was asked for
    shared: LowRank  # the shared fit that was compared
    estimate: Estimate
    spectrum: Spectrum | None  # None if the shared basis is neither written nor drawn
    sharing: Sharing | None  # None where there are too few rows to hold any out
    warnings: tuple[str, ...]
    output: Path

    @property
    def columns(self) -> dict[str, object]:
        """All findings by name, as JSON can hold them."""
        sharing = self.sharing
        return {
            "rows": int(self.counts.sum()),
            "tasks": len(self.counts),
            "features": list(self.estimate.feature_names or ()),
            "columns": self.notes,
            "model": self.model,
            "rank": self.estimate.rank,
            "ridge": self.shared.ridge,
            "singular_values": self.spectrum and self.spectrum.singular_values.tolist(),
            "noise_std": self.spectrum and self.spectrum.noise_std,
            "r_squared": sharing and {name: sharing.r_squared(name) for name in MODELS},
            "verdict": sharing and sharing.verdict,
            "best": sharing and sharing.best,
            "helps": sharing and sharing.helps,
            "hurts": sharing and sharing.hurts,
            "gaining": sharing and _gains(sharing, sharing.gaining),
            "losing": sharing and _gains(sharing, sharing.losing),
            "status": self.estimate.status.outcome,
            "message": self.estimate.status.message,
            "iterations": self.estimate.status.iterations,
            "warnings": self.warnings,
            "output": str(self.output),
        }

    def __str__(self) -> str:
        lines = [
            ("data", self._size()),
            *(("columns", note) for note in self.notes),
            *self._model(),
            *(() if self.sharing is None else _held_out(self.sharing)),
            *(("warning", text) for text in self.warnings),
            ("written", str(self.output)),
        ]
        return "\n".join(f"{name:<13} {text}" for name, text in lines)

    def _model(self) -> list[tuple[str, str]]:
        """Return what is written, and why; with its rank and spectrum, if it has one."""
        why = "given"
        if self.preferred and self.sharing is not None:
            least = self.sharing.lowest == self.model
            why = "best by held-out errors" if least else "no other is better by more than chance"
        lines = [("model", f"{self.model}: {IN_WORDS[self.model]} ({why})")]
        if self.model == "shared":
            ridge = self.shared.ridge
            chosen = "chosen" if self.shared.rank == "auto" else "given"
            lines += [
                ("rank", f"{self.estimate.rank} ({chosen})"),
                ("ridge", "chosen from the data" if ridge == "auto" else number(ridge)),
            ]
        if self.spectrum is not None:
            noise = f"{number(self.spectrum.noise_std)} (standard deviation)"
            lines += [("spectrum", _singular_values(self.spectrum)), ("noise", noise)]
        return [*lines, ("status", str(self.estimate.status))]

    def _size(self) -> str:
        fewest, most = int(self.counts.min()), int(self.counts.max())
        each = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        names = self.estimate.feature_names or ()
        ones = " with the intercept" if INTERCEPT in names else ""
        return (
            f"{_many(int(self.counts.sum()), 'row')} of {_many(len(self.counts), 'task')} "
            f"({each} each), {_many(self.estimate.dim, 'feature')}{ones}"
        )


def _singular_values(found: Spectrum) -> str:
    """Return the singular values, with a bar after those that the rank keeps."""
    texts = [number(value) for value in found.singular_values.tolist()]
    kept, rest = texts[: found.rank], texts[found.rank :]
    if len(kept) > _SHOWN_VALUES:
        kept = [*kept[: _SHOWN_VALUES - 1], "...", kept[-1]]
    return " ".join([*kept, *(["|", *rest] if rest else [])]) + "  (singular values of theta)"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _held_out(sharing: Sharing) -> list[tuple[str, str]]:
    scores = ", ".join(f"{name} {number(sharing.r_squared(name))}" for name in MODELS)
    return [
        ("held-out R^2", f"{scores} (0: each task's own mean, shrunken)"),
        ("verdict", sharing.verdict),
        ("tasks gaining", sharing.named(sharing.gaining)),
        ("tasks losing", sharing.named(sharing.losing)),
    ]


def _gains(sharing: Sharing, labels: Sequence[Hashable]) -> list[dict[str, object]]:
    gain = dict(zip(sharing.labels, sharing.gain.tolist(), strict=True))
    return [{"task": label, "gain": gain[label]} for label in labels]


def doubts(tasks: TaskRows, estimate: Estimate) -> list[str]:
    """Return warnings about the fit, the rewards and the features."""
    status, rewards = estimate.status, tasks.rewards
    failed = status.outcome != "converged"
    binary = bool(np.isin(rewards, (0, 1)).all() and rewards.min() < rewards.max())
    linear = "rewards are only 0 and 1: predictions of a linear model may leave 0 to 1"
    return [
        *([f"the fit did not converge: {status.message}"] if failed else []),
        *([linear] if binary else []),
        *_doubtful_columns(tasks),
    ]


def _doubtful_columns(tasks: TaskRows) -> list[str]:
    """Return a warning for constant feature columns, and one for duplicate ones."""
    names = tasks.feature_names or tuple(str(j) for j in range(tasks.dim))
    varies = tasks.rows.min(axis=0) < tasks.rows.max(axis=0)
    constant = [n for n, v in zip(names, varies, strict=True) if not v and n != INTERCEPT]
    sums = tasks.rows.sum(axis=0)  # those of equal columns are added up alike
    _, places, times = np.unique(sums, return_inverse=True, return_counts=True)
    equal: dict[bytes, list[str]] = {}
    for j in np.flatnonzero(varies & (times[places] > 1)).tolist():
        digest = hashlib.sha256(tasks.rows[:, j].tobytes()).digest()
        equal.setdefault(digest, []).append(names[j])
    twins = [" = ".join(group) for group in equal.values() if len(group) > 1]
    return [
        *([f"constant columns: {', '.join(constant)}; leave them out"] if constant else []),
        *([f"duplicate columns: {', '.join(twins)}; keep one of each"] if twins else []),
    ]
