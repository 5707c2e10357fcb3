"""Structured logs: one JSON object per line, with the id of the request."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import sys
import traceback
from datetime import UTC, datetime

import msgspec

__all__ = ["LOGGER", "JSONLines", "request_id", "set_up"]

LOGGER = logging.getLogger("cobandits.service")

_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,100}")
_START = secrets.token_hex(4)
_count = itertools.count(1)


def request_id(given: bytes | None) -> str:
    """Return the id of a request: the caller's, if it is a plain one, or a new one."""
    if given is not None and _GIVEN.fullmatch(given):
        return given.decode()
    return f"{_START}-{next(_count):x}"


class JSONLines(logging.Formatter):
    """Formats a record as a line of JSON; ``extra={"fields": {...}}`` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


def set_up(level: str) -> None:
    """Send the logs of the service and of the HTTP server to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    for name, least in (("cobandits", level), ("uvicorn", "warning")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(least.upper())
        logger.propagate = False
