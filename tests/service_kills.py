"""Kill the service again and again under load, and compare its log with the clients' own records.

`python -m tests.service_kills --kills 100 --clients 32` is the long version; `test_service_kills`
is a short one. Kills are at random moments, and before and after each of: a write to the log, its
fsync, a reply, learning a reward, the swap of a prior, a piece of a snapshot. Clients send
decisions and rewards with ids of their own and repeat what was not answered, as
:class:`cobandits.client.Client` does. At the end nothing that was answered may be missing or
changed, nothing may be there twice, and every decision is made again from the log.
"""

from __future__ import annotations

import argparse
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL

from cobandits.client import Client, Retries, ServiceError
from cobandits.engine import Engine
from tests.faults import compiled
from tests.service import Running, running

__all__ = ["HOOKS", "Outcome", "killed_often"]

DIM = 3
PATIENT = Retries(attempts=2000, first=0.1, longest=0.3)
# Up to how many calls of each kind pass before the one that is the last.
POINTS = {"write": 60, "fsync": 30, "reply": 100, "learn": 40, "swap": 1, "snapshot": 2}
HOOKS = [(point, moment) for point in POINTS for moment in ("before", "after")]
PATIENCE = 60.0  # seconds until a kill at a hook that was not reached is one at random


Named = tuple[str, str]  # a space, and the id of a decision in it


@dataclass
class Load:
    """What clients do. Each kill has a space of its own, so that priors are learned often."""

    space: str = "space-0"
    stopped: threading.Event = field(default_factory=threading.Event)


