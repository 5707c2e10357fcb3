"""Requests as they come over the wire: in pieces, several at once, old versions, half of them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from cobandits.engine import Engine
from cobandits.service import ServiceSettings
from cobandits.service.app import application
from cobandits.service.heads import Head, Heads
from cobandits.service.keys import KeyStore
from cobandits.service.protocol import direct_protocol
from cobandits.service.state import Service
from cobandits.service.table import table
from tests.faults import compiled, needs_faults
from tests.service import Running, running

BODY = json.dumps({"task": "t", "arms": [{"id": "a", "features": [1.0, 0.0]}]}).encode()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service") / "a.db") as found:
        assert found.post("/v1/spaces", {"name": "s", "dim": 2}).status == 201
        yield found


def request(
    service: Running | None,
    path: str = "/v1/spaces/s/decisions",
    *,
    body: bytes = BODY,
    version: str = "1.1",
    **headers: str,
) -> bytes:
    """Return a request; a header of "" is left out."""
    given = {
        "Host": "x",
        "Authorization": f"Bearer {service.key}" if service is not None else "",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in given.items() if value]
    return (
        f"POST {path} HTTP/{version}\r\n".encode() + "\r\n".join([*lines, "", ""]).encode() + body
    )


class Wire:
    """A connection, and the answers that came over it."""

    def __init__(self, service: Running | int) -> None:
        port = service if isinstance(service, int) else service.port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._rest = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        size = int(headers["content-length"])
        while len(self._rest) < size:
            self._more()
        body, self._rest = self._rest[:size], self._rest[size:]
        return int(first.split()[1]), headers, body

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self._rest += data

    def closed(self) -> bool:
        return self._rest == b"" and self.socket.recv(1) == b""


def test_many_requests_over_one_connection(service: Running) -> None:
    with Wire(service) as wire:
        for n in range(5):
            wire.send(request(service, X_Request_Id=f"mine-{n}"))
            status, headers, body = wire.answer()
            assert (status, headers["x-request-id"]) == (201, f"mine-{n}")
            assert headers["content-type"] == "application/json"
            assert "date" in headers
            made = json.loads(body)["id"]
            path = f"/v1/spaces/s/decisions/{made}/rewards"
            wire.send(request(service, path, body=b'{"value": 1}'))
            assert wire.answer()[0] == 202


def test_a_request_that_comes_in_pieces(service: Running) -> None:
    whole = request(service)
    with Wire(service) as wire:
        for start in range(0, len(whole), 7):
            wire.send(whole[start : start + 7])
            time.sleep(0.001)
        assert wire.answer()[0] == 201


def test_a_head_that_is_known_leads_to_the_same_call(service: Running) -> None:
    """The second request with the same head is not parsed again; its body is another one."""
    other = BODY.replace(b'"t"', b'"u"').replace(b'"a"', b'"b"')
    with Wire(service) as wire, Wire(service) as second:
        for body, task, arm in ((BODY, "t", "a"), (other, "u", "b"), (BODY, "t", "a")):
            for one in (wire, second):
                one.send(request(service, body=body))
                status, _, answer = one.answer()
                made = json.loads(answer)
                assert (status, made["task"], made["arm"]) == (201, task, arm)


def test_a_known_head_with_its_body_in_pieces_or_another_behind_it(service: Running) -> None:
    whole = request(service)
    head = len(whole) - len(BODY)
    with Wire(service) as wire:
        wire.send(whole)
        assert wire.answer()[0] == 201
        for cut in (head, head + 5, 10):
            wire.send(whole[:cut])
            time.sleep(0.02)
            wire.send(whole[cut:])
            assert wire.answer()[0] == 201
        wire.send(whole * 3)
        assert [wire.answer()[0] for _ in range(3)] == [201, 201, 201]
        wire.send(whole)
        assert wire.answer()[0] == 201


def test_a_body_that_looks_like_a_request_is_none(service: Running) -> None:
    """Pieces that begin inside of a body are never taken for a head."""
    inner = request(service)
    outer = request(service, body=inner)
    with Wire(service) as wire:
        wire.send(inner)  # its head is known now
        assert wire.answer()[0] == 201
        wire.send(outer[: -len(inner)])
        time.sleep(0.02)
        wire.send(inner)
        status, _, body = wire.answer()
        assert status == 400
        assert json.loads(body)["type"].endswith("invalid-json")
        wire.send(inner)
        assert wire.answer()[0] == 201


def test_a_known_head_whose_key_is_revoked_is_refused(service: Running) -> None:
    made = service.post("/v1/keys", {"roles": ["decide"]}).json
    asked = request(service, Authorization=f"Bearer {made['token']}")
    with Wire(service) as wire:
        for _ in range(2):
            wire.send(asked)
            assert wire.answer()[0] == 201
        assert service.send("DELETE", f"/v1/keys/{made['id']}").status == 200
        wire.send(asked)
        assert wire.answer()[0] == 401


def test_a_head_that_asks_for_another_protocol_is_answered_alike_each_time(
    service: Running,
) -> None:
    found = []
    for _ in range(3):
        with Wire(service) as wire:
            wire.send(request(service, Connection="Upgrade", Upgrade="h2c"))
            found.append(wire.answer()[0])
    assert len(set(found)) == 1


def test_heads_are_remembered_only_where_the_data_is_one_whole_request() -> None:
    (call, places), heads = table().find("POST", b"/v1/spaces/s/decisions"), Heads()
    data = request(None)
    fields = {b"content-length": str(len(BODY)).encode()}
    head = Head(call, places, b"/v1/spaces/s/decisions", fields, len(BODY), "")
    for wrong in (b"", data[:-1], data + b"x", data[1:], data[: -len(BODY)], b"\r\n" + data):
        heads.keep(wrong, head)
    for name in (b"x-request-id", b"idempotency-key"):  # which no other request will have
        heads.keep(data, head._replace(fields={**fields, name: b"1"}))
    assert len(heads) == 0
    assert heads.find(data) is None
    heads.keep(data, head)
    assert heads.find(data) == (head, BODY)
    assert heads.find(data[:-1] + b"?") == (head, BODY[:-1] + b"?")
    for wrong in (b"", data[:-1], data + b"x", data.replace(b"/s/", b"/t/"), data[1:]):
        assert heads.find(wrong) is None
    for n in range(3000):
        heads.keep(data.replace(b"Host: x", b"Host: %d" % n), head)
    assert 0 < len(heads) <= 1024


def test_several_at_once_are_answered_in_their_order(service: Running) -> None:
    """Direct ones and others, mixed."""
    get = f"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.key}\r\n\r\n".encode()
    bad = request(service, body=b'{"task": 1}')
    with Wire(service) as wire:
        wire.send(request(service) + get + bad + request(service) + get + request(service))
        found = [wire.answer() for _ in range(6)]
    assert [status for status, _, _ in found] == [201, 200, 422, 201, 200, 201]
    numbers = [json.loads(body)["id"] for status, _, body in found if status == 201]
    assert numbers == sorted(numbers)


def test_a_body_in_chunks_and_one_that_was_asked_for(service: Running) -> None:
    chunked = request(service, Content_Length="", Transfer_Encoding="chunked", body=b"")
    with Wire(service) as wire:
        wire.send(chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))
        assert wire.answer()[0] == 201
        head = request(service, Expect="100-continue")[: -len(BODY)]
        wire.send(head)
        assert wire.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(BODY)
        assert wire.answer()[0] == 201


@pytest.mark.parametrize("given", [{"Connection": "close"}, {"version": "1.0"}])
def test_a_connection_is_closed_where_that_is_asked(
    service: Running, given: dict[str, str]
) -> None:
    with Wire(service) as wire:
        wire.send(request(service, **given))  # type: ignore[arg-type]
        status, headers, _ = wire.answer()
        assert (status, headers["connection"]) == (201, "close")
        assert wire.closed()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"Authorization": ""}, "unauthorised"),
        ({"Authorization": "Bearer wrong"}, "unauthorised"),
        ({"Content_Type": "text/plain"}, "unsupported-media-type"),
        ({"path": "/v1/spaces/none/decisions"}, "unknown-space"),
        ({"path": "/v1/spaces/s/decisions?x=1"}, None),
        ({"path": "/v1/spaces/s/decisions/none/rewards"}, "invalid-request"),
        ({"Idempotency_Key": "ü"}, "invalid-request"),
        ({"Content_Type": "application/json; charset=utf-8"}, None),
        ({"Content_Type": ""}, None),
    ],
)
def test_both_ways_answer_the_same(
    service: Running, given: dict[str, str], kind: str | None
) -> None:
    """The second request, of HTTP/1.0, goes uvicorn's way."""
    found = []
    for version in ("1.1", "1.0"):
        with Wire(service) as wire:
            wire.send(request(service, **{"version": version, **given}))  # type: ignore[arg-type]
            status, headers, body = wire.answer()
        document = json.loads(body)
        assert document.get("type") == (None if kind is None else f"/problems/{kind}")
        shown = {name: one for name, one in headers.items() if name not in ("date", "connection")}
        shown.pop("x-request-id")
        shown.pop("content-length")
        found.append((status, shown, list(document)))
    assert found[0] == found[1]


