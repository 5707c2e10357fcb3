"""Tables of choices: requests in which the reward of every arm is known."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.datasets.tables import checked_labels, is_text, keep_read_only
from cobandits.errors import DataError
from cobandits.frames import Frame, columns_of, read_frame

__all__ = ["ChoiceTable", "choice_file", "numbered"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_TEXTS = 50  # of a column that becomes features


@dataclass(frozen=True, kw_only=True, eq=False)
class ChoiceTable:
    """Requests of tasks, with the features and the reward of every arm.

    Where one arm was chosen among alternatives, its reward is 1 and that of the others is 0.

    >>> table = ChoiceTable(tasks=["b", "a", "b"], arms=np.ones((3, 2, 4)), rewards=np.eye(3, 2))
    >>> len(table), table.n_tasks, table.codes.tolist(), table.dim
    (3, 2, [0, 1, 0], 4)
    """

    tasks: NDArray[Any]  # (n,), labels
    arms: Floats  # (n, K, d)
    rewards: Floats  # (n, K)
    feature_names: tuple[str, ...] = ()  # (d,), or none
    arm_names: NDArray[Any] = field(default_factory=lambda: np.empty((0, 0)))  # (n, K), or none

    def __post_init__(self) -> None:
        arms = _numbers("arms", self.arms, "(n, K, d)")
        rewards = _numbers("rewards", self.rewards, "(n, K)")
        if rewards.shape != arms.shape[:2]:
            raise DataError(f"expected rewards {arms.shape[:2]}, one per arm, got {rewards.shape}")
        keep_read_only(self, "tasks", checked_labels("tasks", self.tasks, len(arms)))
        keep_read_only(self, "arms", arms)
        keep_read_only(self, "rewards", rewards)
        names = np.asarray(self.arm_names)
        if names.size and names.shape != rewards.shape:
            raise DataError(f"expected arm_names {rewards.shape}, one per arm, got {names.shape}")
        keep_read_only(self, "arm_names", names)
        if self.feature_names and len(self.feature_names) != self.dim:
            raise DataError(f"expected {self.dim} feature_names, got {len(self.feature_names)}")

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def n_arms(self) -> int:
        """Arms per request, K."""
        return int(self.arms.shape[1])

    @property
    def dim(self) -> int:
        """Features per arm, d."""
        return int(self.arms.shape[2])

    @property
    def n_tasks(self) -> int:
        """Number of tasks, T."""
        return int(self.codes.max()) + 1

    @cached_property
    def codes(self) -> Codes:
        """The number of each request's task, (n,): tasks in the order of first appearance."""
        return numbered(self.tasks)


def choice_file(
    path: str | Path,
    *,
    request: str = "request",
    task: str = "task",
    arm: str = "arm",
    reward: str = "reward",
) -> ChoiceTable:
    """Read a table of choices from a Parquet, CSV or TSV file with a row per request and arm.

    Requests are in the order of first appearance, and so are the arms within each.

    Parameters
    ----------
    path : str or Path
    request, task, arm, reward : str
        Columns: which request a row belongs to, its task, the name of the arm, and the reward
        (for a choice among alternatives 1 if this arm was chosen, else 0). All other columns are
        features: numbers as they are, and of text a column of 0 and 1 per value. A column with
        more than 50 different texts is left out, and a warning says so.
    """
    path = Path(path)
    state = path.stat() if path.is_file() else None  # a file that changes is read again
    version = (state.st_size, state.st_mtime_ns) if state else (0, 0)
    return _read_choices(path.absolute(), version, (request, task, arm, reward))


@lru_cache(maxsize=8)
def _read_choices(
    path: Path, _version: tuple[int, int], columns: tuple[str, str, str, str]
) -> ChoiceTable:
    frame = read_frame(path)
    numbers, texts = _feature_columns(frame, path.name, columns)
    request, task, arm, reward = columns
    names, dummies = _dummies(frame, texts, path.name)
    parts = columns_of(
        frame, task=task, reward=reward, features=numbers, intercept=bool(names and not numbers)
    )
    features = np.hstack([parts.features[:, : len(numbers)], dummies])
    asked, arms = (
        checked_labels(f"{name} labels", np.asarray(frame[name].to_numpy()), len(frame))
        for name in (request, arm)
    )
    order, K = _by_request(asked, arms)
    tasks = parts.labels[order].reshape(-1, K)
    mixed = np.flatnonzero((tasks != tasks[:, :1]).any(axis=1))
    if mixed.size:
        raise DataError(
            f"request {asked[order][mixed[0] * K]} has rows of several tasks; give every request "
            "one task"
        )
    return ChoiceTable(
        tasks=tasks[:, 0],
        arms=features[order].reshape(len(tasks), K, -1),
        rewards=parts.rewards[order].reshape(-1, K),
        feature_names=(*numbers, *names),
        arm_names=arms[order].reshape(-1, K),
    )


