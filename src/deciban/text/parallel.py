"""Documents shared out among threads. Kernels release the GIL, so plain threads do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from deciban.text.raw import Documents
from deciban.threads import threads

Returned = TypeVar("Returned")
Own = TypeVar("Own")

BLOCK_BYTES = 1 << 22  # bytes of text read at a time: long enough to hide the overhead, short enough to share out


def workers_for(documents: Any, n_jobs: int | None) -> int:
    """How many threads; one for what Python has analysed."""
    return threads(n_jobs, int(documents.sizes.sum())) if isinstance(documents, Documents) else 1


def each_its_own(
    batches: Iterable[Any], n_jobs: int | None, make: Callable[[], Own], work: Callable[[Own, Any, int, int], Returned]
) -> tuple[list[Own], list[tuple[int, Returned]]]:
    """work(own, documents, start, stop) for blocks of all batches, in order, in threads that each add to something of
    their own, which `make` made; all of those, and with each result whose it was."""
    owned: list[Own] = []
    free: SimpleQueue[int] = SimpleQueue()  # those that no thread is adding to

    def with_one(documents: Any, start: int, stop: int) -> tuple[int, Returned]:
        mine = free.get()
        try:
            return mine, work(owned[mine], documents, start, stop)
        finally:
            free.put(mine)

    done = []
    for documents in batches:
        while len(owned) < workers_for(documents, n_jobs):
            free.put(len(owned))
            owned.append(make())
        done += over_blocks(documents, n_jobs, with_one)
    return owned or [make()], done


def over_blocks(documents: Any, n_jobs: int | None, work: Callable[[Any, int, int], Returned]) -> list[Returned]:
    """work(documents, start, stop) for blocks of about as many bytes, in order, in threads."""
    if not isinstance(documents, Documents):
        return [work(documents, 0, len(documents))]
    ends = np.cumsum(documents.sizes)
    total, workers = int(ends[-1]) if len(ends) else 0, workers_for(documents, n_jobs)
    pieces = -(-max(total, 1) // (BLOCK_BYTES * workers)) * workers
    cuts = np.searchsorted(ends, np.arange(1, pieces) * total / pieces, side="right")
    edges = sorted({0, *cuts.tolist(), len(documents)})
    return list(in_threads(lambda at: work(documents, edges[at], edges[at + 1]), len(edges) - 1, workers))


def in_threads(work: Callable[[int], Returned], n: int, workers: int) -> Iterator[Returned]:
    """work(0), work(1), … in order, in threads, each as it is asked for: what is done with need not be kept."""
    if workers == 1 or n < 2:
        yield from map(work, range(n))
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(work, range(n))


def in_pieces(n: int, workers: int, work: Callable[[int, int], None]) -> None:
    """work(first, last) over n things, in threads."""
    if workers == 1:
        work(0, n)
        return
    edges = np.linspace(0, n, 4 * workers + 1).astype(int).tolist()
    list(in_threads(lambda at: work(edges[at], edges[at + 1]), len(edges) - 1, workers))
