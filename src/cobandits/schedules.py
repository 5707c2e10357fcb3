"""Deprecated: the schedules are in :mod:`cobandits.policies.schedules`."""

from __future__ import annotations

import warnings
from typing import Any

from cobandits.policies import schedules


def __getattr__(name: str) -> Any:
    found = getattr(schedules, name)
    warnings.warn(
        f"cobandits.schedules.{name} has moved: import it from cobandits.policies.schedules",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
