"""Arms that are nothing but vectors: the fast way from a request to numbers and to the log.

What it returns is what :mod:`cobandits.engine.encoding` would; what it does not know is left to it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import LARGEST_VALUE
from cobandits.engine.codec import encoded
from cobandits.engine.settings import VECTOR
from cobandits.fast_checks import are_at_most, take_vectors
from cobandits.schema import Schema, Vector

try:
    from cobandits.compiled import _requests
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "read_vectors", "vector_arms", "vector_text"]

Doubles = NDArray[np.float64]
Arms = Sequence[Mapping[str, Any]]
Read = tuple[str, list[str], int, int]  # task, ids of arms, where its text begins and ends

_NUMBERS = frozenset((float, int))  # which JSON gives back as they were


def vector_arms(arms: Arms, schema: Schema, plain: bool) -> tuple[list[str], Doubles] | None:
    """Return the ids and vectors, (K, d), of arms that are nothing else; None for others.

    Arms that are not ``plain`` did not come from JSON: their numbers must be Python's own.
    """
    field = _field(schema)
    if field is None or type(arms) is not list:
        return None
    if (taken := take_vectors(arms, VECTOR, field.size, LARGEST_VALUE)) is not None:
        return taken
    if set(map(type, arms)) != {dict}:
        return None
    ids = _ids(arms)
    try:
        rows = [arm[VECTOR] for arm in arms]
        if ids is None or not (plain or _are_numbers(rows)):
            return None
        phi = np.array(rows, np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    fits = phi.shape == (len(arms), field.size) and are_at_most(phi, LARGEST_VALUE)
    return (ids, phi) if fits else None


def read_vectors(text: bytes, schema: Schema, many: bool) -> tuple[list[Read], Doubles] | None:
    """Return the requests in a JSON text, and the vectors of all of their arms.

    None for requests that say anything else, and without the extension.
    """
    field = _field(schema) if COMPILED else None
    found = None if field is None else _requests.read_vectors(text, field.size, many)
    if field is None or found is None:
        return None
    return found[0], np.frombuffer(found[1]).reshape(-1, field.size)


def vector_text(task: str, arms: Arms) -> str:
    """Return such a request as it stands in the log."""
    return encoded({"arms": arms, "task": task}).decode()


def _field(schema: Schema) -> Vector | None:
    """Return the only field of a schema, if it is a vector."""
    field = schema.arm.get(VECTOR)
    if (
        not isinstance(field, Vector)
        or len(schema.arm) + len(schema.context) > 1
        or field.missing != "error"
    ):
        return None
    return field


def _ids(arms: list[dict[str, Any]]) -> list[str] | None:
    """Return the ids of arms that have one field beside; None if anything is amiss."""
    ids: list[Any] = [arm.get("id") for arm in arms]
    named = sum(map(len, arms)) == 2 * len(arms)
    if not named:
        bare = ids.count(None) == len(ids) == sum(map(len, arms))
        return list(_places(len(ids))) if bare else None
    fine = set(map(type, ids)) == {str} and len(set(ids)) == len(ids) and all(ids)
    return ids if fine else None


@functools.lru_cache(64)
def _places(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


def _are_numbers(rows: list[Any]) -> bool:
    if set(map(type, rows)) != {list}:
        return False
    return _NUMBERS.issuperset(map(type, chain.from_iterable(rows)))
