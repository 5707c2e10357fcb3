"""A real service in a process of its own, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Answer", "Running", "running"]


_ROOT = Path(__file__).parents[1]
_SCRIPT = Path(__file__).with_name("serve_process.py")
_COVERAGE = "SLIPCOVER_COVERAGE_DIR"  # where the workers of `make test` leave what they reached


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """The kind of problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        document = self.json
        assert document["status"] == self.status
        assert document["detail"]
        assert document["title"]
        return str(document["type"]).removeprefix("/problems/")


class Running:
    """A service that runs."""

    def __init__(self, process: subprocess.Popen[str], db: Path | str, port: int, key: str) -> None:
        self.process, self.db, self.port, self.key = process, db, port, key

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        key: str | None = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request as it is; a key of None is left out."""
        token = self.key if key == "" else key
        sent = {"Content-Type": "application/json"} if body is not None else {}
        sent |= {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def post(self, path: str, message: object, **options: Any) -> Answer:
        return self.send("POST", path, json.dumps(message).encode(), **options)

    def get(self, path: str, **options: Any) -> Answer:
        return self.send("GET", path, **options)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)


@contextmanager
def running(
    db: Path | str,
    *,
    key: str | None = None,
    port: int = 0,
    environment: Mapping[str, str] | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """Start a service, wait until it listens, and stop it at the end."""
    given = json.dumps({"db": str(db), "port": port, **settings})
    process = subprocess.Popen(
        _command(given),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={k: v for k, v in os.environ.items() if k != _COVERAGE}
        | {"OPENBLAS_NUM_THREADS": "1", **(environment or {})},
        cwd=_ROOT,
    )
    try:
        assert process.stdout is not None
        found, shown = "", key
        for line in process.stdout:
            if address := re.search(r"https?://\S+:(\d+)$", line.strip()):
                found = address[1]
            if token := re.search(r"cb_\S+", line):
                shown = token[0]
            if line.startswith("Stop"):
                break
        if not found or shown is None:
            raise RuntimeError("the service did not start")
        yield Running(process, db, int(found), shown)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _command(given: str) -> list[str]:
    """Return how to start a service; where coverage is measured, its own is left beside it."""
    folder = os.environ.get(_COVERAGE)
    measured: list[str] = []
    if folder is not None:
        out = Path(folder) / f"coverage-gw-{uuid.uuid4().hex}.json"
        measured = ["-m", "slipcover", "--json", "--out", str(out), "--source", "src/cobandits"]
    return [sys.executable, *measured, str(_SCRIPT), given]
