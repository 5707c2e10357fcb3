"""Random streams: the same for the same path, and unrelated for different ones."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.randomness import generator, stream

paths = st.lists(st.text(max_size=5) | st.integers(-3, 3), max_size=4).map(tuple)


@given(seed=st.integers(0, 2**70), path=paths)
def test_same_path_same_stream(seed: int, path: tuple[str | int, ...]) -> None:
    np.testing.assert_array_equal(stream(seed, *path).random(4), stream(seed, *path).random(4))


@given(one=paths, other=paths)
def test_different_paths_different_streams(
    one: tuple[str | int, ...], other: tuple[str | int, ...]
) -> None:
    same = (stream(7, *one).random(4) == stream(7, *other).random(4)).all()
    assert same == (one == other)


def test_paths_that_read_alike_are_different() -> None:
    alike: list[tuple[str | int, ...]] = [
        ("ab", "c"),
        ("a", "bc"),
        ("abc",),
        (1,),
        ("1",),
        (),
        ("",),
    ]
    firsts = {float(stream(0, *path).random()) for path in alike}
    assert len(firsts) == len(alike)


def test_streams_are_not_correlated() -> None:
    draws = np.stack([stream(3, "trial", k).standard_normal(4000) for k in range(12)])
    correlations = np.asarray(np.corrcoef(draws)) - np.eye(12)
    assert np.abs(correlations).max() < 4.5 / np.sqrt(4000)  # 66 pairs, each normal


def test_streams_do_not_depend_on_what_was_drawn_before() -> None:
    first = stream(1, "rows", 0).random(3)
    for name, k in itertools.product(["truth", "noise"], range(3)):
        stream(1, name, k).random(100)
    np.testing.assert_array_equal(stream(1, "rows", 0).random(3), first)


def test_whole_numbers_of_numpy_name_the_same_stream() -> None:
    plain = stream(7, "trial", 3).random(3)
    number: int = np.int64(3)  # type: ignore[assignment]
    np.testing.assert_array_equal(stream(7, "trial", number).random(3), plain)


def test_stream_is_the_same_on_every_machine() -> None:
    """The hash and the generator are fixed: published numbers can be had again."""
    digest = hashlib.sha256(b"('environment', 3)").digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence([7, *words])))
    np.testing.assert_array_equal(stream(7, "environment", 3).random(5), expected.random(5))


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_generator_takes_a_seed_a_generator_or_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert generator(rng) is rng
    expected = np.random.default_rng(seed).random(3)
    np.testing.assert_array_equal(generator(seed).random(3), expected)
    np.testing.assert_array_equal(generator(None).random(3), generator(0).random(3))
