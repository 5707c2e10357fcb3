"""HTTP for the calls that must be fast: no task, no scope and no framework between socket and call.

uvicorn's protocol reads every request. Where it is a plain one for a call that can be answered
directly, as a decision or a reward, this class leads it there and writes the answer; all else goes
uvicorn's way. Per request that saves about half of the time outside of the engine
(docs/service.md).
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from cobandits.service.asgi import PLAIN, Api, given_token
from cobandits.service.calls import JSON, Reply
from cobandits.service.heads import Head
from cobandits.service.keys import Key
from cobandits.service.logs import request_id

__all__ = ["DirectProtocol", "direct_protocol"]


class _NoEvent:
    """Nobody waits for the body of a request that is answered directly."""

    def set(self) -> None:
        """Do nothing."""


class _Cycle:
    """What uvicorn's protocol asks of the request that it is busy with."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.message_event = _NoEvent()
        self.response_complete = True


class DirectProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *given: Any, api: Api, **named: Any) -> None:
        super().__init__(*given, **named)
        self._api = api
        self._own = _Cycle()
        self._head: Head | None = None  # of the request that is read, if it is answered directly
        self._parts: list[bytes] = []
        self._begun = False  # whether a request is being read,
        self._data = b""  # and what it has begun with
        self._active = False

    # ---- Reading

    def data_received(self, data: bytes) -> None:
        """Take what came: mostly one request, with a head like one before."""
        known = None if self._begun or not self._idle else self._api.heads.find(data)
        if known is None:
            self._data = b"" if self._begun else data
            super().data_received(data)
            self._data = b""
        else:
            self._active = True
            self._ask(*known)

    @property
    def _idle(self) -> bool:
        """Whether no request waits for its answer."""
        busy: object = self.cycle
        return busy is None or self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Begin a request; uvicorn's part is done once it is known to be for it."""
        self._begun = True
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._head = None

    def on_headers_complete(self) -> None:
        """Choose the way of a request."""
        fields = dict(self.headers)
        found = self._api.direct_call(self.parser.get_method(), self.url, fields)
        plain = (
            found is not None
            and self._idle
            and not self.expect_100_continue
            and not self.parser.should_upgrade()
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )
        if found is None or not plain:
            self._begin_others()
            return
        size, token = int(fields[b"content-length"]), given_token(found[0], fields)
        self._head, self._parts = Head(*found, self.url, fields, size, token), []

    def _begin_others(self) -> None:
        """Let uvicorn have a request whose headers were read."""
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.headers.extend(headers)
        self.url, self.expect_100_continue = url, expect
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        if self._head is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that is whole."""
        self._begun = False
        head, self._head = self._head, None
        if head is None:
            super().on_message_complete()
            return
        self._api.heads.keep(self._data, head)
        self._ask(head, self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))

    def _ask(self, head: Head, body: bytes) -> None:
        """Make the call of a request that is whole."""
        own, self.cycle = self._own, self._own  # type: ignore[assignment]
        own.response_complete, own.disconnected, own.keep_alive = False, False, True
        request = request_id(head.fields.get(b"x-request-id"))
        start = time.perf_counter()
        self._api.answer_directly(
            head, body, request, lambda reply, key: self._answer(head, reply, key, request, start)
        )

    # ---- Answering

    def _answer(
        self, head: Head, reply: Reply, key: Key | None, request: str, start: float
    ) -> None:
        """Write the answer, and go on with what came behind it."""
        own = self._own
        own.response_complete = True
        if not own.disconnected and not self.transport.is_closing():
            self.transport.write(self._written(reply, request, own.keep_alive))
            if not own.keep_alive:  # the service is told to stop
                self.transport.close()
        seconds = time.perf_counter() - start
        self._api.note(head.call, key, head.url, reply.status, seconds, request)
        self.on_response_complete()

    def _written(self, reply: Reply, request: str, keep_alive: bool) -> bytes:
        body, usual = reply.body(), self.server_state.default_headers
        if reply.media is JSON and keep_alive and not reply.headers:
            return _PLAIN % (
                STATUS_LINE[reply.status], request.encode(), len(body), _lines(usual), body
            )  # fmt: skip
        head = b"%bcontent-type: %b\r\nx-request-id: %b\r\ncontent-length: %d\r\n" % (
            STATUS_LINE[reply.status],
            _JSON if reply.media is JSON else reply.media.encode(),
            request.encode(),
            len(body),
        )
        more = [*usual, *reply.headers]
        if reply.media is not JSON:
            more += PLAIN
        if not keep_alive:
            more.append((b"connection", b"close"))
        return b"".join([head, *(b"%b: %b\r\n" % one for one in more), b"\r\n", body])

    # ---- Idle connections

    def _unset_keepalive_if_required(self) -> None:
        """Note that the connection is used; a timer per request would cost more."""
        self._active = True

    def on_response_complete(self) -> None:
        """Go on with a request that came behind, or wait for one."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.timeout_keep_alive_task is None:
            self._wait()

    def _wait(self) -> None:
        self._active = False
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was not used since the last time, and waits for no body."""
        if self.transport.is_closing():
            return
        if self._active or self._head is not None or not self.cycle.response_complete:
            self._wait()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)


_JSON = JSON.encode()
_PLAIN = b"%bcontent-type: application/json\r\nx-request-id: %b\r\ncontent-length: %d\r\n%b\r\n%b"


class _Usual:
    """The headers of every answer, as they are written; uvicorn makes a new list each second."""

    def __init__(self) -> None:
        self._last: tuple[list[tuple[bytes, bytes]], bytes] = [], b""

    def __call__(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        of, written = self._last
        if headers is not of:
            written = b"".join(b"%b: %b\r\n" % one for one in headers)
            self._last = headers, written
        return written


_lines = _Usual()


def direct_protocol(api: Api) -> type[asyncio.Protocol]:
    """Return the protocol, as uvicorn takes it."""

    class _Protocol(DirectProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, api=api, **named)

    return _Protocol