def test_a_caller_that_goes_away_harms_nobody(service: Running) -> None:
    for _ in range(20):
        with Wire(service) as wire:
            wire.send(request(service))
    with Wire(service) as wire:
        wire.send(request(service)[:-5])
    with Wire(service) as wire:
        wire.send(b"nonsense\r\n\r\n")
        assert wire.answer()[0] == 400
    with Wire(service) as wire:
        wire.send(request(service))
        assert wire.answer()[0] == 201


def test_a_body_that_stalls_on_a_kept_connection_is_waited_for(tmp_path: Path) -> None:
    settings = ServiceSettings(db=str(tmp_path / "a.db"))
    with Engine.open(settings.db) as engine:
        engine.space("s", dim=2)
        service = Service(engine=engine, keys=KeyStore(tmp_path / "keys"), settings=settings)
        _, token = service.keys.add(("decide",))
        app = application(service)
        config = uvicorn.Config(
            app,
            http=direct_protocol(app.api),
            ws="none",
            lifespan="off",
            log_level="warning",
            timeout_keep_alive=1,
        )
        server, listening = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))

        async def run() -> None:
            serving = asyncio.ensure_future(server.serve(sockets=[listening]))
            try:
                await asyncio.to_thread(_stalled, listening.getsockname()[1], token)
            finally:
                server.should_exit = True
                await serving

        asyncio.run(run())


def _stalled(port: int, token: str) -> None:
    whole = request(None, Authorization=f"Bearer {token}")
    with Wire(port) as wire:
        wire.send(whole)
        assert wire.answer()[0] == 201
        wire.send(whole[:-10])
        time.sleep(2.5)  # longer than two times that an idle connection is kept
        wire.send(whole[-10:])
        assert wire.answer()[0] == 201
        assert wire.closed()  # in its time


@needs_faults
def test_what_is_under_way_is_answered_when_the_service_stops(tmp_path: Path) -> None:
    slow = {"LD_PRELOAD": str(compiled(tmp_path)), "FAULTS_FSYNC_MS": "300"}
    with running(tmp_path / "a.db", environment=slow) as service:
        assert service.post("/v1/spaces", {"name": "s", "dim": 2}).status == 201
        with Wire(service) as wire, Wire(service) as idle:
            wire.send(request(service))
            time.sleep(0.1)  # it waits for the disk
            stopping = threading.Thread(target=service.stop)
            stopping.start()
            status, headers, _ = wire.answer()
            assert (status, headers["connection"]) == (201, "close")
            assert wire.closed()
            assert idle.closed()
            stopping.join()
        assert service.process.returncode == 0
