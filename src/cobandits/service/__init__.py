"""The service: durable decisions over HTTP, on an engine that one process owns."""

from cobandits.service.server import serve
from cobandits.service.settings import ServiceSettings

__all__ = ["ServiceSettings", "serve"]
