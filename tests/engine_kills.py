"""Kill the engine again and again under load, and look at what is left: ``make test-faults``.

Each child opens the database, checks it against all that was ever answered, and then serves
several threads until it is killed. What it answers goes through a pipe, which outlives it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import select
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from cobandits.engine import Decide, Decision, Engine, Reward, Rewarded, Space, refits
from cobandits.engine.events import choice_of
from cobandits.engine.policies import warm_up
from tests.engine_postgres import databases

THREADS = 4
PER_DATABASE = 20  # kills; then a new one, so that a replay from the start stays short
DIM = 3

Say = Callable[..., None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warm_up()  # once, not in each child
    chance, totals = random.Random(options.seed), {"answers": 0, "events": 0}
    with places(options.store) as place:
        for first in range(0, options.kills, PER_DATABASE):
            kills = min(PER_DATABASE, options.kills - first)
            found = killed_often(next(place), kills, chance)
            totals = {name: totals[name] + found[name] for name in totals}
            print(f"{first + kills} kills: {totals}", flush=True)
    print(json.dumps({"kills": options.kills, "store": options.store, **totals}))


@contextlib.contextmanager
def places(store: str) -> Iterator[Iterator[str]]:
    """Yield addresses of new databases."""
    with tempfile.TemporaryDirectory() as folder:
        if store == "sqlite":
            yield (str(Path(folder, f"{n}.db")) for n in itertools.count())
        else:
            with databases() as made:
                yield made


def killed_often(where: str, kills: int, chance: random.Random) -> dict[str, int]:
    """Kill children at random moments, then let one look at all and end by itself."""
    answered: list[list[object]] = []
    for n in range(kills):
        during_start = chance.random() < 0.15
        child = Child(where, answered, seed=chance.getrandbits(32))
        if not during_start:
            answered += child.read_until_checked()
        time.sleep(chance.uniform(0.0, 0.25))
        answered += child.kill()
        assert child.failure is None, f"after {n} kills: {child.failure}"
    last = Child(where, answered, seed=None)
    last.read_until_checked()
    events = last.events
    last.kill()
    assert last.failure is None, last.failure
    return {"answers": len(answered), "events": events}


class Child:
    """A process that checks and serves; it was forked, so that it starts at once."""

    def __init__(self, where: str, answered: list[list[object]], seed: int | None) -> None:
        self.failure: str | None = None
        self.events = 0
        self._rest = b""
        self._end, out = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._end)
            os.setpgid(0, 0)
            run_child(where, answered, seed, out)
        os.close(out)

    def read_until_checked(self) -> list[list[object]]:
        lines: list[list[object]] = []
        while not any(line[0] in ("checked", "failed") for line in lines):
            assert select.select([self._end], [], [], 120)[0], "the child does not answer"
            lines += self._lines(os.read(self._end, 1 << 16))
        return self._kept(lines)

    def kill(self) -> list[list[object]]:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        lines: list[list[object]] = []
        while data := os.read(self._end, 1 << 16):
            lines += self._lines(data)
        os.close(self._end)
        return self._kept(lines)

    def _lines(self, data: bytes) -> list[list[object]]:
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in whole]

    def _kept(self, lines: list[list[object]]) -> list[list[object]]:
        """Return the answers; note what else was said."""
        for line in lines:
            if line[0] == "failed":
                self.failure = str(line[1])
            elif line[0] == "checked":
                self.events = int(str(line[1]))
        return [line for line in lines if line[0] in ("decision", "reward")]


def run_child(where: str, answered: list[list[object]], seed: int | None, out: int) -> None:
    def say(*what: object) -> None:
        os.write(out, json.dumps(what).encode() + b"\n")  # short: one write is one piece

    if seed is not None and seed % 2:
        refits.LARGE = 1  # by a process, beside which a stand-in decides and learns
    try:
        with Engine.open(where) as engine:
            space = engine.space("shops", dim=DIM)
            check(engine, space, answered)
            say("checked", sum(1 for _ in space.events()))
            if seed is not None:
                serve(space, seed, say)
            time.sleep(60)
    except BaseException:
        say("failed", traceback.format_exc())
    finally:
        os._exit(1)


def check(engine: Engine, space: Space, answered: list[list[object]]) -> None:
    """Hold the log against all answers: nothing is missing, nothing is there twice."""
    found = engine.verify()
    assert found.ok, found.differences
    events = {event.number: event for event in space.events()}
    for kind, number, *rest in answered:
        event = events[int(str(number))]
        assert event.kind == kind, (event, kind)
        if kind == "decision":
            assert choice_of(event).probability == rest[0]
        else:
            assert [event.ref, event.value] == rest
    rewarded = [event.ref for event in events.values() if event.kind == "reward"]
    assert len(rewarded) == len(set(rewarded)), "a reward is there twice"
    engine.settle()
    assert space.policy().rewards == len(rewarded), "not each reward was learned once"


def serve(space: Space, seed: int, say: Say) -> None:
    for n in range(THREADS):
        threading.Thread(target=client, args=(space, seed + n, say), daemon=True).start()


def client(space: Space, seed: int, say: Say) -> None:
    """Ask, reward, repeat, with ids that are made or given, one at a time or several."""
    rng = np.random.default_rng(seed)
    for turn in itertools.count():
        task = f"shop {rng.integers(8)}"
        asked = [
            Decide(
                task=task,
                arms=[{"features": row.tolist()} for row in rng.standard_normal((3, DIM))],
                id=f"{seed}-{turn}-{n}" if rng.random() < 0.5 else None,
            )
            for n in range(rng.integers(1, 4))
        ]
        made = {one.id: one for one in space.ask(asked) if isinstance(one, Decision)}
        for one in made.values():
            say("decision", one.number, one.probability)
        rewards = [Reward(decision=name, value=float(rng.normal())) for name in made]
        for answer in space.ask(rewards + rewards[: rng.integers(2)]):
            if isinstance(answer, Rewarded):
                say("reward", answer.number, made[answer.decision].number, answer.value)


if __name__ == "__main__":
    main()
