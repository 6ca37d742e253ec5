"""How many threads there are to be, and that they are ours alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import Lock
from typing import Any

ENTRIES = 1 << 20  # numbers in a block of rows: long enough to hide the overhead, short enough to share out


@cache
def libraries() -> Any:
    """The libraries that have threads of their own; looking for them takes a while."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


class OneEach:
    """How many are inside `own_threads` at once: the limit is the whole process's, so the last one out lifts it."""

    def __init__(self) -> None:
        self.lock, self.inside, self.limit = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                self.limit.enter_context(libraries().limit(limits=1, user_api="blas"))
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.close()


ONE_EACH = OneEach()


@contextmanager
def own_threads() -> Iterator[None]:
    """Threads are ours here: BLAS would start as many again in each, and they would wait for each other."""
    ONE_EACH.enter()
    try:
        yield
    finally:
        ONE_EACH.leave()


def threads(n_jobs: int | None, work: int) -> int:
    """How many threads: all cores unless said otherwise (negative counts from the end), one for little work."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None and os.environ.get("OMP_NUM_THREADS", "").isdigit():  # as joblib tells its workers
        cores = min(cores, max(1, int(os.environ["OMP_NUM_THREADS"])))
    wanted = cores if n_jobs is None else n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)
    return max(1, min(wanted, work // ENTRIES + 1))
