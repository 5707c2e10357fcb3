"""The parts of the service that need no network: settings, keys, rates, logs, charts, commands."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from cobandits.client import AsyncClient, Client, ServiceError
from cobandits.client.exchange import answer
from cobandits.engine import Answer, Engine, OverloadedError, Reward, Space
from cobandits.errors import CobanditsError, ConfigurationError, DataError
from cobandits.service import ServiceSettings
from cobandits.service.asgi import _problem_reply
from cobandits.service.bridge import Asked, Bridge
from cobandits.service.dashboard.charts import reward_chart
from cobandits.service.dashboard.tally import Cell, Tally
from cobandits.service.dashboard.task_map import sharing_map
from cobandits.service.dashboard.views import Views
from cobandits.service.handlers.decisions import decision_reply
from cobandits.service.jobs import Evaluations
from cobandits.service.keys import KeyStore
from cobandits.service.logs import JSONLines
from cobandits.service.problems import KINDS, ProblemError, problem_of
from cobandits.service.settings import is_loopback
from cobandits.service.state import Service
from tests.commands import command_line

# ---- Answers


@pytest.mark.parametrize(
    "chances",
    [[0.2, 0.5, 0.3], [None, 0.4, None], [0.5, -1.0, 0.5], [None, -1.0, 0.7], [1.0, 0.0, 0.0]],
)
def test_a_reply_ranks_arms_as_its_decision_does(
    tmp_path: Path, chances: list[float | None]
) -> None:
    arms = [{"id": name, "features": [1.0]} for name in "abc"]
    with Engine.open(tmp_path / "a.db") as engine:
        made = engine.space("s", dim=1).decide("t", arms=arms)
    decision = msgspec.structs.replace(made, chances=chances)
    ranked = [(one.arm, one.probability) for one in decision_reply(decision).ranking]
    assert ranked == [tuple(one) for one in decision.ranking]


def test_answers_for_a_loop_that_is_closed_hold_up_nobody(tmp_path: Path) -> None:
    async def ask(bridge: Bridge, space: Space) -> None:
        bridge.ask_one(space, Reward(decision="x", value=1.0), lambda _: None)
        await asyncio.sleep(0)  # it is handed over, and the loop ends before the answer

    with Engine.open(tmp_path / "a.db") as engine:
        space, held, go = engine.space("s", dim=1), threading.Event(), threading.Event()

        def wait() -> bool:
            held.set()
            return go.wait(60)

        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(space._writer.call, wait)
            assert held.wait(60)
            asyncio.run(ask(Bridge(10), space))
            go.set()
            assert waiting.result(60)
        assert space.decide("t", arms=[{"id": "a", "features": [1.0]}]).arm == "a"


# ---- Settings


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[serve]\nport = 1\nhost = "::1"\nrate = 5\ndashboard = false\n')
    environment = {"COBANDITS_PORT": "2", "COBANDITS_RATE": "7.5", "COBANDITS_EXTENSION": "x"}
    found = ServiceSettings.read({"port": 3, "db": None}, file=file, environment=environment)
    assert (found.port, found.rate, found.host, found.dashboard) == (3, 7.5, "::1", False)
    assert found.keys_path == Path("cobandits.db-keys")
    assert ServiceSettings(db="postgresql://x/y").keys_path == Path("cobandits-keys.db")
    assert ServiceSettings(keys="k").keys_path == Path("k")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[serve]\nportt = 1\n", "unknown in .*portt"),
        ('[serve]\nport = "many"\n', "port must be a whole number"),
        ('[serve]\ndashboard = "maybe"\n', "true or false"),
        ("[serve]\nport = 99999\n", "port must be from 0 to 65535"),
        ('[serve]\nlog_level = "loud"\n', "log_level must be one of"),
        ('[serve]\ntls_cert = "x"\n', "TLS needs both"),
        ("[serve\n", "cannot be read as TOML"),
        ("port = 8000\n", r"a table \[serve\], which is not there; it has port"),
        ("", r"a table \[serve\], which is not there; it has nothing"),
        ("serve = 3\n", r"a table \[serve\], which is not there; it has serve"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=says):
        ServiceSettings.read({}, file=file, environment={})


def test_only_this_machine_reaches_loopback() -> None:
    assert [
        host for host in ("localhost", "::1", "0.0.0.0", "shop.example") if is_loopback(host)
    ] == [
        "localhost",
        "::1",
    ]


# ---- Keys


def test_keys_are_hashed_and_another_process_may_revoke_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    mine, other = KeyStore(path), KeyStore(path)
    key, token = mine.add(["reward", "decide"], note="web")
    secret = token.split("_", 2)[2]
    assert secret.encode() not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    found = mine.find(token)
    assert found is not None
    assert (found.roles, found.may("decide"), found.may("read")) == (
        ("decide", "reward"),
        True,
        False,
    )
    other.revoke(key.id)
    monkeypatch.setattr("cobandits.service.keys._FRESH", -1.0)  # a second later
    assert mine.find(token) is None
    assert mine.find(token[:-1] + "~") is None
    assert not mine.any_valid()
    mine.close()
    other.close()


def test_an_admin_key_of_the_environment_is_kept_nowhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="at least 32 characters, got 5"):
        KeyStore(tmp_path / "keys", admin="short")
    store = KeyStore(tmp_path / "keys", admin="x" * 40)
    found = store.find("x" * 40)
    assert found is not None
    assert found.may("admin")
    assert store.any_valid()
    assert store.all() == []
    with pytest.raises(ConfigurationError, match="roles must be some of"):
        store.add([])
    with pytest.raises(ConfigurationError, match="rate must be above 0"):
        store.add(["read"], rate=0.0)
    store.close()
    with pytest.raises(CobanditsError, match=r"no folder .*none, .*make it first.*--keys"):
        KeyStore(tmp_path / "none" / "keys")


def test_many_tokens_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobandits.service.keys._REMEMBERED", 3)
    store = KeyStore(tmp_path / "keys")
    _, token = store.add(["read"])
    for guess in range(10):
        assert store.find(str(guess)) is None
    assert store.find(token) is not None
    store.close()


def test_the_commands_make_list_and_revoke_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command_line(capsys)
    file = ["--keys", tmp_path / "keys"]
    token = run("keys", "add", "read", "decide", "--note", "web", *file).out.strip()
    name = re.fullmatch(r"cb_(\w{8})_.{43}", token)
    assert name is not None
    assert re.search(rf"{name[1]}  decide,read .* valid  web", run("keys", "list", *file).out)
    assert run("keys", "revoke", name[1], *file).out == f"{name[1]} is revoked\n"
    assert "revoked 2" in run("keys", "list", *file).out
    unknown = run("keys", "revoke", "none", *file)
    assert (unknown.code, "no key 'none'" in unknown.err) == (2, True)
    assert "roles are" in run("keys", "add", "root", *file).err


def test_the_command_serve_reads_its_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command_line(capsys)
    wrong = run("serve", "--db", tmp_path / "a.db", "--port", "-1")
    assert (wrong.code, "port must be from 0" in wrong.err) == (2, True)


# ---- Problems and logs


def test_what_nobody_foresaw_is_told_without_its_text() -> None:
    problem = problem_of(sqlite3.OperationalError("secret path"))
    assert (problem.kind, "secret" in problem.detail) == ("internal", False)
    assert problem_of(OverloadedError("4096 wait")).retry == 1.0
    assert {kind.status for kind in KINDS.values()} >= {400, 401, 403, 404, 409, 413, 422, 429, 507}


def test_the_log_says_what_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "cobandits.service"):
        _problem_reply(DataError("price: expected a number"), "r-1")
    [record] = caplog.records
    line = json.loads(JSONLines().format(record))
    found = line["message"], line["request"], line["detail"]
    assert found == ("refused", "r-1", "price: expected a number")


def test_a_line_of_the_log_is_json_with_its_error() -> None:
    record = logging.LogRecord("x", logging.ERROR, "", 1, "failed %d", (7,), None)
    record.fields = {"request": "r-1"}
    try:
        raise ValueError("odd")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    line = json.loads(JSONLines().format(record))
    assert (line["message"], line["request"], line["level"]) == ("failed 7", "r-1", "error")
    assert "ValueError: odd" in line["error"]


# ---- Clients


def test_an_answer_of_a_proxy_is_an_error_too() -> None:
    with pytest.raises(ServiceError, match="Status 502: <html>") as caught:
        answer(502, b"<html>", object)
    assert caught.value.kind == "unknown"
    assert answer(200, b"raw", bytes) == b"raw"
    assert hasattr(Client, "decide_many")
    assert set(dir(Client)) - {"__enter__", "__exit__"} == set(dir(AsyncClient)) - {
        "__aenter__",
        "__aexit__",
    }


# ---- With an engine


@pytest.fixture
def service(tmp_path: Path) -> Service:
    settings = ServiceSettings(db=str(tmp_path / "a.db"), waiting=3)
    return Service(
        engine=Engine.open(settings.db), keys=KeyStore(tmp_path / "keys"), settings=settings
    )


def test_more_than_may_wait_is_refused_and_errors_reach_their_caller(service: Service) -> None:
    class Full(Space):
        def send(
            self, requests: Sequence[Asked], done: Callable[..., None], *, plain: bool = False
        ) -> NoReturn:
            raise OverloadedError("full")

    full = Full.__new__(Full)

    async def ask(count: int) -> list[Answer | Exception]:
        return await service.ask(full, [None] * count)  # type: ignore[list-item]

    with pytest.raises(ProblemError, match="at most 3 may"):
        asyncio.run(ask(4))
    with pytest.raises(OverloadedError, match="full"):
        asyncio.run(ask(2))
    service.engine.close()
    service.keys.close()


def test_an_evaluation_that_fails_says_why_and_others_wait(service: Service) -> None:
    space = service.engine.space("space", dim=2)
    jobs = Evaluations()
    found = jobs.ask(space, "v999")
    jobs.close()
    assert (found.state, jobs.of("space")) == ("failed", [found])
    assert "no version" in str(found.error)
    with pytest.raises(ProblemError, match="no evaluation"):
        jobs.find("other", found.id)
    service.engine.close()
    service.keys.close()


# ---- Dashboard


def test_means_have_intervals_and_the_baseline_is_weighted() -> None:
    cell = Cell()
    assert (cell.reward, cell.baseline) == (None, None)
    for value, weight in ((1.0, 2.0), (0.0, 0.0), (1.0, 2.0), (0.0, 0.0)):
        cell.add(value, weight, own=True)
    cell.add(9.0, 0.0, own=False)  # the baseline's decisions are no part of the policy's mean
    assert cell.reward is not None
    assert cell.reward.value == 0.5
    assert cell.reward.low < 0.5 < cell.reward.high
    assert cell.baseline is not None
    assert cell.baseline.value == 1.0
    assert "begins with more rewards" in reward_chart([])
    assert "first rewards" in sharing_map([])


def test_a_tally_of_nothing_is_empty(service: Service) -> None:
    tally = Tally(service.engine.space("space", dim=2))
    tally.refresh()
    assert (tally.series(), tally.whole.decisions) == ([], 0)
    service.engine.close()
    service.keys.close()


@pytest.mark.parametrize(("floor", "told"), [(0.0, False), (0.4, True)])
def test_a_baseline_that_is_hardly_ever_chosen_is_not_shown(
    service: Service, floor: float, told: bool
) -> None:
    """The first arm, which pays 0.5; once the other is known to pay 1, it is never taken."""
    space = service.engine.space("space", dim=2, floor=floor, seed=1)
    for _ in range(100):
        one = space.decide("berlin", arms=[{"features": [1.0, 0.0]}, {"features": [0.0, 1.0]}])
        space.reward(one.id, {"0": 0.5, "1": 1.0}[one.arm])
        service.engine.settle()  # the same decisions in every run
    tally = Tally(space)
    tally.refresh()
    [note] = [note for name, _, note in Views(service)._facts(space, tally) if "Mean" in name]
    periods = [cell.baseline for _, cell in tally.series()]
    if told:
        assert tally.baseline is not None
        assert tally.baseline.value == pytest.approx(0.5)
        assert note.startswith("baseline: 0.5")
        assert any(periods)
    else:
        assert "cannot be told" in note
        assert not any(periods)
    service.engine.close()
    service.keys.close()


def test_a_tally_begins_near_the_end_of_a_long_log(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobandits.service.dashboard.tally._FIRST", 10)
    space = service.engine.space("space", dim=1)
    for _ in range(30):
        space.decide("berlin", arms=[{"features": [1.0]}])
    tally = Tally(space)
    tally.refresh()
    shown = {name: value for name, value, _ in Views(service)._facts(space, tally)}
    assert (tally.whole.decisions, shown["Decisions"]) == (10, "30")
    service.engine.close()
    service.keys.close()
