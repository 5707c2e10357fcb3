"""Check a built site: every link inside it leads somewhere, and no page fetches from elsewhere.

``python tools/check_site.py build/docs``; ``make docs`` does it.
"""

from __future__ import annotations

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_FETCHED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src"}
_SHEETS = {"stylesheet", "icon", "preload", "prefetch"}  # links that a browser follows by itself


class Page(HTMLParser):
    """What a page links to, what it fetches, and the places in it that a link may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.fetched = path, list[str](), list[str]()
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        said = {name: value for name, value in attrs if value}
        self.places |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if said.get(_FETCHED.get(tag, "")):
            self.fetched.append(said[_FETCHED[tag]])
        if tag == "link" and _SHEETS & set(said.get("rel", "").split()):
            self.fetched.append(said["href"])


_page = cache(Page)


def pages(root: Path) -> list[Path]:
    """Return the pages of a site; what themes bring along is none."""
    return sorted(path for path in root.rglob("*.html") if "_static" not in path.parts)


def problems(root: Path) -> list[str]:
    """Return all that is wrong with a site, one line each."""
    found = []
    for path in pages(root):
        page = _page(path)
        where = path.relative_to(root)
        found += [f"{where} fetches {one}" for one in page.fetched if urlsplit(one).netloc]
        targets = sorted({*page.links, *page.fetched})
        found += [f"{where}: {one}: {wrong}" for one in targets if (wrong := _broken(page, one))]
    return found


def _broken(page: Page, target: str) -> str:
    """Return what is wrong with a link inside of the site, or nothing."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return ""
    path = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path.resolve()
    if path.is_dir():
        path /= "index.html"
    if not path.exists():
        return "no such file"
    place = unquote(parts.fragment)
    if place and path.suffix == ".html" and place not in _page(path).places:
        return "no such place on that page"
    return ""


def main(root: str) -> None:
    """Print what is wrong and exit with 1, or say how many pages were looked at."""
    found = problems(Path(root).resolve())
    if found:
        sys.exit("\n".join(found))
    print(f"{len(pages(Path(root)))} pages, no broken link, nothing from elsewhere")


if __name__ == "__main__":
    main(*sys.argv[1:])
