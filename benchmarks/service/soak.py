"""A steady load for a long time: does memory stay flat, is there no error, does learning keep up?

Decisions come at a fixed rate, half of what the service must sustain, and some of them get a reward
of a world in which tasks share three directions. Once a second the service is asked how many
rewards wait to be learned, and whether a prior is being learned or has just been installed. The
longest answers of such seconds and of others are shown. What is held to a bound is how long the
engine's thread learned, installed a prior or did something else between two groups of requests, and
how long it decided for a group, as a refit beside it may make that slow. How long transactions wait
for the disk is shown too. It takes 1.5 kB of disk per decision: 8 GB in half an hour.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import psutil
import uvloop
from numpy.typing import NDArray

from benchmarks.service.http_load import exchange, request_bytes
from benchmarks.service.speed import ARMS, DIM, TASKS
from tests.service import Running, running

__all__ = ["main"]

CLIENTS = 32
REQUESTS = 2000  # that are sent again and again
RANK, NOISE = 3, 0.5
PATH = "/v1/spaces/load/decisions"
ID, ARM = re.compile(rb'"id":"([^"]+)"'), re.compile(rb'"arm":"(\d+)"')
BUSY = re.compile(rb'cobandits_engine_seconds_bucket\{le="(\S+)",work="(\w+)"\} (\S+)')
MEASURE = re.compile(rb'cobandits_(\w+)\{space="load"\} (\S+)')
FLAT = 1.05  # memory of the last third of the time, as a share of that of the second
LAG = 1.0  # seconds
PAUSE = 0.05  # seconds: an edge of the histograms


@dataclass
class Soak:
    """What is sent, and what was found."""

    service: Running
    rate: float  # decisions per second
    rewarded: float  # share of them that gets a reward
    until: float
    statuses: Counter[int] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)  # bytes, once a second
    lags: list[float] = field(default_factory=list)  # seconds, as often
    longest: list[float] = field(default_factory=list)  # answer since the last look, in seconds
    refitted: list[bool] = field(default_factory=list)  # whether a prior was learned meanwhile
    busy: dict[str, float] = field(default_factory=dict)  # seconds, at most, by kind of work
    slots: itertools.count[int] = field(default_factory=itertools.count)
    start: float = field(default_factory=time.perf_counter)

    def request(self, path: str, message: object) -> bytes:
        """Return a request as it goes over the wire."""
        return request_bytes("POST", path, self.service.key, msgspec.json.encode(message))


def world(soak: Soak) -> list[tuple[bytes, list[float]]]:
    """Return requests, each with the mean rewards of its arms."""
    rng = np.random.default_rng(0)
    thetas = rng.standard_normal((TASKS, RANK)) @ rng.standard_normal((RANK, DIM)) / DIM**0.5
    made = []
    for task in rng.integers(TASKS, size=REQUESTS):
        phi = rng.standard_normal((ARMS, DIM)).round(6)
        arms = [{"id": str(k), "features": row.tolist()} for k, row in enumerate(phi)]
        asked = soak.request(PATH, {"task": f"task-{task}", "arms": arms})
        made.append((asked, (phi @ thetas[task]).tolist()))
    return made


async def client(soak: Soak, asked: list[tuple[bytes, list[float]]], number: int) -> None:
    """Send decisions when they are due, and rewards for some of them."""
    rng = np.random.default_rng([1, number])
    ends = await asyncio.open_connection("127.0.0.1", soak.service.port)
    while time.perf_counter() < soak.until:
        slot = next(soak.slots)
        await asyncio.sleep(max(0.0, soak.start + slot / soak.rate - time.perf_counter()))
        text, means = asked[slot % len(asked)]
        begin = time.perf_counter()
        status, body = await exchange(*ends, text)
        soak.latencies.append(time.perf_counter() - begin)
        soak.statuses[status] += 1
        named, chosen = ID.search(body), ARM.search(body)
        if status == 201 and named and chosen and rng.random() < soak.rewarded:
            value = means[int(chosen[1])] + NOISE * rng.standard_normal()
            path = f"{PATH}/{named[1].decode()}/rewards"
            soak.statuses[(await exchange(*ends, soak.request(path, {"value": value})))[0]] += 1
    ends[1].close()


async def watch(soak: Soak) -> None:
    """Look at memory and lag once a second, and print them once a minute."""
    process, asked = psutil.Process(soak.service.process.pid), request_bytes(
        "GET", "/metrics", soak.service.key, b""
    )  # fmt: skip
    ends = await asyncio.open_connection("127.0.0.1", soak.service.port, limit=1 << 24)
    seen = 0
    while time.perf_counter() < soak.until:
        await asyncio.sleep(1.0)
        _, body = await exchange(*ends, asked)
        found = {name.decode(): float(value) for name, value in MEASURE.findall(body)}
        soak.lags.append(found["rewards_not_learned"] / (soak.rate * soak.rewarded))
        soak.memory.append(process.memory_info().rss)
        soak.refitted.append(bool(found["refitting"]) or found["version_age_seconds"] < 1.5)
        soak.busy = busy(body)
        soak.longest.append(max(soak.latencies[seen:], default=0.0))
        seen = len(soak.latencies)
        if len(soak.memory) % 60 == 0:
            print(
                f"{len(soak.memory) // 60:3} min: {len(soak.latencies)} decisions, "
                f"{soak.memory[-1] / 1e6:.0f} MB, lag at most {max(soak.lags[-60:]):.2f} s, "
                f"{dict(soak.statuses)}", flush=True
            )  # fmt: skip
    ends[1].close()


def busy(measures: bytes) -> dict[str, float]:
    """Return, by kind of work, the least edge in seconds that holds all times of the engine."""
    found: dict[str, tuple[float, float]] = {}  # the edge, and how many are within it
    for edge, work, count in BUSY.findall(measures):
        if work.decode() not in found or float(count) > found[work.decode()][1]:
            found[work.decode()] = float(edge), float(count)
    if not found:
        raise ValueError("the service does not say what its engine was busy with")
    return {work: edge for work, (edge, _) in found.items()}


async def _run(soak: Soak) -> None:
    asked = world(soak)
    soak.until += time.perf_counter() - soak.start
    soak.start = time.perf_counter()
    await asyncio.gather(watch(soak), *(client(soak, asked, n) for n in range(CLIENTS)))


def main(minutes: float = 30.0, rate: float = 3000.0, rewarded: float = 0.3) -> None:
    """Print what was found; the exit status tells whether all of it holds."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder) / "a.db", rate=1e6) as service,
    ):
        assert service.post("/v1/spaces", {"name": "load", "dim": DIM}).status == 201
        soak = Soak(service, rate, rewarded, time.perf_counter() + 60 * minutes)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(soak))
    _, second, last = np.array_split(np.array(soak.memory, np.float64), 3)
    p99, reached = np.quantile(soak.latencies, 0.99), len(soak.latencies) / (60 * minutes)
    print(f"{reached:.0f} decisions per second of {rate:.0f}, p99 {1e3 * p99:.1f} ms")
    refitted = np.array(soak.refitted)
    pauses, others = np.array(soak.longest)[refitted], np.array(soak.longest)[~refitted]
    print(
        f"longest answer of a second, median and longest: {_milliseconds(pauses)} in {len(pauses)} "
        f"with a refit, {_milliseconds(others)} in {len(others)} without"
    )
    within = {work: f"{1e3 * edge:g} ms" for work, edge in soak.busy.items()}
    print(f"the engine's thread, each time within: {within}")
    paused = max(edge for work, edge in soak.busy.items() if work != "disk")
    checks = {
        f"no error: {dict(soak.statuses)}": soak.statuses.keys() <= {201, 202},
        f"the rate was kept: {reached:.0f} of {rate:.0f}": reached >= 0.98 * rate,
        f"memory: {last.mean() / second.mean():.3f} of before, at most {FLAT}": (
            last.mean() <= FLAT * second.mean()
        ),
        f"lag: {max(soak.lags):.2f} s, at most {LAG:g}": max(soak.lags) <= LAG,
        f"engine besides the disk: within {1e3 * paused:g} ms, at most {1e3 * PAUSE:g}": (
            paused <= PAUSE
        ),
    }
    for name, holds in checks.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD'}  {name}")
    sys.exit(not all(checks.values()))


def _milliseconds(seconds: NDArray[np.float64]) -> str:
    return f"{1e3 * np.median(seconds):.0f} and {1e3 * seconds.max():.0f} ms"
