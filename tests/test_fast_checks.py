"""What every request needs: compiled or not, the same as loops over single numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from cobandits import fast_checks
from cobandits.decisions import (
    LARGEST_VALUE,
    Decisions,
    check_rewards,
    check_shape,
    check_tasks,
    check_values,
)
from cobandits.errors import DataError
from cobandits.fast_checks import add_errors, are_at_most, are_codes, take_rows, take_vectors

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Change = Callable[[Floats], Floats]

WAYS = [pytest.param(True, id="compiled"), pytest.param(False, id="numpy")]
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not fast_checks.COMPILED:
        pytest.skip("the compiled checks are not built here")
    monkeypatch.setattr(fast_checks, "COMPILED", request.param)
    return bool(request.param)


def strided(values: Floats) -> Floats:
    """Return the same values with gaps between them."""
    wide = np.repeat(values, 2, axis=-1)
    wide[..., 1::2] = np.nan
    return np.asarray(wide[..., ::2])


def turned(values: Floats) -> Floats:
    """Return the same values in another order in memory."""
    return np.asfortranarray(values)


def halved(values: Floats) -> Floats:
    return values.astype(np.float32)


def as_is(values: Floats) -> Floats:
    return values


LAYOUTS: dict[str, Change] = {
    "plain": as_is,
    "strided": strided,
    "turned": turned,
    "float32": halved,
    "float32 strided": lambda values: strided(halved(values)),
}


# ---- sizes of values


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2.5, -2.5])
def test_a_wrong_value_is_found_wherever_it_is(
    way: bool, layout: str, length: int, wrong: float
) -> None:
    fine = np.linspace(-2, 2, length).reshape(1, 1, length)  # both limits are fine
    assert are_at_most(LAYOUTS[layout](fine), 2.0)
    for place in range(length):
        spoilt = fine.copy()
        spoilt[0, 0, place] = wrong
        assert not are_at_most(LAYOUTS[layout](spoilt), 2.0)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_no_limit_is_too_large_to_notice_what_is_no_number(
    way: bool, layout: str, wrong: float
) -> None:
    """Also a limit that a float32 cannot hold."""
    largest = np.full((2, 3, 5), 3e38)
    assert are_at_most(LAYOUTS[layout](largest), LARGEST_VALUE)
    largest[1, 2, 4] = wrong
    assert not are_at_most(LAYOUTS[layout](largest), LARGEST_VALUE)


@pytest.mark.parametrize("shape", [(0,), (0, 3, 5), (2, 3, 0)])
def test_of_no_values_all_are_small(way: bool, shape: tuple[int, ...]) -> None:
    assert are_at_most(np.zeros(shape), 0.0) is True


@given(st.lists(st.floats(width=64), max_size=20), st.floats(0, 1e300))
def test_both_ways_agree_on_any_numbers(values: list[float], most: float) -> None:
    expected = all(abs(value) <= most for value in values)
    before = fast_checks.COMPILED
    for compiled in {before, False}:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fast_checks, "COMPILED", compiled)
            assert are_at_most(np.array(values), most) is expected


# ---- codes


@pytest.mark.parametrize(
    ("codes", "count", "fine"),
    [
        ([], 0, True),
        ([], 3, True),
        ([0], 0, False),
        ([0, 2, 1, 2], 3, True),
        ([0, 3], 3, False),
        ([3, 0], 3, False),
        ([0, -1, 1], 3, False),
        ([2**62], 3, False),
        ([-(2**63)], 3, False),
        ([2**62], 2**63 - 1, True),
    ],
)
def test_codes_are_from_0_to_below_their_count(
    way: bool, codes: list[int], count: int, fine: bool
) -> None:
    held = np.array(codes, np.int64)
    assert are_codes(held, count) is fine
    gaps = np.repeat(held, 2)
    gaps[1::2] = -7
    assert are_codes(gaps[::2], count) is fine  # others lie between them
    fixed = held.copy()
    fixed.flags.writeable = False
    assert are_codes(fixed, count) is fine


# ---- the rows of chosen arms


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "K", "d"), [(1, 1, 1), (1, 5, 7), (4, 1, 3), (6, 3, 9), (0, 3, 4)])
def test_rows_are_those_of_the_chosen_arms(way: bool, layout: str, m: int, K: int, d: int) -> None:
    rng = np.random.default_rng(0)
    arms = LAYOUTS[layout](rng.standard_normal((m, K, d)))
    chosen = rng.integers(0, K, m)
    rows = take_rows(arms, chosen)
    assert rows.shape == (m, d)
    assert rows.dtype == arms.dtype
    for row, offered, k in zip(rows, arms, chosen, strict=True):
        np.testing.assert_array_equal(row, offered[k])
    before = arms.copy()
    rows[:] = 9  # a copy: whoever writes into it does not change the arms
    np.testing.assert_array_equal(arms, before)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.uint64, ">i8"])
def test_choices_of_any_whole_type_and_layout_are_taken(way: bool, kind: str) -> None:
    arms = np.arange(24.0).reshape(4, 3, 2)
    chosen = np.array([2, 0, 1, 2])
    gaps = np.repeat(chosen, 2)
    expected = arms[np.arange(4), chosen]
    for these in (chosen.astype(kind), gaps[::2], gaps.astype(kind)[::2], chosen[::-1][::-1]):
        np.testing.assert_array_equal(take_rows(arms, these), expected)
        decided = Decisions(chosen=these, probabilities=np.ones(4), policy="")
        np.testing.assert_array_equal(decided.features(arms), expected)


# ---- errors of candidates


def slow_errors(sums: Doubles, thetas: Doubles, places: Codes, rows: Doubles) -> Doubles:
    """Return the sums with the squared errors, by loops."""
    found = sums.copy()
    for place, row in zip(places, rows, strict=True):
        for candidate in range(len(sums) if place >= 0 else 0):
            found[candidate] += (row[-1] - sum(thetas[place, candidate] * row[:-1])) ** 2
    return found


@pytest.mark.parametrize("width", LENGTHS)
@pytest.mark.parametrize("m", [0, 1, 6])
def test_errors_of_all_candidates_are_added(way: bool, width: int, m: int) -> None:
    rng = np.random.default_rng(width)
    thetas, rows = rng.standard_normal((3, 4, width)), rng.standard_normal((m, width + 1))
    places, sums = np.array([2, -1, 0, 2, -2, 1])[:m], rng.random(4)
    expected = slow_errors(sums, thetas, places, rows)
    add_errors(sums, thetas, places, rows)
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


def test_rows_with_gaps_between_them_are_compared_too(way: bool) -> None:
    rng = np.random.default_rng(0)
    thetas, rows = rng.standard_normal((3, 4, 5)), rng.standard_normal((6, 2, 6))[:, 1]
    places, sums = np.array([0, 1, 2, -1, 1, 0]), np.zeros(4)
    add_errors(sums, thetas, places, rows)
    np.testing.assert_allclose(sums, slow_errors(np.zeros(4), thetas, places, rows), rtol=1e-12)


def test_where_no_task_has_a_place_nothing_is_added(way: bool) -> None:
    sums = np.ones(4)
    add_errors(sums, np.ones((2, 4, 3)), np.array([-1, -1]), np.ones((2, 4)))
    np.testing.assert_array_equal(sums, 1)


@pytest.mark.skipif(not fast_checks.COMPILED, reason="the compiled checks are not built here")
def test_the_extension_checks_lengths_and_places() -> None:
    sums, thetas, rows = np.zeros(4), np.ones((2, 4, 3)), np.ones((2, 4))
    for place in (2, 2**62):
        with pytest.raises(ValueError, match=f"place {place} of 2"):
            add_errors(sums, thetas, np.array([0, place]), rows)
    with pytest.raises(ValueError, match="thetas holds"):
        add_errors(sums, thetas, np.array([0, 1]), np.ones((2, 6)))
    with pytest.raises(ValueError, match="rows holds"):
        add_errors(sums, thetas, np.array([0, 1, 1]), rows)
    np.testing.assert_array_equal(sums, 0)
    for k in (-1, 3):
        with pytest.raises(ValueError, match=f"arm {k} of 3"):
            take_rows(np.ones((2, 3, 4)), np.array([0, k]))
    with pytest.raises(ValueError, match="arms holds"):
        take_rows(np.ones((2, 3, 4)), np.array([0, 0, 0]))


HUGE = [2**61, 2**61 + 2, 2**62, 2**63 - 1]  # times 8 bytes it is more than can be counted


@pytest.mark.skipif(not fast_checks.COMPILED, reason="the compiled checks are not built here")
@pytest.mark.parametrize(
    ("n_arms", "dim"),
    [*((n, 1) for n in HUGE), *((1, n) for n in HUGE), (2**32, 2**32), (-1, -2), (-2, -1), (2, -1)],
)
@pytest.mark.parametrize("k", [0, 1, 2**40])
def test_the_extension_refuses_sizes_that_are_negative_or_cannot_be_counted(
    n_arms: int, dim: int, k: int
) -> None:
    from cobandits.compiled import _fast_checks

    out, arms = np.zeros(1), np.ones(2)
    with pytest.raises(ValueError, match=r"arms holds 16 bytes|out holds 8 bytes"):
        _fast_checks.take_rows(arms, np.array([k]), out, n_arms, dim)
    assert out[0] == 0


CALLS = {
    "residuals": "_pass.residuals(one, one, ends, one, one, one, n, True)",
    "pull_backs": "_pass.pull_backs(one, one, ends, one, n, 1, True)",
    "least_squares": "_pass.least_squares(*[one] * 2, ends, *[one] * 5, n, 1, True, 1e-9)",
}


@pytest.mark.skipif(not fast_checks.COMPILED, reason="the compiled checks are not built here")
@pytest.mark.parametrize("name", CALLS)
def test_the_pass_refuses_sizes_that_cannot_be_counted(name: str) -> None:
    """In a process of its own, which must not crash: ``8 n`` bytes are 8 in 64 bits."""
    code = f"""
