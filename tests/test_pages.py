"""Memory of large arrays: zeros, of this process alone, and given back when it is freed."""

from __future__ import annotations

import mmap
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits import pages
from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.shared.row_store import RowStore

LARGE = (1200, 1000)  # 9.6 MB
linux = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells its memory")


def resident() -> int:
    """Return the bytes that this process holds."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize("shape", [(0, 3), (2, 3), LARGE])
def test_zeros_are_zeros_that_can_be_written_to(shape: tuple[int, ...]) -> None:
    found = pages.zeros(shape)
    assert found.shape == shape
    assert found.dtype == np.float64
    assert not found.any()
    found[:] = 7
    assert (found == 7).all()


def test_an_array_outlives_what_it_was_made_from() -> None:
    part = pages.zeros(LARGE)[-3:]
    part[:] = 7
    assert (part == 7).all()


@linux
def test_memory_is_taken_when_written_to_and_goes_back_when_freed() -> None:
    """Also where small arrays that stay were made since, and where larger ones are next."""
    kept: list[NDArray[np.float64]] = []
    start = resident()
    for n in (300, 600, 900):
        taken = pages.zeros((4 * n, 1000))
        assert resident() - start < 2e6
        taken[:] = 1
        assert resident() - start > 0.9 * taken.nbytes
        kept.append(np.ones(100))
        del taken
        assert resident() - start < 2e6


def test_where_memory_does_not_suffice_that_is_said() -> None:
    with pytest.raises(MemoryError, match=r"\(1000000000, 1000000000\)"):
        pages.zeros((10**9, 10**9))


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork"
)
def test_what_a_forked_process_writes_is_its_own() -> None:
    held = pages.zeros(LARGE)
    process = multiprocessing.get_context("fork").Process(target=held.fill, args=(7.0,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert not held.any()


@linux
def test_rows_and_posteriors_give_their_memory_back() -> None:
    tasks, rows = np.zeros(10_000, np.int64), np.ones((10_000, 100))
    start = resident()
    store = RowStore.empty(n_tasks=1, dim=98).added(tasks, rows)  # 8 MB
    posteriors = GaussianPosteriors(n_tasks=200, dim=100, ridge=1.0)  # 8 MB
    assert resident() - start > 14e6
    small = np.ones(100)
    del store, posteriors
    assert resident() - start < 3e6
    assert small.all()
