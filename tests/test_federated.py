"""Federated fits: the basis of one place, and nothing but sums leaves a node."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError, MissingExtraError
from cobandits.estimators import AltGDMin
from cobandits.federated import (
    Answer,
    Ask,
    FederatedAltGDMin,
    Node,
    Privacy,
    noise_multiplier,
)
from cobandits.federated.messages import decoded_answer, decoded_ask, encoded
from cobandits.linalg import orthonormal, subspace_distance
from cobandits.tasks import TaskRows
from tests.sharding import between, shards
from tests.support import drawn
from tests.wire import messages, remote

D, R = 8, 2


def problem(T: int = 24, noise: float = 0.1) -> TaskRows:
    return drawn(d=D, T=T, r=R, n=12, noise=noise).tasks


def basis() -> NDArray[np.floating]:
    return orthonormal(np.random.default_rng(0).standard_normal((D, R)))


def test_the_basis_is_that_of_the_paper_s_estimator_in_one_place() -> None:
    tasks = problem()
    server = FederatedAltGDMin(rank=R, dim=D, tolerance=1e-9, iterations=3000)
    nodes = [Node(part, rank=R) for part in shards(tasks, 4, empty=False)]
    found = server.fit([node.answer for node in nodes])
    assert found.status.outcome == "converged"
    expected = AltGDMin(rank=R, tolerance=1e-14).fit(tasks)
    assert subspace_distance(found.basis, expected.basis) <= 1e-5
    whole = server.fit([Node(tasks, rank=R).answer])
    assert subspace_distance(found.basis, whole.basis) <= 1e-9
    own = nodes[1].estimate(found.basis)
    np.testing.assert_allclose(own.theta, expected.theta_of(own.labels), atol=1e-4)


def test_a_single_task_could_be_told_from_its_sums_so_it_is_refused() -> None:
    """With one task the (r, r) matrix is n w w', and theta is B w."""
    tasks = between(problem(), 0, 1)
    fit = tasks.least_squares(basis())
    assert np.linalg.matrix_rank(fit.gradient) == 1
    values, vectors = np.linalg.eigh(fit.weighted)
    told = basis() @ vectors[:, -1] * np.sqrt(values[-1] / tasks.n_rows)
    theta = (basis() @ fit.weights)[:, 0]
    assert min(np.linalg.norm(told - theta), np.linalg.norm(told + theta)) <= 1e-12
    for T in (1, R):
        with pytest.raises(DataError, match=f"at least rank \\+ 1 = {R + 1} tasks .* got {T}"):
            Node(between(problem(), 0, T), rank=R)
    Node(between(problem(), 0, R + 1), rank=R)


def test_a_node_answers_for_its_own_rank_only() -> None:
    node = Node(problem(), rank=R)
    for wrong in (np.eye(D)[:, :1], np.eye(D), np.full((D, R), np.nan)):
        with pytest.raises(DataError, match="answers for a finite basis"):
            node.answer(Ask("step", wrong))


def test_the_server_refuses_what_would_spoil_the_basis() -> None:
    server = FederatedAltGDMin(rank=R, dim=D)
    wrong = Answer(np.full((D, R), np.inf), np.eye(R))
    with pytest.raises(DataError, match="not finite"):
        server.fit([lambda _: wrong])
    with pytest.raises(DataError, match="expected sums of shapes"):
        server.fit([lambda _: Answer(np.eye(D), np.eye(R))])
    with pytest.raises(DataError, match="no nodes"):
        server.fit([])
    still = Answer(np.eye(D)[:, :R], np.zeros((R, R)))
    assert server.fit([lambda _: still]).status.outcome == "refused"


@pytest.mark.parametrize(
    "wrong", [{"rank": 0}, {"rank": 9}, {"step": 0.0}, {"iterations": -1}, {"start_iterations": 0}]
)
def test_settings_that_cannot_be_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="got"):
        FederatedAltGDMin(**{"rank": R, "dim": D, **wrong})


# ---- differential privacy


@pytest.mark.parametrize("kind", ["start", "step"])
@pytest.mark.parametrize("size", [0.1, 1.0, 1e6])
def test_a_task_more_moves_the_sums_by_the_clip_at_most(kind: str, size: float) -> None:
    """Without noise, so that what it hides can be seen; the added task is of any size."""
    tasks = problem()
    more = problem()
    more.add(
        size * np.random.default_rng(3).standard_normal((5, D)), size * np.ones(5), ["new"] * 5
    )
    exact = Privacy(clip=0.5, noise_multiplier=1e-15)
    ask = Ask("start" if kind == "start" else "step", basis())
    with_it, without = (
        Node(one, rank=R, privacy=exact, rng=0).answer(ask) for one in (more, tasks)
    )
    gradient, weighted = (a - b for a, b in zip(with_it, without, strict=True))
    moved = np.hypot(np.linalg.norm(gradient), 0.1 * np.linalg.norm(weighted))
    assert 1e-6 < moved <= 0.5 * (1 + 1e-9)


