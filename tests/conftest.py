"""Settings that all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from distributed import Client

# The same examples in every run, on every machine: a failure can be had again.
settings.register_profile(
    "cobandits", deadline=None, derandomize=True, max_examples=25, database=None
)
# Other examples, those of --hypothesis-seed.
settings.register_profile("seeded", settings.get_profile("cobandits"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "cobandits"))


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Client]:
    """Start one cluster of two workers for all tests; it takes seconds."""
    from tests.clusters import cluster

    with cluster(2) as client:
        yield client
