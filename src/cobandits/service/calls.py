"""One value per call of the API: what it is named, who may make it, what it takes and answers.

The table of calls is the only place that knows addresses: requests are led by it, and the OpenAPI
document is written from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from cobandits.service.keys import Key, Role
from cobandits.service.problems import ProblemError
from cobandits.service.reading import converted, decoded, encoded

if TYPE_CHECKING:
    from cobandits.service.state import Service

__all__ = ["JSON", "Answered", "Call", "Example", "Exchange", "Reply", "Table", "waited"]

JSON = "application/json"


class Reply(msgspec.Struct):
    """An answer; a message that is no bytes is written as JSON."""

    status: int
    message: object = None
    media: str = JSON
    headers: Sequence[tuple[bytes, bytes]] = ()
    parts: AsyncIterator[bytes] | None = None  # in place of a message: sent as they come

    def body(self) -> bytes:
        """Return what is sent."""
        if isinstance(self.message, bytes):
            return self.message
        return b"" if self.message is None else encoded(self.message)


class Exchange(msgspec.Struct, frozen=True):
    """One request, as its call sees it."""

    service: Service
    call: Call
    places: list[str]  # what stands in the braces of the address
    query: dict[str, str]
    headers: Mapping[bytes, bytes]
    body: bytes
    key: Key | None

    def message(self) -> Any:
        """Return the body as the call's message."""
        assert self.call.decoder is not None
        return decoded(self.call.decoder, self.body)

    def parameters(self) -> Any:
        """Return what stands behind the question mark, as the call's message."""
        assert self.call.query is not None
        return converted(self.call.query, self.query)

    def count(self, requests: int) -> None:
        """Count the parts of a batch against the key's rate."""
        self.service.rate(self.key, requests)


Handler = Callable[[Exchange], Awaitable[Reply]]
Answered = Callable[[Reply | Exception], None]
Direct = Callable[[Exchange, Answered], None]  # the same without a task, for what must be fast


async def waited(direct: Direct, exchange: Exchange) -> Reply:
    """Make a direct call, and wait for its answer in a task."""
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def answered(found: Reply | Exception) -> None:
        if future.done():  # the caller went away
            return
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)

    direct(exchange, answered)
    return await future


@dataclass(frozen=True, kw_only=True)
class Example:
    """A request and its answer, for the OpenAPI document; a test sends each."""

    asks: object = None
    answers: object = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """One call of the API."""

    name: str  # operationId
    method: str
    path: str  # "/v1/spaces/{space}"
    role: Role | None  # None: anybody
    does: str
    handler: Handler
    direct: Direct | None = None
    asks: type | None = None
    query: type | None = None
    takes: str = JSON  # the type of its body, if it has one
    answers: Mapping[int, object] = field(default_factory=dict)  # type of each good status
    media: str = JSON
    problems: Sequence[str] = ()
    idempotent: bool = False  # whether it takes the header Idempotency-Key
    loud: bool = False  # whether it changes something that an operator looks for in the logs
    header: bytes = b"x-api-key"  # where a key may be too, beside Authorization
    example: Example = Example()
    decoder: msgspec.json.Decoder[Any] | None = field(init=False)

    @property
    def has_body(self) -> bool:
        """Whether something is sent with it."""
        return self.asks is not None or self.takes != JSON

    def __post_init__(self) -> None:
        decoder: msgspec.json.Decoder[Any] | None = (
            None if self.asks is None else msgspec.json.Decoder(self.asks)
        )
        object.__setattr__(self, "decoder", decoder)


class _Node:
    """A place in an address: what may follow it."""

    __slots__ = ("any", "calls", "named")

    def __init__(self) -> None:
        self.named: dict[bytes, _Node] = {}
        self.any: _Node | None = None
        self.calls: dict[str, Call] = {}


class Table:
    """All calls, found by method and address."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = tuple(calls)
        self._root = _Node()
        for call in calls:
            node = self._root
            for part in call.path.encode().split(b"/")[1:]:
                if part.startswith(b"{"):
                    node.any = node.any or _Node()
                    node = node.any
                else:
                    node = node.named.setdefault(part, _Node())
            node.calls[call.method] = call

    def find(self, method: str, path: bytes) -> tuple[Call, list[str]]:
        """Return the call and what stands in its braces; refuse an address that is not known.

        ``path`` is as it was sent: a slash inside of a name is ``%2F``.
        """
        node: _Node | None = self._root
        places: list[str] = []
        for part in path.split(b"/")[1:]:
            assert node is not None
            known = node.named.get(part)
            if known is None and part:
                known = node.any
                places.append(_unquoted(part))
            if known is None:
                raise ProblemError("unknown-path", f"there is nothing at {_unquoted(path)[:200]!r}")
            node = known
        assert node is not None
        if not node.calls:
            raise ProblemError("unknown-path", f"there is nothing at {_unquoted(path)[:200]!r}")
        call = node.calls.get(method)
        if call is None:
            known_methods = ", ".join(sorted(node.calls))
            raise MethodError(known_methods, method)
        return call, places


class MethodError(ProblemError):
    """Another method than those that an address has."""

    def __init__(self, known: str, given: str) -> None:
        super().__init__("method-not-allowed", f"there is {known} here, and no {given[:20]}")
        self.known = known


def _unquoted(part: bytes) -> str:
    text = part.decode("ascii", "replace")
    return unquote(text, errors="replace") if "%" in text else text
