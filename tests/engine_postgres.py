"""A real PostgreSQL for tests, in a folder of its own, which ends with the process."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

__all__ = ["databases", "needs_postgres"]

_GIVEN = "COBANDITS_TEST_POSTGRES"
needs_postgres = pytest.mark.skipif(
    _GIVEN not in os.environ and importlib.util.find_spec("pgserver") is None,
    reason=f"pgserver has no wheel for this Python; set {_GIVEN} to the address of a server",
)


@contextlib.contextmanager
def databases() -> Iterator[Iterator[str]]:
    """Yield addresses of new, empty databases on one server.

    ``COBANDITS_TEST_POSTGRES`` names another server to use, by the address of a database on it.
    """
    if (given := os.environ.get(_GIVEN)) is not None:
        yield _made(given)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where there is no folder for sockets of the user
        from pgserver.postgres_server import get_server
    with tempfile.TemporaryDirectory() as folder:
        server = get_server(Path(folder, "data"), cleanup_mode="stop")
        try:
            yield _made(server.get_uri())
        finally:
            server.cleanup()


def _made(address: str) -> Iterator[str]:
    for n in itertools.count():
        name = f"cobandits_{os.getpid()}_{n}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        yield urlunsplit(urlsplit(address)._replace(path=f"/{name}"))
