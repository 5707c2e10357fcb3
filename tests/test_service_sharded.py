"""A space in several processes, as a client of the service sees it."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from cobandits.client import Client, ServiceError
from cobandits.sharded import ShardedShared
from tests.service import running
from tests.test_dashboard import logged_in, page

KINDS = {"reward_kind": "gaussian", "on_change": "alert"}


def played(client: Client, space: str, rounds: int) -> str:
    """Decide and reward; return the id of the last decision."""
    rng, last = random.Random(0), ""
    for n in range(rounds):
        arms = [{"id": name, "features": [rng.gauss(0, 1), 1.0]} for name in "abc"]
        last = client.decide(space, f"task {n % 6}", arms).id
        client.reward(space, last, rng.random())
    return last


def test_a_space_in_several_processes(tmp_path: Path) -> None:
    with running(tmp_path / "a.db") as service, Client(service.address, service.key) as client:
        with pytest.raises(ServiceError, match="needs reward_kind='gaussian', got 'auto' and on_c"):
            client.create_space("a", dim=2, shards=2)
        answer = service.post("/v1/spaces", {"name": "a", "dim": 2, "shards": 17, **KINDS})
        assert (answer.status, answer.kind) == (422, "invalid-request")
        assert client.create_space("a", dim=2, shards=2, **KINDS).settings["shards"] == 2
        made = played(client, "a", 40)
        assert client.space("a").settings["shards"] == 2
        assert client.get("spaces", "a", "tasks", "task 3")["rewards"] > 0
        assert len(client.get("spaces", "a", "sharing")["tasks"]) == 6
        cookie = logged_in(service)
        for path in ("", "/spaces/a", "/spaces/a/versions", f"/spaces/a/decisions/{made}"):
            assert page(service, f"/dashboard{path}", cookie)
        name = client.versions("a")[-1].name
        content = client.download("a", name)
        policy = ShardedShared.load(io.BytesIO(content))
        assert len(policy.heads) == 2
        client.upload("a", "kept", content)
        assert client.restore("a", "kept").of is not None
        client.create_space("b", dim=2)
        with pytest.raises(ServiceError, match="has shards=2, this space needs 1"):
            client.upload("b", "kept", content)
        played(client, "b", 10)
        for path, more in (("", {"name": "c", "dim": 2, **KINDS}), ("/b/relearn", {})):
            answer = service.post(f"/v1/spaces{path}", {"shards": 15, **more})
            assert (answer.status, answer.kind) == (422, "invalid-request")
            assert "this one may have 14 shards" in answer.json["detail"]
        assert service.post("/v1/spaces/b/relearn", {"shards": 2}).json["kind"] == "relearn"
        assert client.space("b").settings == {**client.space("a").settings}
        client.delete_space("b")
        played(client, "a", 6)
        assert b"cobandits_" in service.get("/metrics").body
