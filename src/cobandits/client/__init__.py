"""A client of the service: typed, for threads (`Client`) and for asyncio (`AsyncClient`)."""

import importlib.util as _util

from cobandits.errors import MissingExtraError

if _util.find_spec("httpx") is None:  # pragma: no cover - tests have every extra
    raise MissingExtraError("httpx", "client")

from cobandits.client.asynchronous import AsyncClient
from cobandits.client.errors import ServiceError, UnreachableError
from cobandits.client.exchange import Retries
from cobandits.client.rewards_async import AsyncRewards
from cobandits.client.rewards_sync import Rewards
from cobandits.client.synchronous import Client

__all__ = [
    "AsyncClient",
    "AsyncRewards",
    "Client",
    "Retries",
    "Rewards",
    "ServiceError",
    "UnreachableError",
]
