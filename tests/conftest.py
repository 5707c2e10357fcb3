"""Settings that all tests share."""

from __future__ import annotations

import os

from hypothesis import settings

# The same examples in every run, on every machine: a failure can be had again.
settings.register_profile(
    "cobandits", deadline=None, derandomize=True, max_examples=25, database=None
)
# Other examples, those of --hypothesis-seed.
settings.register_profile("seeded", settings.get_profile("cobandits"), derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "cobandits"))
