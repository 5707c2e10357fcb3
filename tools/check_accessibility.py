"""Check the built site and the dashboard with axe, light and dark, wide and narrow.

``python -m tools.check_accessibility build/docs``; ``make check-accessibility`` does it. It needs
Chromium and npm, from which axe comes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from tests import test_dashboard
from tests.browser import Browser, find_browser
from tests.service import running
from tools.check_site import pages

AXE = "axe-core@4.14.0"
WIDTHS, SCHEMES = (1280, 360), ("light", "dark")
MADE = ("reference/api", "_modules")  # pages by one template: the first few of each stand for all
FEW = 5
RUN = """axe.run().then(found => JSON.stringify(found.violations.flatMap(one =>
    one.nodes.map(node => `${one.id} (${one.impact}): ${node.target.join(" ")}`))))"""


def main(root: str) -> None:
    """Print all violations and exit with 1, or say how many pages were looked at."""
    path = find_browser()
    if path is None:
        sys.exit("there is no browser: apt-get install chromium")
    site = [page.as_uri() for page in written(Path(root).resolve())]
    with tempfile.TemporaryDirectory() as folder, Browser(path) as browser:
        axe = script(Path(folder))
        found = problems(browser, axe, site)
        with running(Path(folder) / "pages.db") as service:
            test_dashboard.played(service)
            shown = [service.address + page for page in test_dashboard.paths(service)]
            found += problems(browser, axe, [f"{service.address}/dashboard/login"])
            test_dashboard.log_in(browser, service)
            found += problems(browser, axe, [*shown, f"{shown[2]}?live=1"])
    if found:
        sys.exit("\n".join(found))
    print(f"{len(site)} pages of the site, {len(shown) + 2} of the dashboard: nothing found")


def written(root: Path) -> list[Path]:
    """Return the pages of a site, but only a few of those that are made alike."""
    places = {page: page.relative_to(root).as_posix() for page in pages(root)}
    kept = [page for page, place in places.items() if not place.startswith(MADE)]
    for made in MADE:
        kept += [page for page, place in places.items() if place.startswith(made)][:FEW]
    return kept


def script(folder: Path) -> str:
    """Return the source of axe."""
    packed = ["npm", "pack", "--silent", AXE]
    subprocess.run(packed, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob("*.tgz")
    subprocess.run(["tar", "-xzf", archive, "package/axe.min.js"], cwd=folder, check=True)
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


def problems(browser: Browser, axe: str, addresses: Iterable[str]) -> list[str]:
    """Return what is wrong with pages, one line each."""
    found = []
    for address in addresses:
        for width in WIDTHS:
            for scheme in SCHEMES:
                browser.window(width)
                browser.colours(scheme)
                browser.visit(address)
                wrong = [*violations(browser, axe), *strangers(browser, address)]
                if browser.run("document.documentElement.scrollWidth") > width:
                    wrong.append("wider than the window")
                found += [f"{address} ({width}, {scheme}): {one}" for one in wrong]
    return found


def violations(browser: Browser, axe: str) -> list[str]:
    """Return what axe has found."""
    browser.run(f"{axe}; 0")
    answer = browser.send("Runtime.evaluate", expression=RUN, awaitPromise=True, returnByValue=True)
    return list(json.loads(answer["result"]["value"]))


def strangers(browser: Browser, address: str) -> list[str]:
    """Return what a page has asked for elsewhere."""
    asked = [one["request"]["url"] for one in browser.named("Network.requestWillBeSent")]
    here = {urlsplit(address)[:2], ("data", ""), ("blob", "")}
    return [f"fetches {url}" for url in asked if urlsplit(url)[:2] not in here]


if __name__ == "__main__":
    main(*sys.argv[1:])
