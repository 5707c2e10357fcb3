"""Pages for people: rendered here, without scripts, for a browser of any kind."""

from cobandits.service.dashboard.pages import Pages

__all__ = ["Pages"]
