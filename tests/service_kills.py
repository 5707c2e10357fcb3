"""Kill the service again and again under load, and compare its log with the clients' own records.

`python -m tests.service_kills --kills 100 --clients 32` is the long version; `test_service_kills`
is a short one. Clients send decisions and rewards with ids of their own and repeat what was not
answered, as :class:`cobandits.client.Client` does. At the end nothing that was answered may be
missing or changed, nothing may be there twice, and every decision is made again from the log.
"""

from __future__ import annotations

import argparse
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL

from cobandits.client import Client, Retries, ServiceError
from cobandits.engine import Engine
from tests.service import running

__all__ = ["Outcome", "killed_often"]

DIM = 3
PATIENT = Retries(attempts=2000, first=0.1, longest=0.3)


@dataclass
class Record:
    """What one client was answered."""

    decisions: dict[str, tuple[str, float]] = field(default_factory=dict)
    rewards: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was compared."""

    kills: int
    decisions: int
    rewards: int
    recomputed: int
    wrong: list[str]


def _play(number: int, address: str, key: str, record: Record, stopped: threading.Event) -> None:
    """Decide and reward until told to stop; every answer is kept."""
    rng = random.Random(number)
    with Client(address, key, retries=PATIENT, timeout=5.0) as client:
        turn = 0
        while not stopped.is_set():
            turn += 1
            name = f"{number}-{turn}"
            arms = [{"id": a, "features": [rng.gauss(0, 1) for _ in range(DIM)]} for a in "abc"]
            try:
                made = client.decide("space", f"task-{rng.randrange(20)}", arms, id=name)
                record.decisions[name] = (made.arm, made.probability)
                if rng.random() < 0.8:
                    value = round(rng.random(), 3)
                    status = client.reward("space", name, value).status
                    record.rewards[name] = value
                    if status not in ("accepted", "repeated"):
                        record.problems.append(f"{name}: {status}")
                    if (
                        rng.random() < 0.2
                        and client.reward("space", name, value).status != "repeated"
                    ):
                        record.problems.append(f"{name}: a duplicate counted")
            except ServiceError as error:
                record.problems.append(f"{name}: {error}")


def _wait_for(records: list[Record], more: int) -> None:
    """Wait until clients have had so many more answers."""

    def count() -> int:
        return sum(len(one.decisions) + len(one.rewards) for one in records)

    start, until = count(), time.monotonic() + 60
    while count() < start + more and time.monotonic() < until:
        time.sleep(0.005)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def _clients(count: int, port: int, key: str) -> Iterator[list[Record]]:
    records = [Record() for _ in range(count)]
    stopped = threading.Event()
    address = f"http://127.0.0.1:{port}"
    threads = [
        threading.Thread(target=_play, args=(number, address, key, record, stopped))
        for number, record in enumerate(records)
    ]
    for thread in threads:
        thread.start()
    try:
        yield records
    finally:
        stopped.set()
        for thread in threads:
            thread.join(120)


def killed_often(folder: Path, *, kills: int, clients: int, answers: int, seed: int = 0) -> Outcome:
    """Kill the service at random moments; return what differs from what clients were told.

    There are ``answers`` between two kills, in the mean.
    """
    rng = random.Random(seed)
    db, port = folder / "killed.db", _free_port()
    with running(db, port=port) as first:
        key = first.key
        first.post("/v1/spaces", {"name": "space", "dim": DIM})
    with ExitStack() as stack:
        records: list[Record] = []
        for kill in range(kills + 1):
            with running(db, key=key, port=port) as service:
                if kill == 0:
                    records = stack.enter_context(_clients(clients, port, key))
                _wait_for(records, rng.randrange(2 * answers))
                time.sleep(rng.uniform(0, 0.02))
                if kill < kills:
                    service.stop(SIGKILL)
                else:
                    stack.close()  # all clients get their last answers
    return _compared(db, kills, records)


def _compared(db: Path, kills: int, records: list[Record]) -> Outcome:
    wrong = [problem for record in records for problem in record.problems]
    told = {name: answer for record in records for name, answer in record.decisions.items()}
    rewarded = {name: value for record in records for name, value in record.rewards.items()}
    with Engine.open(db) as engine:
        engine.settle()
        space = engine.space("space")
        logged = {one.decision.id: one for one in space.decisions()}
        for name, answer in told.items():
            if name not in logged:
                wrong.append(f"{name}: answered, and not in the log")
            elif (logged[name].decision.arm, logged[name].decision.probability) != answer:
                wrong.append(f"{name}: the log has another answer")
        for name, value in rewarded.items():
            given = [one.value for one in logged[name].rewards] if name in logged else []
            if given != [value]:
                wrong.append(f"{name}: rewards {given} in the log, {value} was answered")
        numbers = [event.number for event in space.events()]
        if sorted(numbers) != list(range(numbers[0], numbers[0] + len(numbers))):
            wrong.append("numbers have gaps")
        verified = engine.verify()
        if not verified.ok:
            wrong.append(str(verified))
    return Outcome(
        kills=kills,
        decisions=len(told),
        rewards=len(rewarded),
        recomputed=verified.decisions,
        wrong=wrong,
    )


def main() -> None:
    """Run the long version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--answers", type=int, default=200, help="between two kills, in the mean")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = killed_often(
            Path(folder), kills=given.kills, clients=given.clients, answers=given.answers
        )
    print(found)
    if found.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
