"""Documents shared out among threads. Kernels release the GIL, so plain threads do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from deciban._kernel.text import Documents
from deciban.engines.local import threads

Result = TypeVar("Result")

BLOCK = 1 << 22  # bytes of text read at a time: long enough to hide the overhead, short enough to share out


def workers_for(documents: Documents, n_jobs: int | None) -> int:
    """How many threads such texts are worth."""
    return threads(n_jobs, int(documents.sizes.sum()))


def over_documents(
    documents: Documents, n_jobs: int | None, work: Callable[[Documents, int, int], Result], block: int = BLOCK
) -> list[Result]:
    """work(documents, start, stop) for blocks of about as many bytes, in order, in threads."""
    ends = np.cumsum(documents.sizes)
    total, workers = int(ends[-1]) if len(ends) else 0, workers_for(documents, n_jobs)
    pieces = -(-max(total, 1) // (block * workers)) * workers
    cuts = np.searchsorted(ends, np.arange(1, pieces) * total / pieces, side="right")
    edges = np.unique([0, *cuts, len(documents)]).tolist()
    return in_threads(lambda at: work(documents, edges[at], edges[at + 1]), range(len(edges) - 1), workers)


def in_threads(work: Callable[[Any], Result], items: Sequence[Any], workers: int) -> list[Result]:
    if workers == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, items))
