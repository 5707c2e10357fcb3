"""One module a library: a new library is one new file here.

A module has ``PEERS``, ``UNABLE`` or both. Importing one does not import its library.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from benchmarks.peers.contract import Peer, Unable

__all__ = ["module_of", "modules", "peers", "unable"]


def modules() -> list[ModuleType]:
    """Return the adapters in the order of their names."""
    return [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]


def peers() -> dict[str, Peer]:
    """Return all peers by name."""
    return {peer.name: peer for module in modules() for peer in getattr(module, "PEERS", ())}


def module_of(peer: str) -> str:
    """Return the module that has a peer, as it is imported."""
    return next(
        module.__name__
        for module in modules()
        if any(one.name == peer for one in getattr(module, "PEERS", ()))
    )


def unable() -> list[Unable]:
    """Return what cannot do the task, and why."""
    return [one for module in modules() for one in getattr(module, "UNABLE", ())]
