"""The OpenAPI 3.1 document, written from the table of calls."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

import cobandits
from cobandits.service.calls import JSON, Call
from cobandits.service.problems import KINDS, ProblemError
from cobandits.wire.limits import NAME
from cobandits.wire.problems import MEDIA_TYPE, ProblemDocument

__all__ = ["openapi"]

_REF = "#/components/schemas/{name}"
_ABOUT = """Decisions for many related tasks that learn together. What was answered is on disk.

Every error is a problem document (RFC 9457): `type` tells its kind, `detail` says what was wrong,
the bound, what was given and what to do."""
_PLACES: dict[str, dict[str, Any]] = {
    "space": {"type": "string", "pattern": r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?!\n)$"}
}
_NAMED = {"type": "string", "minLength": 1, "maxLength": NAME}
_ALWAYS = ("too-many-requests", "internal", "not-ready")
_WITH_BODY = ("invalid-json", "too-large", "unsupported-media-type", "invalid-request")


def openapi(calls: Sequence[Call]) -> dict[str, Any]:
    """Return the document."""
    types = _types(calls)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        operation = _operation(call, schema_of, components)
        paths.setdefault(call.path, {})[call.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "cobandits",
            "version": cobandits.__version__,
            "description": _ABOUT,
            "license": {"name": "BSD-3-Clause", "identifier": "BSD-3-Clause"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(calls: Iterable[Call]) -> list[Any]:
    """Return all types of messages, each once."""
    found: dict[str, Any] = {repr(ProblemDocument): ProblemDocument}
    for call in calls:
        for kind in (call.asks, call.query, *call.answers.values()):
            if kind is not None:
                found[repr(kind)] = kind
    return list(found.values())


def _operation(call: Call, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": call.name,
        "summary": call.does,
        "description": f"Role: {call.role}." if call.role else "Needs no key.",
        "tags": [_tag(call)],
        "security": [{"key": []}] if call.role else [],
        "parameters": [*_places(call), *_query(call, schema_of, components)],
        "responses": _responses(call, schema_of),
    }
    if call.idempotent:
        operation["parameters"].append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "As `id` in the body.",
                "schema": {"type": "string", "pattern": f"^[!-~]{{1,{NAME}}}$"},
            }
        )
    if call.asks is not None:
        content: dict[str, Any] = {"schema": schema_of[repr(call.asks)]}
        if call.example.asks is not None:
            content["example"] = call.example.asks
        operation["requestBody"] = {"required": True, "content": {JSON: content}}
    elif call.has_body:
        operation["requestBody"] = {"required": True, "content": {call.takes: {"schema": {}}}}
    return operation


def _tag(call: Call) -> str:
    if "personalizer" in call.path:
        return "personalizer"
    parts = [part.partition(":")[0] for part in call.path.split("/")[2:] if "{" not in part]
    return parts[min(1, len(parts) - 1)] if parts else "service"


def _places(call: Call) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PLACES.get(name, _NAMED)}
        for name in re.findall(r"\{(\w+)\}", call.path)
    ]


def _query(
    call: Call, schema_of: dict[str, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    if call.query is None:
        return []
    name = schema_of[repr(call.query)]["$ref"].rpartition("/")[2]
    given = components[name]
    return [
        {"name": one, "in": "query", "required": one in given.get("required", []), "schema": schema}
        for one, schema in given["properties"].items()
    ]


def _responses(call: Call, schema_of: dict[str, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, kind in call.answers.items():
        responses[str(status)] = {"description": "Done", "headers": _HEADERS}
        if kind is None and call.media != JSON:
            responses[str(status)]["content"] = {call.media: {"schema": {}}}
        elif kind is not None:
            content = {"schema": schema_of[repr(kind)]}
            if call.example.answers is not None:
                content["example"] = call.example.answers
            responses[str(status)]["content"] = {call.media: content}
    by_status: dict[int, list[str]] = {}
    for name in _problems(call):
        by_status.setdefault(KINDS[name].status, []).append(name)
    for status, names in sorted(by_status.items()):
        responses[str(status)] = _problem_response(names)
    return responses


def _problems(call: Call) -> list[str]:
    """Return the kinds of problems that a call may answer."""
    names = [*call.problems, *_ALWAYS, *(_WITH_BODY if call.has_body else ())]
    names += ["unauthorised", "forbidden"] if call.role else []
    names += ["invalid-request"] if call.query or "{" in call.path else []
    return list(dict.fromkeys(names))


def _problem_response(names: Sequence[str]) -> dict[str, Any]:
    examples = {
        name: {
            "value": msgspec.to_builtins(ProblemError(name, KINDS[name].advice).document("7f3a-1"))
        }
        for name in names
    }
    schema = {"$ref": _REF.format(name="ProblemDocument")}
    content = {MEDIA_TYPE: {"schema": schema, "examples": examples}}
    titles = "; ".join(KINDS[name].title for name in names)
    return {"description": titles, "headers": _HEADERS, "content": content}


_HEADERS = {"X-Request-Id": {"schema": {"type": "string"}, "description": "The request's id."}}
