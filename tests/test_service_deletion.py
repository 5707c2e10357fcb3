"""A deletion under way, as callers see it: the service and its engine agree on what is there."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cobandits.engine import DiskFullError, Engine
from cobandits.engine import engine as engine_module
from cobandits.service import ServiceSettings
from cobandits.service.app import application
from cobandits.service.keys import KeyStore
from cobandits.service.state import Service

Call = Callable[..., Awaitable[int]]

SPACE = {"name": "s", "dim": 2}
DECIDE = {"task": "t", "arms": [{"id": "a", "features": [1.0, 0.0]}]}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    settings = ServiceSettings(db=str(tmp_path / "a.db"))
    with Engine.open(settings.db) as engine:
        yield Service(engine=engine, keys=KeyStore(tmp_path / "keys"), settings=settings)


@pytest.fixture
def call(service: Service) -> Call:
    """Return a function that calls the service and returns the status."""
    app = application(service)
    _, token = service.keys.add(("admin", "decide", "read"))

    async def called(method: str, path: str, body: dict[str, Any] | None = None) -> int:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            content = b"" if body is None else json.dumps(body).encode()
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                (b"authorization", f"Bearer {token}".encode()),
                (b"content-type", b"application/json"),
            ],
            "scheme": "http",
        }
        await app(scope, receive, send)
        return int(sent[0]["status"])

    return called


def test_a_name_is_free_while_the_rest_is_erased(
    service: Service, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    erased, go_on = threading.Event(), threading.Event()
    erase = service.engine._erase

    def slow(space: int) -> None:
        erase(space)
        erased.set()
        assert go_on.wait(60)  # as long as the rest of a large space takes

    async def run() -> None:
        assert await call("POST", "/v1/spaces", SPACE) == 201
        old = service.space("s")
        monkeypatch.setattr(service.engine, "_erase", slow)
        deleting = asyncio.ensure_future(call("DELETE", "/v1/spaces/s"))
        assert await service.aside(lambda: erased.wait(60))
        assert await call("GET", "/v1/spaces/s/report") == 404
        service.add(old)  # a call that found it just before
        assert await call("GET", "/metrics") == 200
        assert await call("GET", "/v1/spaces/s/report") == 404
        assert await call("POST", "/v1/spaces", SPACE) == 201
        assert await call("POST", "/v1/spaces", SPACE) == 200
        go_on.set()
        assert await deleting == 200
        assert await call("POST", "/v1/spaces/s/decisions", DECIDE) == 201
        assert await call("POST", "/v1/spaces", {"name": "s", "dim": 3}) == 409

    asyncio.run(run())


def test_a_deletion_that_fails_leaves_both_of_one_mind(
    service: Service, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DiskFullError("the disk is full")

    async def run() -> None:
        assert await call("POST", "/v1/spaces", SPACE) == 201
        with monkeypatch.context() as patch:  # before the event is written
            patch.setattr(service.engine._store, "append", full)
            assert await call("DELETE", "/v1/spaces/s") == 507
        assert await call("POST", "/v1/spaces/s/decisions", DECIDE) == 201
        with monkeypatch.context() as patch:  # after it
            patch.setattr(engine_module, "erase_events", full)
            assert await call("DELETE", "/v1/spaces/s") == 507
        assert await call("DELETE", "/v1/spaces/s") == 404
        assert await call("POST", "/v1/spaces", SPACE) == 201
        assert await call("POST", "/v1/spaces/s/decisions", DECIDE) == 201

    asyncio.run(run())
    assert service.engine.verify().ok
