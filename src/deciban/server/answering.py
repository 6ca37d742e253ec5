"""Batching: requests that arrive together, or while a batch is scored, form the next batch.

Scoring a hundred texts takes little longer than scoring one. A batch that takes a millisecond or two is scored in the
event loop: handing it to a thread and back would take longer. Kernels release the GIL, so larger batches are scored in
threads.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from deciban.server.model import Answer, Content, ServedModel
from deciban.server.problems import RequestError
from deciban.server.writer import LiveModel

MAX_TOGETHER = 256  # examples of a batch, unless a single request has more
MAX_WAITING = 10_000  # examples
MAX_BATCHES = 2  # in threads at a time, for each model: a large request does not block small ones
QUICK_SECONDS = 0.002  # of the processor, for a batch in the event loop
MIN_DISTANCE = 0.002  # seconds between two batches: under load, requests gather in the meantime
NEWEST = 0.3  # weight of the newest batch in the means of earlier ones

Answered = tuple[ServedModel, list[Answer]]
Batch = list[tuple[Sequence[Content], asyncio.Future[Answered]]]
Results = list[Answered | Exception]


class Answering:
    """The requests that wait for one model. Used only in the event loop."""

    def __init__(self, live: LiveModel, pool: Executor) -> None:
        self.live, self.pool = live, pool
        self._waiting: deque[tuple[Sequence[Content], asyncio.Future[Answered]]] = deque()
        self._examples, self._running, self._planned = 0, 0, False
        self._seconds, self._size = 0.0, 0.0  # of a batch, on average; 0 until one was scored
        self._last = 0.0  # when a batch was last begun

    def answers(self, contents: Sequence[Content]) -> asyncio.Future[Answered]:
        """The answers to examples, and the model that computed them."""
        if self._examples and self._examples + len(contents) > MAX_WAITING:
            raise RequestError("too many requests are waiting: try again in a second", status=503, code="busy")
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((contents, future))
        self._examples += len(contents)
        self._plan()
        return future

    def _plan(self) -> None:
        """Score what waits, after the requests that arrived at the same time have been read."""
        if self._waiting and not self._planned and self._running < MAX_BATCHES:
            self._planned = True
            loop = asyncio.get_running_loop()
            loop.call_later(max(0.0, self._last + MIN_DISTANCE - loop.time()), self._score)

    def _score(self) -> None:
        self._planned, self._last = False, asyncio.get_running_loop().time()
        batch: Batch = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0][0]) <= MAX_TOGETHER):
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0])
        self._examples -= size
        batch = [one for one in batch if not one[1].done()]  # the others were cancelled
        if batch:
            requests = [contents for contents, _ in batch]
            length = sum(amount(content) for contents in requests for content in contents)
            work = partial(timed, self.live.current, requests)
            if self._seconds and self._seconds * max(1.0, length / self._size) < QUICK_SECONDS:
                self._finish(batch, length, *work())
            else:
                self._running += 1
                future = asyncio.get_running_loop().run_in_executor(self.pool, work)
                future.add_done_callback(partial(self._scored, batch, length))
        self._plan()

    def _scored(self, batch: Batch, length: int, future: asyncio.Future[tuple[float, Results]]) -> None:
        self._running -= 1
        error = None if future.cancelled() else future.exception()
        if error is not None or future.cancelled():  # the server stops
            for _, one in batch:
                if not one.done():
                    one.set_exception(error) if error is not None else one.cancel()
        else:
            self._finish(batch, length, *future.result())
        self._plan()

    def _finish(self, batch: Batch, length: int, seconds: float, results: Results) -> None:
        share = NEWEST if self._seconds else 1.0
        self._seconds += share * (seconds - self._seconds)
        self._size += share * (length - self._size)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # its request was cancelled
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def amount(content: Content) -> int:
    """How much there is to read: characters, or values of a row."""
    return 1 + sum(map(len, content.values()))


def timed(model: ServedModel, requests: Sequence[Sequence[Content]]) -> tuple[float, Results]:
    """The seconds of the processor that it took, and `answer_each`."""
    start = time.thread_time()
    results = answer_each(model, requests)
    return time.thread_time() - start, results


def answer_each(model: ServedModel, requests: Sequence[Sequence[Content]]) -> Results:
    """The answers to each request, or its error; if none fails, all are scored together."""
    try:
        answers = iter(model.answers([content for contents in requests for content in contents]))
        return [(model, [next(answers) for _ in contents]) for contents in requests]
    except Exception as error:
        if len(requests) == 1:
            return [error]
        return [answer_each(model, [contents])[0] for contents in requests]
