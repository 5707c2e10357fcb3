"""Versions: listing, comparing, returning to one, files, learning anew; the schemas of a space."""

from __future__ import annotations

import io
from datetime import UTC

import msgspec

from cobandits.engine.uploads import PRESENT
from cobandits.engine.versions import Version
from cobandits.service.calls import Exchange, Reply
from cobandits.service.handlers.spaces import schema_given
from cobandits.wire import (
    CompareQuery,
    ComparisonReply,
    Relearn,
    SchemaReplies,
    SchemaReply,
    VersionReplies,
    VersionReply,
)

__all__ = [
    "compare_versions",
    "list_schemas",
    "list_versions",
    "relearn",
    "restore_version",
    "upload_version",
    "version_file",
]

FILE = "application/octet-stream"


async def list_versions(exchange: Exchange) -> Reply:
    """Return the versions of a space."""
    space = exchange.service.space(exchange.places[0])
    found = await exchange.service.aside(space.versions)
    return Reply(
        200, VersionReplies(present=space.version, versions=[_version(one) for one in found])
    )


async def restore_version(exchange: Exchange) -> Reply:
    """Return to the state that a version began with."""
    name, version = exchange.places
    space = exchange.service.space(name)
    return Reply(200, _version(await exchange.service.aside(lambda: space.rollback(version))))


async def relearn(exchange: Exchange) -> Reply:
    """Learn the log anew, and make that the present version."""
    space = exchange.service.space(exchange.places[0])
    asked: Relearn = exchange.message()
    schema = None if asked.schema is None else schema_given(msgspec.to_builtins(asked.schema))
    service, shards = exchange.service, asked.shards
    with service.starting(space.name, space.settings.shards if shards is None else shards):
        found = await service.aside(
            lambda: space.relearn(
                since=asked.since, before=asked.before, schema=schema, shards=shards
            )
        )
    return Reply(200, _version(found))


async def version_file(exchange: Exchange) -> Reply:
    """Return a version's policy as a file that :meth:`cobandits.Shared.load` reads.

    That of a space with several shards is for :meth:`cobandits.sharded.ShardedShared.load`.
    """
    name, version = exchange.places
    space = exchange.service.space(name)

    def saved() -> bytes:
        buffer = io.BytesIO()
        space.policy(version).save(buffer)
        return buffer.getvalue()

    return Reply(200, await exchange.service.aside(saved), FILE)


async def upload_version(exchange: Exchange) -> Reply:
    """Keep a policy's file as a version; it decides when it is returned to."""
    name, label = exchange.places
    space = exchange.service.space(name)
    found = await exchange.service.aside(lambda: space.upload(label, exchange.body))
    return Reply(200, _version(found))


async def compare_versions(exchange: Exchange) -> Reply:
    """Tell how differently two versions would make the last decisions."""
    name, version = exchange.places
    space = exchange.service.space(name)
    asked: CompareQuery = exchange.parameters()
    other = None if asked.other == PRESENT else asked.other
    found = await exchange.service.aside(lambda: space.compare(version, other, last=asked.last))
    return Reply(
        200,
        ComparisonReply(
            version=version,
            other=asked.other,
            decisions=found.decisions,
            other_arm=found.other_arm,
            distance=found.distance,
            rewards=list(found.rewards),
        ),
    )


async def list_schemas(exchange: Exchange) -> Reply:
    """Return the schemas that a space has had."""
    space = exchange.service.space(exchange.places[0])
    found = [
        SchemaReply(
            since=f"v{one.number}", at=one.at, dim=one.schema.dim, schema=one.schema.to_dict()
        )
        for one in await exchange.service.aside(space.schemas)
    ]
    return Reply(200, SchemaReplies(found))


def _version(version: Version) -> VersionReply:
    return VersionReply(
        name=version.name,
        kind=version.kind,
        at=version.at.astimezone(UTC),
        of=version.of,
        label=version.label,
    )
