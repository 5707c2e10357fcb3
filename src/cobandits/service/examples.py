"""Examples of messages, as the OpenAPI document shows them."""

from __future__ import annotations

__all__ = [
    "ASKED",
    "COMPARISON",
    "DECIDED",
    "DECISION_PAGE",
    "DECISION_RECORD",
    "EVALUATION",
    "KEY",
    "REPORT",
    "REWARDED",
    "SCHEMAS",
    "SHARING",
    "SPACE",
    "TASK",
    "TEAS",
    "UPLOADED",
    "VERSION",
    "VERSIONS",
]

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
DECISION_RECORD = {
    "decision": DECIDED,
    "request": ASKED,
    "rewards": [{"at": REWARDED["at"], "value": 1.0, "key": None, "taken": None}],
    "activated": False,
    "recomputed": None,
}
DECISION_PAGE = {"decisions": [DECISION_RECORD], "next": None}
TASK = {
    "task": "berlin",
    "rewards": 120,
    "shared": 0.82,
    "rank": 2,
    "nearest": [{"task": "hamburg", "likeness": 0.93}],
    "uncertainty": 0.08,
    "uncertainty_before": 0.41,
}
POINT = {"task": "berlin", "rewards": 120, "x": 0.7, "y": -0.2, "shared": 0.82, "uncertainty": 0.08}
SHARING = {"rank": 2, "spectrum": [0.5, 0.2], "uncertainty_before": 0.41, "tasks": [POINT]}
VERSION = {
    "name": "v412",
    "kind": "install",
    "at": "2026-11-17T14:00:00Z",
    "of": None,
    "label": None,
}
VERSIONS = {"present": "v412+1873", "versions": [VERSION]}
UPLOADED = {**VERSION, "kind": "upload", "label": "autumn"}
COMPARISON = {
    "version": "autumn",
    "other": "present",
    "decisions": 100,
    "other_arm": 0.07,
    "distance": 0.09,
    "rewards": [5000, 1873],
}
SCHEMAS = {"schemas": [{"since": "v1", "at": VERSION["at"], "dim": 12, "schema": TEAS["schema"]}]}
EARNED = {"mean": 0.61, "low": 0.58, "high": 0.64, "n": 1204, "cautions": []}
REPORT = {
    "space": "teas",
    "version": "v412+1873",
    "days": [{"day": "2026-11-17", "decisions": 1310, "rewarded": 1204, "mean": 0.61}],
    "policy": EARNED,
    "baseline": None,
    "estimates": {"baseline": {**EARNED, "mean": 0.44, "low": 0.38, "high": 0.5}},
    "without_reward": 0.08,
    "waiting": 0,
    "tasks": 12,
    "sharing": ["berlin"],
    "changes": [],
    "notes": [],
}
EVALUATION = {
    "id": "1",
    "version": "present",
    "state": "done",
    "progress": 1.0,
    "asked": "2026-11-17T14:00:00Z",
    "decisions": 1204,
    "values": [
        {
            "method": "dr",
            "value": 0.66,
            "low": 0.62,
            "high": 0.7,
            "n": 1204,
            "effective_n": 640.0,
            "cautions": [],
        }
    ],
    "error": None,
}
