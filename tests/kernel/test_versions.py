"""Versions of sums by item and class, against dictionaries that are copied."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel.versions import Version

RESIDUE = 2.0**-30
ITEMS, CLASSES = 6, 3

Cells = dict[tuple[int, int], float]
amounts = st.integers(1, 8).map(lambda n: n / 4)
cells = st.dictionaries(st.tuples(st.integers(0, ITEMS - 1), st.integers(0, CLASSES - 1)), amounts, max_size=8)


def compressed(given: Cells, items: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells of these items as the kernel takes them."""
    mine = [sorted((c, v) for (i, c), v in given.items() if i == item) for item in items]
    ptr = np.cumsum([0, *map(len, mine)])
    flat = [cell for row in mine for cell in row]
    return ptr, np.array([c for c, _ in flat], dtype=np.int32), np.array([v for _, v in flat])


def first(given: Cells) -> Version:
    return Version(*compressed(given, list(range(ITEMS))))


def changed(version: Version, given: Cells, sign: float, slack: float = 0.0) -> tuple[Version | None, list[int]]:
    items = sorted({item for item, _ in given})
    numbers = np.array(items, dtype=np.int32)
    return version.plus(numbers, *compressed(given, items), sign, RESIDUE, slack, ITEMS)


def read(version: Version, items: list[int] | None = None) -> Cells:
    items = list(range(ITEMS)) if items is None else items
    ptr, cls, val = version.take(np.array(items, dtype=np.int32))
    return {
        (item, int(cls[at])): float(val[at])
        for row, item in enumerate(items)
        for at in range(int(ptr[row]), int(ptr[row + 1]))
    }


def added(a: Cells, b: Cells, sign: float) -> Cells:
    total = {key: a.get(key, 0.0) + sign * b.get(key, 0.0) for key in a | b}
    return {key: value for key, value in total.items() if value > 0}


@given(cells, st.lists(cells, max_size=8), st.data())
def test_every_version_keeps_its_sums(start, changes, data):
    versions, expected = [first(start)], [start]
    for change in changes:
        sign = data.draw(st.sampled_from([1.0, -1.0]))
        after, gone = changed(versions[-1], change, sign)
        short = sign < 0 and any(expected[-1].get(key, 0.0) < value for key, value in change.items())
        assert (after is None) == short
        if after is None:
            assert len(gone) == 1
            assert any(key[0] == gone[0] for key in change)
            continue
        versions.append(after)
        expected.append(added(expected[-1], change, sign))
        had = {item for item, _ in change}
        assert sorted(gone) == sorted(had - {item for item, _ in expected[-1]})
    for number in data.draw(st.permutations(range(len(versions)))):
        assert read(versions[number]) == expected[number]
        assert versions[number].newest == (number == len(versions) - 1)
    some = data.draw(st.lists(st.integers(-1, ITEMS + 2), unique=True))
    assert read(versions[0], some) == {key: value for key, value in start.items() if key[0] in some}


@given(cells, cells)
def test_take_back_undoes_a_change(start, change):
    version = first(start)
    after, _ = changed(version, change, 1.0)
    version.take_back(after)
    assert version.newest
    assert read(version) == start
    again, _ = changed(version, change, 1.0)
    assert read(again) == added(start, change, 1.0)


def test_what_lacks_no_more_than_the_slack_is_gone():
    version = first({(0, 0): 1.0, (1, 1): 2.0})
    assert changed(version, {(0, 0): 1.5}, -1.0, 0.4)[0] is None
    after, gone = changed(version, {(0, 0): 1.5, (2, 2): 0.5}, -1.0, 0.5)
    assert read(after) == {(1, 1): 2.0}
    assert sorted(gone) == [0, 2]


def test_only_the_newest_version_is_changed():
    version = first({(0, 0): 1.0})
    changed(version, {(1, 1): 1.0}, 1.0)
    with pytest.raises(RuntimeError, match="older version"):
        changed(version, {(1, 1): 1.0}, 1.0)


@pytest.mark.parametrize(
    ("items", "ptr", "cls"),
    [
        ([ITEMS], [0, 1], [0]),
        ([-1], [0, 1], [0]),
        ([0], [0, 2], [1, 1]),
        ([0], [0, 1, 1], [0]),
        ([0, 1], [0, 2, 1], [0]),
    ],
)
def test_cells_that_are_not_in_order_are_refused(items, ptr, cls):
    delta = np.array(items, dtype=np.int32), np.array(ptr), np.array(cls, dtype=np.int32), np.ones(len(cls))
    with pytest.raises(ValueError, match="ascending"):
        first({}).plus(*delta, 1.0, RESIDUE, 0.0, ITEMS)


def test_an_old_version_gets_memory_of_its_own():
    oldest = newest = first({(0, 0): 1.0})
    for _ in range(100):
        newest, _ = changed(newest, {(0, 0): 1.0, (3, 1): 0.5}, 1.0)
    assert oldest.versions_since == 100
    assert read(oldest) == {(0, 0): 1.0}
    assert oldest.versions_since == 0
    assert read(newest) == {(0, 0): 101.0, (3, 1): 50.0}


def test_a_version_with_memory_of_its_own_does_not_cut_off_older_ones():
    versions = [first({(0, 0): 1.0})]
    for _ in range(200):
        versions.append(changed(versions[-1], {(0, 0): 1.0, (2, 1): 1.0}, 1.0)[0])
    for at in (50, 49, 0, 20, 120, 60):
        assert read(versions[at]).get((0, 0)) == 1.0 + at
    assert all(read(version).get((0, 0)) == 1.0 + at for at, version in enumerate(versions))


def test_threads_read_old_versions_while_another_makes_new_ones():
    kept, done, wrong = [first({(0, 0): 1.0})], threading.Event(), []

    def reading(number: int) -> None:
        rng = np.random.default_rng(number)
        while not done.is_set():
            at = int(rng.integers(len(kept)))
            if read(kept[at]).get((0, 0)) != 1.0 + at:
                wrong.append(at)

    readers = [threading.Thread(target=reading, args=(number,)) for number in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(300):
        kept.append(changed(kept[-1], {(0, 0): 1.0, (2, 1): 1.0}, 1.0)[0])
    done.set()
    for reader in readers:
        reader.join()
    assert not wrong
