"""Linear algebra has one thread where that is faster, and as many as before elsewhere."""

from __future__ import annotations

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


def test_no_thread_waits_for_another_one_that_limits() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with one_thread():
            inside.set()
            leave.wait(60)

    with threadpoolctl.threadpool_limits(2):
        thread = threading.Thread(target=other)
        with one_thread():
            thread.start()
            assert inside.wait(60)
        assert threads_here() == 2  # whoever limits them is done
        leave.set()
        thread.join()
        assert threads_here() == 2


def test_a_refit_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user has set: with two a play takes 1.5 times as long, on idle cores."""
    found: set[int | None] = set()
    where = "cobandits.policies.shared.transitions.refitted"
    monkeypatch.setattr(where, partial(noting, found, refitted))
    with threadpoolctl.threadpool_limits(2):
        simulate(Shared(dim=6), Synthetic(dim=6, n_tasks=9, rank=2), 20, seed=0)
        assert threads_here() == 2
    assert found == {1}
