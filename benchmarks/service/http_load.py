"""Many connections that send requests as fast as they are answered, at little cost of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Loaded", "exchange", "load", "request_bytes"]


@dataclass
class Loaded:
    """What a load has found."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return len(self.latencies)

    def quantile(self, share: float) -> float:
        """Return a quantile of the latency in milliseconds."""
        return float(np.quantile(self.latencies, share)) * 1e3


def request_bytes(method: str, path: str, key: str, body: bytes) -> bytes:
    """Return a request as it goes over the wire."""
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: load\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, bytes]:
    """Send a request and return the status and the body of its answer."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    at = head.lower().index(b"content-length:") + 15
    length = int(head[at : head.index(b"\r\n", at)])
    body = await reader.readexactly(length) if length else b""
    return int(head[9:12]), body


async def _client(
    port: int, requests: Iterator[bytes], until: float, found: Loaded, each: Callable[[bytes], None]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    try:
        while time.perf_counter() < until:
            start = time.perf_counter()
            status, body = await exchange(reader, writer, next(requests))
            found.latencies.append(time.perf_counter() - start)
            found.statuses[status] = found.statuses.get(status, 0) + 1
            each(body)
    finally:
        writer.close()


def load(
    port: int,
    requests: Iterator[bytes],
    *,
    clients: int,
    seconds: float,
    each: Callable[[bytes], None] = lambda _: None,
) -> Loaded:
    """Send requests from many connections for a while."""
    found = Loaded()

    async def all_clients() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_client(port, requests, until, found, each) for _ in range(clients)))

    start = time.perf_counter()
    with asyncio.Runner(loop_factory=_fast_loop()) as runner:
        runner.run(all_clients())
    found.seconds = time.perf_counter() - start
    return found


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop
