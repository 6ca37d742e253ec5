"""The number of threads, and a limit on threads of BLAS inside them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock
from typing import Any

ENTRIES_PER_BLOCK = 1 << 20  # of a matrix: large enough to hide overhead, small enough to distribute


@cache
def threaded_libraries() -> Any:
    """The libraries with their own thread pools; cached, since the search is slow."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class BlasLimit:
    """Counts the users of `own_threads`: the limit is process-wide, so the last one to leave lifts it."""

    def __init__(self) -> None:
        self.lock, self.inside, self.limit = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                self.limit.enter_context(threaded_libraries().limit(limits=1, user_api="blas"))
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.close()


BLAS_LIMIT = BlasLimit()


@contextmanager
def own_threads() -> Iterator[None]:
    """Limit BLAS to one thread: inside our threads it would start as many again, and they would compete."""
    BLAS_LIMIT.enter()
    try:
        yield
    finally:
        BLAS_LIMIT.leave()


def threads(n_jobs: int | None, work: int) -> int:
    """The number of threads: all cores by default (negative n_jobs as in joblib), fewer for little work."""
    if n_jobs == 1 or work < ENTRIES_PER_BLOCK:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None and os.environ.get("OMP_NUM_THREADS", "").isdigit():  # set by joblib in its workers
        cores = min(cores, max(1, int(os.environ["OMP_NUM_THREADS"])))
    requested = cores if n_jobs is None else n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)
    return min(requested, work // ENTRIES_PER_BLOCK + 1)
