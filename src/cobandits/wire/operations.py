"""Keys and health as messages."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from cobandits.wire.asked import Asked
from cobandits.wire.limits import NAME

__all__ = ["CreateKey", "KeyReplies", "KeyReply", "Ready", "SpaceNames"]

RoleName = Literal["decide", "reward", "read", "admin"]


class CreateKey(Asked, frozen=True):
    """Ask for an API key."""

    roles: Annotated[list[RoleName], Meta(min_length=1, max_length=4)]
    note: Annotated[str, Meta(max_length=NAME, description="What it is for.")] = ""
    rate: Annotated[float, Meta(gt=0, le=1e6, description="Requests per second.")] | None = None


class KeyReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An API key; its token is shown once."""

    id: str
    roles: list[RoleName]
    note: str
    made: str
    rate: float | None = None
    revoked: str | None = None
    token: str | None = None


class KeyReplies(Struct, frozen=True):
    """All keys."""

    keys: list[KeyReply]


class Ready(Struct, frozen=True, kw_only=True):
    """That decisions can be answered."""

    status: Literal["ready"]
    spaces: int
    free_bytes: int | None


class SpaceNames(Struct, frozen=True):
    """The names of all spaces."""

    spaces: list[str]
