"""Documents shared out among threads. Kernels release the GIL, so plain threads do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from deciban._kernel.text import Documents
from deciban.engines.local import threads

Result = TypeVar("Result")

BLOCK = 1 << 22  # bytes of text read at a time: long enough to hide the overhead, short enough to share out


def workers_for(documents: Any, n_jobs: int | None) -> int:
    """How many threads; one for what Python has analysed."""
    return threads(n_jobs, int(documents.sizes.sum())) if isinstance(documents, Documents) else 1


def over_blocks(documents: Any, n_jobs: int | None, work: Callable[[Any, int, int], Result]) -> list[Result]:
    """work(documents, start, stop) for blocks of about as many bytes, in order, in threads."""
    if not isinstance(documents, Documents):
        return [work(documents, 0, len(documents))]
    ends = np.cumsum(documents.sizes)
    total, workers = int(ends[-1]) if len(ends) else 0, workers_for(documents, n_jobs)
    pieces = -(-max(total, 1) // (BLOCK * workers)) * workers
    cuts = np.searchsorted(ends, np.arange(1, pieces) * total / pieces, side="right")
    edges = np.unique([0, *cuts, len(documents)]).tolist()
    return list(in_threads(lambda at: work(documents, edges[at], edges[at + 1]), len(edges) - 1, workers))


def in_threads(work: Callable[[int], Result], n: int, workers: int) -> Iterator[Result]:
    """work(0), work(1), … in order, in threads, each as it is asked for: what is done with need not be kept."""
    if workers == 1 or n < 2:
        yield from map(work, range(n))
    else:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(work, range(n))
