"""A service with settings from JSON; without the command line, whose others take long to load."""

from __future__ import annotations

import functools
import json
import sys

from cobandits.service import ServiceSettings, serve

if __name__ == "__main__":
    settings = ServiceSettings.read(json.loads(sys.argv[1]))
    serve(settings, announce=functools.partial(print, flush=True))
