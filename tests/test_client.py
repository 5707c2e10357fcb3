"""The Python clients against a real service, one that goes away too."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cobandits.client import AsyncClient, Client, Retries, ServiceError, UnreachableError
from cobandits.wire import DecideOne, RewardInBatch
from tests.service import Running, running
from tools.make_client import made, paths

ARMS = [{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("client") / "client.db") as found:
        found.post("/v1/spaces", {"name": "space", "dim": 2})
        yield found


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.address, service.key) as found:
        yield found


def test_the_client_for_threads_is_made_from_the_other() -> None:
    for source, target in paths():
        assert made(source.read_text()) == target.read_text(), "run: python tools/make_client.py"


def test_it_decides_rewards_and_reads(client: Client) -> None:
    assert client.create_space("teas", dim=2, floor=0.1).settings["floor"] == 0.1
    assert client.change_space("teas", floor=0.2).settings["floor"] == 0.2
    assert "teas" in client.spaces()
    decision = client.decide("teas", "berlin", ARMS, exclude=["b"], id="own/id")
    assert (decision.arm, decision.id) == ("a", "own/id")
    assert client.reward("teas", decision.id, 1.0).status == "accepted"
    assert client.reward("teas", decision.id, 1.0).status == "repeated"
    record = client.decision("teas", "own/id")
    assert record["rewards"][0]["value"] == 1.0
    assert client.get("spaces", "teas", "decisions", task="berlin", limit=5)["next"] is None


def test_many_at_once(client: Client) -> None:
    asked = [DecideOne(task=str(n), arms=ARMS, id=f"many-{n}") for n in range(20)]
    results = client.decide_many("space", asked)
    rewards = [
        RewardInBatch(decision=one.decision.id, value=1.0) for one in results if one.decision
    ]
    assert len(rewards) == 20
    found = client.reward_many("space", [*rewards, RewardInBatch(decision="none", value=1.0)])
    assert {one.reward.status for one in found[:-1] if one.reward} == {"accepted"}
    assert found[-1].problem is not None


def test_rewards_are_sent_in_batches_and_refusals_are_told(client: Client) -> None:
    decisions = [client.decide("space", "t", ARMS).id for _ in range(7)]
    with client.rewards("space", size=3, seconds=0.05) as rewards:
        for decision in decisions:
            rewards.add(decision, 1.0)
        rewards.add("unknown", 1.0)
        until = time.monotonic() + 30
        while not rewards.refused and time.monotonic() < until:
            time.sleep(0.02)  # the last ones go by themselves
    assert [one.decision for one, _ in rewards.refused] == ["unknown"]
    for decision in decisions:
        assert len(client.decision("space", decision)["rewards"]) == 1
    with pytest.raises(ServiceError, match="decision"):
        rewards.check()


def test_a_problem_is_an_error_with_its_kind(client: Client, service: Running) -> None:
    with pytest.raises(ServiceError) as caught:
        client.decide("nowhere", "t", ARMS)
    assert (caught.value.kind, caught.value.status) == ("unknown-space", 404)
    with Client(service.address, "wrong") as other, pytest.raises(ServiceError) as caught:
        other.spaces()
    assert caught.value.kind == "unauthorised"


def test_it_works_with_asyncio_too(service: Running) -> None:
    async def play() -> None:
        async with AsyncClient(service.address, service.key) as client:
            asked = [client.decide("space", f"task-{n}", ARMS) for n in range(20)]
            decisions = await asyncio.gather(*asked)
            assert len({one.id for one in decisions}) == 20
            async with client.rewards("space", size=8, seconds=0.05) as rewards:
                for one in decisions:
                    await rewards.add(one.id, float(one.arm == "a"))
            assert rewards.refused == []
            record = await client.decision("space", decisions[-1].id)
            assert len(record["rewards"]) == 1

    asyncio.run(play())


def test_an_answer_that_was_lost_is_asked_for_again_and_is_the_same(service: Running) -> None:
    """A proxy that hands requests over, and loses every other answer."""
    answers: list[dict[str, object]] = []

    class Lossy(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found = service.send("POST", self.path, body)
            answers.append(found.json)
            if len(answers) % 2:
                self.close_connection = True
                return
            self.send_response(found.status)
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Lossy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{proxy.server_port}"
        with Client(address, service.key, retries=Retries(first=0.01)) as client:
            decision = client.decide("space", "lost", ARMS)
            reward = client.reward("space", decision.id, 1.0)
        proxy.shutdown()
    assert (decision.repeated, reward.status) == (True, "repeated")
    assert answers[0]["id"] == decision.id
    assert json.dumps(answers[0]["ranking"]) == json.dumps(answers[1]["ranking"])


def test_a_service_that_is_not_there_is_said_so() -> None:
    retries = Retries(attempts=2, first=0.01)
    with (
        Client("http://127.0.0.1:9", "key", retries=retries) as client,
        pytest.raises(UnreachableError, match="2 attempts"),
    ):
        client.spaces()


def test_pauses_grow_and_keep_to_what_the_service_asks() -> None:
    retries = Retries(first=0.1, longest=1.0)
    for attempt, most in enumerate([0.1, 0.2, 0.4, 0.8, 1.0, 1.0]):
        assert most / 2 <= retries.pause(attempt, None) <= most
    assert retries.pause(0, "7") >= 3.5
    assert retries.pause(10**6, None) <= 1.0


def test_it_waits_for_a_service_that_starts_again(tmp_path: Path) -> None:
    with running(tmp_path / "a.db") as first:
        first.post("/v1/spaces", {"name": "space", "dim": 2})
        client = Client(first.address, first.key, retries=Retries(attempts=30, longest=0.5))
        before = client.decide("space", "t", ARMS)
        first.stop()
        found: list[str] = []
        asking = threading.Thread(
            target=lambda: found.append(client.reward("space", before.id, 1.0).status)
        )
        asking.start()
        with running(tmp_path / "a.db", key=first.key, port=first.port):
            asking.join(60)
            client.close()
    assert found == ["accepted"]
