"""What the service measures, for Prometheus."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from cobandits.engine.status import Status

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """The measures of one service, in a registry of its own."""

    def __init__(self, *, waiting: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        self._latency = Histogram(
            "cobandits_request_seconds",
            "Time from the request to its answer",
            ["call"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._answers = Counter(
            "cobandits_requests", "Requests by answer", ["call", "status"], registry=self._registry
        )
        self._decisions = Counter(
            "cobandits_decisions",
            "Decisions that were answered",
            ["space"],
            registry=self._registry,
        )
        self._rewards = Counter(
            "cobandits_rewards", "Rewards by status", ["space", "status"], registry=self._registry
        )
        Gauge(
            "cobandits_waiting_requests", "Requests that wait for the log", registry=self._registry
        ).set_function(waiting)
        self._decided: dict[str, Counter] = {}
        self._behind = self._gauge("rewards_not_learned", "Rewards that wait to be learned")
        self._open = self._gauge("open_decisions", "Decisions whose window has not ended")
        self._refitting = self._gauge("refitting", "Whether a prior is being learned")
        self._age = self._gauge("version_age_seconds", "Since the present version began")
        self._events = Gauge("cobandits_log_events", "In the log", registry=self._registry)
        self._children: dict[tuple[str, int], tuple[Histogram, Counter]] = {}

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(f"cobandits_{name}", says, ["space"], registry=self._registry)

    def answered(self, call: str, status: int, seconds: float) -> None:
        """Count one answer."""
        found = self._children.get((call, status))
        if found is None:
            found = (
                self._latency.labels(call=call),
                self._answers.labels(call=call, status=str(status)),
            )
            self._children[call, status] = found
        found[0].observe(seconds)
        found[1].inc()

    def decided(self, space: str, count: int = 1) -> None:
        """Count decisions."""
        if space not in self._decided:
            self._decided[space] = self._decisions.labels(space=space)
        self._decided[space].inc(count)

    def rewarded(self, space: str, status: str) -> None:
        """Count a reward."""
        self._rewards.labels(space=space, status=status).inc()

    def forget(self, space: str) -> None:
        """Forget a space that was deleted."""
        self._decided.pop(space, None)
        for one in (self._behind, self._open, self._refitting, self._age, self._decisions):
            with contextlib.suppress(KeyError):
                one.remove(space)
        for status in ("accepted", "repeated", "late"):
            with contextlib.suppress(KeyError):
                self._rewards.remove(space, status)

    def text(self, status: Status, began: Mapping[str, datetime]) -> bytes:
        """Return all measures as Prometheus reads them.

        ``began`` is when the present version of each space did.
        """
        now = datetime.now(UTC)
        for name, space in status.spaces.items():
            self._behind.labels(space=name).set(space.waiting)
            self._open.labels(space=name).set(space.open)
            self._refitting.labels(space=name).set(space.refitting)
            self._age.labels(space=name).set((now - began[name]).total_seconds())
        self._events.set(status.events)
        return generate_latest(self._registry)
