"""A headless Chromium, driven by its DevTools protocol over a pipe: no port, no other package."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Browser", "find_browser"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PATIENCE = 60.0  # seconds for an answer, on a machine that is busy
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # CI runs as root in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def find_browser() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in one browser; events that come meanwhile are kept."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._process, self._write, self._read = _started(path, self._profile.name)
        self._buffer, self._number = b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send("Page.setLifecycleEventsEnabled", enabled=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        os.close(self._write)  # which ends the browser
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        self._profile.cleanup()

    def send(self, method: str, **parameters: object) -> dict[str, Any]:
        """Send a command, and return its result."""
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._next()
        while answer.get("id") != self._number:
            self.events.append(answer)
            answer = self._next()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is loaded with all its pictures."""
        self.visit(path.resolve().as_uri())

    def visit(self, address: str) -> None:
        """Open an address, and wait until it is loaded."""
        self.events.clear()
        loader = self.send("Page.navigate", url=address).get("loaderId")
        while not self._loaded(loader):
            self.events.append(self._next())

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def window(self, width: int, height: int = 900) -> None:
        """Make the window so wide and high."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def colours(self, scheme: str) -> None:
        """Let the reader prefer light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def named(self, method: str) -> list[dict[str, Any]]:
        """Return what the events of this name said since the page was opened."""
        return [event["params"] for event in self.events if event["method"] == method]

    def _loaded(self, loader: str | None) -> bool:
        """Return whether this page is loaded: the one before may still be loading."""
        events = self.named("Page.lifecycleEvent")
        return any(one["name"] == "load" and one["loaderId"] == loader for one in events)

    def _next(self) -> dict[str, Any]:
        """Return the next message."""
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._read, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("the browser ended, or says nothing")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))


def _started(path: str, profile: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the browser; return it, where to write commands and where to read answers."""
    command, write = os.pipe()
    read, answer = os.pipe()

    def connect() -> None:  # the browser reads from 3 and writes to 4
        first, second = os.dup(command), os.dup(answer)
        os.dup2(first, 3)
        os.dup2(second, 4)

    process = subprocess.Popen(
        [path, *_FLAGS, f"--user-data-dir={profile}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,  # Python's own are not inherited, but 3 and 4 must be
        preexec_fn=connect,  # noqa: PLW1509
    )
    os.close(command)
    os.close(answer)
    return process, write, read
