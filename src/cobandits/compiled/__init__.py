"""The hot loops in C: ``_pass`` and others, where they could be built at installation."""

from __future__ import annotations

import warnings
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["BUILT"]

# By name: a module that is there and cannot be loaded says so when it is used.
BUILT = any(Path(__file__).with_name(f"_pass{end}").is_file() for end in EXTENSION_SUFFIXES)

if not BUILT:
    warnings.warn(
        "cobandits runs without its compiled code, and is several times slower; install it again "
        "where there is a C compiler: COBANDITS_EXTENSION=required pip install . in the checkout",
        RuntimeWarning,
        stacklevel=2,
    )
