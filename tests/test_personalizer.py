"""Requests as Personalizer's documentation and clients send them, to a real service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.service import Answer, Running, running

# As in the quickstart of its documentation: foods by time of day and taste, in namespaces.
RANK = {
    "contextFeatures": [{"timeOfDay": "morning"}, {"user": {"taste": "sweet", "unknown": 1}}],
    "actions": [
        {"id": "pasta", "features": [{"taste": "salty", "spice": 2}, {"nutrition": {"level": 5}}]},
        {"id": "juice", "features": [{"taste": "sweet", "spice": 0}, {"nutrition": {"level": 6}}]},
        {"id": "salad", "features": [{"taste": "sour", "spice": 1}, {"nutrition": {"level": 8}}]},
    ],
    "excludedActions": ["juice"],
    "eventId": "75269AD0-BFEE-4598-8196-C57383D38E10",
    "deferActivation": False,
}
SCHEMA = {
    "context": {
        "timeOfDay": {"type": "category", "values": ["morning", "evening"]},
        "user.taste": {"type": "category", "values": ["sweet", "salty"]},
    },
    "arm": {
        "taste": {"type": "category", "values": ["sweet", "salty", "sour"]},
        "spice": {"type": "number"},
        "nutrition.level": {"type": "number"},
    },
    "crosses": [["timeOfDay", "taste"]],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("personalizer") / "a.db") as found:
        for name in ("personalizer", "foods"):
            found.post("/v1/spaces", {"name": name, "schema": SCHEMA})
        yield found


def call(service: Running, path: str, message: object) -> Answer:
    """Send a request with Personalizer's header for the key."""
    headers = {"Ocp-Apim-Subscription-Key": service.key}
    return service.post(path, message, key=None, headers=headers)


@pytest.mark.parametrize("endpoint", ["", "/spaces/foods"])
def test_rank_and_reward(service: Running, endpoint: str) -> None:
    base = f"{endpoint}/personalizer/v1.0"
    answer = call(service, f"{base}/rank", RANK)
    assert answer.status == 201
    found = answer.json
    assert found["eventId"] == RANK["eventId"]
    assert found["rewardActionId"] in ("pasta", "salad")
    assert found["ranking"][0]["id"] == found["rewardActionId"]
    assert sum(one["probability"] for one in found["ranking"]) == pytest.approx(1)
    again = call(service, f"{base}/rank", RANK)
    assert again.json == found  # a call that is repeated gets the same answer
    reward = call(service, f"{base}/events/{RANK['eventId']}/reward", {"value": 0.5})
    assert (reward.status, reward.body) == (204, b"")
    space = endpoint.rpartition("/")[2] or "personalizer"
    record = service.get(f"/v1/spaces/{space}/decisions/{RANK['eventId']}").json
    assert record["decision"]["task"] == "default"
    assert record["rewards"][0]["value"] == 0.5
    assert record["request"]["context"] == {"timeOfDay": "morning", "user.taste": "sweet"}
    assert record["request"]["arms"][0]["nutrition.level"] == 5


def test_a_deferred_event_counts_when_it_is_activated(service: Running) -> None:
    base = "/personalizer/v1.0"
    asked = {**RANK, "eventId": None, "deferActivation": True}
    asked["contextFeatures"] = [{"task": "rome"}]
    event = call(service, f"{base}/rank", asked).json["eventId"]
    assert call(service, f"{base}/events/{event}/reward", {"value": 1}).kind == "not-activated"
    headers = {"Ocp-Apim-Subscription-Key": service.key}
    path = f"{base}/events/{event}/activate"
    assert service.send("POST", path, key=None, headers=headers).status == 204
    assert call(service, f"{base}/events/{event}/reward", {"value": 1}).status == 204
    record = service.get(f"/v1/spaces/personalizer/decisions/{event}").json
    assert record["decision"]["task"] == "rome"


def test_what_is_wrong_is_said(service: Running) -> None:
    base = "/personalizer/v1.0"
    assert call(service, f"{base}/rank", {"actions": []}).kind == "invalid-request"
    assert call(service, f"{base}/events/none/reward", {"value": 1}).kind == "unknown-decision"
    assert call(service, "/spaces/none/personalizer/v1.0/rank", RANK).kind == "unknown-space"
    assert service.post(f"{base}/rank", RANK, key=None).kind == "unauthorised"
