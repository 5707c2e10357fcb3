"""The report in a real browser: Chromium, without a window."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobandits.lab import report
from tests.browser import Browser, find_browser
from tests.constructed import reproduction

_PATH = find_browser()

pytestmark = pytest.mark.skipif(
    _PATH is None,
    reason="the report was not opened in a browser, as there is none: "
    "apt-get install chromium, or put another Chromium on the PATH",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    return report.write(reproduction(directory), directory)


@pytest.fixture(scope="module")
def _started() -> Iterator[Browser]:
    assert _PATH is not None
    with Browser(_PATH) as browser:
        yield browser


@pytest.fixture
def browser(_started: Browser, page: Path) -> Browser:
    """The report, opened on a desk, by day."""
    _started.window(1280)
    _started.colours("light")
    _started.open(page)
    return _started


def brightness(browser: Browser, selector: str, name: str) -> float:
    """Return how bright a colour of an element is, from 0 to 255."""
    css = f"getComputedStyle(document.querySelector({json.dumps(selector)})).{name}"
    colour = browser.run(css)
    channels = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(channels) / 3


def test_all_fourteen_panels_are_shown(browser: Browser) -> None:
    shown = browser.run(
        "[...document.images].filter(i => i.complete && i.naturalWidth > 0"
        " && i.getBoundingClientRect().width > 300).length"
    )
    assert shown == 14


def test_a_picture_that_does_not_load_would_be_noticed(browser: Browser) -> None:
    browser.run("document.images[0].src = 'data:image/png;base64,AAAA'")
    broken = browser.run("[...document.images].filter(i => !(i.naturalWidth > 0)).length")
    assert broken == 1


def test_no_error_and_no_request_outside_of_the_page(browser: Browser, page: Path) -> None:
    assert browser.named("Log.entryAdded") == []
    assert browser.named("Runtime.exceptionThrown") == []
    assert browser.named("Network.loadingFailed") == []
    urls = {said["request"]["url"] for said in browser.named("Network.requestWillBeSent")}
    assert {url for url in urls if not url.startswith("data:")} == {page.resolve().as_uri()}


def test_every_link_leads_to_something_that_is_shown(browser: Browser) -> None:
    broken = browser.run(
        "[...document.links].filter(a => !a.getAttribute('href').startsWith('#')"
        " || !document.getElementById(a.hash.slice(1))?.getClientRects().length).map(a => a.href)"
    )
    assert browser.run("document.links.length") > 20
    assert broken == []


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_the_page_never_scrolls_sideways(browser: Browser, width: int) -> None:
    browser.window(width)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.run("window.innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width
    outside = browser.run(
        "[...document.querySelectorAll('h1, h2, h3, p, .scroll, .frame, pre, details')]"
        f".filter(e => e.getBoundingClientRect().right > {width}).length"
    )
    assert outside == 0


def test_text_is_large_enough_on_a_narrow_window(browser: Browser) -> None:
    browser.window(360)
    least = browser.run(
        "Math.min(...[...document.querySelectorAll('p, td, th, figcaption, a')]"
        ".map(e => parseFloat(getComputedStyle(e).fontSize)))"
    )
    assert least >= 13


@pytest.mark.parametrize(("scheme", "dark"), [("light", False), ("dark", True)])
def test_the_page_is_as_dark_as_the_reader_likes(browser: Browser, scheme: str, dark: bool) -> None:
    browser.colours(scheme)
    paper = brightness(browser, "body", "backgroundColor")
    texts = [brightness(browser, one, "color") for one in ("body", "a", ".soft", ".verdict")]
    assert paper < 40 if dark else paper > 230
    assert all(abs(text - paper) > 90 for text in texts)
    inverted = browser.run("getComputedStyle(document.querySelector('.frame')).filter")
    assert ("invert" in inverted) == dark