@dataclass
class Record:
    """What one client was answered."""

    decisions: dict[Named, tuple[str, float]] = field(default_factory=dict)
    rewards: dict[Named, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What was compared."""

    kills: int
    at: dict[str, int]  # kills by the hook that they were at
    decisions: int
    rewards: int
    recomputed: int
    wrong: list[str]


def _play(number: int, address: str, key: str, record: Record, load: Load) -> None:
    """Decide and reward until told to stop; every answer is kept."""
    rng = random.Random(number)
    with Client(address, key, retries=PATIENT, timeout=5.0) as client:
        turn = 0
        while not load.stopped.is_set():
            turn += 1
            space, name = load.space, f"{number}-{turn}"
            try:
                _one(client, rng, record, (space, name))
            except ServiceError as error:
                record.problems.append(f"{space} {name}: {error}")


def _one(client: Client, rng: random.Random, record: Record, named: Named) -> None:
    """Ask for a decision and reward it, perhaps twice."""
    arms = [{"id": a, "features": [rng.gauss(0, 1) for _ in range(DIM)]} for a in "abc"]
    made = client.decide(named[0], f"task-{rng.randrange(5)}", arms, id=named[1])
    record.decisions[named] = (made.arm, made.probability)
    if rng.random() < 0.2:
        return
    value = round(rng.random(), 3)
    status = client.reward(*named, value).status
    record.rewards[named] = value
    if status not in ("accepted", "repeated"):
        record.problems.append(f"{named}: {status}")
    if rng.random() < 0.2 and client.reward(*named, value).status != "repeated":
        record.problems.append(f"{named}: a duplicate counted")


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
def _clients(count: int, port: int, key: str, load: Load) -> Iterator[list[Record]]:
    records = [Record() for _ in range(count)]
    address = f"http://127.0.0.1:{port}"
    threads = [
        threading.Thread(target=_play, args=(number, address, key, record, load))
        for number, record in enumerate(records)
    ]
    for thread in threads:
        thread.start()
    try:
        yield records
    finally:
        load.stopped.set()
        for thread in threads:
            thread.join(120)


def killed_often(
    folder: Path,
    *,
    kills: int,
    clients: int,
    answers: int,
    seed: int = 0,
    hooks: Sequence[tuple[str, str]] = (),
    enough: Callable[[dict[str, int]], bool] = lambda _: False,
) -> Outcome:
    """Kill the service; return what differs from what clients were told.

    Every second kill is at one of the hooks, in turn, if there are any; the others are at random,
    with ``answers`` between two kills, in the mean. ``enough`` is asked after each whether to end.
    """
    rng, load, at = random.Random(seed), Load(), Counter[str]()
    db, port, shim = folder / "killed.db", _free_port(), compiled(folder) if hooks else None
    with running(db, port=port) as first:
        key = first.key
        for n in range(kills + 1):
            first.post("/v1/spaces", {"name": f"space-{n}", "dim": DIM})
    turns = iter(_turns(hooks, kills))
    with ExitStack() as stack:
        records: list[Record] = []
        for kill in range(kills + 1):
            hook = next(turns, None)
            environment = _environment(hook, rng, shim)
            with running(db, key=key, port=port, environment=environment) as service:
                load.space = f"space-{kill}"
                if kill == 0:
                    records = stack.enter_context(_clients(clients, port, key, load))
                if kill < kills and not enough(dict(at)):
                    at[_ended(service, hook, records, rng, answers)] += 1
                    continue
                _wait_for(records, answers)
                stack.close()  # all clients get their last answers
                break
    return _compared(db, dict(at), records)


def _turns(hooks: Sequence[tuple[str, str]], kills: int) -> list[tuple[str, str] | None]:
    """Return where each kill is: at a hook, or None for at random."""
    if not hooks:
        return [None] * kills
    return [hooks[n // 2 % len(hooks)] if n % 2 == 0 else None for n in range(kills)]


def _environment(
    hook: tuple[str, str] | None, rng: random.Random, shim: Path | None
) -> dict[str, str]:
    if hook is None:
        return {}
    nth = rng.randint(1, POINTS[hook[0]])
    return {"LD_PRELOAD": str(shim), "FAULTS_KILL": f"{hook[0]}:{hook[1]}:{nth}"}


def _ended(
    service: Running,
    hook: tuple[str, str] | None,
    records: list[Record],
    rng: random.Random,
    answers: int,
) -> str:
    """Wait until the service has ended itself, or end it; return where that was."""
    if hook is not None:
        try:
            assert service.process.wait(PATIENCE) == -SIGKILL
            return f"{hook[1]} {hook[0]}"
        except subprocess.TimeoutExpired:
            pass
    else:
        _wait_for(records, rng.randrange(2 * answers))
        time.sleep(rng.uniform(0, 0.02))
    service.stop(SIGKILL)
    return "at random"


def _compared(db: Path, at: dict[str, int], records: list[Record]) -> Outcome:
    wrong = [problem for record in records for problem in record.problems]
    told = {name: answer for record in records for name, answer in record.decisions.items()}
    rewarded = {name: value for record in records for name, value in record.rewards.items()}
    with Engine.open(db) as engine:
        engine.settle()
        logged = {
            (space.name, one.decision.id): one
            for space in engine.spaces()
            for one in space.decisions()
        }
        for named, answer in told.items():
            if named not in logged:
                wrong.append(f"{named}: answered, and not in the log")
            elif (logged[named].decision.arm, logged[named].decision.probability) != answer:
                wrong.append(f"{named}: the log has another answer")
        for named, value in rewarded.items():
            given = [one.value for one in logged[named].rewards] if named in logged else []
            if given != [value]:
                wrong.append(f"{named}: rewards {given} in the log, {value} was answered")
        wrong += _miscounted(engine)
        verified = engine.verify()  # numbers without gaps, too
        if not verified.ok:
            wrong.append(str(verified))
    return Outcome(
        kills=sum(at.values()),
        at=at,
        decisions=len(told),
        rewards=len(rewarded),
        recomputed=verified.decisions,
        wrong=wrong,
    )


def _miscounted(engine: Engine) -> list[str]:
    """Return spaces that have not learned each reward of their log once."""
    found = []
    for space in engine.spaces():
        refs = [event.ref for event in space.events(kinds=["reward"])]
        if not len(refs) == len(set(refs)) == space.policy().rewards:
            found.append(f"{space.name}: {len(refs)} rewards, {space.policy().rewards} learned")
    return found


def main() -> None:
    """Run the long version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--answers", type=int, default=200, help="between two kills, in the mean")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    stopped = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stopped.set())  # compare what there is

    def enough(at: dict[str, int]) -> bool:
        print(f"{sum(at.values())} kills: {at}", flush=True)
        return stopped.is_set()

    with tempfile.TemporaryDirectory() as folder:
        found = killed_often(
            Path(folder),
            kills=given.kills,
            clients=given.clients,
            answers=given.answers,
            seed=given.seed,
            hooks=HOOKS,
            enough=enough,
        )
    print(found)
    if found.wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
