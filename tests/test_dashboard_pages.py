"""Lists, pictures and small screens of the dashboard."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from pathlib import Path

import pytest

from cobandits.engine import Engine
from cobandits.service.dashboard import decisions
from cobandits.service.dashboard.charts import reward_chart, round_marks
from cobandits.service.dashboard.decisions import Place, listed
from cobandits.service.dashboard.tally import Cell
from cobandits.service.dashboard.task_map import sharing_map
from cobandits.wire import TaskPoint
from tests.browser import Browser, find_browser
from tests.service import Running, running
from tests.test_dashboard import log_in, logged_in, needs_browser, page, played

OFFERS = "/dashboard/spaces/offers"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("pages") / "pages.db") as found:
        played(found)
        yield found


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[Browser]:
    path = find_browser()
    assert path is not None
    with Browser(path) as found:
        yield found


# ---- Lists


def ids(shown: str) -> list[str]:
    return re.findall(r'/decisions/([^"]+)">', shown)


def link(shown: str, text: str) -> str | None:
    found = re.search(rf'href="(\?[^"]*)">{text}</a>', shown)
    return None if found is None else unescape(found[1])


def walked(service: Running, cookie: str, query: str) -> list[str]:
    """Return the pages of a list, from the newest to the oldest one."""
    found = [page(service, f"{OFFERS}/decisions{query}", cookie)]
    while older := link(found[-1], "Older"):
        found.append(page(service, f"{OFFERS}/decisions{older}", cookie))
    return found


@pytest.mark.parametrize("task", ["", "rome"])
def test_all_decisions_are_reached_page_by_page(service: Running, task: str) -> None:
    cookie = logged_in(service)
    made = service.get("/v1/spaces/offers/decisions?limit=1000").json["decisions"]
    wanted = [one["decision"]["id"] for one in made if task in ("", one["decision"]["task"])]
    pages = walked(service, cookie, f"?task={task}")
    assert [one for shown in pages for one in ids(shown)] == wanted[::-1]
    assert all(f"{len(wanted)} decisions" in shown for shown in pages)
    assert link(pages[0], "Newer") is None
    for newer, older in pairwise(pages):
        back = page(service, f"{OFFERS}/decisions{link(older, 'Newer')}", cookie)
        assert ids(back) == ids(newer)
    odd = page(service, f"{OFFERS}/decisions?task={task}&before=x", cookie)
    assert ids(odd) == ids(pages[0])


def test_a_rare_task_is_found_though_pages_look_at_a_part_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_BACK", 10)
    with Engine.open(tmp_path / "a.db") as engine:
        space = engine.space("space", dim=1)
        for n in range(60):
            task = "rare" if n in (3, 4, 30) else "berlin"
            space.decide(task, arms=[{"features": [1.0]}], id=f"d{n}")
        rows, place = [], Place()
        while True:
            found = listed(space, "rare", place, 2)
            rows += [row["id"] for row in found.rows]
            if found.older is None:
                break
            place = Place(before=found.older)
        assert rows == ["d30", "d4", "d3"]
        while found.newer is not None:  # and back
            found = listed(space, "rare", Place(after=found.newer), 2)
            rows += [row["id"] for row in found.rows]
        assert rows[3:] == ["d4", "d3", "d30"]  # the oldest page had none of them


# ---- One decision, errors, forms


def test_a_decision_says_when_and_how_it_was_made_and_which_tasks_are_alike(
    service: Running,
) -> None:
    service.post("/v1/spaces", {"name": "opposite", "dim": 1})
    for n in range(40):
        for task, sign in (("berlin", 1), ("oslo", 1), ("rome", -1)):
            value = (-1.0) ** n
            asked = {"task": task, "id": f"{task}-{n}", "arms": [{"features": [value]}]}
            made = service.post("/v1/spaces/opposite/decisions", asked).json
            path = f"/v1/spaces/opposite/decisions/{made['id']}/rewards"
            service.post(path, {"value": sign * value})
    while service.get("/v1/spaces/opposite/report").json["waiting"]:
        time.sleep(0.05)
    cookie = logged_in(service)
    shown = page(service, "/dashboard/spaces/opposite/decisions/berlin-0", cookie)
    made = service.get("/v1/spaces/opposite/decisions/berlin-0").json["decision"]
    assert f"<dd>{made['at'][:19].replace('T', ' ')} UTC</dd>" in shown
    assert "<dd>best: " in shown
    assert re.search(r"Most alike: oslo \(1\.00\)\. Unlike it: rome \(-1\.00\)\.", shown)
    assert "-1 is opposite" in shown
    (explored,) = [
        one["decision"]["id"]
        for one in service.get("/v1/spaces/offers/decisions?limit=1000").json["decisions"]
        if one["decision"]["explored"]
    ][:1]
    assert "<dd>explored: " in page(service, f"{OFFERS}/decisions/{explored}", cookie)


def test_a_page_of_an_error_has_the_navigation_and_words_for_a_reader(service: Running) -> None:
    cookie = {"Cookie": logged_in(service)}
    for path in ("spaces/nope", "spaces/nope/versions", "spaces/offers/decisions/nope", "nope"):
        answer = service.get(f"/dashboard/{path}", key=None, headers=cookie)
        shown = answer.body.decode()
        assert answer.status == 404
        assert "POST" not in shown
        assert 'href="/dashboard/errors"' in shown
        assert "Log out" in shown
    out = service.send("PUT", "/dashboard", b"", key=None)
    assert b"Log out" not in out.body


@needs_browser
def test_the_browser_has_nothing_to_say_of_the_form_and_rows_are_even(
    browser: Browser, service: Running
) -> None:
    browser.visit(f"{service.address}/dashboard/login")
    time.sleep(0.5)  # the hint comes after the page
    browser.run("1")
    assert browser.named("Log.entryAdded") == []
    assert browser.run("document.activeElement.id") == "key"
    log_in(browser, service)
    browser.window(1280)
    browser.visit(f"{service.address}{OFFERS}/versions")
    tops = (
        "(e => { const r = document.createRange(); r.selectNodeContents(e);"
        "return r.getBoundingClientRect().top })"
    )
    summary, name = (
        browser.run(f"{tops}(document.querySelector('tbody {tag}'))") for tag in ("summary", "th")
    )
    assert abs(summary - name) < 2


# ---- Small screens


@needs_browser
@pytest.mark.parametrize("path", ["/dashboard", OFFERS, f"{OFFERS}/decisions"])
def test_a_phone_shows_all_columns_and_a_screen_reader_a_table(
    browser: Browser, service: Running, path: str
) -> None:
    log_in(browser, service)
    browser.window(390)
    browser.visit(service.address + path)
    cells = "[...document.querySelectorAll('.cards tbody th, .cards tbody td')]"
    rights = json.loads(
        browser.run(f"JSON.stringify({cells}.map(c => c.getBoundingClientRect().right))")
    )
    assert rights
    assert max(rights) <= 390
    named = f"{cells}.slice(1, 6).map(c => getComputedStyle(c, '::before').content)"
    assert "Reward" in browser.run(f"JSON.stringify({named})")
    nodes = browser.send("Accessibility.getFullAXTree")["nodes"]
    heads = [node["name"]["value"] for node in nodes if role(node) == "columnheader"]
    assert {"Space", "Mean reward"} <= set(heads) or {"When (UTC)", "Reward"} <= set(heads)
    roles = [role(node) for node in nodes]
    rows = browser.run("document.querySelectorAll('.cards tr').length")
    assert roles.count("rowheader") >= rows - 1
    assert roles.count("row") >= rows
    plain = ".cards :is(thead, tbody, tr, th, td):not([role])"  # browsers that need the roles
    assert browser.run(f"document.querySelectorAll('{plain}').length") == 0
    said = [node["name"]["value"] for node in nodes if role(node) == "cell"]
    assert not any(one.startswith("Reward") for one in said)  # the header has said it


def role(node: dict[str, dict[str, str]]) -> str:
    return node.get("role", {}).get("value", "")


# ---- Pictures


def test_marks_are_round_and_bands_stay_within_the_rewards_that_came() -> None:
    series = []
    for at, values in ((0, [1.0] * 9 + [0.0]), (10, [1.0] * 10), (20, [1.0, 0.0])):
        cell = Cell()
        for value in values:
            cell.add(value, 1.0, own=True)
        series.append((at, cell))
    drawn = str(reward_chart(series))
    marks = [float(text) for text in re.findall(r'text-anchor="end">([-\d.]+)<', drawn)]
    assert marks == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    ends = [float(y) for y in re.findall(r'class="grid"[^>]* y1="([\d.]+)"', drawn)]
    bands = " ".join(re.findall(r'class="band \w+" points="([^"]+)"', drawn))
    heights = [float(place.split(",")[1]) for place in bands.split()]
    assert min(ends) <= min(heights) <= max(heights) <= max(ends)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.915, 1.08), (-3e-7, 2e-7), (12_345, 98_765), (5.0, 5.0001)]
)
def test_marks_cover_the_range_with_few_numbers(low: float, high: float) -> None:
    marks = round_marks(low, high)
    assert marks[0] <= low < high <= marks[-1]
    assert 4 <= len(marks) <= 8
    assert all(len(f"{one:.10g}".lstrip("-")) <= 7 for one in marks)


def test_reward_that_never_changed_is_drawn() -> None:
    cell = Cell()
    for _ in range(4):
        cell.add(1.0, 1.0, own=True)
    assert 'class="line policy"' in reward_chart([(0, cell), (10, cell)])


@needs_browser
def test_names_on_the_map_do_not_overlap_and_stay_in_the_frame(
    browser: Browser, tmp_path: Path
) -> None:
    points = [
        TaskPoint(
            task=f"city {n}",
            rewards=n % 7,
            x=(n * 37 % 101) / 50,
            y=(n * 53 % 89) / 40,
            shared=0.5,
            uncertainty=0.1,
        )
        for n in range(60)
    ]
    styles = Path(decisions.__file__).parent / "templates" / "style.css"
    file = tmp_path / "map.html"
    head = f"<!DOCTYPE html><style>{styles.read_text(encoding='utf-8')}</style>"
    file.write_text(head + str(sharing_map(points)), encoding="utf-8")
    boxes = (
        "JSON.stringify([...document.querySelectorAll('.name, .frame')].map(e => "
        "(r => [r.left, r.top, r.right, r.bottom])(e.getBoundingClientRect())))"
    )
    for width in (390, 1280):
        browser.window(width)
        browser.open(file)
        frame, *names = json.loads(browser.run(boxes))
        assert 4 <= len(names) <= 12
        for place, one in enumerate(names):
            assert frame[0] <= one[0] < one[2] <= frame[2]
            for other in names[:place]:
                apart = one[2] <= other[0] or other[2] <= one[0]
                assert apart or one[3] <= other[1] + 1 or other[3] <= one[1] + 1
    assert "differ most" in file.read_text(encoding="utf-8")


def test_the_map_has_a_table(service: Running) -> None:
    shown = page(service, OFFERS, logged_in(service))
    table = shown.partition("Table of tasks on the map")[2].partition("</table>")[0]
    assert [task in table for task in ("berlin", "rome", "&lt;script&gt;")] == [True] * 3
    assert table.count("<tr>") == 4
