"""How work grows, in this process's own time: neither how fast a machine is nor how busy matters."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST = 2e-3  # seconds, of which what is measured is not noise


def growth(small: Callable[[], object], large: Callable[[], object], enough: float, tries: int = 4) -> float:
    """How many times as long the larger work takes, the least of a few tries; as soon as it is at most `enough`."""
    least = float("inf")
    for _ in range(tries):
        first, second = seconds(small), seconds(large)
        least = min(least, second / max(first, LEAST))
        if least <= enough:
            break
    return least


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
