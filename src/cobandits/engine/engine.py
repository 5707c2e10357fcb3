"""The engine: spaces in one database, owned by one process."""

from __future__ import annotations

import secrets
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from cobandits.engine.core import Clock, Core
from cobandits.engine.encoding import check_in_address
from cobandits.engine.events import Event, space_body
from cobandits.engine.fold import SpaceFold
from cobandits.engine.policies import SpacePolicy, close, started, warm_up
from cobandits.engine.reader import Reader
from cobandits.engine.retention import erase_events
from cobandits.engine.settings import Settings
from cobandits.engine.space import Space
from cobandits.engine.status import Status
from cobandits.engine.stores import Batch, Store, open_store
from cobandits.engine.verify import Live, Verification, live_state, verified
from cobandits.engine.writer import Writer
from cobandits.errors import ConfigurationError
from cobandits.schema import Schema

__all__ = ["Engine"]

_SEEDS = 2**128  # that the random numbers of decisions take


class Engine:
    """Durable decisions for many spaces, on one database; made by :meth:`open`.

    Threads may share it. One process at a time may decide; others may read.
    """

    def __init__(self, store: Store, core: Core, writer: Writer | Reader) -> None:
        self._store, self._core, self._writer = store, core, writer

    @classmethod
    def open(cls, where: str | Path, *, readonly: bool = False, clock: Clock = time.time) -> Engine:
        """Open a database to decide on it, and make it if it is missing.

        Parameters
        ----------
        where
            The path of an SQLite file, or ``postgresql://...``.
        readonly : bool
            Whether to read only, which is allowed beside a process that decides. What is read is
            the state at this moment.
        clock
            Returns the time in seconds since 1970. Whatever it returns, the log's time never
            goes back.
        """
        store = open_store(where, create=not readonly)
        if readonly:
            store.check()
        else:
            store.acquire()
        core = Core(store, clock, processes=not readonly)
        try:
            warm_up()
            core.load()
            core.catch_up()
            engine = cls(store, core, Reader(core) if readonly else Writer(core))
            if not readonly:
                for space in sorted(core.deleted):  # a deletion was interrupted
                    engine._erase(space)
            return engine
        except BaseException:
            core.close()
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
        seed: int | None = None,
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
        seed : int, optional
            Of the random numbers of a new space; drawn if it is not given.
        **settings
            As in :class:`Settings`. Those of a space that is there must be as they are;
            :meth:`Space.change` changes them.
        """
        check_in_address(name, "name")
        policy = self._started(name, schema, dim, settings)
        try:
            return self._writer.call(lambda: self._space(name, schema, dim, seed, settings, policy))
        finally:
            used = [fold.learner.policy for fold in list(self._core.folds.values())]
            if policy is not None and not any(one is policy for one in used):
                close(policy)

    def _started(
        self, name: str, schema: Schema | None, dim: int | None, settings: dict[str, Any]
    ) -> SpacePolicy | None:
        """Start the processes of a space that is to be made; where they fail, it is not made."""
        if settings.get("shards", 1) == 1 or not self._core.processes:
            return None
        spaces = self._core.folds
        known = self._writer.call(lambda: any(one.name == name for one in spaces.values()))
        return None if known else started(Settings.of(schema=schema, dim=dim, **settings))

    def _space(
        self,
        name: str,
        schema: Schema | None,
        dim: int | None,
        seed: int | None,
        settings: dict[str, Any],
        policy: SpacePolicy | None,
    ) -> Space:
        known = self._core.folds.values()
        fold = next((one for one in known if one.name == name), None)
        if fold is None:
            if schema is None and dim is None:
                fold = self._core.fold(name)  # says that it is unknown
            fold = self._made(name, seed, Settings.of(schema=schema, dim=dim, **settings), policy)
        elif schema is not None or dim is not None:
            settings = {**settings, "schema": Settings.of(schema=schema, dim=dim).schema}
        if different := fold.settings.differences(settings):
            raise ConfigurationError(
                f"the space {name!r} has other settings: {', '.join(different)}; leave them out, "
                "or change them: schema and shards by relearning (space.relearn), others by "
                "space.change"
            )
        return Space(fold, self._writer)

    def _made(
        self, name: str, seed: int | None, settings: Settings, policy: SpacePolicy | None
    ) -> SpaceFold:
        core = self._core
        if seed is not None and not 0 <= seed < _SEEDS:
            raise ConfigurationError(f"a seed must be at least 0 and below 2**128, got {seed}")
        number, seed = core.next_number(), secrets.randbits(63) if seed is None else seed
        body = space_body(name, seed, settings.to_dict())
        event = Event(number, core.now(), number, "space", body=body)

        def apply() -> None:
            core.begin(event).place(policy)
            core.follow(event)

        core.commit(Batch(events=[event]), apply)
        return core.folds[number]

    def delete(self, name: str) -> int:
        """Delete a space with all its events, for ever; return how many there were.

        Of its events the number, the time and the number of the space stay in the log, which has
        no gaps, and nothing else; SQLite overwrites the rest. Its name is free again.
        Other spaces go on meanwhile.
        """

        def delete() -> SpaceFold:
            fold = self._core.fold(name)
            self._writer.write(fold, "delete")
            return fold

        fold = self._writer.call(delete)
        self._erase(fold.number)
        return fold.counts.total() + 1  # and the one that made it

    def _erase(self, space: int) -> None:
        after: int | None = 0
        while after is not None:
            start = after
            after = self._writer.call(lambda start=start: erase_events(self._core, space, start))  # type: ignore[misc]

    def spaces(self) -> list[Space]:
        """Return all spaces, in the order in which they were made."""
        return self._writer.call(
            lambda: [Space(fold, self._writer) for fold in self._core.folds.values()]
        )

    def status(self) -> Status:
        """Return how the engine is: what waits, and whether a prior is being learned."""
        writer = self._writer
        return writer.call(lambda: Status.of(self._core, writer.refitting, writer.times))

    def verify(self) -> Verification:
        """Replay the log from its start: every decision and every bit of the state must be equal.

        Decisions and rewards go on meanwhile.
        """
        core = self._core

        def captured() -> tuple[list[Live], int]:
            return [live_state(fold) for fold in core.folds.values()], core.last

        return verified(self._store, *self._writer.call(captured))

    def forget(self, before: datetime) -> int:
        """Fold the events before a time into a snapshot and remove them; return how many.

        What they led to stays: the state, and decisions that are still waited for. Rewards for
        other old decisions, and versions without a snapshot, are unknown from then on, and
        :meth:`verify` begins with the snapshot.
        """
        return self._writer.call(lambda: self._writer.forget(round(before.timestamp() * 1e6)))

    def settle(self, timeout: float = 60.0) -> None:
        """Wait until windows that are over have ended, and every reward is learned."""
        end = time.monotonic() + timeout
        self._writer.call(self._writer.tick)
        while self._writer.call(lambda: self._writer.busy):
            if time.monotonic() > end:
                raise TimeoutError(f"there is still something to learn after {timeout:g} s")
            time.sleep(0.002)
