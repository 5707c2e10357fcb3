"""Bodies and addresses as messages, and what is told of those that do not fit."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from cobandits.service.problems import ProblemError
from cobandits.wire.problems import Detail

__all__ = ["converted", "decoded", "encoded"]

Read = TypeVar("Read")
_TIMES = {"since", "before"}
_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")
_AT = re.compile(r" - at `(?:key in )?([^`]*)`$")


def decoded(decoder: msgspec.json.Decoder[Read], body: bytes) -> Read:
    """Return a body as a message; refuse what is not JSON, or does not fit.

    >>> from cobandits.wire import RewardOne
    >>> decoded(msgspec.json.Decoder(RewardOne), b'{"value": 1}')
    RewardOne(value=1.0, key=None, taken=None)
    """
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProblemError("invalid-json", f"the body is not JSON in UTF-8: {error}") from None
    except RecursionError:
        raise ProblemError("invalid-json", "the body has too many lists in lists") from None


def converted(kind: type[Read], given: dict[str, str]) -> Read:
    """Return the parameters of an address as a message; refuse what does not fit."""
    for name in _TIMES & given.keys():
        if not _DATE.match(given[name]):  # msgspec would take a number for seconds since 1970
            raise _invalid(f"{name} must be a time such as 2026-11-17T14:00:00Z", "the address: ")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(str(error), where="the address: ") from None


def _invalid(text: str, where: str = "") -> ProblemError:
    """Return the problem of a message of msgspec, with a JSON pointer for its path."""
    match = _AT.search(text)
    path = match[1].lstrip("$") if match else ""
    pointer = "".join(
        "/" + (name or index).replace("~", "~0").replace("/", "~1")
        for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path)
    )
    detail = where + (text[: match.start()] if match else text)
    shown = f"{pointer}: {detail}" if pointer else detail
    return ProblemError("invalid-request", shown, errors=[Detail(detail, pointer)])


_encoder = msgspec.json.Encoder()


def encoded(message: object) -> bytes:
    """Return a message as JSON."""
    return _encoder.encode(message)
