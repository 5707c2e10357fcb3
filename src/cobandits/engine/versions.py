"""Versions: the states that began with an event, which can be looked at and returned to."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Literal, cast

from cobandits.engine.errors import UnknownVersionError
from cobandits.engine.messages import when
from cobandits.engine.stores import Query, Store

__all__ = ["Version", "drop_snapshots", "version_number", "versions_of"]

Kind = Literal["space", "install", "rollback", "relearn"]

_NAME = re.compile(r"v([0-9]{1,18})(\+[0-9]+)?")
_KINDS = ("space", "install", "rollback", "relearn")
_KEPT = 20  # versions whose snapshots are kept; older ones are computed from the log


@dataclass(frozen=True, kw_only=True)
class Version:
    """A state that began with an event: a prior was installed, returned to, or all learned anew."""

    name: str  # such as "v412"
    number: int  # of the event
    kind: Kind
    at: datetime.datetime
    of: str | None  # for a rollback, the version that was returned to


def versions_of(store: Store, space: int) -> list[Version]:
    """Return the versions of a space, in order."""
    return [
        Version(
            name=f"v{event.number}",
            number=event.number,
            kind=cast(Kind, event.kind),
            at=when(event.at),
            of=f"v{event.ref}" if event.kind == "rollback" else None,
        )
        for event in store.read(Query(space=space, kinds=_KINDS))
    ]


def version_number(store: Store, space: int, name: str) -> int:
    """Return the number of a version by its name: ``"v412"``."""
    match = _NAME.fullmatch(name)
    if match and match[2]:
        raise UnknownVersionError(
            f"{name!r:.60} is a state within version v{match[1]}; versions() lists what can be "
            "returned to"
        )
    event = store.event(int(match[1])) if match else None
    if event is None or event.space != space or event.kind not in _KINDS:
        raise UnknownVersionError(f"there is no version {name!r:.60}; versions() lists them")
    return event.number


def drop_snapshots(store: Store, space: int) -> None:
    """Remove snapshots that are no versions, or old ones; the last one stays."""
    versions = {one.number for one in versions_of(store, space)[-_KEPT:]}
    for saved in store.snapshots(space)[:-1]:
        if saved.number not in versions:
            store.forget_snapshot(saved)
