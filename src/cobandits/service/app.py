"""The whole application: the API, and the pages for people beside it."""

from __future__ import annotations

from cobandits.service.asgi import Api
from cobandits.service.state import Service
from cobandits.service.table import table

__all__ = ["application"]


def application(service: Service) -> Api:
    """Return the ASGI application of a service."""
    return Api(service, table())
