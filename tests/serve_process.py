"""A service with settings from JSON; without the command line, whose others take long to load."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from cobandits.engine.stores import Batch, SQLiteStore
from cobandits.policies import Shared
from cobandits.service import ServiceSettings, serve

_armed = threading.Event()


def _arm() -> None:
    """Count from here on; write, fsync and reply are counted by faults.c."""
    _armed.set()
    if "LD_PRELOAD" in os.environ:
        ctypes.CDLL(None).faults_arm()


def _ending(action: Callable[..., Any], moment: str, nth: int) -> Callable[..., Any]:
    """Return the same action, which ends the process before or after its n-th call."""
    calls = 0

    @functools.wraps(action)
    def counted(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += _armed.is_set()
        now = _armed.is_set() and calls == nth
        if now and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = action(*given, **named)
        if now:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    return counted


def _set_end(given: str) -> None:
    """Take where to end: learn, swap (of a prior that was learned aside) or snapshot."""
    point, moment, nth = given.split(":")
    if point == "learn":
        Shared.learn = _ending(Shared.learn, moment, int(nth))  # type: ignore[method-assign]
    elif point == "swap":
        Shared.install = _ending(Shared.install, moment, int(nth))  # type: ignore[method-assign]
    elif point == "snapshot":
        append = SQLiteStore.append
        saving = _ending(append, moment, int(nth))

        def appended(self: SQLiteStore, batch: Batch) -> None:
            (saving if batch.parts or batch.saved else append)(self, batch)

        SQLiteStore.append = appended  # type: ignore[method-assign]


def _announce(text: str) -> None:
    print(text, flush=True)
    _arm()


if __name__ == "__main__":
    _set_end(os.environ.get("FAULTS_KILL", "none:none:0"))
    settings = ServiceSettings.read(json.loads(sys.argv[1]))
    serve(settings, announce=_announce)
