"""From a request to what a policy takes: checked, and as it will be read from the log again."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import check_values
from cobandits.engine.codec import decoded, encoded
from cobandits.engine.ids import is_made
from cobandits.engine.messages import Decide
from cobandits.engine.vectors import read_vectors, vector_arms, vector_text
from cobandits.errors import DataError
from cobandits.schema import Schema

__all__ = ["Prepared", "arm_ids", "check_name", "features", "past_features", "prepared", "read"]

Doubles = NDArray[np.float64]

_LONGEST = 1000  # characters of a task, an id or a key
_MOST_ARMS = 1000  # up to which arrays that are often the same are kept
_ROOM, _WIDTH = 256, 32  # bytes of a request that is kept as it was read, and per number in it
_PARTS = ("task", "arms", "context", "exclude", "baseline", "held")


class Prepared(NamedTuple):
    """A request to decide, ready for the policy."""

    id: str | None
    text: str  # the request as it stands in the log
    task: str
    ids: list[str]  # of the arms
    phi: Doubles  # (K, d)
    available: NDArray[np.bool_]  # (K,)
    n_available: int
    baseline: int
    held: bool
    schema: Schema


def prepared(asked: Decide, schema: Schema, *, plain: bool = False) -> Prepared:
    """Check and encode a request; refuse what makes no sense, naming what it is.

    A ``plain`` request was read from JSON, so that reading it once more would change nothing.
    """
    if asked.id is not None:
        check_in_address(asked.id, "id")
        if is_made(asked.id):
            raise DataError(
                f"the id {asked.id!r} has the form of ids that are made; choose another form"
            )
    if _is_plain(asked) and (found := vector_arms(asked.arms, schema, plain)) is not None:
        return _of_vectors(asked, schema, *found)
    given = {name: value for name in _PARTS if (value := getattr(asked, name))}
    text = encoded(given)
    request: dict[str, Any] = given if plain else decoded(text)  # as the log has it: same numbers
    ids = arm_ids(request)
    available = _available(request, ids)
    return Prepared(
        asked.id,
        text.decode(),
        check_name(request.get("task"), "task"),
        ids,
        features(request, schema),
        available,
        len(ids) if "exclude" not in request else int(available.sum()),
        _baseline(request, ids, available),
        bool(asked.held),
        schema,
    )


def read(text: bytes, schema: Schema, *, many: bool = False) -> list[Prepared] | None:
    """Return the request, or those of a batch, in a JSON text: of a task and vectors, no more.

    None for any others, also where something is wrong: they go through :func:`prepared`. The log
    keeps the text as it came, unless blanks would fill the disk.
    """
    found = read_vectors(text, schema, many)
    if found is None:
        return None
    made, start, (requests, phi) = [], 0, found
    for task, ids, begin, end in requests:
        count = len(ids)
        if end - begin > _ROOM + _WIDTH * count * phi.shape[1] or len(task) > _LONGEST:
            return None
        rows, kept = phi[start : start + count], text[begin:end].decode()
        made.append(Prepared(None, kept, task, ids, rows, _all(count), count, 0, False, schema))
        start += count
    return made


def _of_vectors(asked: Decide, schema: Schema, ids: list[str], phi: Doubles) -> Prepared:
    task = check_name(asked.task, "task")
    count = len(ids)
    text = vector_text(task, asked.arms)
    return Prepared(asked.id, text, task, ids, phi, _all(count), count, 0, False, schema)


def check_name(given: object, what: str) -> str:
    """Return a name; refuse what is none."""
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST or "\0" in given:
        raise DataError(
            f"{what} must be a text of 1 to {_LONGEST} characters, none of them zero, "
            f"got {given!r:.60}"
        )
    return given


def check_in_address(given: object, what: str) -> None:
    """Refuse what is no name, and what cannot stand in an address of the service."""
    if check_name(given, what) in (".", ".."):
        raise DataError(f"{what} must not be {given!r}, which no address can hold")


def arm_ids(request: dict[str, Any]) -> list[str]:
    """Return the ids of the arms of a request: their places, as text, where they have none."""
    arms = request.get("arms")
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, dict) for arm in arms):
        raise DataError("arms must be mappings, at least one, such as [{'id': 'tea', 'price': 3}]")
    ids = [arm.get("id", str(place)) for place, arm in enumerate(arms)]
    if len(set(map(str, ids))) < len(ids) or not all(isinstance(one, str) and one for one in ids):
        raise DataError(f"arms need ids that are different texts, got {ids!r:.100}")
    return ids


def _is_plain(asked: Decide) -> bool:
    """Tell whether a request says nothing beside its arms and its task, which is a text."""
    more = asked.context or asked.exclude or asked.baseline or asked.held
    return type(asked.task) is str and bool(asked.task) and not more


def _all(count: int) -> NDArray[np.bool_]:
    """Return that every arm can be chosen; arrays that are often the same are kept."""
    return _kept(count) if count <= _MOST_ARMS else np.ones(count, np.bool_)


@functools.cache
def _kept(count: int) -> NDArray[np.bool_]:
    found = np.ones(count, np.bool_)
    found.flags.writeable = False
    return found


def _available(request: dict[str, Any], ids: list[str]) -> NDArray[np.bool_]:
    if "exclude" not in request:
        return _all(len(ids))
    excluded = request["exclude"]
    if not isinstance(excluded, list) or not set(excluded) <= set(ids):
        raise DataError(f"exclude must be ids of arms, got {excluded!r:.100}; arms: {ids!r:.100}")
    flags = np.array([one not in excluded for one in ids])
    if not flags.any():
        raise DataError("every arm is excluded; leave at least one")
    return flags


def _baseline(request: dict[str, Any], ids: list[str], available: NDArray[np.bool_]) -> int:
    given = request.get("baseline")
    if given is None:
        return int(available.argmax()) if "exclude" in request else 0
    if given not in ids or not available[ids.index(given)]:
        raise DataError(f"baseline must be an arm that can be chosen, got {given!r:.60}")
    return ids.index(given)


def features(request: dict[str, Any], schema: Schema) -> Doubles:
    """Return the vectors of the arms of a request, (K, d)."""
    context = request.get("context") or {}
    found = vector_arms(request["arms"], schema, plain=True) if not context else None
    if found is not None:
        return found[1]
    arms = [{name: v for name, v in arm.items() if name != "id"} for arm in request["arms"]]
    phi = schema.encode(arms, context=context)
    check_values(phi)
    return phi


def past_features(request: dict[str, Any], schema: Schema) -> Doubles:
    """Return the same of a request in the log, whose schema may have had other fields as well."""
    arms = [
        {name: value for name, value in arm.items() if name in schema.arm}
        for arm in request["arms"]
    ]
    given = request.get("context") or {}
    context = {name: value for name, value in given.items() if name in schema.context}
    return features({"arms": arms, "context": context}, schema)