def _feature_columns(
    frame: Frame, file: str, columns: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the columns with numbers, and the others, besides the four that must be there."""
    names = list(frame.columns)
    if missing := [name for name in columns if name not in names]:
        raise DataError(
            f"no column {', '.join(missing)}; {file} has: {', '.join(names)}; say which of them "
            "is the request, the task, the arm and the reward"
        )
    if len(set(columns)) < len(columns):
        raise DataError("request, task, arm and reward must be different columns")
    others = [name for name in names if name not in columns]
    numbers = [name for name in others if _are_numbers(np.asarray(frame[name].to_numpy()))]
    return numbers, [name for name in others if name not in numbers]


def _dummies(frame: Frame, columns: Sequence[str], file: str) -> tuple[list[str], Floats]:
    """Return a column of 0 and 1 per text of each column, (rows, texts), and their names.

    Cells that are missing have 0 in all of them.
    """
    names, found, left_out = [], [np.zeros((len(frame), 0))], []
    for column in columns:
        cells = np.asarray(frame[column].to_numpy()).tolist()
        texts = sorted({str(cell) for cell in cells if cell is not None})
        if len(texts) > _MOST_TEXTS:
            left_out.append(f"{column} ({len(texts)} different texts)")
            continue
        names += [f"{column}={text}" for text in texts]
        found.append(
            np.array(
                [[cell is not None and str(cell) == text for text in texts] for cell in cells],
                float,
            )
        )
    if left_out:
        logging.getLogger("cobandits").warning(
            "of %s these columns are left out: %s; encode them as numbers to use them",
            file,
            ", ".join(left_out),
        )
    return names, np.hstack(found)


def _are_numbers(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf" or (values.dtype.kind == "O" and not is_text(values))


def _by_request(requests: NDArray[Any], arms: NDArray[Any]) -> tuple[Codes, int]:
    """Return the order that sorts rows by request and arm, (rows,), and the arms per request."""
    asked, offered = numbered(requests), numbered(arms)
    counts = np.bincount(asked)
    often = np.bincount(counts)
    K = int(np.flatnonzero(often == often.max())[-1])  # as most requests have
    if (counts != K).any():
        odd = np.flatnonzero(counts != K)
        raise DataError(
            f"request {requests[asked == odd[0]][0]} has {counts[odd[0]]} arm(s), and most "
            f"have {K} ({len(odd)} of {len(counts)} do not); requests with different numbers of "
            "arms cannot be played yet: add the missing arms, or drop these requests"
        )
    order = np.lexsort((offered, asked))
    twice = np.flatnonzero((np.diff(asked[order]) == 0) & (np.diff(offered[order]) == 0))
    if twice.size:
        row = order[twice[0]]
        raise DataError(
            f"request {requests[row]} has the arm {arms[row]} twice; drop one of its rows"
        )
    return order, K


def numbered(labels: NDArray[Any]) -> Codes:
    """Return the number of each label, (n,), in the order of first appearance.

    >>> numbered(np.array(["b", "a", "b", "c"])).tolist()
    [0, 1, 0, 2]
    """
    _, firsts, codes = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(firsts))[codes])


def _numbers(what: str, values: NDArray[Any], shape: str) -> Floats:
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} must be numbers, as many for each request ({error}); requests with different "
            "numbers of arms cannot be played yet"
        ) from error
    if numbers.ndim != shape.count(",") + 1 or not numbers.size:
        raise DataError(f"expected {what} {shape} with at least one request, got {numbers.shape}")
    finite = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise DataError(
            f"{what} hold a NaN or an infinite value, first in request {row}; fill it in or drop "
            "the request"
        )
    return numbers
