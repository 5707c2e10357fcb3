"""Replay a large log bit for bit: 100,000 events, 1,000 tasks; a part of ``make test-faults``."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from cobandits.engine import Decide, Decision, Engine, Reward, Space

DIM, ARMS, THREADS, AT_ONCE = 10, 4, 4, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Engine.open(Path(folder, "large.db")) as engine:
        space = engine.space("large", dim=DIM)
        begin = time.perf_counter()
        calls = options.events // (2 * THREADS * AT_ONCE)
        likes = np.random.default_rng(0).standard_normal((2, DIM))
        clients = [
            threading.Thread(target=client, args=(space, likes, n, calls, options.tasks))
            for n in range(THREADS)
        ]
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        engine.settle(3600)
        print(f"{engine.status()} after {time.perf_counter() - begin:.0f} s", flush=True)
        begin = time.perf_counter()
        found = engine.verify()
        priors = len(space.versions()) - 1
        print(f"{found}, {priors} priors, in {time.perf_counter() - begin:.0f} s")
        assert found.ok
        assert found.events >= options.events


def client(space: Space, likes: object, seed: int, calls: int, tasks: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(calls):
        asked = [
            Decide(
                task=f"task {rng.integers(tasks)}",
                arms=[{"features": row.tolist()} for row in rng.standard_normal((ARMS, DIM))],
            )
            for _ in range(AT_ONCE)
        ]
        rewards = []
        for one, made in zip(asked, space.ask(asked), strict=True):
            assert isinstance(made, Decision)
            x = np.array(one.arms[int(made.arm)]["features"])
            own = np.random.default_rng(int(one.task.split()[1])).standard_normal(2)
            value = float(own @ (np.asarray(likes) @ x) + 0.3 * rng.normal())
            rewards.append(Reward(decision=made.id, value=value))
        space.ask(rewards)


if __name__ == "__main__":
    main()
