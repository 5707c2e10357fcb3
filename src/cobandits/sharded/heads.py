"""Where shards live: in this process, or each in a process of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, Self

from cobandits.errors import ClusterError, MissingExtraError
from cobandits.sharded.head import Head
from cobandits.threads import one_thread

__all__ = ["Heads", "LocalHeads", "ProcessHeads"]

_ADVICE = "load what was saved last, and learn the rewards since then again"
_PATIENCE = 10.0  # seconds for a process to end when it is told to


class Heads(Protocol):
    """Several shards, each somewhere: all that a transport must offer."""

    def __len__(self) -> int:
        """Return how many shards there are."""

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments; those with None are left out.

        Returns one result per shard. If a shard raises an error, so does this, once all have
        answered.
        """

    def close(self) -> None:
        """End what was started for the shards."""


class LocalHeads:
    """Shards in this process, one after the other."""

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads = list(heads)

    @classmethod
    def start(cls, n: int, setting: Mapping[str, Any]) -> Self:
        """Return new shards."""
        return cls([Head(**setting) for _ in range(n)])

    @classmethod
    def load(cls, paths: Sequence[Path]) -> Self:
        """Return the shards that were saved."""
        return cls([_loaded(path) for path in paths])

    def __len__(self) -> int:
        return len(self._heads)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments."""
        return [
            None if given is None else getattr(head, method)(*given)
            for head, given in zip(self._heads, arguments, strict=True)
        ]

    def close(self) -> None:
        """There is nothing to end."""


class ProcessHeads:
    """Shards in processes of this machine, which work at the same time.

    If a process is lost, so is what its tasks have learned since the last save, and every call
    from then on says so. The same holds if a call is interrupted: answers that were not waited for
    would be taken for those of the next one.
    """

    def __init__(self, made: Sequence[tuple[str, Any]]) -> None:
        context = multiprocessing.get_context("spawn")
        self._broken: str | None = None
        self._links: list[Connection] = []
        self._processes = []
        for recipe in made:
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, *recipe), daemon=True)
            process.start()
            there.close()
            self._links.append(here)
            self._processes.append(process)

    @classmethod
    def start(cls, n: int, setting: Mapping[str, Any]) -> Self:
        """Start processes with new shards."""
        return cls([("new", dict(setting))] * n)

    @classmethod
    def load(cls, paths: Sequence[Path]) -> Self:
        """Start processes that load the shards that were saved."""
        return cls([("saved", path) for path in paths])

    def __len__(self) -> int:
        return len(self._links)

    @property
    def pids(self) -> list[int | None]:
        """The numbers of the processes."""
        return [process.pid for process in self._processes]

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments, all at the same time."""
        if self._broken is not None:
            raise ClusterError(f"{self._broken}; {_ADVICE}")
        asked = [number for number, given in enumerate(arguments) if given is not None]
        results: list[Any] = [None] * len(arguments)
        errors: list[Exception] = []
        self._broken = "a call to the shards was interrupted"  # until all have answered
        for number in asked:
            self._send(number, (method, arguments[number]))
        for number in asked:
            fine, results[number] = self._receive(number)
            if not fine:
                errors.append(results[number])
        self._broken = None
        if errors:
            raise errors[0]
        return results

    def close(self) -> None:
        """Have all processes end."""
        for link in self._links:
            link.close()
        for process in self._processes:
            process.join(_PATIENCE)
            if process.is_alive():
                process.terminate()

    def _send(self, number: int, message: object) -> None:
        try:
            self._links[number].send(message)
        except OSError as error:
            raise self._lost(number) from error

    def _receive(self, number: int) -> tuple[bool, Any]:
        try:
            found: tuple[bool, Any] = self._links[number].recv()
        except (EOFError, OSError) as error:
            raise self._lost(number) from error
        return found

    def _lost(self, number: int) -> ClusterError:
        self._broken = f"the process of shard {number} has ended"
        return ClusterError(f"{self._broken}; {_ADVICE}")


def _serve(link: Connection, kind: str, given: Any) -> None:
    """Answer calls until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who closes the link
    with contextlib.suppress(MissingExtraError):  # then BLAS has the threads that it was given
        one_thread()
    head = Head(**given) if kind == "new" else _loaded(given)
    while True:
        try:
            method, arguments = link.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(head, method)(*arguments)
        except Exception as error:
            answer = False, error
        link.send(answer)


def _loaded(path: Path) -> Head:
    found = Head.load(path)
    assert isinstance(found, Head)
    return found
