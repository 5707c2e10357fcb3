"""Errors as problem documents (RFC 9457): what was wrong, the bound, what was given, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cobandits.engine import errors as engine_errors
from cobandits.errors import (
    ClusterError,
    CobanditsError,
    ConfigurationError,
    DataError,
    UnknownTaskError,
)
from cobandits.wire.problems import Detail, ProblemDocument

__all__ = ["KINDS", "Kind", "ProblemError", "problem_of"]


class Kind(NamedTuple):
    """A kind of problem, which a program can tell by its ``type``."""

    status: int
    title: str
    advice: str  # on its page


KINDS: dict[str, Kind] = {
    "invalid-json": Kind(400, "The body is not JSON", "Send JSON in UTF-8, without NaN."),
    "unauthorised": Kind(
        401,
        "No valid API key",
        "Send the header 'Authorization: Bearer <key>'. 'cobandits keys add' makes a key.",
    ),
    "forbidden": Kind(403, "The key may not do this", "Use a key with the role that is named."),
    "unknown-path": Kind(404, "There is nothing here", "/openapi.json lists all calls."),
    "unknown-space": Kind(404, "No such space", "Make it with POST /v1/spaces."),
    "unknown-decision": Kind(
        404, "No such decision", "Check the id. A decision is known once it was answered."
    ),
    "unknown-task": Kind(404, "Nothing was learned yet", "Explain tasks after a first reward."),
    "unknown-version": Kind(404, "No such version", "List those that are kept."),
    "unknown-evaluation": Kind(404, "No such evaluation", "List those that were asked for."),
    "unknown-key": Kind(404, "No such API key", "List the keys."),
    "method-not-allowed": Kind(405, "This call does not exist", "/openapi.json lists all calls."),
    "conflict": Kind(
        409,
        "This was said before, otherwise",
        "What was answered first stands. Use a new id for something new.",
    ),
    "not-activated": Kind(
        409, "The held decision was not activated", "Activate the decision, then send its reward."
    ),
    "too-large": Kind(413, "The body is too large", "Send less at once."),
    "unsupported-media-type": Kind(
        415, "The body has another type", "Send 'Content-Type: application/json'."
    ),
    "invalid-request": Kind(
        422,
        "The request does not fit",
        "'errors', where it is there, has a pointer into the body for each mistake.",
    ),
    "too-many-requests": Kind(
        429, "Too many requests with this key", "Wait as long as Retry-After says."
    ),
    "internal": Kind(500, "The service failed", "Please report it, with the request's id."),
    "not-ready": Kind(503, "The service is not ready", "Try again; /readyz says why."),
    "overloaded": Kind(503, "Too many requests wait", "Nothing was done. Try again later."),
    "disk-full": Kind(507, "The disk is full", "Nothing was kept. Make room, then try again."),
}


class ProblemError(Exception):
    """An error that the caller is told."""

    def __init__(
        self, kind: str, detail: str, *, errors: Sequence[Detail] = (), retry: float | None = None
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errors, self.retry = kind, detail, tuple(errors), retry

    @property
    def status(self) -> int:
        """The status of the answer."""
        return KINDS[self.kind].status

    def document(self, request: str | None = None) -> ProblemDocument:
        """Return what is answered."""
        return ProblemDocument(
            type=f"/problems/{self.kind}",
            title=KINDS[self.kind].title,
            status=self.status,
            detail=self.detail,
            request=request,
            errors=self.errors,
        )


_OF: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (engine_errors.UnknownSpaceError, "unknown-space"),
    (engine_errors.UnknownDecisionError, "unknown-decision"),
    (engine_errors.UnknownVersionError, "unknown-version"),
    (UnknownTaskError, "unknown-task"),
    (engine_errors.ConflictError, "conflict"),
    (engine_errors.NotActivatedError, "not-activated"),
    (engine_errors.OverloadedError, "overloaded"),
    (engine_errors.DiskFullError, "disk-full"),
    (engine_errors.StoreError, "not-ready"),
    (engine_errors.ClosedError, "not-ready"),
    (engine_errors.OwnedError, "not-ready"),
    (ClusterError, "not-ready"),  # a process of a space has ended, and is started again
    (DataError, "invalid-request"),
    (ConfigurationError, "invalid-request"),
)
_RETRY = {"overloaded": 1.0, "not-ready": 1.0, "disk-full": 10.0}  # seconds


def problem_of(error: Exception) -> ProblemError:
    """Return what a caller is told of an error; what nobody foresaw is told without its text."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, CobanditsError):
        for kind, name in _OF:
            if isinstance(error, kind):
                return ProblemError(name, str(error), retry=_RETRY.get(name))
    return ProblemError("internal", "an error that was not foreseen; the log has it by this id")
