"""Where shards live: in this process, or each in a process of its own."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import signal
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol, Self

from cobandits.errors import ClusterError
from cobandits.sharded.head import Head
from cobandits.threads import set_threads, threads_here

__all__ = ["ADVICE", "Heads", "LocalHeads", "ProcessHeads", "Source"]

Source = Path | bytes  # of what was saved

ADVICE = "load what was saved last, and learn the rewards since then again; an engine does so"
_PATIENCE = 10.0  # seconds for a process to end when it is told to


class Heads(Protocol):
    """Several shards, each somewhere: all that a transport must offer."""

    def __len__(self) -> int:
        """Return how many shards there are."""

    @property
    def lost(self) -> bool:
        """Whether a shard is gone, with what it has learned."""

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments; those with None are left out.

        Returns one result per shard. If a shard raises an error, so does this, once all have
        answered.
        """

    def each_beside(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Do the same for what takes long, one call at a time: others need not wait for it."""

    def close(self) -> None:
        """End what was started for the shards."""


class LocalHeads:
    """Shards in this process, one after the other."""

    lost = False  # it is when closed

    def __init__(self, heads: Sequence[Head]) -> None:
        self._heads = list(heads)

    @classmethod
    def start(cls, n: int, setting: Mapping[str, Any]) -> Self:
        """Return new shards."""
        return cls([Head(**setting) for _ in range(n)])

    @classmethod
    def load(cls, sources: Sequence[Source]) -> Self:
        """Return the shards that were saved."""
        return cls([_loaded(source) for source in sources])

    def __len__(self) -> int:
        return len(self._heads)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments."""
        if self.lost:
            raise ClusterError(f"the shards were closed; {ADVICE}")
        return [
            None if given is None else getattr(head, method)(*given)
            for head, given in zip(self._heads, arguments, strict=True)
        ]

    def each_beside(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Do the same, in the caller's thread."""
        return self.each(method, arguments)

    def close(self) -> None:
        """Answer no more calls."""
        self.lost = True


class _Links:
    """The connections to the processes of all shards."""

    def __init__(self) -> None:
        self._links: list[Connection] = []
        self.broken: str | None = None  # why nothing can be asked any more

    def add(self, link: Connection) -> None:
        """Take the connection to the next shard."""
        self._links.append(link)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments, all at the same time."""
        if self.broken is not None:
            raise ClusterError(f"{self.broken}; {ADVICE}")
        asked = [number for number, given in enumerate(arguments) if given is not None]
        results: list[Any] = [None] * len(arguments)
        errors: list[Exception] = []
        try:
            for number in asked:
                self._send(number, (method, arguments[number]))
            for number in asked:
                fine, results[number] = self._receive(number)
                if not fine:
                    errors.append(results[number])
        except ClusterError:
            raise
        except BaseException:
            self.broken = "a call to the shards was interrupted"
            raise
        if errors:
            raise errors[0]
        return results

    def close(self) -> None:
        """Give the connections up."""
        self.broken = self.broken or "the shards were closed"
        for link in self._links:
            link.close()

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
        self.broken = f"the process of shard {number} has ended"
        return ClusterError(f"{self.broken}; {ADVICE}")


class ProcessHeads:
    """Shards in processes of this machine, which work at the same time.

    If a process is lost, so is what its tasks have learned since the last save, and every call
    from then on says so. The same holds if a call is interrupted: answers that were not waited for
    would be taken for those of the next one. The processes end when this one does.

    Parameters
    ----------
    threads : int or None
        Threads of each process for linear algebra. None is as many as this process has, which
        gives the bits of :class:`LocalHeads`.
    """

    def __init__(self, made: Sequence[tuple[str, Any]], *, threads: int | None = 1) -> None:
        context = multiprocessing.get_context("spawn")
        count = threads_here() if threads is None else threads
        self._processes: list[BaseProcess] = []
        self._links, self._beside = _Links(), _Links()
        try:
            for recipe in made:
                ours, theirs = zip(*(context.Pipe() for _ in range(2)), strict=True)
                self._links.add(ours[0])
                self._beside.add(ours[1])
                process = context.Process(target=_serve, args=(theirs, count, *recipe), daemon=True)
                process.start()
                self._processes.append(process)
                for link in theirs:
                    link.close()
        except OSError as error:
            self.close()
            raise ClusterError(f"the process of a shard could not be started: {error}") from error

    @classmethod
    def start(cls, n: int, setting: Mapping[str, Any], *, threads: int | None = 1) -> Self:
        """Start processes with new shards."""
        return cls([("new", dict(setting))] * n, threads=threads)

    @classmethod
    def load(cls, sources: Sequence[Source], *, threads: int | None = 1) -> Self:
        """Start processes that load the shards that were saved."""
        return cls([("saved", source) for source in sources], threads=threads)

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def pids(self) -> list[int | None]:
        """The numbers of the processes."""
        return [process.pid for process in self._processes]

    @property
    def lost(self) -> bool:
        """Whether a process has ended, or a call was interrupted."""
        broken = self._links.broken or self._beside.broken
        return broken is not None or not all(one.is_alive() for one in self._processes)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments, all at the same time."""
        return self._links.each(method, arguments)

    def each_beside(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Do the same in another thread of the processes."""
        return self._beside.each(method, arguments)

    def close(self) -> None:
        """Have all processes end."""
        self._links.close()
        self._beside.close()
        for process in self._processes:
            process.join(_PATIENCE)
            if process.is_alive():
                process.kill()
                process.join()


def _serve(links: Sequence[Connection], threads: int | None, kind: str, given: Any) -> None:
    """Answer calls until the other ends are closed: those beside in a thread of their own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the caller, who closes the link
    set_threads(threads)
    head = Head(**given) if kind == "new" else _loaded(given)
    link, beside = links
    threading.Thread(target=_answer, args=(head, beside), daemon=True).start()
    _answer(head, link)


def _answer(head: Head, link: Connection) -> None:
    """Answer calls until the other end is closed; where that fails, close it: nobody may wait."""
    with link, contextlib.suppress(EOFError, ConnectionError):
        while True:
            method, arguments = link.recv()
            try:
                answer = True, getattr(head, method)(*arguments)
            except Exception as error:
                answer = False, error
            link.send(answer)


def _loaded(source: Source) -> Head:
    found = Head.load(io.BytesIO(source) if isinstance(source, bytes) else source)
    assert isinstance(found, Head)
    return found
