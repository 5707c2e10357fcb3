"""The service as a client sees it: a real process, real requests."""

from __future__ import annotations

import concurrent.futures
import io
import json
import logging
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars
import pytest

from cobandits import Shared
from cobandits.engine import OwnedError
from cobandits.errors import ConfigurationError
from cobandits.service import ServiceSettings, serve
from cobandits.service.examples import ASKED, TEAS
from cobandits.service.problems import KINDS
from cobandits.service.table import table
from cobandits.wire.limits import ARMS, BATCH, BODY
from tests.service import Answer, Running, running

VECTORS = {"name": "vectors", "dim": 3}
ARM = {"id": "a", "features": [1.0, 0.0, 2.0]}
OTHER = {"id": "b", "features": [0.0, 1.0, 2.0]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service") / "shops.db") as found:
        assert found.post("/v1/spaces", TEAS).status == 201
        assert found.post("/v1/spaces", VECTORS).status == 201
        yield found


def decided(service: Running, **given: Any) -> dict[str, Any]:
    answer = service.post(
        "/v1/spaces/vectors/decisions", {"task": "t", "arms": [ARM, OTHER], **given}
    )
    assert answer.status in (200, 201), answer
    return dict(answer.json)


# ---- Decisions and rewards


def test_a_decision_and_its_reward(service: Running) -> None:
    answer = service.post("/v1/spaces/teas/decisions", ASKED)
    assert answer.status == 201
    decision = answer.json
    assert decision["arm"] in ("tea", "cola")
    assert 0 < decision["probability"] <= 1
    path = f"/v1/spaces/teas/decisions/{decision['id']}/rewards"
    first, second = service.post(path, {"value": 1}), service.post(path, {"value": 1})
    assert (first.status, first.json["status"]) == (202, "accepted")
    assert (second.status, second.json["status"]) == (202, "repeated")
    assert service.post(path, {"value": 2}).kind == "conflict"


def test_the_same_id_gets_the_same_answer_and_another_body_a_conflict(service: Running) -> None:
    first = decided(service, id="order/1 ü")
    again = decided(service, id="order/1 ü")
    assert again == {**first, "repeated": True}
    other = {"task": "u", "arms": [ARM], "id": "order/1 ü"}
    assert service.post("/v1/spaces/vectors/decisions", other).kind == "conflict"
    reward = service.post("/v1/spaces/vectors/decisions/order%2F1%20%C3%BC/rewards", {"value": 0.5})
    assert reward.json["status"] == "accepted"


def test_the_header_is_an_id_too(service: Running) -> None:
    asked = {"task": "t", "arms": [ARM, OTHER]}
    headers = {"Idempotency-Key": "from-header"}
    first = service.post("/v1/spaces/vectors/decisions", asked, headers=headers)
    again = service.post("/v1/spaces/vectors/decisions", {**asked, "id": "from-header"})
    assert (first.status, again.status) == (201, 200)
    both = service.post("/v1/spaces/vectors/decisions", {**asked, "id": "x"}, headers=headers)
    assert both.kind == "invalid-request"


def test_a_batch_has_a_result_or_a_problem_for_each(service: Running) -> None:
    good, bad = {"task": "t", "arms": [ARM]}, {"task": "t", "arms": [{"id": "a"}]}
    answer = service.post("/v1/spaces/vectors/decisions:batch", {"decisions": [good, bad, good]})
    assert answer.status == 200
    first, second, third = answer.json["results"]
    assert second["problem"]["status"] == 422
    rewards = [
        {"decision": first["decision"]["id"], "value": 1},
        {"decision": "unknown", "value": 1},
        {"decision": third["decision"]["id"], "value": 0},
    ]
    answer = service.post("/v1/spaces/vectors/rewards:batch", {"rewards": rewards})
    one, two, three = answer.json["results"]
    assert (one["reward"]["status"], three["reward"]["status"]) == ("accepted", "accepted")
    assert two["problem"]["type"] == "/problems/unknown-decision"


def test_a_held_decision_counts_when_it_is_activated(service: Running) -> None:
    path = f"/v1/spaces/vectors/decisions/{decided(service, held=True)['id']}"
    assert service.post(path + "/rewards", {"value": 1}).kind == "not-activated"
    assert service.send("POST", path + "/activate").json["status"] == "accepted"
    assert service.send("POST", path + "/activate").json["status"] == "repeated"
    assert service.post(path + "/rewards", {"value": 1}).json["status"] == "accepted"


def test_the_log_is_read_page_by_page_and_a_decision_is_made_again(service: Running) -> None:
    made = [decided(service, task="paged", id=f"paged-{n}")["id"] for n in range(5)]
    service.post(f"/v1/spaces/vectors/decisions/{made[1]}/rewards", {"value": 0.5, "key": "k"})
    path, seen, after = "/v1/spaces/vectors/decisions?task=paged&limit=2", [], 0
    while True:
        page = service.get(f"{path}&after={after}").json
        seen += page["decisions"]
        if page["next"] is None:
            break
        after = page["next"]
    assert [one["decision"]["id"] for one in seen] == made
    assert [one["value"] for one in seen[1]["rewards"]] == [0.5]
    one = service.get(f"/v1/spaces/vectors/decisions/{made[3]}?recompute=true").json
    assert one["recomputed"] == one["decision"] == seen[3]["decision"]
    assert one["request"]["arms"] == [ARM, OTHER]
    assert service.get("/v1/spaces/vectors/decisions?limit=0").kind == "invalid-request"
    for time_ in ("now", "0.5", "2026-11-17T14:00:00"):
        refused = service.get(f"/v1/spaces/vectors/decisions?since={time_}")
        assert refused.kind == "invalid-request"
    whole = service.get("/v1/spaces/vectors/decisions?task=paged&since=2020-01-01T00:00:00Z").json
    assert len(whole["decisions"]) == 5
    lines = service.get("/v1/spaces/vectors/log").body.splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds[0] == "space"
    assert {"decision", "reward"} <= set(kinds)


def test_a_version_is_exported_and_returned_to(service: Running) -> None:
    service.post("/v1/spaces", {"name": "versions", "dim": 3})
    for n in range(60):
        asked = {"task": str(n % 3), "arms": [ARM, OTHER]}
        made = service.post("/v1/spaces/versions/decisions", asked).json
        path = f"/v1/spaces/versions/decisions/{made['id']}/rewards"
        service.post(path, {"value": float(made["arm"] == "a")})
    while service.get("/v1/spaces/versions/tasks/1").json.get("rewards") != 20:
        time.sleep(0.05)
    found = service.get("/v1/spaces/versions/versions").json["versions"]
    content = service.get(f"/v1/spaces/versions/versions/{found[-1]['name']}/file").body
    assert Shared.load(io.BytesIO(content)).dim == 3
    task = service.get("/v1/spaces/versions/tasks/1").json
    assert task["uncertainty"] < task["uncertainty_before"]
    assert service.get("/v1/spaces/versions/tasks/new").json["rewards"] == 0
    assert service.get("/v1/spaces/teas/tasks/berlin").kind == "unknown-task"
    assert len(service.get("/v1/spaces/versions/sharing").json["tasks"]) == 3
    back = service.send("POST", f"/v1/spaces/versions/versions/{found[0]['name']}/restore").json
    assert (back["kind"], back["of"]) == ("rollback", found[0]["name"])
    assert service.get("/v1/spaces/versions").json["version"] == f"{back['name']}+0"
    assert (
        service.send("POST", "/v1/spaces/versions/versions/v1x/restore").kind == "unknown-version"
    )


def test_a_space_is_reported_evaluated_exported_and_imported(service: Running) -> None:
    service.post("/v1/spaces", {"name": "past", "dim": 3})
    rng = random.Random(0)
    past = [
        {"task": "t", "arms": [ARM, OTHER], "chosen": rng.choice("ab"), "reward": rng.random(),
         "probability": 0.5} for _ in range(40)
    ]  # fmt: skip
    answer = service.post("/v1/spaces/past/log:import", {"decisions": past})
    assert answer.json == {"imported": 40}
    wrong = [*past, {**past[0], "chosen": "z"}]
    refused = service.post("/v1/spaces/past/log:import", {"decisions": wrong})
    assert refused.kind == "invalid-request"
    for _ in range(60):
        made = service.post("/v1/spaces/past/decisions", {"task": "t", "arms": [ARM, OTHER]}).json
        path = f"/v1/spaces/past/decisions/{made['id']}/rewards"
        service.post(path, {"value": float(made["arm"] == "a")})
    report = service.get("/v1/spaces/past/report").json
    assert report["policy"]["n"] == 60
    assert report["estimates"]["always a"]["mean"] == pytest.approx(1.0, abs=0.3)
    asked = service.post("/v1/spaces/past/evaluations", {"version": "present"})
    assert asked.status == 202
    path = f"/v1/spaces/past/evaluations/{asked.json['id']}"
    until = time.monotonic() + 60
    while (found := service.get(path).json)["state"] not in ("done", "failed"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert found["state"] == "done", found
    assert {one["method"] for one in found["values"]} == {"snips", "dr"}
    exported = service.get("/v1/spaces/past/log.parquet").body
    assert polars.read_parquet(io.BytesIO(exported))["request"].n_unique() >= 60


def test_settings_change_and_spaces_conflict(service: Running) -> None:
    assert service.post("/v1/spaces", VECTORS).status == 200  # the same again
    assert service.post("/v1/spaces", {**VECTORS, "dim": 4}).kind == "conflict"
    body = json.dumps({"floor": 0.25}).encode()
    assert service.send("PATCH", "/v1/spaces/teas", body).json["settings"]["floor"] == 0.25
    assert service.get("/v1/spaces/teas").json["settings"]["floor"] == 0.25
    assert {"teas", "vectors"} <= set(service.get("/v1/spaces").json["spaces"])
    assert service.send("PATCH", "/v1/spaces/teas", b'{"floor": 2}').kind == "invalid-request"


def test_a_space_of_clicks_refuses_other_rewards(service: Running) -> None:
    space = {**VECTORS, "name": "clicks", "reward_kind": "binary"}
    assert service.post("/v1/spaces", space).json["settings"]["reward_kind"] == "binary"
    asked = {"task": "t", "arms": [ARM, OTHER]}
    decision = service.post("/v1/spaces/clicks/decisions", asked).json
    path = f"/v1/spaces/clicks/decisions/{decision['id']}/rewards"
    refused = service.post(path, {"value": 0.5})
    assert (refused.status, refused.kind) == (422, "invalid-request")
    assert "reward_kind='binary'" in refused.json["detail"]
    assert service.post(path, {"value": 1}).json["status"] == "accepted"


# ---- Keys


def test_a_role_may_do_what_it_says_and_nothing_else(service: Running) -> None:
    tokens = {
        role: service.post("/v1/keys", {"roles": [role]}).json["token"]
        for role in ("decide", "reward", "read")
    }
    decision = decided(service)["id"]
    calls = {
        "decide": ("/v1/spaces/vectors/decisions", {"task": "t", "arms": [ARM]}),
        "reward": (f"/v1/spaces/vectors/decisions/{decision}/rewards", {"value": 1}),
    }
    for call, (path, message) in calls.items():
        for role, token in tokens.items():
            answer = service.post(path, message, key=token)
            assert (answer.status < 300) == (role == call), (call, role, answer)
    for token in tokens.values():
        assert service.post("/v1/keys", {"roles": ["admin"]}, key=token).kind == "forbidden"
    assert service.get("/v1/spaces", key=tokens["read"]).status == 200


@pytest.mark.parametrize("key", [None, "wrong", "cb_00000000_" + "x" * 43, "ü" * 3])
def test_without_a_valid_key_nothing_is_done(service: Running, key: str | None) -> None:
    headers = {} if key is None else {"Authorization": f"Bearer {key}".encode().decode("latin-1")}
    answer = service.post("/v1/spaces", {"name": "x", "dim": 1}, key=None, headers=headers)
    assert answer.kind == "unauthorised"
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_revoked_key_is_refused_at_once(service: Running) -> None:
    made = service.post("/v1/keys", {"roles": ["read"], "note": "for a test"}).json
    assert service.get("/v1/spaces", key=made["token"]).status == 200
    assert service.send("DELETE", f"/v1/keys/{made['id']}").json["revoked"]
    assert service.get("/v1/spaces", key=made["token"]).kind == "unauthorised"
    listed = service.get("/v1/keys")
    assert made["id"] in {key["id"] for key in listed.json["keys"]}
    assert made["token"].split("_", 2)[2] not in listed.body.decode()


def test_a_key_has_a_rate_and_a_batch_counts_all_its_parts(service: Running) -> None:
    made = service.post("/v1/keys", {"roles": ["decide"], "rate": 4}).json
    batch = {"decisions": [{"task": "t", "arms": [ARM]}] * 50}
    assert (
        service.post("/v1/spaces/vectors/decisions:batch", batch, key=made["token"]).status == 200
    )
    answer = service.post("/v1/spaces/vectors/decisions:batch", batch, key=made["token"])
    assert answer.kind == "too-many-requests"
    assert int(answer.headers["retry-after"]) >= 5


# ---- Problems


def long(count: int) -> dict[str, Any]:
    return {"task": "t", "arms": [{**ARM, "id": str(one)} for one in range(count)]}


DECIDE = "/v1/spaces/vectors/decisions"


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("GET", "/nothing", None, "unknown-path"),
        ("GET", "/v1/spaces/", None, "unknown-path"),
        ("GET", "/v1/spaces/none", None, "unknown-space"),
        ("DELETE", "/v1/spaces", None, "method-not-allowed"),
        ("POST", "/v1/spaces/none/decisions", {"task": "t", "arms": [ARM]}, "unknown-space"),
        ("POST", DECIDE + "/none/rewards", {"value": 1}, "unknown-decision"),
        ("POST", DECIDE, long(ARMS + 1), "invalid-request"),
        ("POST", DECIDE, {"task": "x" * 101, "arms": [ARM]}, "invalid-request"),
        ("POST", DECIDE, {"task": "t", "arms": []}, "invalid-request"),
        ("POST", DECIDE, {"task": "t", "arms": [ARM, ARM]}, "invalid-request"),
        ("POST", DECIDE, {"task": "t", "arms": [ARM], "exclude": ["a"]}, "invalid-request"),
        ("POST", DECIDE, {"task": "t", "arms": [ARM], "baseline": "z"}, "invalid-request"),
        ("POST", DECIDE, {"task": "t", "arms": [ARM], "more": 1}, "invalid-request"),
        ("POST", DECIDE + ":batch", {"decisions": [long(1)] * (BATCH + 1)}, "invalid-request"),
        ("POST", "/v1/spaces", {"name": "../x", "dim": 1}, "invalid-request"),
        ("POST", "/v1/spaces", {"name": "x\n", "dim": 1}, "invalid-request"),
        ("POST", "/v1/spaces", {"name": "x"}, "invalid-request"),
        ("POST", "/v1/spaces", {"name": "x", "dim": 5000}, "invalid-request"),
        ("POST", "/v1/spaces", {"name": "x", "dim": 3, "window": "soon"}, "invalid-request"),
        ("DELETE", "/v1/keys/none", None, "unknown-key"),
        ("GET", "/problems/none", None, "unknown-path"),
    ],
)
def test_each_mistake_has_its_problem(
    service: Running, method: str, path: str, body: object, kind: str
) -> None:
    sent = None if body is None else json.dumps(body).encode()
    answer = service.send(method, path, sent)
    assert answer.kind == kind
    assert answer.headers["x-request-id"] == answer.json["request"]


