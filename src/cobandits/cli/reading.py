"""From a user's file to tasks: what its columns are, and what was done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.frames import INTERCEPT, feature_columns, plain_labels, read_frame
from cobandits.labels import check_labels
from cobandits.schema import Schema, infer_fields
from cobandits.schema.values import Values, as_numbers, values_of
from cobandits.tasks import TaskRows
from cobandits.tasks.layout import aligned_empty

__all__ = ["MISSING", "Columns", "Missing", "Table", "read_table"]

Mask = NDArray[np.bool_]
Missing = Literal["drop", "indicator", "mean"]

MISSING: tuple[Missing, ...] = get_args(Missing)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a file are what, and how they are encoded."""

    task: str
    reward: str
    features: Sequence[str] | None
    intercept: bool
    categorical: Sequence[str]
    dates: Sequence[str]
    missing: Missing
    standardise: bool
    crosses: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The rows of a file, the schema that encoded them, and what a user should know."""

    tasks: TaskRows
    schema: Schema | None  # None if there is no feature but the intercept
    notes: tuple[str, ...]


def read_table(file: Path, columns: Columns) -> Table:
    """Read and encode a file; refuse all that is wrong with it in one message."""
    frame = read_frame(file)
    names = feature_columns(frame, columns.task, columns.reward, columns.features)
    if len(frame) == 0:
        raise DataError("there are no rows, only names of columns; add rows")
    cells = {name: values_of(frame[name]) for name in (columns.task, columns.reward, *names)}
    problems: list[str] = []
    rewards = _collected(problems, _rewards, cells[columns.reward], columns.reward)
    kept, notes = _kept(cells, names, columns)
    raw = {name: cells[name].where(kept) for name in names}
    found = _collected(problems, _schema, raw, columns)
    if not kept.any():
        problems.append("no row is left; fill in values, or use --missing indicator")
    if problems or rewards is None or found is None:
        raise DataError("; ".join(problems))
    schema, text = found
    labels = plain_labels(cells[columns.task].cells[kept])
    schema, tasks = _tasks(schema, raw, rewards[kept], labels, columns)
    check_labels(tasks.labels)  # before a fit takes its time
    return Table(tasks=tasks, schema=schema, notes=(*([text] if text else []), *notes))


def _collected(problems: list[str], make: Callable[..., Any], *given: object) -> Any:
    """Return what is made, or None, with its error among the problems."""
    try:
        return make(*given)
    except DataError as error:
        problems.append(str(error))
        return None


def _rewards(values: Values, name: str) -> NDArray[np.float64]:
    """Return the rewards, 0 where they are missing."""
    numbers, bad = as_numbers(values)
    if bad.any():
        first = values.cells[int(np.argmax(bad))]
        kind = "text" if isinstance(first, str) else f"values such as {first!r}"
        raise DataError(
            f"column {name} holds {kind}; rewards must be numbers, so name another column or "
            "encode it"
        )
    return numbers


def _kept(
    cells: dict[str, Values], names: Sequence[str], columns: Columns
) -> tuple[Mask, list[str]]:
    """Return which rows are kept, and how many are not and why."""
    kept = np.ones(len(cells[columns.task].cells), np.bool_)
    reasons = [
        (cells[columns.task].missing, f"no {columns.task}"),
        (cells[columns.reward].missing, f"no {columns.reward}"),
    ]
    if columns.missing == "drop":
        gaps = np.zeros(len(kept), np.bool_)
        for name in names:
            gaps |= cells[name].missing
        reasons.append((gaps, "a missing feature"))
    notes = []
    for gone, reason in reasons:
        count = int(np.count_nonzero(gone & kept))
        notes += [f"{count:,} row{'s' * (count > 1)} with {reason} left out"] if count else []
        kept &= ~gone
    return kept, notes


def _schema(raw: dict[str, Any], columns: Columns) -> tuple[Schema | None, str]:
    """Return the schema of the features, and what was found of them in words."""
    found = infer_fields(
        raw,
        categorical=columns.categorical,
        dates=columns.dates,
        missing="mean" if columns.missing == "mean" else "indicator",
        standardise=columns.standardise,
    )
    if not found.fields and not columns.intercept:
        raise DataError(
            f"no feature columns besides {columns.task} and {columns.reward}; add at least one"
        )
    if not found.fields and not columns.crosses:
        return None, str(found)
    return Schema(arm=found.fields, crosses=columns.crosses), str(found)


def _tasks(
    schema: Schema | None,
    raw: dict[str, Any],
    rewards: NDArray[np.float64],
    labels: NDArray[Any],
    columns: Columns,
) -> tuple[Schema | None, TaskRows]:
    """Encode the rows; the schema then knows the means of its columns, for rows with gaps."""
    names = () if schema is None else schema.names
    encoded = aligned_empty((len(rewards), len(names) + columns.intercept))
    if schema is not None:
        schema = schema.with_usual(schema.encode(raw, out=encoded[:, : len(names)]))
    if columns.intercept:
        encoded[:, -1] = 1
        names = (*names, INTERCEPT)
    return schema, TaskRows.adopting(encoded, rewards, labels, names)
