"""Put a built site beside those of other versions.

``python tools/site_versions.py build/docs build/site 0.1.0`` copies it to ``build/site/0.1.0``,
and writes what the menu of versions reads and a first page that leads to the newest one.
``make site`` does it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from packaging.version import InvalidVersion, Version

_FIRST_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>cobandits</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html"></head>
<body><p><a href="{newest}/index.html">cobandits {newest}</a></p></body></html>
"""


def add_version(built: Path, site: Path, version: str, base: str = "/") -> list[str]:
    """Copy a built site into a site of versions; return all of its versions, newest first."""
    shutil.rmtree(site / str(Version(version)), ignore_errors=True)
    shutil.copytree(built, site / str(Version(version)))
    names = [str(one) for one in sorted(filter(None, map(_version, site.iterdir())), reverse=True)]
    menu = [
        {"name": f"{name}, newest" if name == names[0] else name, "version": name}
        | {"url": f"{base}{name}/"}
        for name in names
    ]
    (site / "versions.json").write_text(json.dumps(menu, indent=1) + "\n", encoding="utf-8")
    (site / "index.html").write_text(_FIRST_PAGE.format(newest=names[0]), encoding="utf-8")
    return names


def _version(folder: Path) -> Version | None:
    """Return the version that a folder is named after, if it is."""
    try:
        return Version(folder.name)
    except InvalidVersion:
        return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Put a built site beside those of other versions.")
    parser.add_argument("built", type=Path)
    parser.add_argument("site", type=Path)
    parser.add_argument("version")
    parser.add_argument("--base", default="/", help="the path that the site is served at")
    given = parser.parse_args()
    print("Versions:", ", ".join(add_version(given.built, given.site, given.version, given.base)))
