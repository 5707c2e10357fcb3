"""From ASGI to calls and back: keys, limits, bodies, problems, request ids, measures.

Plain decisions and rewards come here without ASGI, by service/protocol.py.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from cobandits.service.calls import JSON, Call, Exchange, MethodError, Reply, Table
from cobandits.service.heads import Head, Heads
from cobandits.service.keys import Key
from cobandits.service.logs import LOGGER, request_id
from cobandits.service.problems import ProblemError, problem_of
from cobandits.service.reading import encoded
from cobandits.wire.limits import FILE
from cobandits.wire.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from cobandits.service.state import Service

__all__ = ["PLAIN", "Api", "Receive", "Scope", "Send", "given_token", "send_reply"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = Mapping[bytes, bytes]

PLAIN = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_JSON = (b"content-type", b"application/json")
_REMEMBERED = 1000  # addresses


class _GoneError(Exception):
    """The caller went away before the body was whole."""


class Api:
    """An ASGI application for the calls of a table."""

    def __init__(self, service: Service, table: Table) -> None:
        self._service, self._table = service, table
        self._direct: dict[bytes, tuple[Call, list[str]]] = {}  # by address
        self.heads = Heads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        start = time.perf_counter()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request = request_id(headers.get(b"x-request-id"))
        call: Call | None = None
        key: Key | None = None
        try:
            call, places = self._table.find(scope["method"], scope["raw_path"])
            key = self._admitted(call, given_token(call, headers))
            body = await self._body(call, headers, receive)
            text = scope["query_string"]
            query = dict(parse_qsl(text.decode("latin-1"), keep_blank_values=True)) if text else {}
            reply = await call.handler(
                Exchange(self._service, call, places, query, headers, body, key)
            )
        except _GoneError:
            return
        except Exception as error:
            reply = _problem_reply(error, request)
        await send_reply(reply, request, send)
        name = scope["path"].encode()
        self.note(call, key, name, reply.status, time.perf_counter() - start, request)

    # ---- Calls that are answered without a task, by service/protocol.py

    def direct_call(
        self, method: bytes, url: bytes, headers: Headers
    ) -> tuple[Call, list[str]] | None:
        """Return the call of a plain request that can be answered directly, and its places.

        All others, and what is refused before its body is read, are left to :meth:`__call__`.
        """
        if method != b"POST" or headers.get(b"content-type") != b"application/json":
            return None
        size = headers.get(b"content-length", b"")
        if not size.isdigit() or int(size) > self._service.settings.body:
            return None
        found = self._direct.get(url)
        if found is None:
            try:
                found = self._table.find("POST", url)
            except ProblemError:
                return None
            if found[0].direct is None:
                return None
            if len(found[1]) == 1:  # no ids of decisions, of which there are many
                self._direct[url] = found
                if len(self._direct) > _REMEMBERED:
                    self._direct.clear()
        return found

    def answer_directly(
        self,
        head: Head,
        body: bytes,
        request: str,
        answer: Callable[[Reply, Key | None], None],
    ) -> None:
        """Make a call; its answer comes by a function, in this turn of the loop or a later one."""
        call = head.call
        key: Key | None = None

        def answered(found: Reply | Exception) -> None:
            answer(found if isinstance(found, Reply) else _problem_reply(found, request), key)

        try:
            key = self._admitted(call, head.token)
            assert call.direct is not None
            call.direct(
                Exchange(self._service, call, head.places, {}, head.fields, body, key), answered
            )
        except Exception as error:
            answered(error)

    # ---- All calls

    def _admitted(self, call: Call, given: str) -> Key | None:
        """Return the key of a token; refuse one without the role, or too many requests of it."""
        if call.role is None:
            return None
        key = self._service.keys.find(given) if given else None
        if key is None:
            what = "this API key is not valid, or was revoked" if given else "there is no API key"
            raise ProblemError(
                "unauthorised", f"{what}; send the header 'Authorization: Bearer <key>'"
            )
        if not key.may(call.role):
            raise ProblemError(
                "forbidden",
                f"this needs the role {call.role}, and the key {key.id} has {', '.join(key.roles)}",
            )
        self._service.rate(key, 1)
        return key

    async def _body(self, call: Call, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body, if the call has one and it is not too large."""
        if call.decoder is None and call.takes == JSON:
            return b""
        media = headers.get(b"content-type", b"application/json").split(b";")[0].strip().lower()
        if media != call.takes.encode():
            shown = media.decode("latin-1")[:100]
            raise ProblemError(
                "unsupported-media-type", f"the body must be {call.takes}, got {shown!r}"
            )
        most = self._service.settings.body if call.takes == JSON else FILE
        announced = headers.get(b"content-length", b"")
        if announced.isdigit() and int(announced) > most:
            raise ProblemError(
                "too-large", f"a body has at most {most} bytes, this {int(announced)}"
            )
        message = await receive()
        parts = [message.get("body", b"")]
        size = len(parts[0])
        while message.get("more_body", False):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise ProblemError("too-large", f"a body has at most {most} bytes, this has more")
        if message["type"] == "http.disconnect":
            raise _GoneError
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def note(
        self,
        call: Call | None,
        key: Key | None,
        path: bytes,
        status: int,
        seconds: float,
        id: str,  # noqa: A002
    ) -> None:
        """Measure and log a request that was answered."""
        name = "unknown" if call is None else call.name
        self._service.metrics.answered(name, status, seconds)
        if status >= 400:
            self._service.note_problem(name, status, id)
        level = 40 if status >= 500 else 20 if status >= 400 or (call and call.loud) else 10
        if LOGGER.isEnabledFor(level):
            fields = {
                "request": id,
                "call": name,
                "method": None if call is None else call.method,
                "path": path[:300].decode("utf-8", "replace"),
                "status": status,
                "ms": round(seconds * 1e3, 3),
                "key": None if key is None else key.id,
            }
            LOGGER.log(level, "answered", extra={"fields": fields})


def given_token(call: Call, headers: Headers) -> str:
    """Return the token of the key that a request was sent with, empty if there is none."""
    token = headers.get(b"authorization", b"")
    given = token[7:] if token[:7].lower() == b"bearer " else headers.get(call.header, b"")
    return given.decode("latin-1").strip()


def _problem_reply(error: Exception, request: str) -> Reply:
    """Return a problem document; log what nobody foresaw."""
    problem = problem_of(error)
    if problem.kind == "internal":
        LOGGER.error("failed", exc_info=error, extra={"fields": {"request": request}})
    else:
        fields = {"request": request, "problem": problem.kind, "detail": problem.detail}
        LOGGER.info("refused", extra={"fields": fields})
    headers: list[tuple[bytes, bytes]] = []
    if problem.retry is not None:
        headers.append((b"retry-after", str(max(1, round(problem.retry))).encode()))
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(problem, MethodError):
        headers.append((b"allow", problem.known.encode()))
    return Reply(problem.status, encoded(problem.document(request)), MEDIA_TYPE, headers)


async def send_reply(reply: Reply, request: str, send: Send) -> None:
    """Send an answer, whole or in parts."""
    headers = [(b"x-request-id", request.encode())]
    if reply.status == 204:
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    if reply.media == JSON:  # each header costs time, and these need no other
        headers.append(_JSON)
    else:
        headers += [(b"content-type", reply.media.encode()), *PLAIN]
    headers += reply.headers
    if reply.parts is not None:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for part in reply.parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    body = reply.body()
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
