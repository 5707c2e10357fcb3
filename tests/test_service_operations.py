"""Freezing, versions from files, other schemas, deleting and filters, as a client sees them."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cobandits import Shared
from cobandits.client import Client, ServiceError
from cobandits.service.examples import ASKED, TEAS
from tests.service import Running, running

Arms = list[dict[str, Any]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service") / "shops.db") as found:
        yield found


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.address, service.key) as found:
        yield found


def arms(rng: random.Random) -> Arms:
    return [{"id": name, "features": [rng.gauss(0, 1), 1.0]} for name in "abc"]


def played(client: Client, space: str, rounds: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    made = [client.decide(space, f"task {n % 3}", arms(rng)).id for n in range(rounds)]
    for name in made:
        client.reward(space, name, rng.random())
    return made


def settled(client: Client, space: str, rewards: int) -> str:
    """Wait until so many rewards are learned; return the version."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        content = client.download(space, "v" + client.versions(space)[-1].name[1:])
        version = client.space(space).version
        base = Shared.load(io.BytesIO(content)).rewards
        if base + int(version.partition("+")[2]) >= rewards:
            return version
        time.sleep(0.05)
    raise AssertionError("the rewards were not learned")


def test_learning_is_frozen_and_goes_on(client: Client) -> None:
    client.create_space("frozen", dim=2)
    played(client, "frozen", 10)
    settled(client, "frozen", 10)
    assert client.freeze("frozen").settings["frozen"] is True
    version = client.space("frozen").version
    played(client, "frozen", 10, seed=1)
    time.sleep(0.3)
    assert client.space("frozen").version == version
    assert client.get("spaces", "frozen", "report")["waiting"] == 10
    assert client.unfreeze("frozen").settings["frozen"] is False
    settled(client, "frozen", 20)
    kinds = [one.kind for one in client.versions("frozen")]
    assert kinds == ["space"]  # nothing was reset


def test_a_version_goes_out_and_comes_back(service: Running, client: Client) -> None:
    client.create_space("source", dim=2)
    client.create_space("target", dim=2)
    played(client, "source", 70)  # a prior is due at 64 at the latest, so there is a version
    settled(client, "source", 70)
    last = client.versions("source")[-1].name
    content = client.download("source", last)
    found = client.upload("target", "autumn", content)
    assert (found.kind, found.label) == ("upload", "autumn")
    assert client.upload("target", "autumn", content).name == found.name
    Shared(dim=2, labels=True).save(other := io.BytesIO())
    with pytest.raises(ServiceError, match="another file"):
        client.upload("target", "autumn", other.getvalue())
    assert client.download("target", "autumn") == content
    played(client, "target", 5)
    compared = client.compare("target", "autumn")
    assert compared.decisions == 5
    assert compared.rewards[0] == Shared.load(io.BytesIO(content)).rewards
    assert 0 <= compared.distance <= 1
    asked = client.post("spaces", "target", "evaluations", version="autumn")
    until = time.monotonic() + 60
    while (job := client.get("spaces", "target", "evaluations", asked["id"]))["progress"] < 1:
        assert job["state"] != "failed", job
        assert time.monotonic() < until
        time.sleep(0.05)
    assert job["decisions"] == 5
    assert client.restore("target", "autumn").of == found.name
    path = "/v1/spaces/target/versions/winter/file"
    binary = {"Content-Type": "application/octet-stream"}
    for body in (b"", b"nothing", content[:1000]):
        assert service.send("PUT", path, body, headers=binary).kind == "invalid-request"
    assert service.send("PUT", path, content).kind == "unsupported-media-type"
    assert service.send("GET", path).kind == "unknown-version"
    reader = service.post("/v1/keys", {"roles": ["read", "decide", "reward"]}).json["token"]
    assert service.send("PUT", path, content, headers=binary, key=reader).kind == "forbidden"


