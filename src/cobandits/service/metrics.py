"""What the service measures, for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from cobandits.engine.status import Status
from cobandits.engine.times import Times

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """The measures of one service.

    They are plain numbers, counted by the loop's thread alone, and are Prometheus's when it asks:
    its own counters have a lock each, which took a tenth of the time of a request.
    """

    def __init__(self, *, waiting: Callable[[], float]) -> None:
        self._waiting = waiting
        self._times: dict[str, Times] = {}
        self._answers: Counter[tuple[str, int]] = Counter()  # by call and status
        self._decisions: Counter[str] = Counter()  # by space
        self._rewards: Counter[tuple[str, str]] = Counter()  # by space and status

    def answered(self, call: str, status: int, seconds: float) -> None:
        """Count one answer."""
        times = self._times.get(call)
        if times is None:
            times = self._times[call] = Times()
        times.add(seconds)
        self._answers[call, status] += 1

    def decided(self, space: str, count: int = 1) -> None:
        """Count decisions."""
        self._decisions[space] += count

    def rewarded(self, space: str, status: str) -> None:
        """Count a reward."""
        self._rewards[space, status] += 1

    def forget(self, space: str) -> None:
        """Forget a space that was deleted."""
        self._decisions.pop(space, None)
        for known in [one for one in self._rewards if one[0] == space]:
            del self._rewards[known]

    # ---- For Prometheus

    def text(self, status: Status, began: Mapping[str, datetime]) -> bytes:
        """Return all measures as Prometheus reads them.

        ``began`` is when the present version of each space did.
        """
        registry = CollectorRegistry()
        registry.register(self)
        registry.register(_Engine(status, began))
        return generate_latest(registry)

    def describe(self) -> list[Metric]:
        """Return nothing: names are those of :meth:`collect`."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted."""
        latency = HistogramMetricFamily(
            "cobandits_request_seconds", "Time from the request to its answer", labels=["call"]
        )
        for call, times in list(self._times.items()):
            latency.add_metric([call], *times.histogram)
        yield latency
        answers = CounterMetricFamily(
            "cobandits_requests", "Requests by answer", labels=["call", "status"]
        )
        for (call, code), count in list(self._answers.items()):
            answers.add_metric([call, str(code)], count)
        yield answers
        decisions = CounterMetricFamily(
            "cobandits_decisions", "Decisions that were answered", labels=["space"]
        )
        for space, count in list(self._decisions.items()):
            decisions.add_metric([space], count)
        yield decisions
        rewards = CounterMetricFamily(
            "cobandits_rewards", "Rewards by status", labels=["space", "status"]
        )
        for (space, status), count in list(self._rewards.items()):
            rewards.add_metric([space, status], count)
        yield rewards
        yield GaugeMetricFamily(
            "cobandits_waiting_requests", "Requests that wait for the log", value=self._waiting()
        )


class _Engine(Collector):
    """How the engine is at a moment."""

    def __init__(self, status: Status, began: Mapping[str, datetime]) -> None:
        self._status, self._began = status, began

    def collect(self) -> Iterator[Metric]:
        """Yield its measures."""
        now, spaces = datetime.now(UTC), self._status.spaces
        ages = {name: (now - at).total_seconds() for name, at in self._began.items()}
        values: dict[tuple[str, str], dict[str, float]] = {
            ("rewards_not_learned", "Rewards that wait to be learned"): {
                name: one.waiting for name, one in spaces.items()
            },
            ("open_decisions", "Decisions whose window has not ended"): {
                name: one.open for name, one in spaces.items()
            },
            ("refitting", "Whether a prior is being learned"): {
                name: one.refitting for name, one in spaces.items()
            },
            ("version_age_seconds", "Since the present version began"): {
                name: ages[name] for name in spaces if name in ages
            },
        }
        for (name, says), by_space in values.items():
            gauge = GaugeMetricFamily(f"cobandits_{name}", says, labels=["space"])
            for space, value in by_space.items():
                gauge.add_metric([space], value)
            yield gauge
        turns = HistogramMetricFamily(
            "cobandits_engine_seconds", "What the engine's thread was busy with", labels=["work"]
        )
        for work, histogram in self._status.times.items():
            turns.add_metric([work], *histogram)
        yield turns
        events = float(self._status.events)
        yield GaugeMetricFamily("cobandits_log_events", "In the log", value=events)
