"""Two workers against one: both pass over the same rows, and are compared pair by pair."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from multiprocessing import Pipe

import numpy as np
import pytest

from benchmarks import cluster_speed
from benchmarks.cluster_faults import DIM, RANK
from benchmarks.cluster_speed import Made, Pass, SpeedUp
from cobandits.cluster.local import LocalNodes
from cobandits.tasks import SpreadTasks


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cluster_speed, "BLOCK", 20)
    cluster_speed._drawn.cache_clear()
    yield
    cluster_speed._drawn.cache_clear()


def test_a_ratio_is_the_median_over_pairs() -> None:
    slow, odd = Pass(4.0, 3.0), Pass(40.0, 3.0)  # what disturbs a pair counts once
    found = SpeedUp.of([(slow, Pass(2.0, 1.5)), (slow, Pass(2.5, 1.5)), (odd, Pass(2.0, 1.5))])
    assert found.seconds == 4.0
    assert found.ratio == 2.0
    assert found.quartiles == (1.8, 11.0)
    assert found.work == 2.0


def test_one_worker_passes_over_the_rows_of_two() -> None:
    B = np.eye(DIM)[:, :RANK]
    one = SpreadTasks.on(LocalNodes([Made((0, 1, 2, 3))]))
    two = SpreadTasks.on(LocalNodes([Made((0, 1)), Made((2, 3))]))
    assert one.n_tasks == two.n_tasks == 80
    assert one.labels == two.labels
    gradients = [tasks.least_squares(B).gradient for tasks in (one, two)]
    difference = np.linalg.norm(gradients[0] - gradients[1])
    assert difference <= 1e-12 * np.linalg.norm(gradients[0])


def test_one_and_two_are_measured_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_speed, "PAIRS", 2)
    order: list[int] = []

    def noted(number: int) -> Pass:
        order.append(number)
        return Pass(2.0 / number, 2.0 / number)

    found = cluster_speed.in_turn(lambda: noted(1), lambda: noted(2))
    assert order == [1, 2] * 3  # the first pair warms up
    assert found == SpeedUp(2.0, 2.0, (2.0, 2.0), 2.0)


def test_a_plain_process_passes_over_what_it_is_asked_for() -> None:
    here, there = Pipe()
    thread = threading.Thread(target=cluster_speed._serve, args=(there,))
    thread.start()
    try:
        found = cluster_speed._asked({here: [0, 1]})
    finally:
        here.send(None)
        thread.join()
    assert found.work > 0
    assert found.seconds > 0
    assert cluster_speed._drawn.cache_info().currsize == 2