def test_a_space_gets_another_schema(service: Running, client: Client) -> None:
    client.create_space("schemas", schema=TEAS["schema"])
    for n in range(20):
        made = client.decide("schemas", "berlin", ASKED["arms"], context={"hour": n})  # type: ignore[arg-type]
        client.reward("schemas", made.id, float(made.arm == "tea"))
    schema = {"arm": {"kind": {"type": "category", "values": ["hot", "cold"]}}}
    path = "/v1/spaces/schemas/relearn"
    assert service.post(path, {}).kind == "invalid-request"
    assert service.post(path, {"since": "2026-01-01T00:00:00Z"}).kind == "invalid-request"
    assert service.post(path, {"schema": {"arm": {}}}).kind == "invalid-request"
    assert service.post(path, {"schema": schema}).json["kind"] == "relearn"
    found = client.get("spaces", "schemas", "schemas")["schemas"]
    assert found[0]["since"] == client.versions("schemas")[0].name
    assert [sorted(one["schema"]["arm"]) for one in found] == [["kind", "price"], ["kind"]]
    made = client.decide("schemas", "berlin", [{"id": "a", "kind": "hot"}])
    assert made.arm == "a"
    assert client.space("schemas").dim == found[-1]["dim"]
    assert service.post(
        "/v1/spaces/schemas/decisions", {"task": "t", "arms": [{"price": 1.0}]}
    ).kind == ("invalid-request")


def test_a_space_is_deleted(service: Running, client: Client) -> None:
    client.create_space("gone", dim=2)
    made = played(client, "gone", 10)
    reader = service.post("/v1/keys", {"roles": ["read"]}).json["token"]
    assert service.send("DELETE", "/v1/spaces/gone", key=reader).kind == "forbidden"
    assert 'space="gone"' in service.get("/metrics").body.decode()
    found = client.delete_space("gone")
    assert (found.name, found.events) == ("gone", 22)
    assert service.send("DELETE", "/v1/spaces/gone").kind == "unknown-space"
    for path, message in [
        ("/v1/spaces/gone/decisions", {"task": "t", "arms": [{"features": [1, 2]}]}),
        (f"/v1/spaces/gone/decisions/{made[0]}/rewards", {"value": 1}),
    ]:
        assert service.post(path, message).kind == "unknown-space"
    assert "gone" not in client.spaces()
    assert 'space="gone"' not in service.get("/metrics").body.decode()
    assert service.get("/v1/spaces/gone/report").kind == "unknown-space"
    assert client.create_space("gone", dim=3).dim == 3
    assert client.get("spaces", "gone", "decisions")["decisions"] == []


def test_decisions_are_filtered(service: Running, client: Client) -> None:
    client.create_space("filtered", dim=2, baseline_share=0.5)
    made = played(client, "filtered", 30)
    silent = client.decide("filtered", "task 0", arms(random.Random(5))).id
    whole = client.get("spaces", "filtered", "decisions", limit=1000)["decisions"]
    assert [one["decision"]["id"] for one in whole] == [*made, silent]

    def ids(**query: Any) -> list[str]:
        found: list[str] = []
        after: int | None = 0
        while after is not None:
            page = client.get("spaces", "filtered", "decisions", limit=4, after=after, **query)
            found += [one["decision"]["id"] for one in page["decisions"]]
            after = page["next"]
        return found

    for name, value in [("arm", "a"), ("by", "baseline"), ("by", "policy")]:
        wanted = [one["decision"]["id"] for one in whole if one["decision"][name] == value]
        assert ids(**{name: value}) == wanted
        assert 0 < len(wanted) < 31
    assert ids(rewarded="false") == [silent]
    assert ids(rewarded="true", task="task 1") == made[1::3]
    assert service.get("/v1/spaces/filtered/decisions?by=nobody").kind == "invalid-request"
    assert json.loads(service.get("/v1/spaces/filtered/decisions?arm=none").body)["next"] is None