def test_the_noise_is_as_large_as_it_says() -> None:
    node = Node(problem(), rank=R, privacy=Privacy(clip=2.0, noise_multiplier=3.0), rng=1)
    answers = [node.answer(Ask("step", basis())).gradient for _ in range(200)]
    spread = np.std(answers, axis=0)  # of 16 entries, each from 200 draws
    np.testing.assert_allclose(spread, 6.0, rtol=0.25)


def test_a_private_fit_of_many_tasks_finds_the_basis() -> None:
    """Little noise and many tasks: what docs/federated.md shows for real budgets."""
    held = drawn(d=D, T=600, r=R, n=12, noise=0.1)
    privacy = Privacy(clip=0.5, noise_multiplier=1.0)
    nodes = [
        Node(part, rank=R, privacy=privacy, rng=k)
        for k, part in enumerate(shards(held.tasks, 2, empty=False))
    ]
    server = FederatedAltGDMin(rank=R, dim=D, iterations=20, start_iterations=3, tolerance=0)
    assert server.releases == 23
    found = server.fit([node.answer for node in nodes])
    assert subspace_distance(found.basis, held.basis) <= 0.2
    assert subspace_distance(basis(), held.basis) > 0.6


def test_budgets_that_cannot_be_are_refused_and_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigurationError, match="epsilon above 0"):
        noise_multiplier(0.0, 1e-5, 10)
    with pytest.raises(ConfigurationError, match="clip must be above 0"):
        Privacy(clip=0.0, noise_multiplier=1.0)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match="privacy"):
        noise_multiplier(1.0, 1e-5, 10)


# ---- messages


def test_messages_are_as_large_as_their_arrays() -> None:
    ask = Ask("start", basis())
    answer = Node(problem(), rank=R).answer(ask)
    assert len(encoded(ask)) <= 8 * D * R + 300
    assert len(encoded(answer)) <= 8 * (D * R + R * R) + 300
    assert decoded_ask(encoded(ask)).kind == "start"
    for sent, got in zip(answer, decoded_answer(encoded(answer)), strict=True):
        np.testing.assert_array_equal(sent, got)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_refused(content: bytes) -> None:
    with pytest.raises(DataError):
        decoded_ask(content)
    with pytest.raises(DataError):
        decoded_answer(content)


def test_messages_of_other_shapes_are_refused() -> None:
    answer = encoded(Answer(np.zeros((D, R)), np.eye(R)))
    with pytest.raises(DataError, match="an ask has"):
        decoded_ask(answer)
    with pytest.raises(DataError, match="an answer has"):
        decoded_answer(encoded(Answer(np.zeros((D, R)), np.eye(3))))


# ---- the wire


@pytest.mark.parametrize("namespace", [True, False])
def test_nothing_but_bases_and_sums_is_on_the_wire(tmp_path: Path, namespace: bool) -> None:
    """Every byte between the server and a node belongs to an ask or an answer."""
    tasks = problem()
    path = tmp_path / "rows.npz"
    np.savez(path, rows=tasks.rows, rewards=tasks.rewards, tasks=tasks.owners)
    server = FederatedAltGDMin(rank=R, dim=D, iterations=20, tolerance=0)
    with remote(path, R, namespace=namespace) as node:
        found = server.fit([node.answer])
        _settle(node.back, server.releases)
        asks = [decoded_ask(one) for one in messages(node.to)]
        answers = [decoded_answer(one) for one in messages(node.back)]
        passed = bytes(node.to + node.back)
    assert len(asks) == len(answers) == server.releases == 30
    assert {ask.basis.shape for ask in asks} == {(D, R)}
    assert {answer.gradient.shape for answer in answers} == {(D, R)}
    assert found.basis.tobytes() == server.fit([Node(tasks, rank=R).answer]).basis.tobytes()
    assert asks[3].basis[0, 0].tobytes() in passed  # what is looked for would be found
    secret = [
        *tasks.rows.ravel(),
        *tasks.rewards,
        *tasks.least_squares(found.basis).weights.ravel(),
    ]
    assert not any(np.float64(number).tobytes() in passed for number in secret)


def _settle(back: bytearray, n: int) -> None:
    """Wait until the reader of the link has seen all answers."""
    size = len(encoded(Answer(np.zeros((D, R)), np.eye(R)))) + 4
    until = time.monotonic() + 20
    while len(back) < n * size and time.monotonic() < until:
        time.sleep(0.05)
