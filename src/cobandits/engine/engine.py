"""The engine: spaces in one database, owned by one process."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

from cobandits.engine.core import Clock, Core
from cobandits.engine.encoding import check_name
from cobandits.engine.events import Event, space_body
from cobandits.engine.fold import SpaceFold
from cobandits.engine.settings import Settings
from cobandits.engine.space import Space
from cobandits.engine.stores import Batch, Store, open_store
from cobandits.engine.writer import Writer
from cobandits.errors import ConfigurationError
from cobandits.schema import Schema

__all__ = ["Engine"]


class Engine:
    """Durable decisions for many spaces, on one database; made by :meth:`open`.

    Threads may share it. One process at a time may decide; others may read.
    """

    def __init__(self, store: Store, core: Core, writer: Writer) -> None:
        self._store, self._core, self._writer = store, core, writer

    @classmethod
    def open(cls, where: str | Path, *, clock: Clock = time.time) -> Engine:
        """Open a database to decide on it, and make it if it is missing.

        Parameters
        ----------
        where
            The path of an SQLite file, or ``postgresql://...``.
        clock
            Returns the time in seconds since 1970. Whatever it returns, the log's time never
            goes back.
        """
        store = open_store(where, create=True)
        store.acquire()
        try:
            core = Core(store, clock)
            core.load()
            return cls(store, core, Writer(core))
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer what waits, keep a snapshot of each space, and give the database up."""
        self._writer.close()
        self._store.close()

    # ---- Spaces

    def space(
        self,
        name: str,
        schema: Schema | None = None,
        *,
        dim: int | None = None,
        **settings: Any,
    ) -> Space:
        """Return a space; make it if there is none of this name.

        Parameters
        ----------
        name : str
        schema : Schema, optional
            Which fields arms and contexts have; or
        dim : int, optional
            how many numbers an arm has, as its field ``features``.
        **settings
            As in :class:`Settings`. Those of a space that is there must be as they are;
            :meth:`Space.change` changes them.
        """
        check_name(name, "name")
        return self._writer.call(lambda: self._space(name, schema, dim, settings))

    def _space(
        self, name: str, schema: Schema | None, dim: int | None, settings: dict[str, Any]
    ) -> Space:
        known = self._core.folds.values()
        fold = next((one for one in known if one.name == name), None)
        if fold is None:
            if schema is None and dim is None:
                fold = self._core.fold(name)  # says that it is unknown
            fold = self._made(name, Settings.of(schema=schema, dim=dim, **settings))
        elif schema is not None or dim is not None:
            settings = {**settings, "schema": Settings.of(schema=schema, dim=dim).schema}
        if different := fold.settings.differences(settings):
            raise ConfigurationError(
                f"the space {name!r} has other settings: {', '.join(different)}; leave them out, "
                "or change them with space.change(...)"
            )
        return Space(fold, self._writer)

    def _made(self, name: str, settings: Settings) -> SpaceFold:
        core = self._core
        number, seed = core.last + 1, secrets.randbits(63)
        body = space_body(name, seed, settings.to_dict())
        event = Event(number, core.now(), number, "space", body=body)

        def apply() -> None:
            core.folds[number] = SpaceFold(event, core.store, core.version_policy)

        core.commit(Batch(events=[event]), apply)
        return core.folds[number]

    def spaces(self) -> list[Space]:
        """Return all spaces, in the order in which they were made."""
        return self._writer.call(
            lambda: [Space(fold, self._writer) for fold in self._core.folds.values()]
        )

    def settle(self, timeout: float = 60.0) -> None:
        """Wait until every reward that can be learned is learned."""
        end = time.monotonic() + timeout
        while self._writer.call(lambda: self._writer.busy):
            if time.monotonic() > end:
                raise TimeoutError(f"there is still something to learn after {timeout:g} s")
            time.sleep(0.002)
