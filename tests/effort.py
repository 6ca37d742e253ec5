"""How work grows, in CPU time of this process, independent of the speed and load of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

MIN_SECONDS = 2e-3  # seconds: shorter measurements are noise


def growth(small: Callable[[], object], large: Callable[[], object], enough: float, tries: int = 4) -> float:
    """How many times as long the larger work takes, at best of a few tries; stops once that is at most `enough`."""
    ratio = float("inf")
    for _ in range(tries):
        small_seconds, large_seconds = seconds(small), seconds(large)
        ratio = min(ratio, large_seconds / max(small_seconds, MIN_SECONDS))
        if ratio <= enough:
            break
    return ratio


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
