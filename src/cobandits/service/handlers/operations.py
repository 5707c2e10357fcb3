"""Health, measures, keys, and the description of the API itself."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from cobandits.engine import Space
from cobandits.service.calls import Exchange, Reply
from cobandits.service.keys import Key
from cobandits.service.metrics import CONTENT_TYPE
from cobandits.service.problems import KINDS, ProblemError
from cobandits.wire import CreateKey, KeyReplies, KeyReply, Ready

__all__ = ["add_key", "alive", "list_keys", "measures", "problem_page", "ready", "revoke_key"]

_LEAST_ROOM = 64 << 20  # bytes on disk below which the service is not ready


async def alive(_: Exchange) -> Reply:
    """Tell that the process runs."""
    return Reply(200, b"alive\n", "text/plain; charset=utf-8")


async def ready(exchange: Exchange) -> Reply:
    """Tell whether decisions can be answered: the log is replayed, owned, and has room."""
    service = exchange.service
    await service.aside(service.engine.spaces)  # goes through the engine's thread
    free = None
    if "://" not in service.settings.db:
        free = shutil.disk_usage(Path(service.settings.db).resolve().parent).free
        if free < _LEAST_ROOM:
            raise ProblemError(
                "not-ready",
                f"{free >> 20} MiB are free on disk, and {_LEAST_ROOM >> 20} are needed",
            )
    return Reply(200, Ready(status="ready", spaces=len(service.spaces()), free_bytes=free))


async def measures(exchange: Exchange) -> Reply:
    """Return the measures as Prometheus reads them."""
    service = exchange.service

    def text() -> bytes:
        found = {space.name: _began(space) for space in service.spaces()}
        began = {name: at for name, at in found.items() if at is not None}
        return service.metrics.text(service.engine.status(), began)

    return Reply(200, await service.aside(text), CONTENT_TYPE)


def _began(space: Space) -> datetime | None:
    """Return when the present version began, None of a space that is being deleted."""
    present, found = space.version.partition("+")[0], space.versions()
    last = found[-1].at if found else None
    return next((one.at for one in found if one.name == present), last)


async def problem_page(exchange: Exchange) -> Reply:
    """Say what a kind of problem means."""
    kind = KINDS.get(exchange.places[0])
    if kind is None:
        raise ProblemError("unknown-path", f"there is no problem {exchange.places[0][:100]!r}")
    text = f"{kind.title} (status {kind.status})\n\n{kind.advice}\n"
    return Reply(200, text.encode(), "text/plain; charset=utf-8")


async def list_keys(exchange: Exchange) -> Reply:
    """Return all keys, without their secrets."""
    return Reply(200, KeyReplies([_reply(key) for key in exchange.service.keys.all()]))


async def add_key(exchange: Exchange) -> Reply:
    """Make a key; the token is shown only now."""
    asked: CreateKey = exchange.message()
    key, token = exchange.service.keys.add(asked.roles, note=asked.note, rate=asked.rate)
    return Reply(201, _reply(key, token))


async def revoke_key(exchange: Exchange) -> Reply:
    """Revoke a key at once."""
    key = exchange.service.keys.revoke(exchange.places[0])
    if key is None:
        raise ProblemError("unknown-key", f"there is no key {exchange.places[0][:100]!r}")
    return Reply(200, _reply(key))


def _reply(key: Key, token: str | None = None) -> KeyReply:
    return KeyReply(
        id=key.id,
        roles=list(key.roles),
        note=key.note,
        rate=key.rate,
        made=key.made,
        revoked=key.revoked,
        token=token,
    )
