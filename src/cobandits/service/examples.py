"""Examples of messages, as the OpenAPI document shows them."""

from __future__ import annotations

__all__ = ["ASKED", "DECIDED", "KEY", "REWARDED", "SPACE", "TEAS"]

TEAS = {
    "name": "teas",
    "schema": {
        "context": {"hour": {"type": "cyclic", "period": 24}},
        "arm": {
            "price": {"type": "number"},
            "kind": {"type": "category", "values": ["hot", "cold"]},
        },
        "crosses": [["hour", "kind"]],
    },
    "window": "1h",
    "default_reward": 0.0,
    "floor": 0.02,
}
ASKED = {
    "task": "berlin",
    "context": {"hour": 14},
    "arms": [
        {"id": "tea", "price": 3.5, "kind": "hot"},
        {"id": "cola", "price": 2.5, "kind": "cold"},
    ],
}
DECIDED = {
    "id": "00000000001a.6d09ad0bf1",
    "task": "berlin",
    "arm": "tea",
    "probability": 0.98,
    "version": "v412+1873",
    "ranking": [{"arm": "tea", "probability": 0.98}, {"arm": "cola", "probability": 0.02}],
    "explored": False,
    "proposed": "tea",
    "by": "policy",
    "mode": "live",
    "held": False,
    "at": "2026-11-17T14:03:20.000001Z",
    "expires": "2026-11-17T15:03:20.000001Z",
    "repeated": False,
}
REWARDED = {
    "status": "accepted",
    "decision": DECIDED["id"],
    "value": 1.0,
    "at": "2026-11-17T14:05:02.000001Z",
}
SPACE = {"name": "teas", "dim": 12, "version": "v1+0", "settings": {"floor": 0.02}}
KEY = {
    "id": "9f86d081",
    "roles": ["decide"],
    "note": "web",
    "made": "2026-11-17T14:00:00+00:00",
}
