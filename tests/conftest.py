"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import settings

# The same examples in every run, on every machine: a failure can be had again.
settings.register_profile(
    "cobandits", deadline=None, derandomize=True, max_examples=25, database=None
)
settings.load_profile("cobandits")
