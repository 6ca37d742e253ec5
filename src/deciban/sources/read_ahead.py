"""Parallel map over a generator in threads: results in order, a few items ahead of the consumer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import Full, Queue, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Out = TypeVar("Out")

N_THREADS = min(4, os.cpu_count() or 1)
POLL_SECONDS = 0.05  # between checks whether the consumer is still waiting


def map_in_order(
    items: Generator[Item, None, None], work: Callable[[Item], Out], threads: int = N_THREADS
) -> Iterator[tuple[Item, Out]]:
    """Each item and work(item). One thread draws items, others work on them; errors are raised in order.

    Threads are daemons, so that Python can exit while one waits for standard input.

    >>> [square for _, square in map_in_order((i for i in range(5)), lambda i: i * i)]
    [0, 1, 4, 9, 16]
    """
    stop = threading.Event()
    waiting: Queue[Future[tuple[Item, Out]] | None] = Queue(threads + 1)  # which also bounds the number of tasks
    tasks: SimpleQueue[tuple[Item, Future[tuple[Item, Out]]] | None] = SimpleQueue()

    def offer(slot: Future[tuple[Item, Out]] | None) -> bool:
        while not stop.is_set():
            try:
                waiting.put(slot, timeout=POLL_SECONDS)
                return True
            except Full:
                continue
        return False

    def draw_items() -> None:
        try:
            for item in items:
                slot: Future[tuple[Item, Out]] = Future()
                if not offer(slot):
                    break
                tasks.put((item, slot))
        except BaseException as error:  # pass any error to the consumer
            failed: Future[tuple[Item, Out]] = Future()
            failed.set_exception(error)
            offer(failed)
        finally:
            items.close()
            offer(None)

    def run_tasks() -> None:
        while (task := tasks.get()) is not None and not stop.is_set():
            item, slot = task
            try:
                slot.set_result((item, work(item)))
            except BaseException as error:  # as above
                slot.set_exception(error)

    workers = [threading.Thread(target=run_tasks, daemon=True) for _ in range(threads)]
    producer = threading.Thread(target=draw_items, daemon=True)
    for thread in (*workers, producer):
        thread.start()
    try:
        while (slot := waiting.get()) is not None:
            yield slot.result()
    finally:
        stop.set()
        for _ in workers:
            tasks.put(None)
        for thread in (*workers, producer):
            thread.join(2 * POLL_SECONDS)
