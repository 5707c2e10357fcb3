"""Callers are woken one after the other, and none is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from cobandits.engine import Decide, Decision, Engine, Rewarded
from cobandits.engine.jobs import Job
from cobandits.engine.turnstile import PATIENCE, Turnstile

ARMS = [{"features": [1.0, 0.0]}, {"features": [0.0, 1.0]}]


def locked(count: int) -> list[threading.Lock]:
    locks = [threading.Lock() for _ in range(count)]
    for lock in locks:
        lock.acquire()
    return locks


def woken(locks: list[threading.Lock]) -> list[bool]:
    return [not lock.locked() for lock in locks]


def test_a_step_wakes_the_next_and_no_other() -> None:
    turnstile, callers = Turnstile(), locked(3)
    for one in callers:
        turnstile.add(one)
    turnstile.step()
    assert woken(callers) == [True, False, False]
    turnstile.step()
    assert woken(callers) == [True, True, False]
    turnstile.step()
    turnstile.step()  # nobody is left
    assert woken(callers) == [True, True, True]
    assert not turnstile


def test_all_are_woken_when_one_does_not_wake_the_next() -> None:
    now = 7.0
    turnstile, callers = Turnstile(clock=lambda: now), locked(4)
    for one in callers:
        turnstile.add(one)
    turnstile.step()
    now += 0.9 * PATIENCE
    turnstile.hurry()  # it is not late yet
    assert woken(callers) == [True, False, False, False]
    now += 0.2 * PATIENCE
    turnstile.hurry()
    assert all(woken(callers))


def in_threads(actions: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=action) for action in actions]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
        assert not one.is_alive()


def test_every_caller_of_a_group_gets_its_own_answer(tmp_path: Path) -> None:
    found: dict[int, list[tuple[Decision, Rewarded]]] = {n: [] for n in range(40)}
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("menu", dim=2)

        def caller(number: int) -> None:
            for _ in range(10):
                made = space.decide(f"task {number}", arms=ARMS)
                found[number].append((made, space.reward(made.id, float(number))))

        in_threads([lambda n=n: caller(n) for n in found])  # type: ignore[misc]
    for number, pairs in found.items():
        assert len(pairs) == 10
        assert {made.task for made, _ in pairs} == {f"task {number}"}
        assert all(got.decision == made.id and got.value == number for made, got in pairs)


def test_callers_go_on_when_one_of_them_never_wakes(tmp_path: Path) -> None:
    """An interrupt can end a caller's wait; whoever is behind it is woken all the same."""
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("menu", dim=2)
        asked = [space._prepared([Decide(task=f"task {n}", arms=ARMS)]) for n in range(5)]
        jobs = [Job(space._fold.number, one) for one in asked]

        def put_together() -> None:  # in the engine's thread, so that they are one group
            for job in jobs:
                space._writer.put(job)

        space._writer.call(put_together)
        (last,) = jobs[-1].wait()  # nobody waits for the first, who would wake the next
        assert isinstance(last, Decision)
        assert last.task == "task 4"