import numpy as np
from cobandits.compiled import _pass
one, ends, n = np.ones(1), np.array([0, 1]), 2**61 + 1
try:
    {CALLS[name]}
except ValueError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n")


@pytest.mark.skipif(not fast_checks.COMPILED, reason="the compiled checks are not built here")
def test_the_extension_counts_whole_numbers_only() -> None:
    """A buffer that is a byte too long or too short is none of doubles."""
    from cobandits.compiled import _fast_checks

    for size in (15, 17):
        with pytest.raises(ValueError, match=f"arms holds {size} bytes"):
            _fast_checks.take_rows(np.zeros(size, np.uint8), np.array([0]), np.zeros(1), 2, 1)


# ---- what is refused of a request, and what is said


def check_arms(arms: Floats, m: int, d: int) -> Floats:
    phi = check_shape(arms, m, d)
    check_values(phi)
    return phi


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_arms_that_are_no_numbers_are_refused(way: bool, layout: str, wrong: float) -> None:
    arms = np.ones((3, 2, 5))
    np.testing.assert_array_equal(check_arms(LAYOUTS[layout](arms), 3, 5), arms)
    arms[2, 1, 4] = wrong
    with pytest.raises(DataError, match="NaN or an infinite value, first in request 2"):
        check_arms(LAYOUTS[layout](arms), 3, 5)


