"""Equivalent rows: the same products, whatever was compressed before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.policies.shared.equivalent_rows import equivalent_rows


@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(1, 40),
    batches=st.lists(st.integers(1, 60), min_size=1, max_size=4),
)
def test_rows_that_come_later_change_nothing_but_the_products(
    seed: int, dim: int, batches: list[int]
) -> None:
    """Some features are 0 at first, some always, and some are the same as others."""
    rng = np.random.default_rng(seed)
    held, products = np.zeros((0, dim + 2)), np.zeros((dim + 2, dim + 2))
    for size in batches:
        F = rng.standard_normal((size + dim + 2, dim + 2))
        F[:, : dim // 3] *= rng.random(dim // 3) < 0.5
        F[:, dim // 2] = F[:, 0]
        F[:, -2] = 1
        held, products = equivalent_rows(np.vstack([held, F])), products + F.T @ F
        assert len(held) == np.count_nonzero(held.any(axis=0))
        assert (held[:, -2] <= 0).all()
        np.testing.assert_allclose(held.T @ held, products, atol=1e-11 * products.max())


@pytest.mark.parametrize("changed", [0, 3])
def test_rows_that_only_look_compressed_are_taken_as_they_are(changed: int) -> None:
    rng = np.random.default_rng(0)
    F = rng.standard_normal((20, 6))
    F[:, -2] = 1
    first = equivalent_rows(F[:10])
    first[-1, changed] = 0.5  # no longer a triangle
    mixed = np.vstack([first, F[10:]])
    found = equivalent_rows(mixed)
    np.testing.assert_allclose(found.T @ found, mixed.T @ mixed, atol=1e-12)
