"""Speed of durable decisions over HTTP, as ratios: to FastAPI, and to a disk without fsync."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
import psutil

from benchmarks.service.http_load import Loaded, load, request_bytes
from tests.engine_postgres import databases
from tests.service import running

__all__ = ["in_turn", "main"]

ARMS, DIM, TASKS = 5, 20, 1000
TURNS = 5  # with and without fsync
MEMORY = Path("/dev/shm")  # where fsync costs nothing
FASTAPI = """
import sys
from typing import Annotated, Any
import uvicorn
from fastapi import FastAPI, Header
from pydantic import BaseModel, Field

class Arm(BaseModel):
    id: str = Field(min_length=1, max_length=100)
    features: list[float]

class Decide(BaseModel):
    model_config = {"extra": "forbid"}
    task: str = Field(min_length=1, max_length=100)
    arms: list[Arm] = Field(min_length=1, max_length=200)
    context: dict[str, Any] | None = None
    exclude: list[str] = []
    baseline: str | None = None
    held: bool = False
    id: str | None = None

app = FastAPI()

@app.post("/v1/spaces/{space}/decisions", status_code=201)
async def decide(space: str, asked: Decide) -> dict[str, Any]:
    return {"arm": asked.arms[0].id}

options = {"http": "httptools", "loop": "uvloop", "access_log": False, "log_level": "error"}
uvicorn.run(app, port=int(sys.argv[1]), **options)
"""


def bodies(count: int, batch: int = 1) -> list[bytes]:
    """Return requests for decisions, or for batches of them."""
    rng = np.random.default_rng(0)

    def one() -> dict[str, object]:
        arms = [
            {"id": str(k), "features": rng.normal(size=DIM).round(6).tolist()} for k in range(ARMS)
        ]
        return {"task": f"task-{rng.integers(TASKS)}", "arms": arms}

    made = [
        one() if batch == 1 else {"decisions": [one() for _ in range(batch)]} for _ in range(count)
    ]
    return [json.dumps(body).encode() for body in made]


def measured(
    pid: int, port: int, requests: list[bytes], clients: int, seconds: float
) -> tuple[Loaded, float]:
    """Return what a load found, and the server's CPU time in microseconds per request."""
    sent = cycle(requests)
    load(port, sent, clients=clients, seconds=min(2.0, seconds))  # warm
    process = psutil.Process(pid)
    before = process.cpu_times()
    found = load(port, sent, clients=clients, seconds=seconds)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return found, used / found.requests * 1e6


@contextmanager
def fastapi(python: str, port: int) -> Iterator[int]:
    """Run a FastAPI route that checks the same body and does nothing."""
    process = subprocess.Popen([python, "-c", FASTAPI, str(port)])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            connections = psutil.Process(process.pid).net_connections("tcp")
            if any(one.status == psutil.CONN_LISTEN for one in connections):
                break
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def ours(
    folder: Path, clients: int, seconds: float, batch: int = 1, db: str | None = None
) -> tuple[Loaded, float]:
    """Measure the service with its data in a folder, or in another database."""
    path = "/v1/spaces/load/decisions" + (":batch" if batch > 1 else "")
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        running(db or Path(place) / "a.db", rate=1e6, keys=f"{place}/keys") as service,
    ):
        assert service.post("/v1/spaces", {"name": "load", "dim": DIM}).status == 201
        count = 2000 if batch == 1 else 40
        requests = [request_bytes("POST", path, service.key, b) for b in bodies(count, batch)]
        found, cpu = measured(service.process.pid, service.port, requests, clients, seconds)
    return found, cpu / batch


def in_turn(python: str = sys.executable, rounds: int = 10, seconds: float = 2.0) -> None:
    """Print the CPU time of a durable decision as a share of FastAPI's, measured by turns.

    Other work on the machine changes within seconds, so that neither waits long for the other.
    """
    path = "/v1/spaces/load/decisions"
    with (
        tempfile.TemporaryDirectory() as place,
        running(Path(place) / "a.db", rate=1e6, keys=f"{place}/keys") as service,
        fastapi(python, 8765) as other,
    ):
        assert service.post("/v1/spaces", {"name": "load", "dim": DIM}).status == 201
        requests = [request_bytes("POST", path, service.key, body) for body in bodies(2000)]
        sides = (service.process.pid, service.port), (other, 8765)
        found = np.array(
            [[measured(*side, requests, 64, seconds)[1] for side in sides] for _ in range(rounds)]
        )
    ratios = found[:, 0] / found[:, 1]
    means = found.mean(axis=0)
    print(f"us CPU per durable decision {means[0]:.0f}, per FastAPI route {means[1]:.0f}")
    print("of FastAPI, by round: " + " ".join(f"{one:.2f}" for one in ratios))
    print(f"of FastAPI: mean {means[0] / means[1]:.2f}, median {np.median(ratios):.2f}")


def main(python: str = sys.executable, seconds: float = 10.0, clients: int = 64) -> None:
    """Print the figures; ``python`` is one that has FastAPI.

    With and without fsync are measured by turns, as a machine may change within seconds. Shown are
    the turn in the middle and the ratios of all.
    """
    here = Path(tempfile.gettempdir())
    turns = []
    for turn in range(TURNS):
        folders = (here, MEMORY) if turn % 2 else (MEMORY, here)
        both = {folder: ours(folder, clients, seconds / 2) for folder in folders}
        turns.append((both[here], both[MEMORY]))
    turns.sort(key=lambda turn: _rate(turn[0][0]) / _rate(turn[1][0]))
    rows = {
        "durable": turns[TURNS // 2][0],
        "without fsync": turns[TURNS // 2][1],
        "durable, one client": ours(here, 1, seconds),
        "durable, batches of 64": ours(here, 16, seconds, batch=64),
    }
    with databases() as made:
        rows["durable, PostgreSQL"] = ours(here, clients, seconds, db=next(made))
    path = "/v1/spaces/load/decisions"
    with fastapi(python, 8765) as pid:
        requests = [request_bytes("POST", path, "key", body) for body in bodies(2000)]
        rows["FastAPI, does nothing"] = measured(pid, 8765, requests, clients, seconds)
    for name, (found, cpu) in rows.items():
        each = 64 if "batches" in name else 1
        print(
            f"{name:24} {each * found.requests / found.seconds:8.0f} per s {cpu:7.0f} us CPU  "
            f"p50 {found.quantile(0.5):.1f} ms  p99 {found.quantile(0.99):.1f} ms  {found.statuses}"
        )
    print(f"CPU of FastAPI: {rows['durable'][1] / rows['FastAPI, does nothing'][1]:.2f}")
    ratios = " ".join(f"{_rate(one) / _rate(other):.2f}" for (one, _), (other, _) in turns)
    print(f"throughput with fsync, of that without, {TURNS} turns: {ratios}")


def _rate(found: Loaded) -> float:
    """Return requests per second."""
    return found.requests / found.seconds
