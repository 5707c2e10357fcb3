"""The whole application: the API, and the pages for people beside it."""

from __future__ import annotations

from cobandits.service.asgi import Api, Receive, Scope, Send
from cobandits.service.dashboard import Pages
from cobandits.service.state import Service
from cobandits.service.table import table

__all__ = ["Application", "application"]


class Application:
    """Leads a request to the API or to the pages."""

    def __init__(self, service: Service) -> None:
        self.api = Api(service, table())
        self._pages = Pages(service) if service.settings.dashboard else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        page = path in ("/", "/dashboard") or path.startswith("/dashboard/")
        if page and self._pages is not None:
            await self._pages(scope, receive, send)
        else:
            await self.api(scope, receive, send)


def application(service: Service) -> Application:
    """Return the ASGI application of a service."""
    return Application(service)
