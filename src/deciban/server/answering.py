"""Batching: requests that arrive while a batch is scored form the next batch.

Scoring a hundred texts takes little longer than scoring one, and kernels release the GIL: so answers are computed in
threads, not in the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor

from deciban.server.model import Answer, Content, ServedModel
from deciban.server.problems import RequestError
from deciban.server.writer import LiveModel

MAX_TOGETHER = 256  # examples of a batch, unless a single request has more
MAX_WAITING = 10_000  # examples
MAX_BATCHES = 2  # at a time for each model: a large request does not block small ones

Answered = tuple[ServedModel, list[Answer]]


class Answering:
    """The requests that wait for one model. Used only in the event loop."""

    def __init__(self, live: LiveModel, pool: Executor) -> None:
        self.live, self.pool = live, pool
        self._waiting: deque[tuple[Sequence[Content], asyncio.Future[Answered]]] = deque()
        self._examples, self._running, self._tasks = 0, 0, set[asyncio.Task[None]]()

    async def answers(self, contents: Sequence[Content]) -> Answered:
        """The answers to examples, and the model that computed them."""
        if self._examples and self._examples + len(contents) > MAX_WAITING:
            raise RequestError("too many requests are waiting: try again in a second", status=503, code="busy")
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting.append((contents, future))
        self._examples += len(contents)
        if self._running < MAX_BATCHES:
            self._running += 1
            task = asyncio.create_task(self._answer_all())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _answer_all(self) -> None:
        """Answer until no request waits. There is no await between the check and the end, so none is missed."""
        try:
            while self._waiting:
                await self._answer_batch()
        finally:
            self._running -= 1

    async def _answer_batch(self) -> None:
        loop = asyncio.get_running_loop()
        batch: list[tuple[Sequence[Content], asyncio.Future[Answered]]] = []
        size = 0
        while self._waiting and (not batch or size + len(self._waiting[0][0]) <= MAX_TOGETHER):
            batch.append(self._waiting.popleft())
            size += len(batch[-1][0])
        self._examples -= size
        try:
            results = await loop.run_in_executor(
                self.pool, answer_each, self.live.current, [contents for contents, _ in batch]
            )
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            raise
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # its request was cancelled
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


def answer_each(model: ServedModel, requests: Sequence[Sequence[Content]]) -> list[Answered | Exception]:
    """The answers to each request, or its error; if none fails, all are scored together."""
    try:
        answers = iter(model.answers([content for contents in requests for content in contents]))
        return [(model, [next(answers) for _ in contents]) for contents in requests]
    except Exception as error:
        if len(requests) == 1:
            return [error]
        return [answer_each(model, [contents])[0] for contents in requests]
