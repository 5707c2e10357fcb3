"""The report says all that it should, holds all that it shows, and its links lead somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cobandits.errors import ConfigurationError
from cobandits.lab import Record, report
from cobandits.lab import reproduction as reproductions
from cobandits.lab.choices import CHOICES
from cobandits.lab.claims import Claim, Evidence
from cobandits.lab.pages import data_uri, picture_file, write_experiment
from cobandits.lab.panels import available
from cobandits.lab.records import configuration
from tests.constructed import reproduction

_VOID = {"meta", "img", "link", "br", "hr", "input"}


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text; refuses tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, tag: str, attribute: str) -> list[str]:
        return [value for name, said in self.tags if name == tag and (value := said.get(attribute))]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    return report.write(reproduction(directory), directory)


@pytest.fixture(scope="module")
def page(written: Path) -> Page:
    return Page(written.read_text(encoding="utf-8"))


def test_every_panel_has_its_picture_title_and_parameters(page: Page) -> None:
    panels = available()
    assert len(panels) == 14
    assert page.values("article", "id") == [f"panel-{name}" for name in panels]
    assert len(page.values("img", "src")) == 14
    for name, panel in panels.items():
        assert f"{name}. {panel.title}" in page.text
        assert all(value in page.text for value in panel.parameters.values())
    for name, alt in zip(panels, page.values("img", "alt"), strict=True):
        assert alt.startswith(f"Panel {name}: ")


def test_every_claim_and_choice_is_there(page: Page, written: Path) -> None:
    found = reproduction(written.parent / "again").claims
    plain = " ".join(page.text.split())
    for claim in found:
        assert claim.text in plain
        assert claim.numbers in plain
        assert claim.verdict in plain
    assert all(choice.question in plain and choice.value in plain for choice in CHOICES)


def test_how_it_was_run_is_said(page: Page) -> None:
    command = f"cobandits reproduce {' '.join(available())} --quick --jobs 2"  # without studies
    for said in (command, "1 min 15 s", "a processor", "2024-01-01"):
        assert said in page.text


def test_who_has_less_regret_is_below_the_papers_policy(tmp_path: Path) -> None:
    made = reproduction(tmp_path)  # 10 for the paper's policy, 20 and 21 in two trials for others
    html = Page(report.write(made, tmp_path).read_text(encoding="utf-8"))
    assert "20.5 (+10.5 ± 6.4)" in html.text
    assert "Ridge, every round: lower than LRRL-AltGDMin in 0 of" in html.text


def test_links_lead_to_headings_and_ids_are_unique(page: Page) -> None:
    ids = [value for _, said in page.tags if (value := said.get("id"))]
    assert len(ids) == len(set(ids))
    links = page.values("a", "href")
    assert links
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_nothing_is_outside_of_the_page(page: Page, written: Path) -> None:
    assert all(source.startswith("data:image/") for source in page.values("img", "src"))
    assert not {"script", "link", "iframe"} & {tag for tag, _ in page.tags}
    text = re.sub(r"data:[^\"]*", "", written.read_text(encoding="utf-8"))
    assert "http://" not in text
    assert "https://" not in text
    assert "url(" not in text
    assert written.stat().st_size < 3_000_000


def test_digits_in_place_of_mnist_are_said_to_be_so(page: Page) -> None:
    assert "MNIST was not there: in 1d, 1e, 1f" in page.text
    assert page.text.count("Scikit-learn's digits in place of MNIST.") == 3


def test_markdown_has_the_same_and_its_pictures_exist(written: Path) -> None:
    text = written.with_suffix(".md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(pictures) == 14
    assert all((written.parent / picture).is_file() for picture in pictures)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_labels_are_text_and_not_markup(tmp_path: Path) -> None:
    made = reproduction(tmp_path, label=lambda line: f"<b>{line}|</b>", notes=["<i>a note</i>"])
    path = report.write(made, tmp_path)
    html = Page(path.read_text(encoding="utf-8"))
    assert not {"b", "i"} & {tag for tag, _ in html.tags}
    assert "<b>lrrl|</b>" in html.text
    assert "<i>a note</i>" in html.text
    assert "<b>lrrl\\|</b>" in path.with_suffix(".md").read_text(encoding="utf-8")


def test_some_panels_alone(tmp_path: Path) -> None:
    whole = reproduction(tmp_path)
    some = {name: whole.records[name] for name in ("2a", "1a")}
    path = report.write(type(whole)(**{**vars(whole), "records": some}), tmp_path)
    html = Page(path.read_text(encoding="utf-8"))
    assert html.values("article", "id") == ["panel-1a", "panel-2a"]
    assert "2 of 14 panels" in html.text
    assert "cobandits reproduce 2a 1a --quick" in html.text
    assert "not tested" in html.text


def test_a_large_svg_gives_way_to_its_png(tmp_path: Path) -> None:
    svg, png = tmp_path / "one.svg", tmp_path / "one.png"
    svg.write_bytes(b"<svg/>")
    png.write_bytes(b"\x89PNG")
    assert picture_file(tmp_path / "one") == svg
    assert data_uri(svg) == "data:image/svg+xml;base64,PHN2Zy8+"
    svg.write_bytes(b" " * 200_000)
    assert picture_file(tmp_path / "one") == png


def test_a_readers_own_experiment(tmp_path: Path) -> None:
    stem = reproduction(tmp_path).figures["1a"]
    path = write_experiment(
        tmp_path / "mine",
        title="Mine & yours",
        setting="synthetic, dim 5",
        standings=[{"policy": "ridge", "regret": "3.1"}, {"policy": "<random>", "regret": "9"}],
        figures={"Regret by round": stem},
        notes=["Tuned."],
        facts={"trials": "3"},
    )
    html = Page(path.read_text(encoding="utf-8"))
    for said in ("Mine & yours", "synthetic, dim 5", "<random>", "3.1", "Tuned.", "trials"):
        assert said in html.text
    assert html.values("img", "alt") == ["Regret by round"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ConfigurationError, match="taken"):
        report.write(reproduction(tmp_path / "made"), tmp_path / "taken")


def test_captions_say_what_the_lines_are(page: Page) -> None:
    assert page.text.count("Medians over 2 trials.") == 4  # 2a, b, d, e
    assert page.text.count("Means over 2 trials (shared: 1).") == 7  # 1a-c, 1g-i, 2c
    assert page.text.count("One trial.") == 3  # pairs of digits


def test_panels_with_fewer_trials_are_named(page: Page) -> None:
    assert "14 of 14 panels, 2 trials of each setting (1 in 1d, 1e, 1f)." in page.text


@pytest.mark.parametrize(
    ("names", "commands"),
    [
        (("1d",), [".[cli,sklearn]", "cobandits data fetch mnist\ncobandits reproduce 1d"]),
        (("1a",), [".[cli]'\ncobandits reproduce 1a"]),
    ],
)
def test_the_commands_fetch_what_the_panels_need(
    names: tuple[str, ...], commands: list[str], tmp_path: Path
) -> None:
    whole = reproduction(tmp_path)
    some = {
        name: {
            line: [
                record | {"environment": "mnist"} if name == "1d" else record for record in found
            ]
            for line, found in whole.records[name].items()
        }
        for name in names
    }
    path = report.write(type(whole)(**{**vars(whole), "records": some}), tmp_path)
    text = Page(path.read_text(encoding="utf-8")).text
    assert all(command in text for command in commands)


def test_claims_are_checked_once_for_report_and_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[Evidence] = []

    def check(evidence: Evidence) -> list[Claim]:
        checked.append(evidence)
        return []

    monkeypatch.setattr(reproductions, "check", check)
    made = reproduction(tmp_path)
    report.write(made, tmp_path)
    assert made.claims == []
    assert len(checked) == 1


def test_a_configuration_is_parsed_once() -> None:
    record: Record = {"configuration": '{"rounds": 40}'}
    assert configuration(record) == {"rounds": 40}
    assert configuration(record) is configuration(dict(record))
