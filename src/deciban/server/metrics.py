"""Metrics in Prometheus's text format."""

from __future__ import annotations

import bisect
import threading
from collections import Counter
from collections.abc import Iterable

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
Labels = tuple[tuple[str, str], ...]
Sample = tuple[str, dict[str, str], float]  # a name, labels, and a value

HELP = {
    "deciban_requests_total": ("counter", "Requests by route and status."),
    "deciban_request_seconds": ("histogram", "Seconds until the response, by route."),
    "deciban_examples_total": ("counter", "Examples classified, learned, corrected and forgotten."),
    "deciban_up": ("gauge", "1 if the store can be written."),
    "deciban_waiting_changes": ("gauge", "Changes waiting to be written."),
    "deciban_model_examples": ("gauge", "Weight of the examples that a model has learned, by class."),
    "deciban_model_seq": ("gauge", "Number of the last log line that a model contains."),
    "deciban_model_changed_timestamp_seconds": ("gauge", "Time when a model last learned."),
    "deciban_quality_accuracy": ("gauge", "Accuracy on recent examples, each predicted before it was learned."),
    "deciban_quality_log_loss": ("gauge", "Mean log loss of these predictions."),
    "deciban_quality_calibration_error": ("gauge", "Expected calibration error of these predictions."),
    "deciban_alarm": ("gauge", "1 while an alarm of a model is active, by its code."),
}


class MetricsTable:
    """Counters and histograms since the start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, Labels]] = Counter()
        self._seconds: dict[str, list[float]] = {}  # route → a count for each bucket, then the sum

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += by

    def observe(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._counts["deciban_requests_total", (("route", route), ("status", str(status)))] += 1
            buckets = self._seconds.setdefault(route, [0.0] * (len(SECONDS) + 2))
            buckets[bisect.bisect_left(SECONDS, seconds)] += 1
            buckets[-1] += seconds

    def text(self, gauges: Iterable[Sample]) -> str:
        """All metrics, and these gauges."""
        with self._lock:
            samples: list[Sample] = [(name, dict(labels), value) for (name, labels), value in self._counts.items()]
            seconds = {route: list(buckets) for route, buckets in self._seconds.items()}
        lines = by_name([*samples, *gauges])
        for route, buckets in seconds.items():
            lines.setdefault("deciban_request_seconds", []).extend(histogram(route, buckets))
        out = []
        for name, own in sorted(lines.items()):
            kind, help_ = HELP[name]
            out += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}", *own]
        return "\n".join(out) + "\n"


def by_name(samples: Iterable[Sample]) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for name, labels, value in samples:
        number = f"{value:.0f}" if value % 1 == 0 else repr(float(value))  # all digits: six leave hours of a time open
        lines.setdefault(name, []).append(f"{name}{braces(labels)} {number}")
    return lines


def histogram(route: str, buckets: list[float]) -> list[str]:
    name, total, out = "deciban_request_seconds", 0.0, []
    for limit, count in zip((*map(str, SECONDS), "+Inf"), buckets[:-1], strict=True):
        total += count
        out.append(f"{name}_bucket{braces({'route': route, 'le': limit})} {total:.0f}")
    own = braces({"route": route})
    return [*out, f"{name}_sum{own} {buckets[-1]:.6f}", f"{name}_count{own} {total:.0f}"]


def braces(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
