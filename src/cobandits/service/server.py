"""The process: opens the engine, listens, stops gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import sys
from collections.abc import Callable, Iterator

import uvicorn

import cobandits
from cobandits.engine import Engine
from cobandits.errors import CobanditsError, ConfigurationError
from cobandits.service.app import Application, application
from cobandits.service.keys import KeyStore
from cobandits.service.logs import LOGGER, set_up
from cobandits.service.protocol import direct_protocol
from cobandits.service.settings import ServiceSettings, is_loopback
from cobandits.service.state import Service

__all__ = ["serve"]

# Seconds after which a thread that waits for the interpreter gets it. The engine's thread waits
# for it after each fsync, and all who wait for an answer with it; Python's default is 5 ms.
_SWITCH = 0.001
# New objects after which garbage is looked for. Requests leave none; those of a hundred clients who
# wait at once have more than Python's default of 700.
_OBJECTS = 20_000


def serve(settings: ServiceSettings, *, announce: Callable[[str], None]) -> None:
    """Run the service until it is told to stop (SIGTERM or SIGINT).

    Requests under way are finished, the engine is closed, and then the function returns.
    ``announce`` is told the address, and the first API key when there was none.
    """
    set_up(settings.log_level)
    with contextlib.ExitStack() as stack:
        keys = KeyStore(settings.keys_path, admin=settings.admin_key)
        stack.callback(keys.close)
        _check_reach(settings, keys)
        listening = stack.enter_context(_socket(settings))  # before the engine: fails at once
        engine = stack.enter_context(Engine.open(settings.db))
        service = Service(engine=engine, keys=keys, settings=settings)
        stack.callback(service.evaluations.close)
        app = application(service)
        first = None if keys.any_valid() else keys.add(["admin"], note="made at the first start")[1]
        announce(_greeting(settings, listening, first))
        gc.collect()
        gc.freeze()  # what lives as long as the process need not be looked at again
        gc.set_threshold(_OBJECTS)
        sys.setswitchinterval(_SWITCH)
        _run(app, settings, listening)
    LOGGER.info("stopped")


def _check_reach(settings: ServiceSettings, keys: KeyStore) -> None:
    """Refuse to listen where others can reach it, as long as nobody has a key."""
    if not is_loopback(settings.host) and not keys.any_valid():
        raise ConfigurationError(
            f"{settings.host} can be reached from other machines, and there is no API key yet; "
            f"make one first: cobandits keys add admin --keys {settings.keys_path}, or set "
            "COBANDITS_ADMIN_KEY"
        )


def _socket(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise CobanditsError(
            f"cannot listen at {settings.host}, port {settings.port} ({error.strerror or error}); "
            "name another one with --host and --port"
        ) from error


def _greeting(settings: ServiceSettings, listening: socket.socket, first: str | None) -> str:
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{scheme}://{host}:{listening.getsockname()[1]}"
    shown = settings.db.rpartition("@")[2]  # without a password
    lines = [f"cobandits {cobandits.__version__} serves {shown} at {address}"]
    if first is not None:
        lines += [f"First API key, for everything, shown only now: {first}"]
    lines += ["Stop with Ctrl-C."]
    return "\n".join(lines)


class _Server(uvicorn.Server):
    """A server that stops when it is told to, and leaves the end of the process to its caller."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM stop the server."""
        both = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in both}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def _run(app: Application, settings: ServiceSettings, listening: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        http=direct_protocol(app.api),
        loop="auto",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=settings.grace,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    loop = config.get_loop_factory()
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_Server(config).serve(sockets=[listening]))
