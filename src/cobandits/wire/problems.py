"""Problem documents (RFC 9457): what is answered in place of a result."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["MEDIA_TYPE", "Detail", "ProblemDocument"]

MEDIA_TYPE = "application/problem+json"


class Detail(Struct, frozen=True):
    """One mistake in a request."""

    detail: str
    pointer: Annotated[str, Meta(description="JSON pointer into the body (RFC 6901).")] = ""


class ProblemDocument(Struct, frozen=True, omit_defaults=True):
    """What was wrong, the bound, what was given, and what to do."""

    type: Annotated[str, Meta(description="'/problems/' and its kind; there is a page there.")]
    title: str
    status: int
    detail: str
    request: Annotated[
        str | None, Meta(description="The request's id, as in the header X-Request-Id.")
    ] = None
    errors: tuple[Detail, ...] = ()
