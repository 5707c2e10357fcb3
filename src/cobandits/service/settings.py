"""The settings of the service, from flags, the environment and a TOML file, in this order."""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from cobandits.errors import ConfigurationError
from cobandits.wire.limits import BODY

__all__ = ["ENVIRONMENT", "LogLevel", "ServiceSettings", "is_loopback"]

LogLevel = Literal["debug", "info", "warning", "error"]
ENVIRONMENT = "COBANDITS_"  # and the name of the setting in capitals


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """How the service runs.

    Parameters
    ----------
    db
        Where the log is: a file, made if missing, or ``postgresql://...``.
    host, port
        Where to listen; port 0 takes a free one.
    keys
        The file of the API keys; ``<db>-keys`` beside a file, by default.
    admin_key
        A key that may do everything and is kept nowhere; give it by the environment.
    rate
        Requests per second of a key that has no limit of its own; a batch counts each of its parts.
    waiting
        Requests that may wait for an answer; further ones are refused (503), and nothing is lost.
    body
        Bytes of the largest body.
    tls_cert, tls_key
        Certificate and private key; without them a proxy must do TLS.
    https
        Whether people reach it by HTTPS though it does no TLS itself, but a proxy does.
    log_level
        ``"info"`` shows what changes something and what fails, ``"debug"`` every request.
    dashboard
        Whether there are pages for people.
    grace
        Seconds that requests under way have when the service stops.
    """

    db: str = "cobandits.db"
    host: str = "127.0.0.1"
    port: int = 8000
    keys: str | None = None
    admin_key: str | None = None
    rate: float = 20_000.0
    waiting: int = 4096
    body: int = BODY
    tls_cert: str | None = None
    tls_key: str | None = None
    https: bool = False
    log_level: LogLevel = "info"
    dashboard: bool = True
    grace: int = 30

    def __post_init__(self) -> None:
        bounds = {"port": (0, 65535), "waiting": (1, 1 << 20), "body": (1024, 1 << 26)}
        bounds |= {"rate": (1, 1 << 30), "grace": (0, 3600)}
        for name, (low, high) in bounds.items():
            if not low <= (given := getattr(self, name)) <= high:
                raise ConfigurationError(f"{name} must be from {low} to {high}, got {given}")
        if self.log_level not in get_args(LogLevel):
            known = ", ".join(get_args(LogLevel))
            raise ConfigurationError(f"log_level must be one of {known}, got {self.log_level!r}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigurationError("TLS needs both: a certificate and its private key")

    @property
    def keys_path(self) -> Path:
        """The file of the API keys."""
        if self.keys is not None:
            return Path(self.keys)
        if "://" in self.db:
            return Path("cobandits-keys.db")  # a database elsewhere has no folder here
        return Path(f"{self.db}-keys")

    @classmethod
    def read(
        cls,
        flags: Mapping[str, Any],
        *,
        file: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> ServiceSettings:
        """Return settings: a flag that is not None wins over the environment, that over the file.

        >>> found = ServiceSettings.read({"port": 1}, environment={"COBANDITS_PORT": "2"})
        >>> found.port, found.host
        (1, '127.0.0.1')
        """
        given = {} if file is None else _from_file(file)
        for one in fields(cls):
            text = environment.get(ENVIRONMENT + one.name.upper())
            if text is not None:
                given[one.name] = _from_text(one.name, str(one.type), text)
        given |= {name: value for name, value in flags.items() if value is not None}
        return cls(**given)


def _from_file(path: Path) -> dict[str, Any]:
    """Return the table ``[serve]`` of a TOML file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read as TOML: {error}") from error
    table = found.get("serve")
    if not isinstance(table, dict):
        has = ", ".join(found) or "nothing"
        raise ConfigurationError(
            f"{path}: settings are in a table [serve], which is not there; it has {has}"
        )
    known = {one.name: str(one.type) for one in fields(ServiceSettings)}
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise ConfigurationError(
            f"{path}: unknown in [serve]: {', '.join(unknown)}; there are: {', '.join(known)}"
        )
    return {name: _from_text(name, known[name], str(value)) for name, value in table.items()}


def _from_text(name: str, kind: str, text: str) -> Any:
    """Return a setting from text."""
    try:
        if kind == "bool":
            return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
        return {"int": int, "float": float}.get(kind, str)(text)
    except (KeyError, ValueError):
        expected = {"bool": "true or false", "int": "a whole number"}.get(kind, "a number")
        raise ConfigurationError(f"{name} must be {expected}, got {text!r}") from None


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