def test_arms_that_cannot_be_squared_are_refused(way: bool) -> None:
    arms = np.full((2, 3, 5), LARGEST_VALUE)
    assert check_arms(arms, 2, 5) is arms  # each can be squared
    arms[1, 0, 2] = -2 * LARGEST_VALUE
    with pytest.raises(DataError, match=r"arms hold 2e\+75, at most 1e\+75"):
        check_arms(arms, 2, 5)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([1.0, 2.0], r"a reward for each of 3 decisions, got \(2,\)"),
        ([[1.0, 2.0, 3.0]], r"got \(1, 3\)"),
        (1.0, r"a reward for each of 3 decisions, got \(\)"),
        (np.float64(1.0), r"got \(\)"),
        ([1.0, np.nan, np.inf], "reward 1 is nan; leave out"),
        ([1.0, 2.0, -np.inf], "reward 2 is -inf"),
        ([1.0, 2.0, -3e75], r"a reward is 3e\+75 in size, at most 1e\+75"),
    ],
)
def test_rewards_that_are_none_are_refused(way: bool, rewards: ArrayLike, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_rewards(rewards, 3)


def test_one_reward_is_a_list_of_one(way: bool) -> None:
    assert check_rewards([2.0], 1).tolist() == [2.0]
    for alone in (2.0, np.float64(2.0), np.array(2.0)):
        with pytest.raises(DataError, match=r"a reward for each of 1 decisions, got \(\)"):
            check_rewards(alone, 1)


def test_rewards_of_any_kind_become_doubles_side_by_side(way: bool) -> None:
    for these in (
        [1, 0, 1],
        [True, False, True],
        np.array([1, 0, 1], np.float32),
        np.array([1.0, 9, 0, 9, 1])[::2],
        np.array([1.0, 0, 1], ">f8"),
    ):
        found = check_rewards(these, 3)
        assert found.dtype == np.float64
        assert found.dtype.isnative
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, [1, 0, 1])
    assert check_rewards([], 0).shape == (0,)


