"""``cobandits serve`` and ``cobandits keys``: the service, and who may use it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cobandits.errors import ConfigurationError, MissingExtraError

__all__ = ["keys", "serve"]

KeysFile = Annotated[Path, typer.Option("--keys", help="The file of the keys: <db>-keys.")]


def serve(  # noqa: PLR0917
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with a table [serve].", exists=True)
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(help="The log: a file, made if missing, or postgresql://... [cobandits.db]"),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Where to listen. [127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="0 takes a free one. [8000]")] = None,
    keys: Annotated[str | None, typer.Option(help="The file of the API keys. [<db>-keys]")] = None,
    tls_cert: Annotated[str | None, typer.Option(help="A certificate, for TLS.")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its private key.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second and key. [20000]")] = None,
    waiting: Annotated[int | None, typer.Option(help="Requests that may wait. [4096]")] = None,
    body: Annotated[int | None, typer.Option(help="Bytes of the largest body. [1048576]")] = None,
    https: Annotated[
        bool | None, typer.Option("--https/--no-https", help="A proxy does TLS. [no]")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error. [info]")
    ] = None,
    dashboard: Annotated[
        bool | None, typer.Option("--dashboard/--no-dashboard", help="Pages for people. [yes]")
    ] = None,
    grace: Annotated[
        int | None, typer.Option(help="Seconds for requests under way at a stop. [30]")
    ] = None,
) -> None:
    """Serve decisions over HTTP: durable, for many related tasks.

    Each option can also be set by the environment (COBANDITS_PORT) and in a TOML file.
    """
    given = {name: value for name, value in locals().items() if name != "config"}
    _check_extra()
    from cobandits.service import ServiceSettings
    from cobandits.service import serve as run

    run(ServiceSettings.read(given, file=config), announce=partial(print, flush=True))


keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys of the service.")


@keys.command("add")
def add(
    roles: Annotated[list[str], typer.Argument(help="decide, reward, read, admin")],
    file: KeysFile = Path("cobandits.db-keys"),
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
    rate: Annotated[float | None, typer.Option(help="Requests per second.")] = None,
) -> None:
    """Make a key; it is shown only now. A service that runs knows it within a second."""
    from cobandits.service.keys import ROLES, KeyStore

    known = [role for role in ROLES if role in roles]
    if len(known) < len(roles):
        raise ConfigurationError(f"roles are {', '.join(ROLES)}, got {', '.join(roles)}")
    store = KeyStore(file)
    try:
        print(store.add(known, note=note, rate=rate)[1])
    finally:
        store.close()


@keys.command("list")
def show(file: KeysFile = Path("cobandits.db-keys")) -> None:
    """List the keys, without their secrets."""
    from cobandits.service.keys import KeyStore

    store = KeyStore(file)
    try:
        for key in store.all():
            state = "valid" if key.revoked is None else f"revoked {key.revoked}"
            print(f"{key.id}  {','.join(key.roles):24}  {key.made}  {state}  {key.note}")
    finally:
        store.close()


@keys.command("revoke")
def revoke(
    key: Annotated[str, typer.Argument(help="Its id: the eight characters after cb_.")],
    file: KeysFile = Path("cobandits.db-keys"),
) -> None:
    """Revoke a key, within a second also for a service that runs."""
    from cobandits.service.keys import KeyStore

    store = KeyStore(file)
    try:
        found = store.revoke(key)
    finally:
        store.close()
    if found is None:
        raise ConfigurationError(f"there is no key {key!r}; see: cobandits keys list")
    print(f"{found.id} is revoked")


def _check_extra() -> None:
    """Refuse where a package of the extra is missing, and name the extra."""
    import importlib.util

    for package in ("msgspec", "uvicorn", "httptools", "prometheus_client", "jinja2"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "serve")