def test_a_mistake_is_pointed_at(service: Running) -> None:
    body = {"task": "t", "arms": [ARM, 3]}
    answer = service.post("/v1/spaces/vectors/decisions", body)
    assert answer.json["errors"] == [
        {"detail": "Expected `object`, got `int`", "pointer": "/arms/1"}
    ]


def test_bodies_have_a_limit_and_a_type(service: Running) -> None:
    path = "/v1/spaces/vectors/decisions"
    assert service.send("POST", path, b" " * (BODY + 1)).kind == "too-large"
    chunks = {"Transfer-Encoding": "chunked"}
    part = b"%x\r\n" % (BODY // 2) + b" " * (BODY // 2) + b"\r\n"
    assert service.send("POST", path, part * 3 + b"0\r\n\r\n", headers=chunks).kind == "too-large"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert service.send("POST", path, b"{}", headers=form).kind == "unsupported-media-type"


def test_a_request_keeps_its_own_id(service: Running) -> None:
    found = service.get("/livez", headers={"X-Request-Id": "mine-1"})
    assert found.headers["x-request-id"] == "mine-1"
    odd = service.get("/livez", headers={"X-Request-Id": "<script>"})
    assert "script" not in odd.headers["x-request-id"]


def test_each_kind_of_problem_has_a_page(service: Running) -> None:
    for kind, known in KINDS.items():
        page = service.get(f"/problems/{kind}", key=None)
        assert known.advice in page.body.decode()


# ---- The description


def test_every_example_is_sent_and_answered_as_described(service: Running) -> None:
    document = service.get("/openapi.json", key=None).json
    at_once = {
        name: given for name, given in TEAS.items() if name not in ("window", "default_reward")
    }
    assert service.post("/v1/spaces", {**at_once, "name": "examples"}).status == 201
    places = {"space": "examples", "kind": "conflict", "task": "berlin"}
    first = service.post("/v1/spaces/examples/decisions", ASKED).json["id"]
    service.post(f"/v1/spaces/examples/decisions/{first}/rewards", {"value": 1})
    places["evaluation"] = service.post("/v1/spaces/examples/evaluations", {}).json["id"]
    places["version"] = service.get("/v1/spaces/examples/versions").json["versions"][0]["name"]
    service.post("/v1/spaces", {**at_once, "name": "personalizer"})
    ranked = {"actions": [{"id": "tea", "features": [{"price": 3.5, "kind": "hot"}]}]}
    service.post("/personalizer/v1.0/rank", {**ranked, "eventId": "examples-1"})
    service.post("/spaces/examples/personalizer/v1.0/rank", {**ranked, "eventId": "examples-1"})
    places["event"] = "examples-1"
    exported = service.get(f"/v1/spaces/examples/versions/{places['version']}/file").body
    places["key"] = service.post("/v1/keys", {"roles": ["read"]}).json["id"]
    seen = 0
    for call in table().calls:
        asked = {**ASKED, "held": call.name == "activate"}
        places["decision"] = service.post("/v1/spaces/examples/decisions", asked).json["id"]
        path = call.path
        for name, value in places.items():
            path = path.replace("{" + name + "}", value)
        described = document["paths"][call.path][call.method.lower()]
        body = described.get("requestBody", {}).get("content", {}).get("application/json", {})
        sent = None if call.asks is None else json.dumps(body["example"]).encode()
        if call.name == "create_space":
            sent = json.dumps({**TEAS, "name": "teas-2"}).encode()
        if call.name.startswith("activate_event"):
            held = {**ranked, "eventId": call.name, "deferActivation": True}
            service.post(path.replace("events/examples-1/activate", "rank"), held)
            path = path.replace("examples-1", call.name)
        if call.name == "delete_space":
            service.post("/v1/spaces", {"name": "old", "dim": 1})
            path = "/v1/spaces/old"
        headers = {}
        if call.name == "upload_version":
            sent, path = exported, path.replace(places["version"], "autumn")
            headers["Content-Type"] = call.takes
        answer = service.send(call.method, path, sent, headers=headers)
        assert str(answer.status) in described["responses"], (call.name, answer)
        assert answer.status in call.answers, (call.name, answer)
        kind = call.answers[answer.status]
        if kind is not None:
            msgspec.json.decode(answer.body, type=kind)
        seen += 1
    assert seen == sum(len(path) for path in document["paths"].values())


def test_measures_count_decisions(service: Running) -> None:
    def count(answer: Answer) -> float:
        text = answer.body.decode()
        return float(re.findall(r'cobandits_decisions_total{space="vectors"} (\S+)', text)[0])

    decided(service)
    before = count(service.get("/metrics"))
    decided(service)
    assert count(service.get("/metrics")) == before + 1
    assert service.get("/metrics", key=None).kind == "unauthorised"


def test_measures_tell_what_the_engine_was_busy_with(service: Running) -> None:
    def counts() -> list[float]:
        text = service.get("/metrics").body.decode()
        return [
            float(re.findall(rf'engine_seconds_count{{work="{work}"}} (\S+)', text)[0])
            for work in ("answers", "disk", "commands")
        ]

    decided(service)
    before = counts()
    decided(service)
    assert all(now > then for now, then in zip(counts(), before, strict=True))


# ---- Starting and stopping


def test_a_stop_finishes_what_is_under_way_and_a_start_knows_it(tmp_path: Path) -> None:
    with running(tmp_path / "a.db") as first:
        first.post("/v1/spaces", VECTORS)
        batch = {"decisions": [{"task": str(n), "arms": [ARM, OTHER]} for n in range(200)]}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            waiting = [
                pool.submit(first.post, "/v1/spaces/vectors/decisions:batch", batch)
                for _ in range(4)
            ]
            time.sleep(0.05)
            assert first.stop() == 0
        answered = []
        for one in waiting:
            if one.exception() is None:  # else it came too late, and was not taken
                answered += [r["decision"]["id"] for r in one.result().json["results"]]
    assert answered
    with running(tmp_path / "a.db", key=first.key) as second:
        path = "/v1/spaces/vectors/rewards:batch"
        for start in range(0, len(answered), BATCH):
            rewards = {
                "rewards": [{"decision": d, "value": 1} for d in answered[start : start + BATCH]]
            }
            results = second.post(path, rewards).json["results"]
            assert {one["reward"]["status"] for one in results} == {"accepted"}


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep what `serve` does to logging inside of a test."""
    loggers = [logging.getLogger(name) for name in ("cobandits", "uvicorn")]
    before = [(one, one.handlers, one.level, one.propagate) for one in loggers]
    yield
    for one, handlers, level, propagate in before:
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


@pytest.mark.usefixtures("quiet")
def test_it_does_not_listen_beyond_this_machine_without_a_key(tmp_path: Path) -> None:
    settings = ServiceSettings(db=str(tmp_path / "a.db"), host="0.0.0.0", port=0)
    with pytest.raises(ConfigurationError, match="no API key yet"):
        serve(settings, announce=pytest.fail)


@pytest.mark.usefixtures("quiet")
def test_a_second_service_on_one_database_does_not_start(service: Running) -> None:
    settings = ServiceSettings(db=str(service.db), port=0)
    with pytest.raises(OwnedError, match="another process"):
        serve(settings, announce=pytest.fail)


def test_the_command_says_in_a_line_why_it_does_not_start(service: Running, tmp_path: Path) -> None:
    options = ["--db", str(tmp_path / "b.db"), "--port", str(service.port)]
    command = [sys.executable, "-m", "cobandits", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "--port" in done.stderr
