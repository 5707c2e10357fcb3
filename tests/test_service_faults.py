"""Faults under a real service, over HTTP: nothing that was answered is lost, and answers are clear.

The disk is slow, the clock jumps back, by `faults.c`; the disk is full, by a small file system; two
services want one database.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cobandits.client import Client
from cobandits.engine import Engine
from tests.faults import compiled, needs_faults
from tests.service import Answer, Running, running

SPACE = {"name": "s", "dim": 2, "window": "1h"}


def asked(rng: random.Random, name: str) -> dict[str, Any]:
    arms = [{"id": arm, "features": [rng.gauss(0, 1), 1.0]} for arm in "ab"]
    return {"task": "t", "arms": arms, "id": name}


def decided(service: Running, rng: random.Random, name: str) -> dict[str, Any]:
    answer = service.post("/v1/spaces/s/decisions", asked(rng, name))
    assert answer.status == 201, answer
    return dict(answer.json)


def check_kept(db: Path, made: list[dict[str, Any]], rewards: int) -> None:
    """All that was answered is in the log as it was answered, and is made again the same."""
    with Engine.open(db) as engine:
        engine.settle()
        space = engine.space("s")
        kept = {one.decision.id: one.decision for one in space.decisions()}
        for one in made:
            assert (kept[one["id"]].arm, kept[one["id"]].probability) == (
                one["arm"],
                one["probability"],
            )
        assert space.policy().rewards == rewards
        assert engine.verify().ok


# ---- A slow disk


@needs_faults
def test_a_slow_disk_makes_answers_late_and_nothing_else(tmp_path: Path) -> None:
    """An fsync takes 200 ms: what waits is written together, so all have their answers soon."""
    slow = {"LD_PRELOAD": str(compiled(tmp_path)), "FAULTS_FSYNC_MS": "200"}
    db, made, lock = tmp_path / "a.db", list[dict[str, Any]](), threading.Lock()
    with running(db, environment=slow) as service:
        assert service.post("/v1/spaces", SPACE).status == 201

        def client(number: int) -> None:
            rng = random.Random(number)
            for n in range(3):
                one = decided(service, rng, f"{number}-{n}")
                reward = service.post(f"/v1/spaces/s/decisions/{one['id']}/rewards", {"value": 1})
                assert reward.json["status"] == "accepted"
                with lock:
                    made.append(one)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        events = service.get("/v1/spaces/s/log").body.splitlines()
        groups = {json.loads(line)["at"] for line in events}
        assert len(made) == 48
        assert len(groups) < len(events) / 2  # written together
    check_kept(db, made, rewards=48)


# ---- A full disk


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    if (
        sys.platform != "linux"
        or subprocess.run(mounted, check=False, capture_output=True).returncode
    ):
        pytest.skip("a small file system cannot be mounted here: that needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_told_and_then_it_goes_on(tmp_path: Path) -> None:
    rng, made = random.Random(0), list[dict[str, Any]]()
    with small_disk(tmp_path, 4) as folder, running(folder / "a.db") as service:
        assert service.post("/v1/spaces", SPACE).status == 201
        for turn in range(3):
            ballast = folder / "ballast"
            ballast.write_bytes(bytes(max(0, shutil.disk_usage(folder).free - 50_000)))
            body, answer = filled(service, rng, f"{turn}", made)
            assert answer.kind == "disk-full"
            assert "make room" in answer.json["detail"]
            assert int(answer.headers["retry-after"]) >= 1
            assert service.get("/readyz").kind == "not-ready"
            ballast.unlink()
            again = service.post("/v1/spaces/s/decisions", body)  # the same, with room
            assert again.status == 201
            made.append(again.json)
        service.stop()
        check_kept(folder / "a.db", made, rewards=0)


def filled(
    service: Running, rng: random.Random, turn: str, made: list[dict[str, Any]]
) -> tuple[dict[str, Any], Answer]:
    """Decide until that is refused; return the request and the refusal."""
    for n in range(2000):
        body = asked(rng, f"{turn}-{n}")
        answer = service.post("/v1/spaces/s/decisions", body)
        if answer.status != 201:
            return body, answer
        made.append(answer.json)
    raise AssertionError("the disk was never full")


# ---- A clock that is set back


@needs_faults
def test_a_clock_that_is_set_back_an_hour(tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_bytes(struct.pack("d", 0.0))
    other = {"LD_PRELOAD": str(compiled(tmp_path)), "FAULTS_CLOCK": str(clock)}
    rng, db = random.Random(0), tmp_path / "a.db"
    with running(db, environment=other) as service:
        assert service.post("/v1/spaces", SPACE).status == 201
        made = [decided(service, rng, f"before-{n}") for n in range(3)]
        set_clock(clock, -3600.0)
        made += [decided(service, rng, f"back-{n}") for n in range(3)]
        times = [datetime.fromisoformat(one["at"]) for one in made]
        assert times == sorted(times)  # the log's time stands still until the clock is there again
        for one in made:
            path = f"/v1/spaces/s/decisions/{one['id']}/rewards"
            assert service.post(path, {"value": 1}).json["status"] == "accepted"
        set_clock(clock, 7200.0)  # and two hours on: windows are over
        late = service.post(f"/v1/spaces/s/decisions/{made[0]['id']}/rewards", {"value": 2})
        assert late.kind == "conflict"
        made.append(decided(service, rng, "after"))
        assert datetime.fromisoformat(made[-1]["at"]) > times[-1]
        assert service.get("/v1/spaces", key="wrong").kind == "unauthorised"
        service.stop()
    check_kept(db, made, rewards=6)


def set_clock(path: Path, seconds: float) -> None:
    with path.open("r+b") as file:  # in place: it is mapped
        file.write(struct.pack("d", seconds))


# ---- Two services on one database


def test_a_second_service_is_told_and_the_first_goes_on(tmp_path: Path) -> None:
    rng, db = random.Random(0), tmp_path / "a.db"
    with running(db) as service:
        assert service.post("/v1/spaces", SPACE).status == 201
        made = [decided(service, rng, "one")]
        command = [sys.executable, "-m", "cobandits", "serve", "--db", str(db), "--port", "0"]
        second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert second.returncode != 0
        assert "another process" in second.stderr + second.stdout
        assert "Traceback" not in second.stderr
        made.append(decided(service, rng, "two"))
        with Client(service.address, service.key) as client:
            assert client.reward("s", "one", 1.0).status == "accepted"
        service.stop()
    check_kept(db, made, rewards=1)
