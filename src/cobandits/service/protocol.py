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

from cobandits.service.asgi import PLAIN, Api
from cobandits.service.calls import JSON, Call, Reply
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
        self._call: Call | None = None  # of the request that is read, if it is answered directly
        self._places: list[str] = []
        self._fields: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._active = False

    # ---- Reading

    def on_message_begin(self) -> None:
        """Begin a request; uvicorn's part is done once it is known to be for it."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._call = None

    def on_headers_complete(self) -> None:
        """Choose the way of a request."""
        fields = dict(self.headers)
        found = self._api.direct_call(self.parser.get_method(), self.url, fields)
        busy: object = self.cycle
        idle = busy is None or self.cycle.response_complete
        plain = (
            found is not None
            and idle
            and not self.expect_100_continue
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )
        if found is None or not plain:
            self._begin_others()
            return
        self._call, self._places = found
        self._fields, self._parts = fields, []

    def _begin_others(self) -> None:
        """Let uvicorn have a request whose headers were read."""
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.headers.extend(headers)
        self.url, self.expect_100_continue = url, expect
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        if self._call is None:
            super().on_body(body)
        else:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that is whole."""
        call = self._call
        if call is None:
            super().on_message_complete()
            return
        self._call = None
        own, self.cycle = self._own, self._own  # type: ignore[assignment]
        own.response_complete, own.disconnected, own.keep_alive = False, False, True
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        request = request_id(self._fields.get(b"x-request-id"))
        start = time.perf_counter()
        self._api.answer_directly(
            call,
            self._places,
            self._fields,
            body,
            request,
            lambda reply, key: self._answer(call, reply, key, request, start),
        )

    # ---- Answering

    def _answer(
        self, call: Call, reply: Reply, key: Key | None, request: str, start: float
    ) -> None:
        """Write the answer, and go on with what came behind it."""
        own = self._own
        own.response_complete = True
        if not own.disconnected and not self.transport.is_closing():
            self.transport.write(self._written(reply, request, own.keep_alive))
            if not own.keep_alive:  # the service is told to stop
                self.transport.close()
        self._api.note(call, key, self.url, reply.status, time.perf_counter() - start, request)
        self.on_response_complete()

    def _written(self, reply: Reply, request: str, keep_alive: bool) -> bytes:
        body = reply.body()
        head = b"%bcontent-type: %b\r\nx-request-id: %b\r\ncontent-length: %d\r\n" % (
            STATUS_LINE[reply.status],
            _JSON if reply.media is JSON else reply.media.encode(),
            request.encode(),
            len(body),
        )
        more = [*self.server_state.default_headers, *reply.headers]
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
        if self._active or self._call is not None or not self.cycle.response_complete:
            self._wait()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)


_JSON = JSON.encode()


def direct_protocol(api: Api) -> type[asyncio.Protocol]:
    """Return the protocol, as uvicorn takes it."""

    class _Protocol(DirectProtocol):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, api=api, **named)

    return _Protocol
