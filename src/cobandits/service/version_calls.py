"""The calls about versions and schemas."""

from __future__ import annotations

from cobandits.service.calls import Call, Example
from cobandits.service.examples import COMPARISON, SCHEMAS, UPLOADED, VERSION, VERSIONS
from cobandits.service.handlers import versions
from cobandits.wire import (
    CompareQuery,
    ComparisonReply,
    Relearn,
    SchemaReplies,
    VersionReplies,
    VersionReply,
)

__all__ = ["version_calls"]

IN = "/v1/spaces/{space}"


def version_calls() -> list[Call]:
    """Return the calls."""
    return [*_versions(), *_files(), _SCHEMAS]


_RELEARN = Call(
    name="relearn",
    method="POST",
    path=IN + "/relearn",
    role="admin",
    does="Learn the log anew, without the rewards of a time that was wrong, under another "
    "schema or in several processes; becomes a version.",
    handler=versions.relearn,
    asks=Relearn,
    answers={200: VersionReply},
    problems=("unknown-space", "unknown-version", "conflict", "disk-full"),
    loud=True,
    example=Example(
        asks={"since": "2026-11-17T14:00:00Z", "before": "2026-11-17T15:00:00Z"}, answers=VERSION
    ),
)


_SCHEMAS = Call(
    name="list_schemas",
    method="GET",
    path=IN + "/schemas",
    role="read",
    does="List the schemas that the space has had; `relearn` gives it another.",
    handler=versions.list_schemas,
    answers={200: SchemaReplies},
    problems=("unknown-space",),
    example=Example(answers=SCHEMAS),
)


def _versions() -> list[Call]:
    return [
        Call(
            name="list_versions",
            method="GET",
            path=IN + "/versions",
            role="read",
            does="List the versions: the states that can be returned to.",
            handler=versions.list_versions,
            answers={200: VersionReplies},
            problems=("unknown-space",),
            example=Example(answers=VERSIONS),
        ),
        Call(
            name="restore_version",
            method="POST",
            path=IN + "/versions/{version}/restore",
            role="admin",
            does="Return to the state that a version began with; later rewards stay in the log.",
            handler=versions.restore_version,
            answers={200: VersionReply},
            problems=("unknown-space", "unknown-version", "disk-full"),
            loud=True,
            example=Example(answers=VERSION),
        ),
        _RELEARN,
        Call(
            name="compare_versions",
            method="GET",
            path=IN + "/versions/{version}/compare",
            role="read",
            does="How differently a version and another one would make the last decisions.",
            handler=versions.compare_versions,
            query=CompareQuery,
            answers={200: ComparisonReply},
            problems=("unknown-space", "unknown-version"),
            example=Example(answers=COMPARISON),
        ),
    ]


def _files() -> list[Call]:
    return [
        Call(
            name="version_file",
            method="GET",
            path=IN + "/versions/{version}/file",
            role="read",
            does="A version's policy as a file, for cobandits.Shared.load or, with several shards, "
            "cobandits.sharded.ShardedShared.load.",
            handler=versions.version_file,
            answers={200: None},
            problems=("unknown-space", "unknown-version"),
            media=versions.FILE,
        ),
        Call(
            name="upload_version",
            method="PUT",
            path=IN + "/versions/{version}/file",
            role="admin",
            does="Keep a file of Shared.save or ShardedShared.save as a version, under a label of "
            "yours. It decides nothing before it is restored.",
            handler=versions.upload_version,
            takes=versions.FILE,
            answers={200: VersionReply},
            problems=("unknown-space", "conflict", "disk-full"),
            loud=True,
            example=Example(answers=UPLOADED),
        ),
    ]
