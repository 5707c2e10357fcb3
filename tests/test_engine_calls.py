"""Threads that wait for answers: each gets its own, and nobody is left asleep."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from cobandits.engine.calls import Call, PlainCall, answer_all, answer_plain
from cobandits.engine.messages import Activate, Activated

Calls = tuple[type[Any], Callable[[list[Any], list[Any], int], None]]

KINDS = [(Call, answer_all), (PlainCall, answer_plain)]  # the first is compiled, where it is built
KIND = pytest.mark.parametrize("kind", KINDS, ids=["used", "plain"])


def waiting(calls: list[Any], found: dict[int, object]) -> list[threading.Thread]:
    """Start a thread per call that waits for it."""

    def wait(n: int) -> None:
        found[n] = calls[n].wait()

    threads = [threading.Thread(target=wait, args=(n,), daemon=True) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    return threads


@KIND
@pytest.mark.parametrize("width", [1, 4, 100])
def test_each_thread_gets_its_answer(kind: Calls, width: int) -> None:
    made, answer = kind
    calls = [made(1, n) for n in range(64)]
    found: dict[int, object] = {}
    threads = waiting(calls, found)
    answer(calls, [10 * call.request for call in calls], width)
    for thread in threads:
        thread.join(10)
    assert found == {n: 10 * n for n in range(64)}


@KIND
def test_threads_that_never_wait_hold_up_nobody(kind: Calls) -> None:
    made, answer = kind
    calls = [made(1, n) for n in range(9)]
    found: dict[int, object] = {}
    threads = waiting(calls[6:], found)
    time.sleep(0.05)  # they wait
    answer(calls, list(range(9)), 1)
    for thread in threads:
        thread.join(10)
    assert found == {0: 6, 1: 7, 2: 8}
    assert calls[0].wait() == 0  # came late


@KIND
@pytest.mark.parametrize("first", [True, False], ids=["interrupted first", "answered first"])
def test_an_interrupted_caller_wakes_the_next(kind: Calls, first: bool) -> None:
    made, answer = kind
    calls = [made(1, n) for n in range(3)]
    found: dict[int, object] = {}
    threads = waiting(calls[1:], found)

    def interrupted(*_: object) -> None:
        if not first:
            answer(calls, [5, 6, 7], 1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            calls[0].wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    if first:
        answer(calls, [5, 6, 7], 1)
    for thread in threads:
        thread.join(10)
    assert found == {0: 6, 1: 7}


@KIND
def test_a_signal_that_raises_nothing_is_waited_through(kind: Calls) -> None:
    made, _ = kind
    call = made(1, "asked")
    before = signal.signal(signal.SIGALRM, lambda *_: call.answer("told"))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        assert call.wait() == "told"
    finally:
        signal.signal(signal.SIGALRM, before)


@KIND
def test_a_call_is_answered_once(kind: Calls) -> None:
    made, _ = kind
    call = made(1, "asked")
    call.answer("told")
    with pytest.raises(RuntimeError):
        call.answer("told again")


@KIND
def test_only_as_many_results_as_calls(kind: Calls) -> None:
    made, answer = kind
    with pytest.raises(ValueError, match=r"result|shorter"):
        answer([made(1, 0), made(1, 1)], [0], 1)


@pytest.mark.skipif(Call is PlainCall, reason="the hand-over is compiled")
def test_all_calls_are_answered_or_none() -> None:
    calls = [Call(1, Activate(decision="d")) for _ in range(3)]
    first, *others = [Activated(status="late", decision=name, expires=None) for name in "abc"]
    calls[2].answer(first)
    with pytest.raises(RuntimeError, match="before"):
        answer_all(calls, [*others, first], 1)
    answer_all(calls[:2], [*others], 1)
    assert [call.wait() for call in calls] == [*others, first]
