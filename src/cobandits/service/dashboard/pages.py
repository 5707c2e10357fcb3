"""The pages: addresses, sessions and forms."""

from __future__ import annotations

import re
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import jinja2

from cobandits.service.asgi import Receive, Scope, Send, send_reply
from cobandits.service.calls import Reply
from cobandits.service.dashboard.decisions import Place
from cobandits.service.dashboard.sessions import COOKIE, Session, Sessions
from cobandits.service.dashboard.views import Views
from cobandits.service.keys import Key
from cobandits.service.logs import LOGGER, request_id
from cobandits.service.problems import ProblemError, problem_of
from cobandits.service.state import Service

__all__ = ["Pages"]

_FOLDER = Path(__file__).parent / "templates"
_HTML = "text/html; charset=utf-8"
_FORM_BYTES = 8192
_POLICY = b"content-security-policy"
_SAFE = {
    _POLICY: b"default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    b"base-uri 'none'; img-src data:",
    b"referrer-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
# The page that follows decisions runs one script, follow.js, which reads the page itself again.
_FOLLOWING = _SAFE[_POLICY] + b"; script-src 'self'; connect-src 'self'"
_FILES = {"style.css": "text/css; charset=utf-8", "follow.js": "text/javascript; charset=utf-8"}


class _Refused(Exception):  # noqa: N818
    """A page that is not shown: where to go instead, or what to say."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


class Pages:
    """An ASGI application for ``/`` and ``/dashboard``."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sessions = Sessions(service.keys)
        self._views = Views(service)
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["part"] = lambda text: quote(str(text), safe="")
        self._files = {name: (_FOLDER / name).read_bytes() for name in _FILES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show a page, or take a form."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request = request_id(headers.get(b"x-request-id"))
        path = scope["raw_path"].decode("latin-1")
        parts = [unquote(part, errors="replace") for part in path.split("/")[2:]]
        try:
            if scope["method"] == "POST":
                form = await _form(headers, receive)
                reply = await self._posted(parts, headers, form)
            elif scope["method"] in ("GET", "HEAD"):
                query = parse_qs(scope["query_string"].decode("latin-1"))
                reply = await self._shown(parts, headers, query)
            else:
                raise ProblemError("method-not-allowed", "pages have GET and POST")
        except _Refused as refused:
            reply = refused.reply
        except Exception as error:
            problem = problem_of(error)
            if problem.kind == "internal":
                LOGGER.error("failed", exc_info=error, extra={"fields": {"request": request}})
            session, _ = self._sessions.find(_cookie(headers)) or (None, None)
            values = {"problem": problem, "request": request, "session": session}
            reply = self._page("problem", problem.status, **values)
        reply.headers = list((_SAFE | dict(reply.headers)).items())
        await send_reply(reply, request, send)

    # ---- Pages

    async def _shown(
        self, parts: list[str], headers: dict[bytes, bytes], query: dict[str, list[str]]
    ) -> Reply:
        if len(parts) == 1 and parts[0] in self._files:
            return Reply(200, self._files[parts[0]], _FILES[parts[0]])
        if parts == ["login"]:
            return self._page("login", wrong=False)
        session, key = self._session(headers)
        template, values = await self._service.aside(lambda: self._found(parts, query))
        page = self._page(template, session=session, admin=key.may("admin"), **values)
        page.headers = [(_POLICY, _FOLLOWING)] if values.get("live") else []
        return page

    def _found(self, parts: list[str], query: dict[str, list[str]]) -> tuple[str, dict[str, Any]]:
        """Return the template of a page and what it shows."""
        views = self._views
        match parts:
            case [] | [""]:
                return "spaces", views.spaces()
            case ["errors"]:
                return "errors", views.errors()
            case ["spaces", name]:
                return "space", views.overview(name)
            case ["spaces", name, "decisions"]:
                task = query.get("task", [""])[0][:100] or None
                live = query.get("live") == ["1"]
                place = (
                    Place() if live else Place(_number(query, "before"), _number(query, "after"))
                )
                return "decisions", {**views.decisions(name, task, place), "live": live}
            case ["spaces", name, "decisions", decision]:
                return "decision", views.decision(name, decision)
            case ["spaces", name, "versions"]:
                return "versions", views.versions(name)
        raise ProblemError("unknown-path", "there is no such page")

    def _session(self, headers: dict[bytes, bytes]) -> tuple[Session, Key]:
        found = self._sessions.find(_cookie(headers))
        if found is None:
            raise _Refused(_redirect("/dashboard/login"))
        return found

    # ---- Forms

    async def _posted(
        self, parts: list[str], headers: dict[bytes, bytes], form: dict[str, str]
    ) -> Reply:
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            raise ProblemError("forbidden", "this form came from another site")
        if parts == ["login"]:
            return self._login(form.get("key", ""))
        session, key = self._session(headers)
        if not self._sessions.check_form(session, form.get("form", "")):
            raise ProblemError("forbidden", "this form is too old; load the page again")
        match parts:
            case ["logout"]:
                self._sessions.end(_cookie(headers))
                return _redirect("/dashboard/login", cookie=self._set_cookie("", 0))
            case ["spaces", name, "versions", version, "restore"]:
                if not key.may("admin"):
                    raise ProblemError("forbidden", "this needs a key with the role admin")
                space = self._views.space(name)
                await self._service.aside(lambda: space.rollback(version))
                fields = {"space": name, "version": version, "key": key.id}
                LOGGER.info("rolled back", extra={"fields": fields})
                return _redirect(f"/dashboard/spaces/{quote(name, safe='')}/versions")
        raise ProblemError("unknown-path", "there is no such form")

    def _login(self, token: str) -> Reply:
        name = self._sessions.begin(token.strip())
        if name is None:
            return self._page("login", 401, wrong=True)
        return _redirect("/dashboard", cookie=self._set_cookie(name, 12 * 3600))

    def _set_cookie(self, value: str, seconds: int) -> bytes:
        settings = self._service.settings
        secure = "; Secure" if settings.https or settings.tls_cert else ""
        text = f"{COOKIE}={value}; Path=/dashboard; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        return (text + secure).encode()

    def _page(self, template: str, status: int = 200, **values: Any) -> Reply:
        shown = {"session": None, "admin": False, **values}
        page = self._templates.get_template(f"{template}.html.j2").render(shown)
        return Reply(status, page.encode(), _HTML)


def _number(query: dict[str, list[str]], name: str) -> int | None:
    """Return the number of an event in an address; what is none is left out."""
    given = query.get(name, [""])[0]
    return int(given) if re.fullmatch("[0-9]{1,18}", given) else None


async def _form(headers: dict[bytes, bytes], receive: Receive) -> dict[str, str]:
    """Return the fields of a form."""
    if headers.get(b"content-type", b"").split(b";")[0] != b"application/x-www-form-urlencoded":
        raise ProblemError("unsupported-media-type", "a form was expected")
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > _FORM_BYTES:
            raise ProblemError("too-large", f"a form has at most {_FORM_BYTES} bytes")
    fields = parse_qs(body.decode("latin-1"), max_num_fields=20)
    return {name: values[0] for name, values in fields.items()}


def _cookie(headers: dict[bytes, bytes]) -> str | None:
    try:
        found = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _redirect(address: str, cookie: bytes | None = None) -> Reply:
    headers = [(b"location", address.encode())]
    if cookie is not None:
        headers.append((b"set-cookie", cookie))
    return Reply(303, b"", _HTML, headers)
