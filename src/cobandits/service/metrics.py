"""What the service measures, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
        self._children: dict[tuple[str, int], tuple[Histogram, Counter]] = {}

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

    def text(self) -> bytes:
        """Return all measures as Prometheus reads them."""
        return generate_latest(self._registry)
