"""Making, reading, changing and deleting spaces."""

from __future__ import annotations

from typing import Any

import msgspec

from cobandits.engine import Space
from cobandits.errors import ConfigurationError
from cobandits.schema import Schema
from cobandits.service.calls import Exchange, Reply
from cobandits.service.problems import ProblemError
from cobandits.wire import ChangeSpace, CreateSpace, DeletedReply, SpaceNames, SpaceReply
from cobandits.wire.limits import DIM

__all__ = [
    "change_space",
    "create_space",
    "delete_space",
    "list_spaces",
    "read_space",
    "schema_given",
]


async def create_space(exchange: Exchange) -> Reply:
    """Make a space; the same again is answered the same way."""
    asked: CreateSpace = exchange.message()
    service = exchange.service
    given = settings_of(asked)
    if "schema" not in given and "dim" not in given:
        raise ProblemError("invalid-request", "a space needs a schema, or dim for plain vectors")
    try:
        with service.starting(asked.name, given.get("shards", 1)):
            space = await service.aside(lambda: service.engine.space(asked.name, **given))
    except ConfigurationError as error:
        known = await service.aside(service.engine.spaces)
        if asked.name in {space.name for space in known}:
            raise ProblemError("conflict", str(error)) from None
        raise
    return Reply(201 if service.add(space) else 200, space_reply(space))


async def list_spaces(exchange: Exchange) -> Reply:
    """Return the names of all spaces."""
    return Reply(200, SpaceNames([space.name for space in exchange.service.spaces()]))


async def read_space(exchange: Exchange) -> Reply:
    """Return a space and its settings."""
    return Reply(200, space_reply(exchange.service.space(exchange.places[0])))


async def change_space(exchange: Exchange) -> Reply:
    """Change settings from now on."""
    space = exchange.service.space(exchange.places[0])
    asked: ChangeSpace = exchange.message()
    given = settings_of(asked)
    if given:
        await exchange.service.aside(lambda: space.change(**given))
    return Reply(200, space_reply(space))


async def delete_space(exchange: Exchange) -> Reply:
    """Delete a space with all its events; its name is free before all of them are erased."""
    service = exchange.service
    space = service.space(exchange.places[0])
    service.remove(space)
    try:
        count = await service.aside(lambda: service.engine.delete(space.name))
    finally:
        if space.deleted:
            service.remove(space)  # someone may have asked the engine for it just before
        elif space.name not in {one.name for one in service.spaces()}:
            service.add(space)  # nothing was written
    return Reply(200, DeletedReply(name=space.name, events=count))


def space_reply(space: Space) -> SpaceReply:
    """Return a space as a message."""
    settings = space.settings.to_dict()
    return SpaceReply(
        name=space.name, dim=space.settings.schema.dim, version=space.version, settings=settings
    )


def settings_of(asked: ChangeSpace) -> dict[str, Any]:
    """Return the settings that a message gives, as the engine takes them."""
    given: dict[str, Any] = msgspec.to_builtins(asked)
    given.pop("name", None)
    if "schema" in given:
        given["schema"] = schema_given(given["schema"])
    return given


def schema_given(message: dict[str, Any]) -> Schema:
    """Return a schema; refuse one with too many columns."""
    schema = Schema.from_dict(message)
    if schema.dim > DIM:
        raise ConfigurationError(
            f"a schema may have {DIM} columns, this one has {schema.dim}; leave out crosses, "
            "or give categories fewer values or buckets"
        )
    return schema
