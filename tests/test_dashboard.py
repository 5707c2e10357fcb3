"""The pages for people, in a real browser where there is one, and by plain requests."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from tests.browser import Browser, find_browser
from tests.service import Answer, Running, running

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
ODD = "<script>alert(1)</script>"
needs_browser = pytest.mark.skipif(
    find_browser() is None,
    reason="the dashboard was not opened in a browser, as there is none: apt-get install chromium",
)


def played(service: Running, space: str = "offers") -> None:
    """Make a space with decisions and rewards."""
    rng = random.Random(0)
    service.post("/v1/spaces", {"name": space, "dim": 2, "floor": 0.1})
    for _ in range(8):
        batch = [
            {
                "task": rng.choice(["berlin", "rome", ODD]),
                "arms": [
                    {"id": arm, "features": [rng.gauss(0, 1), rng.gauss(0, 1)]}
                    for arm in ("tea", ODD)
                ],
            }
            for _ in range(25)
        ]
        answer = service.post(f"/v1/spaces/{space}/decisions:batch", {"decisions": batch}).json
        made = [one["decision"] for one in answer["results"]]
        rewards = [{"decision": one["id"], "value": rng.random()} for one in made]
        service.post(f"/v1/spaces/{space}/rewards:batch", {"rewards": rewards})
    while service.get(f"/v1/spaces/{space}/report").json["waiting"]:
        time.sleep(0.05)  # until all is learned


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("pages") / "pages.db") as found:
        played(found)
        yield found


def submitted(service: Running, path: str, fields: dict[str, str], **headers: str) -> Answer:
    body = urlencode(fields).encode()
    return service.send("POST", path, body, key=None, headers={**FORM, **headers})


def logged_in(service: Running, key: str | None = None) -> str:
    """Return the cookie of a new session."""
    answer = submitted(service, "/dashboard/login", {"key": key or service.key})
    assert (answer.status, answer.headers["location"]) == (303, "/dashboard")
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/dashboard"} <= set(cookie.split("; "))
    return cookie.partition(";")[0]


def page(service: Running, path: str, cookie: str) -> str:
    answer = service.get(path, key=None, headers={"Cookie": cookie})
    assert answer.status == 200, answer
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return answer.body.decode()


def paths(service: Running) -> list[str]:
    space = "/dashboard/spaces/offers"
    (made,) = service.get("/v1/spaces/offers/decisions?limit=1").json["decisions"]
    decision = f"{space}/decisions/{made['decision']['id']}"
    return ["/dashboard", space, f"{space}/decisions", decision, f"{space}/versions",
            "/dashboard/errors"]  # fmt: skip


def test_nothing_is_shown_without_a_session(service: Running) -> None:
    for path in ["/", *paths(service)]:
        answer = service.get(path, key=None, headers={"Cookie": "cobandits_session=x"})
        assert (answer.status, answer.headers["location"]) == (303, "/dashboard/login")
    wrong = submitted(service, "/dashboard/login", {"key": "cb_wrong"})
    assert wrong.status == 401
    assert "set-cookie" not in wrong.headers
    decide = service.post("/v1/keys", {"roles": ["decide"]}).json["token"]
    assert submitted(service, "/dashboard/login", {"key": decide}).status == 401


def test_whatever_stands_in_a_request_is_escaped(service: Running) -> None:
    cookie = logged_in(service)
    shown = "".join(page(service, path, cookie) for path in paths(service))
    assert ODD not in shown
    assert "&lt;script&gt;" in shown
    answer = service.get(f"/dashboard/spaces/{ODD}", key=None, headers={"Cookie": cookie})
    assert answer.status == 404
    assert b"<script>" not in answer.body


def test_a_form_of_another_page_is_refused_and_a_revoked_key_ends_the_session(
    service: Running,
) -> None:
    made = service.post("/v1/keys", {"roles": ["read"]}).json
    cookie = logged_in(service, made["token"])
    found = re.search(r'name="form" value="([^"]+)"', page(service, "/dashboard", cookie))
    assert found is not None
    first = service.get("/v1/spaces/offers/versions").json["versions"][0]["name"]
    path = f"/dashboard/spaces/offers/versions/{first}/restore"
    assert submitted(service, path, {}, Cookie=cookie).status == 403
    assert submitted(service, path, {"form": "x"}, Cookie=cookie).status == 403
    no_admin = submitted(service, path, {"form": found[1]}, Cookie=cookie)
    assert no_admin.status == 403
    assert b"role admin" in no_admin.body
    away = {"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}
    assert submitted(service, "/dashboard/login", {"key": service.key}, **away).status == 403
    service.send("DELETE", f"/v1/keys/{made['id']}")
    assert service.get("/dashboard", key=None, headers={"Cookie": cookie}).status == 303


def test_logging_out_ends_the_session(service: Running) -> None:
    cookie = logged_in(service)
    found = re.search(r'name="form" value="([^"]+)"', page(service, "/dashboard", cookie))
    assert found is not None
    submitted(service, "/dashboard/logout", {"form": found[1]}, Cookie=cookie)
    assert service.get("/dashboard", key=None, headers={"Cookie": cookie}).status == 303


def test_a_new_space_says_what_is_next_and_shows_its_first_decision(service: Running) -> None:
    cookie = logged_in(service)
    service.post("/v1/spaces", {"name": "new", "dim": 2})
    path = "/dashboard/spaces/new"
    shown = page(service, path, cookie)
    assert "First steps" in shown
    assert "Ask for decisions: 0 so far" in shown
    asked = {"task": "berlin", "arms": [{"id": "tea", "features": [1, 0]}], "id": "order-1"}
    service.post("/v1/spaces/new/decisions", asked)
    service.post("/v1/spaces/new/decisions/order-1/rewards", {"value": 0.75})
    while service.get("/v1/spaces/new").json["version"].endswith("+0"):
        time.sleep(0.01)  # until it is learned
    shown = page(service, path, cookie)
    assert "Send their rewards: 1 so far" in shown
    assert "<strong>0.75</strong>" in shown
    assert f"{path}/decisions/order-1" in shown
    assert "One task has rewards" in shown
    assert "0.75" in page(service, f"{path}/decisions/order-1", cookie)
    assert "First steps" not in page(service, "/dashboard/spaces/offers", cookie)
    service.send("PATCH", "/v1/spaces/new", b'{"frozen": true}')
    assert "learning is frozen" in page(service, path, cookie)


def test_an_uploaded_version_is_among_the_versions(service: Running) -> None:
    first = service.get("/v1/spaces/offers/versions").json["versions"][0]["name"]
    content = service.get(f"/v1/spaces/offers/versions/{first}/file").body
    binary = {"Content-Type": "application/octet-stream"}
    path = "/v1/spaces/offers/versions/autumn/file"
    assert service.send("PUT", path, content, headers=binary).status == 200
    shown = page(service, "/dashboard/spaces/offers/versions", logged_in(service))
    assert "uploaded as autumn" in shown


@pytest.fixture(scope="module")
def browser(service: Running) -> Iterator[Browser]:
    path = find_browser()
    assert path is not None
    with Browser(path) as found:
        log_in(found, service)
        yield found


def log_in(browser: Browser, service: Running) -> None:
    browser.visit(service.address)
    browser.run(
        f"document.querySelector('#key').value = {json.dumps(service.key)};"
        "document.querySelector('form.login').submit()"
    )
    wait(browser, "location.pathname == '/dashboard'")


def wait(browser: Browser, condition: str) -> None:
    until = time.monotonic() + 60
    while not browser.run(condition):
        assert time.monotonic() < until, condition
        time.sleep(0.05)


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_each_page_fits_the_screen(
    browser: Browser, service: Running, width: int, scheme: str
) -> None:
    browser.window(width)
    browser.colours(scheme)
    for path in paths(service):
        browser.visit(service.address + path)
        assert browser.run("document.documentElement.scrollWidth") <= width, path
        colour = browser.run("getComputedStyle(document.body).backgroundColor")
        bright = sum(int(part) for part in re.findall(r"\d+", colour)[:3]) > 3 * 127
        assert bright == (scheme == "light"), path
        assert browser.named("Log.entryAdded") == [], path  # no error, nothing blocked
        assert browser.run("document.querySelectorAll('h1').length") == 1
        unnamed = "[...document.querySelectorAll('input:not([type=hidden])')]"
        assert browser.run(unnamed + ".every(i => i.labels.length == 1)")


@needs_browser
def test_the_overview_draws_rewards_and_tasks(browser: Browser, service: Running) -> None:
    browser.visit(f"{service.address}/dashboard/spaces/offers")
    assert browser.run("document.querySelectorAll('circle.task').length") == 3
    assert browser.run("document.querySelectorAll('.chart .dot.policy').length") >= 1
    assert browser.run("document.querySelector('.facts strong').textContent") == "200"
    assert browser.run("[...document.querySelectorAll('svg')].every(s => s.ariaLabel)")


def test_scripts_run_on_the_page_that_follows_alone(service: Running) -> None:
    cookie = logged_in(service)
    for path in [*paths(service), "/dashboard/spaces/offers/decisions?live=1"]:
        answer = service.get(path, key=None, headers={"Cookie": cookie})
        follows = path.endswith("live=1")
        assert (b"<script" in answer.body) == follows, path
        assert ("script-src" in answer.headers["content-security-policy"]) == follows, path
        assert b'http-equiv="refresh"' not in answer.body  # it would lose a reader's place


@needs_browser
def test_decisions_are_followed_in_place(browser: Browser, service: Running) -> None:
    service.post("/v1/spaces", {"name": "followed", "dim": 1})
    arms = [{"id": "tea", "features": [1.0]}]
    for task in ("berlin", "rome"):
        service.post("/v1/spaces/followed/decisions", {"task": task, "arms": arms})
    browser.visit(f"{service.address}/dashboard/spaces/followed/decisions?live=1&task=rome")
    browser.run("window.stays = true; document.querySelector('#task').focus()")
    for task in ("berlin", "rome"):
        service.post("/v1/spaces/followed/decisions", {"task": task, "arms": arms})
    wait(browser, "document.querySelectorAll('#decisions tbody tr').length == 2")
    assert browser.run("window.stays && document.activeElement.id == 'task'")
    assert browser.named("Log.entryAdded") == []
    stop = "[...document.querySelectorAll('a')].find(a => a.textContent == 'Stop').search"
    assert browser.run(stop) == "?task=rome"


@needs_browser
def test_landmarks_have_names_of_their_own(browser: Browser, service: Running) -> None:
    named = (
        "[...document.querySelectorAll('nav, section, [role=region]')].map(e => e.ariaLabel || "
        "document.getElementById(e.getAttribute('aria-labelledby')).textContent)"
    )
    for path in paths(service):
        browser.visit(service.address + path)
        names = json.loads(browser.run(f"JSON.stringify({named})"))
        assert len(set(names)) == len(names) > 1, path


@needs_browser
def test_a_version_is_returned_to_by_keyboard(browser: Browser, service: Running) -> None:
    played(service, "returned")  # other tests look at the first one
    browser.window(1280)
    browser.visit(f"{service.address}/dashboard/spaces/returned/versions")
    browser.run("[...document.querySelectorAll('summary')].at(-1).focus()")
    for key in ("Enter", "Tab", "Enter"):
        code = {"Enter": 13, "Tab": 9}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            given = text if kind == "keyDown" else {}
            browser.send(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **given
            )
        time.sleep(0.1)
    wait(browser, "document.querySelector('tbody td + td')?.textContent.includes('rolled back')")
    assert service.get("/v1/spaces/returned/versions").json["versions"][-1]["kind"] == "rollback"
