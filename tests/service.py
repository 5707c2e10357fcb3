"""A real service in a process of its own, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Answer", "Running", "running"]


_START = """
import functools, json, sys
from cobandits.service import ServiceSettings, serve
settings = ServiceSettings.read(json.loads(sys.argv[1]))
serve(settings, announce=functools.partial(print, flush=True))
"""


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
    db: Path | str, *, key: str | None = None, port: int = 0, **settings: Any
) -> Iterator[Running]:
    """Start a service, wait until it listens, and stop it at the end.

    It starts without the command line, whose other commands take a second to load.
    """
    given = json.dumps({"db": str(db), "port": port, **settings})
    process = subprocess.Popen(
        [sys.executable, "-c", _START, given],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
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
