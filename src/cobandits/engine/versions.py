"""Versions: the states that began with an event, which can be looked at and returned to."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Literal, cast

from cobandits.engine.codec import decoded
from cobandits.engine.errors import UnknownSpaceError, UnknownVersionError
from cobandits.engine.events import Event
from cobandits.engine.messages import when
from cobandits.engine.settings import Settings
from cobandits.engine.stores import Query, Store
from cobandits.schema import Schema

__all__ = [
    "NAME",
    "SchemaVersion",
    "Version",
    "drop_snapshots",
    "schema_of",
    "schemas_of",
    "settings_at",
    "version_number",
    "versions_of",
]

Kind = Literal["space", "install", "rollback", "relearn", "upload"]

NAME = re.compile(r"v([0-9]{1,18})(\+[0-9]+)?")
_KINDS = ("space", "install", "rollback", "relearn", "upload")
_LABEL = re.compile(r'\{"label":"([^"]*)"')
_HEAD = 200  # characters of a body that are read: the rest of an upload is large
_KEPT = 20  # versions whose snapshots are kept; older ones are computed from the log


@dataclass(frozen=True, kw_only=True)
class Version:
    """A state that can be returned to.

    It began with an event: a prior was installed, returned to, or all learned anew; or it is a file
    that was uploaded.
    """

    name: str  # such as "v412"
    number: int  # of the event
    kind: Kind
    at: datetime.datetime
    of: str | None  # for a rollback, the version that was returned to
    label: str | None = None  # of a version from a file


def versions_of(store: Store, space: int) -> list[Version]:
    """Return the versions of a space, in order."""
    return [
        Version(
            name=f"v{event.number}",
            number=event.number,
            kind=cast(Kind, event.kind),
            at=when(event.at),
            of=f"v{event.ref}" if event.kind == "rollback" else None,
            label=_label(event),
        )
        for event in store.read(Query(space=space, kinds=_KINDS, body=_HEAD))
    ]


def _label(event: Event) -> str | None:
    found = _LABEL.match(event.body or "") if event.kind == "upload" else None
    return found[1] if found else None


def version_number(store: Store, space: int, name: str) -> int:
    """Return the number of a version by its name, ``"v412"``, or by its label."""
    match = NAME.fullmatch(name)
    if match is None:
        for upload in store.read(Query(space=space, kinds=("upload",), body=_HEAD)):
            if _label(upload) == name:
                return upload.number
    if match and match[2]:
        raise UnknownVersionError(
            f"{name!r:.60} is a state within version v{match[1]}; versions() lists what can be "
            "returned to"
        )
    event = store.event(int(match[1])) if match else None
    if event is None or event.space != space or event.kind not in _KINDS:
        raise UnknownVersionError(f"there is no version {name!r:.60}; versions() lists them")
    return event.number


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """A schema, and the event from which on it holds."""

    number: int
    at: datetime.datetime
    schema: Schema


def schema_of(event: Event) -> Schema | None:
    """Return the schema that a space is made with, or has when it was learned anew."""
    body = decoded(event.body or "")
    given = body["settings"]["schema"] if event.kind == "space" else body.get("schema")
    return None if given is None else Schema.from_dict(given)


def settings_at(store: Store, space: int, number: int) -> Settings:
    """Return the settings that the policy of a version was made with."""
    found: Settings | None = None
    for event in store.read(Query(space=space, kinds=("space", "relearn"), through=number)):
        if found is None:
            found = Settings.from_dict(decoded(event.body or "")["settings"])
        else:
            found = found.relearned(event.body)
    if found is None:
        raise UnknownSpaceError("this space was deleted; nothing was kept")
    return found


def schemas_of(store: Store, space: int) -> list[SchemaVersion]:
    """Return the schemas that a space has had, in order."""
    events = store.read(Query(space=space, kinds=("space", "relearn")))
    schemas = [
        SchemaVersion(number=event.number, at=when(event.at), schema=found)
        for event in events
        if (found := schema_of(event)) is not None
    ]
    if not schemas:
        raise UnknownSpaceError("this space was deleted; nothing was kept")
    return schemas


def drop_snapshots(store: Store, space: int) -> None:
    """Remove snapshots that are no versions, or old ones; the last one stays."""
    versions = {one.number for one in versions_of(store, space)[-_KEPT:]}
    for saved in store.snapshots(space)[:-1]:
        if saved.number not in versions:
            store.forget_snapshot(saved)
