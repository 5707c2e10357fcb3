"""How much one request may ask for."""

from __future__ import annotations

from typing import Final

__all__ = ["ARMS", "BATCH", "BODY", "DIM", "FIELDS", "FILE", "NAME", "PAGE", "SHARDS"]

BODY: Final = 1 << 20  # bytes; 200 arms with 256 numbers each fit into it
ARMS: Final = 200  # per decision
FIELDS: Final = 256  # of an arm or a context
DIM: Final = 1024  # columns that a schema may have: a refit costs their cube
BATCH: Final = 1000  # decisions or rewards in one call
NAME: Final = 100  # characters of a task, an arm, a space or an id
FILE: Final = 64 << 20  # bytes of a policy's file; 9 MB with 1,000 tasks and 20 columns
PAGE: Final = 1000  # records in one answer
SHARDS: Final = 16  # processes of all spaces, each with 45 MB before it has learned anything
