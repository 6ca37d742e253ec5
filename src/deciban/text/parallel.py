"""Documents in threads. Kernels release the GIL, so threads suffice."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from deciban.text.raw import Documents
from deciban.threads import threads

Returned = TypeVar("Returned")
Own = TypeVar("Own")

BLOCK_BYTES = 1 << 22  # of text read at a time: enough to hide the overhead, few enough to share among threads


def workers_for(documents: Any, n_jobs: int | None, per_byte: int = 1) -> int:
    """The number of threads; 1 for documents that Python has tokenized. `per_byte` is how much work a byte is."""
    return threads(n_jobs, per_byte * int(documents.sizes.sum())) if isinstance(documents, Documents) else 1


def map_with_own_state(
    batches: Iterable[Any], n_jobs: int | None, make: Callable[[], Own], work: Callable[[Own, Any, int, int], Returned]
) -> tuple[list[Own], list[tuple[int, Returned]]]:
    """work(state, documents, start, stop) for blocks of all batches, in threads that each have a state from `make`.

    Returns all states, and in order of the blocks each result with the number of its state.
    """
    states: list[Own] = []
    idle: SimpleQueue[int] = SimpleQueue()  # numbers of states that no thread is using

    def run(documents: Any, start: int, stop: int) -> tuple[int, Returned]:
        at = idle.get()
        try:
            return at, work(states[at], documents, start, stop)
        finally:
            idle.put(at)

    results = []
    for documents in batches:
        while len(states) < workers_for(documents, n_jobs):
            idle.put(len(states))
            states.append(make())
        results += over_blocks(documents, n_jobs, run)
    return states or [make()], results


def over_blocks(
    documents: Any, n_jobs: int | None, work: Callable[[Any, int, int], Returned], per_byte: int = 1
) -> list[Returned]:
    """work(documents, start, stop) for blocks of about equal bytes, in threads; results in order."""
    if not isinstance(documents, Documents) or len(documents) < 2:
        return [work(documents, 0, len(documents))]
    ends = np.cumsum(documents.sizes)
    total, workers = int(ends[-1]) if len(ends) else 0, workers_for(documents, n_jobs, per_byte)
    if workers == 1 and 0 < total <= BLOCK_BYTES:
        return [work(documents, 0, len(documents))]
    pieces = -(-max(total, 1) // (BLOCK_BYTES * workers)) * workers
    cuts = np.searchsorted(ends, np.arange(1, pieces) * total / pieces, side="right")
    edges = sorted({0, *cuts.tolist(), len(documents)})
    return list(in_threads(lambda at: work(documents, edges[at], edges[at + 1]), len(edges) - 1, workers))


def in_threads(work: Callable[[int], Returned], n: int, workers: int) -> Generator[Returned, None, None]:
    """work(0), work(1), … in threads, yielded in order, so that results can be dropped once used."""
    if workers == 1 or n < 2:
        yield from map(work, range(n))
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(work, range(n))


def in_pieces(n: int, workers: int, work: Callable[[int, int], None]) -> None:
    """work(first, last) over the ranges of 0 … n, in threads."""
    if workers == 1:
        work(0, n)
        return
    edges = np.linspace(0, n, 4 * workers + 1).astype(int).tolist()
    list(in_threads(lambda at: work(edges[at], edges[at + 1]), len(edges) - 1, workers))
