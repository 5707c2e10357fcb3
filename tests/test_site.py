"""The pages of the site: their code runs, their links lead somewhere, no public name is missing."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import json
import pkgutil
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import cobandits
from tests.commands import command_line
from tests.service import running
from tools import check_site, site_versions

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
RUN = sorted([*DOCS.glob("tutorials/*.md"), *DOCS.glob("how-to/*.md"), DOCS / "index.md"])
MADE = ("gallery", "reference/api", "_build")  # by `make docs`
PAGES = sorted(
    path
    for path in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]
    if not path.relative_to(ROOT).as_posix().startswith(tuple(f"docs/{made}" for made in MADE))
)
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL
)
SERVED = "http://127.0.0.1:8000"  # a page that names it gets a service of its own
WIDE = 88  # characters of a line of code that a page has room for
LINK = re.compile(r"\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?:#(?P<heading>[^)\s]+))?\)")


class Block(NamedTuple):
    """A block of code of a page."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        yield Block(found["language"].strip(), found["text"], line)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in found}


class Roughly(doctest.OutputChecker):
    """Compares output as doctest does, but decimals and percentages to a tenth.

    Pages show what a policy learned; a better policy should not make them wrong.
    """

    NUMBER = re.compile(r"-?\d+\.\d+|-?\d+(?=%)")

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        wanted, found = (np.array(self.NUMBER.findall(text), float) for text in (want, got))
        if np.shape(wanted) != np.shape(found):
            return False
        wide = np.array([2.0 if "." not in one else 0.1 for one in self.NUMBER.findall(want)])
        want, got = (self.NUMBER.sub("#", text) for text in (want, got))
        near = bool(np.all(np.abs(wanted - found) <= wide + 0.1 * np.abs(wanted)))
        return near and super().check_output(want, got, optionflags)


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("0.50 and 80%", "0.47 and 84%", True),
        ("0.50 and 80%", "0.50 and 95%", False),
        ("0.50", "0.80", False),
        ("211 rewards", "212 rewards", False),
        ("0.5", "0.5 0.5", False),
    ],
)
def test_decimals_and_percentages_are_compared_roughly(want: str, got: str, same: bool) -> None:
    assert Roughly().check_output(want, got, 0) == same


@pytest.mark.parametrize("page", RUN, ids=name)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Examples in Python give what the page shows, and commands succeed, in one directory."""
    monkeypatch.chdir(tmp_path)
    if SERVED not in page.read_text(encoding="utf-8"):
        run_blocks(page, blocks(page), capsys)
        return
    with running(tmp_path / "shops.db") as service:
        monkeypatch.setenv("COBANDITS_KEY", service.key)
        found = (
            block._replace(text=block.text.replace(SERVED, service.address))
            for block in blocks(page)
        )
        run_blocks(page, found, capsys)


def run_blocks(page: Path, found: Iterable[Block], capsys: pytest.CaptureFixture[str]) -> None:
    run, variables = command_line(capsys), {"__name__": "__main__"}
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner, parser = doctest.DocTestRunner(Roughly(), False, flags), doctest.DocTestParser()
    for block in found:
        if block.language == "python":
            example = parser.get_doctest(block.text, variables, name(page), str(page), block.line)
            said: list[str] = []
            failed, _ = runner.run(example, out=said.append, clear_globs=False)
            variables = example.globs
            assert not failed, "".join(said)
        elif block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "cobandits"
                result = run(*arguments)
                assert result.code == 0, result.err


@pytest.mark.parametrize("page", [*RUN, DOCS / "service.md"], ids=name)
def test_lines_of_code_fit_on_the_page(page: Path) -> None:
    """On a screen of 1280 pixels, beside both sidebars."""
    lines = [line for block in blocks(page) for line in block.text.splitlines()]
    assert [line for line in lines if len(line) > WIDE] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_that_is_only_shown_is_python_and_imports_what_there_is(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python" and ">>>" not in block.text:
            for node in ast.walk(ast.parse(block.text)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("cobandits"):
                    module = importlib.import_module(str(node.module))
                    assert [one.name for one in node.names if not hasattr(module, one.name)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.finditer(text):
        target = (page.parent / link["path"]).resolve()
        if name(target).startswith(tuple(f"docs/{made}" for made in MADE)):
            continue  # Sphinx looks at these
        assert target.exists(), link[0]
        if link["heading"]:
            assert link["heading"] in headings(target), link[0]


def extension(name: str) -> Any:
    """Return an extension of Sphinx that is no package."""
    path = DOCS / "_extensions" / f"{name}.py"
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_command_has_its_section_and_its_options() -> None:
    text = extension("command_pages").page()
    for command in ("fit", "predict", "simulate", "evaluate", "reproduce", "data fetch"):
        assert f"\n## cobandits {command}\n" in text
    assert "| `--task " in text


def test_every_public_name_is_on_the_page_of_its_module() -> None:
    pages = extension("api_pages")
    modules = pages.public_modules()
    assert {"cobandits.policies", "cobandits.tasks.sources", "cobandits.errors"} <= set(modules)
    top = {f"cobandits.{one.name}" for one in pkgutil.iter_modules(cobandits.__path__)}
    named = {".".join(module.split(".")[:2]) for module in modules}
    left = top - named - set(pages.INTERNAL)
    assert not any(hasattr(importlib.import_module(one), "__all__") for one in left)
    for module in modules:
        shown = set(pages.page(module).split())
        assert set(importlib.import_module(module).__all__) <= shown


def test_the_check_of_a_built_site_finds_what_is_broken_and_what_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text("<h1 id='top'>a</h1><a href='#top'>b</a>")
    (tmp_path / "bad.html").write_text(
        "<a href='good.html#top'>a</a><a href='good.html#end'>b</a><a href='gone.html'>c</a>"
        "<a href='https://example.org/'>d</a><script src='https://example.org/e.js'></script>"
    )
    assert sorted(check_site.problems(tmp_path)) == [
        "bad.html fetches https://example.org/e.js",
        "bad.html: gone.html: no such file",
        "bad.html: good.html#end: no such place on that page",
    ]


def test_versions_of_the_site_stand_side_by_side(tmp_path: Path) -> None:
    built, site = tmp_path / "built", tmp_path / "site"
    built.mkdir()
    (built / "index.html").write_text("first", encoding="utf-8")
    assert site_versions.add_version(built, site, "0.9.0") == ["0.9.0"]
    assert site_versions.add_version(built, site, "0.10.0", base="/docs/") == ["0.10.0", "0.9.0"]
    (built / "index.html").write_text("again", encoding="utf-8")
    assert site_versions.add_version(built, site, "0.9.0") == ["0.10.0", "0.9.0"]
    assert (site / "0.9.0" / "index.html").read_text(encoding="utf-8") == "again"
    assert (site / "0.10.0" / "index.html").read_text(encoding="utf-8") == "first"
    menu = json.loads((site / "versions.json").read_text(encoding="utf-8"))
    assert [(one["version"], one["url"]) for one in menu] == [
        ("0.10.0", "/0.10.0/"),
        ("0.9.0", "/0.9.0/"),
    ]
    assert check_site.problems(site) == []
