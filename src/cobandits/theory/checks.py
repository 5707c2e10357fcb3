"""Checks of what the theorems are asked."""

from __future__ import annotations

import math

from cobandits.errors import ConfigurationError

__all__ = ["check_at_least", "check_share"]


def check_share(name: str, value: float) -> None:
    """Refuse a distance, an error or a probability that is not between 0 and 1."""
    if not 0 < value < 1:
        raise ConfigurationError(f"{name} must be above 0 and below 1, got {value}")


def check_at_least(name: str, value: float, bound: float) -> None:
    """Refuse a number below its bound, or not finite."""
    if not bound <= value < math.inf:
        raise ConfigurationError(f"{name} must be at least {bound} and finite, got {value}")
