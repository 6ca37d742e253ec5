"""Work that is done ahead of whoever waits for it: in threads, in order, a few steps at most."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import Full, Queue, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Out = TypeVar("Out")

THREADS = min(4, os.cpu_count() or 1)
PATIENCE = 0.05  # seconds between looks whether anybody still waits


def in_order(
    items: Generator[Item, None, None], work: Callable[[Item], Out], threads: int = THREADS
) -> Iterator[tuple[Item, Out]]:
    """Each item and work(item). Items are drawn in a thread, and worked on in others; errors come in their turn.

    The threads do not keep Python from ending: one may wait for standard input, where nothing may ever come.

    >>> [square for _, square in in_order((i for i in range(5)), lambda i: i * i)]
    [0, 1, 4, 9, 16]
    """
    stop = threading.Event()
    waiting: Queue[Future[tuple[Item, Out]] | None] = Queue(threads + 1)  # and so no more tasks than that
    tasks: SimpleQueue[tuple[Item, Future[tuple[Item, Out]]] | None] = SimpleQueue()

    def offer(slot: Future[tuple[Item, Out]] | None) -> bool:
        while not stop.is_set():
            try:
                waiting.put(slot, timeout=PATIENCE)
                return True
            except Full:
                continue
        return False

    def draw() -> None:
        try:
            for item in items:
                slot: Future[tuple[Item, Out]] = Future()
                if not offer(slot):
                    break
                tasks.put((item, slot))
        except BaseException as error:  # whatever it is, the one who waits is told
            failed: Future[tuple[Item, Out]] = Future()
            failed.set_exception(error)
            offer(failed)
        finally:
            items.close()
            offer(None)

    def labour() -> None:
        while (task := tasks.get()) is not None and not stop.is_set():
            item, slot = task
            try:
                slot.set_result((item, work(item)))
            except BaseException as error:  # as above
                slot.set_exception(error)

    workers = [threading.Thread(target=labour, daemon=True) for _ in range(threads)]
    drawer = threading.Thread(target=draw, daemon=True)
    for thread in (*workers, drawer):
        thread.start()
    try:
        while (slot := waiting.get()) is not None:
            yield slot.result()
    finally:
        stop.set()
        for _ in workers:
            tasks.put(None)
        for thread in (*workers, drawer):
            thread.join(2 * PATIENCE)
