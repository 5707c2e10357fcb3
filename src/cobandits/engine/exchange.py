"""Out of the log and into it: Parquet with a row per arm, and decisions that others made."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from cobandits.engine.encoding import Prepared, arm_ids, past_features, prepared
from cobandits.engine.events import Choice, Event, decision_body
from cobandits.engine.fold import SpaceFold
from cobandits.engine.ids import made_id
from cobandits.engine.messages import Decide
from cobandits.engine.trajectories import Trajectory
from cobandits.errors import DataError, MissingExtraError
from cobandits.logs import Log
from cobandits.ragged import RaggedArms
from cobandits.schema import Schema

__all__ = ["Past", "export_table", "import_events", "past_of_log"]

_AT_ONCE = 2000  # decisions in memory


@dataclass(frozen=True, kw_only=True)
class Past:
    """A decision that was made elsewhere, and its reward: to start warm from history."""

    task: str
    arms: Sequence[Mapping[str, Any]]
    chosen: str  # the id of the arm
    reward: float
    context: Mapping[str, Any] | None = None
    probability: float = 1.0


# ---- Out


def export_table(path: Path, found: Iterable[Trajectory], schema: Schema, secret: bytes) -> int:
    """Write a row per arm of each decision that evaluation can use; return the decisions.

    The file is written whole or not at all.
    """
    try:
        polars = importlib.import_module("polars")
    except ImportError as error:
        raise MissingExtraError("polars", "data") from error
    kept, count = (one for one in found if one.known), 0
    temporary: list[Path] = []
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        while part := list(islice(kept, _AT_ONCE)):
            temporary.append(beside.with_name(f"{beside.name}.{len(temporary)}"))
            rows = [row for one in part for row in _rows(one, schema, secret)]
            polars.DataFrame(rows).write_parquet(temporary[-1])
            count += len(part)
        if not count:
            raise DataError("no decision of the policy has a reward yet; there is nothing to write")
        polars.concat([polars.scan_parquet(one) for one in temporary]).sink_parquet(beside)
        beside.replace(path)
    finally:
        for one in (*temporary, beside):
            one.unlink(missing_ok=True)
    return count


def _rows(one: Trajectory, schema: Schema, secret: bytes) -> Iterator[dict[str, Any]]:
    request = one.request
    excluded = request.get("exclude", ())
    phi = past_features(request, schema)
    assert one.lesson is not None
    for place, name in enumerate(arm_ids(request)):
        if name in excluded:
            continue
        chosen = place == one.choice.arm
        yield {
            "request": made_id(one.event.number, secret),
            "task": one.event.task,
            "arm": name,
            "chosen": int(chosen),
            "probability": one.choice.probability if chosen else None,
            "reward": one.lesson.value if chosen else None,
            **dict(zip(schema.names, phi[place].tolist(), strict=True)),
        }


# ---- In


def past_of_log(log: Log) -> Iterator[Past]:
    """Yield the decisions of a log of vectors."""
    for n in range(len(log)):
        one = log.arms[n : n + 1]
        vectors = one.flat if isinstance(one, RaggedArms) else one[0]
        names = one.numbers if isinstance(one, RaggedArms) else np.arange(len(vectors))
        yield Past(
            task=str(log.tasks[n]),
            arms=[
                {"id": str(name), "features": row.tolist()}
                for name, row in zip(names.tolist(), vectors, strict=True)
            ],
            chosen=str(log.chosen[n]),
            reward=float(log.rewards[n]),
            probability=float(log.probabilities[n]),
        )


def import_events(given: Sequence[Past], fold: SpaceFold, first: int, at: int) -> list[Event]:
    """Return the events of decisions that were made elsewhere; refuse all if one is wrong."""
    found = []
    for number, one in enumerate(given, first):
        asked = Decide(task=one.task, arms=one.arms, context=one.context)
        ready = prepared(asked, fold.settings.schema)
        body = decision_body(ready.text, _choice(one, ready, fold, number))
        found.append(
            Event(number, at, fold.number, "import", None, None, one.reward, one.task, body)
        )
    return found


def _choice(one: Past, ready: Prepared, fold: SpaceFold, number: int) -> Choice:
    if one.chosen not in ready.ids:
        raise DataError(f"chosen must be the id of an arm, got {one.chosen!r:.60}")
    if not 0 < one.probability <= 1 or not abs(one.reward) <= 1e75:
        raise DataError(
            f"a past decision needs a probability above 0 and at most 1 and a finite reward, got "
            f"{one.probability!r} and {one.reward!r}"
        )
    fold.settings.check_reward(one.reward)
    place = ready.ids.index(one.chosen)
    return Choice(
        arm=place,
        probability=one.probability,
        base=fold.learner.base,
        learned=fold.learner.learned,
        chances=[],
        batch=number,
        size=1,
        proposed=place,
    )
