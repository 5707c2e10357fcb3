"""The service behind TLS, and on PostgreSQL."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import ssl
import subprocess
from pathlib import Path

import pytest

from cobandits.client import Client
from cobandits.engine import Engine
from tests.engine_postgres import databases, needs_postgres
from tests.service import running

ARMS = [{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made by openssl")
def test_the_service_answers_over_tls_and_nothing_else(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    made += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    db = tmp_path / "a.db"
    with running(db, tls_cert=str(cert), tls_key=str(key)) as service:
        trusted = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", service.port, context=trusted, timeout=60
        )
        headers = {"Authorization": f"Bearer {service.key}", "Content-Type": "application/json"}

        def post(path: str, message: object) -> tuple[int, dict[str, str]]:
            connection.request("POST", path, json.dumps(message), headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

        assert post("/v1/spaces", {"name": "s", "dim": 2})[0] == 201
        for n in range(3):  # over one connection, without a task
            status, decision = post("/v1/spaces/s/decisions", {"task": "t", "arms": ARMS})
            assert (status, decision["arm"] in "ab") == (201, True)
            path = f"/v1/spaces/s/decisions/{decision['id']}/rewards"
            assert post(path, {"value": n})[1]["status"] == "accepted"
        form = "key=" + service.key
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/dashboard/login", form, kind)
        answer = connection.getresponse()
        assert "Secure" in str(answer.headers["set-cookie"])
        answer.read()
        connection.close()
        plain = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)
        plain.request("GET", "/livez")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()


@needs_postgres
def test_the_service_on_postgresql_is_killed_and_loses_nothing(tmp_path: Path) -> None:
    with databases() as made:
        db, keys = next(made), str(tmp_path / "keys")
        with running(db, keys=keys) as service, Client(service.address, service.key) as client:
            client.create_space("s", dim=2)
            told = [client.decide("s", f"task {n % 3}", ARMS, id=f"one-{n}") for n in range(20)]
            for one in told:
                assert client.reward("s", one.id, 1.0).status == "accepted"
            service.stop(signal.SIGKILL)
        with (
            running(db, keys=keys, key=service.key) as service,
            Client(service.address, service.key) as client,
        ):
            again = client.decide("s", "task 0", ARMS, id="one-0")
            assert (again.arm, again.repeated) == (told[0].arm, True)
            assert client.reward("s", "one-0", 1.0).status == "repeated"
            assert client.get("spaces", "s", "report")["policy"]["n"] == 20
            assert service.get("/readyz").json["free_bytes"] is None
            service.stop()
        with Engine.open(db) as engine:
            engine.settle()
            kept = {one.decision.id: one.decision for one in engine.space("s").decisions()}
            assert [(kept[one.id].arm, kept[one.id].probability) for one in told] == [
                (one.arm, one.probability) for one in told
            ]
            assert engine.verify().ok
