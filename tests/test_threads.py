"""Linear algebra has one thread where that is faster, and as many as before elsewhere."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial

import pytest
import threadpoolctl

from cobandits import Shared
from cobandits.environments import Synthetic
from cobandits.policies.shared.refitting import refitted
from cobandits.simulate import simulate
from cobandits.threads import one_thread, threads_here


def noting(found: set[int | None], called: Callable[..., object], *args: object) -> object:
    """Call a function, and note how many threads it has."""
    found.add(threads_here())
    return called(*args)


def test_a_limit_leaves_things_as_they_were() -> None:
    with threadpoolctl.threadpool_limits(2):
        with one_thread(), one_thread():
            assert threads_here() == 1
        assert threads_here() == 2
        with pytest.raises(KeyError), one_thread(), one_thread():
            raise KeyError
        assert threads_here() == 2


TURNS = """
import threading, time
import numpy
from cobandits.threads import one_thread, threads_here

found = [threads_here()]

def limited():
    for _ in range(20):
        with one_thread():
            time.sleep(0.001)
            found.append(threads_here())

threads = [threading.Thread(target=limited) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*found, threads_here())
"""


def test_threads_that_want_the_limit_take_turns() -> None:
    """None of them loses it because another one is done."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    told = subprocess.run(
        [sys.executable, "-c", TURNS], env=environment, check=True, capture_output=True, text=True
    )
    first, *inside, last = told.stdout.split()
    assert inside == ["1"] * 60
    assert first == last != "1" or os.cpu_count() == 1


def test_a_process_that_is_forked_in_a_limit_has_a_lock_of_its_own() -> None:
    """The thread that limits does not go along."""
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    child = multiprocessing.get_context("fork").Process(target=threads_here)
    child.start()
    child.join(60)
    leave.set()
    thread.join()
    assert child.exitcode == 0


def test_a_refit_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user has set: with two a play takes 1.5 times as long, on idle cores."""
    found: set[int | None] = set()
    where = "cobandits.policies.shared.transitions.refitted"
    monkeypatch.setattr(where, partial(noting, found, refitted))
    with threadpoolctl.threadpool_limits(2):
        simulate(Shared(dim=6), Synthetic(dim=6, n_tasks=9, rank=2), 20, seed=0)
        assert threads_here() == 2
    assert found == {1}
