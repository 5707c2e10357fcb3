"""When epochs end."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.errors import ConfigurationError
from cobandits.policies.schedules import (
    EqualEpochs,
    GrowingEpochs,
    OneEpoch,
    PaperGrid,
    Schedule,
    named,
)


def ends(schedule: Schedule, most: int) -> list[int]:
    """Return all ends up to ``most`` rounds, one after the other."""
    found: list[int] = []
    while (end := schedule.next_end(found[-1] if found else 0)) is not None and end <= most:
        found.append(end)
    return found


@given(st.integers(1, 500), st.integers(1, 500))
def test_equal_epochs_differ_by_at_most_a_round(rounds: int, epochs: int) -> None:
    if epochs > rounds:
        with pytest.raises(ConfigurationError, match="epochs must be from 1 to rounds"):
            EqualEpochs(epochs=epochs, rounds=rounds)
        return
    found = ends(EqualEpochs(epochs=epochs, rounds=rounds), rounds)
    lengths = [b - a for a, b in itertools.pairwise([0, *found])]
    assert len(found) == epochs
    assert found[-1] == rounds
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 100_000))
def test_the_grid_is_that_of_algorithm_1(N: int) -> None:
    found = ends(PaperGrid(rounds=N), N)
    assert found[-1] == N
    assert found == sorted(set(found))
    if N >= 5:
        M = math.ceil(math.log2(math.log2(N)))
        grid = [N ** (1 - 2**-m) for m in range(1, M)] + [N]
        assert len(found) == M
        assert all(abs(a - b) <= 0.5 for a, b in zip(found, grid, strict=True))


@given(st.integers(1, 20), st.floats(1.01, 4))
def test_growing_epochs_grow_and_never_stop(first: int, factor: float) -> None:
    found = ends(GrowingEpochs(first=first, factor=factor), 5000)
    assert found[0] == first
    for before, after in itertools.pairwise(found):
        assert after > before
        assert after <= max(before + 1, math.ceil(before * factor))


def test_next_end_does_not_depend_on_how_one_came_there() -> None:
    for schedule in (GrowingEpochs(), PaperGrid(rounds=300), EqualEpochs(epochs=7, rounds=300)):
        all_ends = ends(schedule, 300)
        for n in range(300):
            assert schedule.next_end(n) == next(
                end for end in [*all_ends, schedule.next_end(300)] if end is None or end > n
            )


def test_names() -> None:
    assert named("equal-5", 100) == EqualEpochs(epochs=5, rounds=100)
    assert named("first-4", 200) == OneEpoch(rounds=50)
    assert named("grid", 100) == PaperGrid(rounds=100)
    assert named("growing", 100) == GrowingEpochs()
    for text in ("equal", "equal-0", "equal-x", "weekly", ""):
        with pytest.raises(ConfigurationError, match="choose from equal-M"):
            named(text, 100)
    with pytest.raises(ConfigurationError, match="from 1 to rounds = 3"):
        named("equal-5", 3)


def test_the_old_place_of_schedules_still_works_and_says_so() -> None:
    from cobandits import schedules

    with pytest.warns(DeprecationWarning, match=r"from cobandits\.policies\.schedules"):
        assert schedules.EqualEpochs is EqualEpochs
    with pytest.raises(AttributeError):
        _ = schedules.nothing
