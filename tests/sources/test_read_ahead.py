"""Reading ahead: in order, never far ahead, and errors at their position."""

from __future__ import annotations

import threading
import time

import pytest

from deciban.sources.read_ahead import map_in_order


def test_results_come_in_order_however_long_each_takes():
    def work(i):
        time.sleep(0.002 * (i % 3))
        return -i

    assert list(map_in_order((i for i in range(40)), work, threads=4)) == [(i, -i) for i in range(40)]


def test_no_more_is_drawn_than_can_wait():
    drawn = []

    def items():
        for i in range(1000):
            drawn.append(i)
            yield i

    results = map_in_order(items(), lambda i: i, threads=2)
    next(results)
    time.sleep(0.2)
    assert len(drawn) <= 6  # one was taken, three wait, one waits to wait, and one to spare
    results.close()


@pytest.mark.parametrize("where", ["items", "work"])
def test_errors_come_in_their_turn(where):
    def items():
        for i in range(10):
            if i == 5 and where == "items":
                raise KeyError("five")
            yield i

    def work(i):
        if i == 5 and where == "work":
            raise KeyError("five")
        return i

    results = map_in_order(items(), work, threads=3)
    assert [next(results) for _ in range(5)] == [(i, i) for i in range(5)]
    with pytest.raises(KeyError, match="five"):
        next(results)


def test_leaving_early_leaves_no_thread_and_no_open_items():
    before = threading.active_count()
    closed = threading.Event()

    def items():
        try:
            yield from range(1000)
        finally:
            closed.set()

    results = map_in_order(items(), lambda i: i)
    next(results)
    results.close()
    assert closed.wait(60)
    deadline = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