def test_tasks_of_any_whole_type_and_layout_become_codes(way: bool) -> None:
    for these in ([2, 0], np.array([2, 9, 0])[::2], np.array([2, 0], np.uint8), np.array([2, 0])):
        found = check_tasks(these, 3)
        assert found.dtype == np.int64
        assert found.flags.c_contiguous
        assert found.tolist() == [2, 0]
    assert check_tasks([], 3).tolist() == []
    with pytest.raises(DataError, match="task 3, but there are 3"):
        check_tasks(np.array([0, 9, 3])[::2], 3)
    with pytest.raises(DataError, match="task -1, but there are 3"):
        check_tasks([-1], 3)


BARE = [{"f": [1.0, 2]}, {"f": [3.0, -4.5]}]
NAMED = [{"id": "tea", "f": [1.0, 2]}, {"f": [3.0, -4.5], "id": "cola"}]


@pytest.mark.parametrize(("arms", "ids"), [(BARE, ["0", "1"]), (NAMED, ["tea", "cola"])])
def test_vectors_of_arms_with_and_without_ids(arms: list[Any], ids: list[str]) -> None:
    """Without the extension they are left to others too."""
    found = take_vectors(arms, "f", 2, 10.0)
    assert (found is not None) == fast_checks.COMPILED
    if found is not None:
        assert found[0] == ids
        assert found[1].tolist() == [[1.0, 2.0], [3.0, -4.5]]


@pytest.mark.parametrize(
    "arms",
    [
        [],
        [*BARE, *NAMED],
        [*NAMED, *BARE],
        [{"id": "tea"}],
        [{"id": "tea", "f": [1.0, 2.0], "g": 1}],
        [{"g": [1.0, 2.0]}],
        [{"f": [1.0, 11.0]}],
        [{"f": [1.0]}],
        [{"f": [1.0, True]}],
        [{"f": (1.0, 2.0)}],
        [{"id": "", "f": [1.0, 2.0]}],
        [{"id": "a", "f": [1.0, 2.0]}, {"id": "a", "f": [1.0, 2.0]}],
        ["f"],
    ],
)
def test_vectors_of_other_arms_are_left_to_others(arms: list[Any]) -> None:
    assert take_vectors(arms, "f", 2, 10.0) is None
