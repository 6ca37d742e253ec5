"""Rows in blocks, and values that are too small to square."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from worlds import make

from deciban import DecibanError, collect
from deciban.threads import ENTRIES_PER_BLOCK


def test_blocks_of_rows_are_all_rows_once():
    X = np.zeros((1000, 3))
    for entries in (1, 3, 299, 300, 301, 3000, 10**9):
        blocks = collect.row_blocks([X], entries)
        assert [i for rows in blocks for i in range(1000)[rows]] == list(range(1000))
        assert {rows.stop - rows.start for rows in blocks[:-1]} <= {max(1, entries // 3)}
    assert collect.row_blocks([X[:0]], 5) == []
    assert collect.row_blocks([np.zeros((4, 0))], 2) == [slice(0, 4)]


def test_sizes_are_of_what_is_stored():
    assert collect.size_of([np.zeros((5, 3)), csr_array(np.eye(4))]) == 15 + 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_long_blocks_are_a_thread_each(jobs):
    class Huge:
        shape = (64 * ENTRIES_PER_BLOCK, 1)
        nnz = 64 * ENTRIES_PER_BLOCK

    assert collect.long_blocks([Huge()], jobs) == 16 * ENTRIES_PER_BLOCK, "but no longer than sixteen"
    assert collect.long_blocks([np.zeros((10, 2))], jobs) == ENTRIES_PER_BLOCK
    Huge.shape = (20 * ENTRIES_PER_BLOCK, 1)
    assert collect.long_blocks([Huge()], jobs) == {1: 16 * ENTRIES_PER_BLOCK, 2: 10 * ENTRIES_PER_BLOCK + 1}[jobs]


def test_codes_as_weights():
    weights = collect.one_hot(np.array([1, -1, 0]), 2, np.array([2.0, 5.0, 3.0]))
    assert weights.tolist() == [[0.0, 2.0], [0.0, 0.0], [3.0, 0.0]]
    assert collect.one_hot(np.array([1]), 2, None).tolist() == [[0.0, 1.0]]


def small(size, family="gaussian", **settings):
    world = make(family, 0, 8, 2, 1, False, False, 1.0, **settings)
    world.X = np.outer(np.arange(8.0) + 1.0, [size, 1.0])
    columns = world.schema.blocks[0]
    world.schema = type(world.schema)(world.schema.classes, (type(columns)(2, pivot=np.zeros((1, 2))),))
    return world


@pytest.mark.parametrize(
    ("family", "settings", "least"),
    [
        ("gaussian", {}, 1e-140),
        ("multivariate_gaussian", {}, 1e-140),
        ("multivariate_gaussian", {"sphere": "auto"}, 1e-70),  # to the fourth power
    ],
)
def test_values_that_are_too_small_to_square_are_an_error(family, settings, least):
    for soft in (False, True):
        labels = np.ones((8, 1)) if soft else None
        small(3.0 * least, family, **settings).collect(labels=labels)
        with pytest.raises(DecibanError, match=r"column .* differ by less than 1e-140"):
            small(0.03 * least, family, **settings).collect(labels=labels)
        small(0.0, family, **settings).collect(labels=labels)


def test_small_shares_are_no_small_values():
    """A sum can also be small because EM's responsibilities are."""
    world = small(1.0)
    world.collect(labels=np.full((8, 1), 1e-290))
    with pytest.raises(DecibanError, match="differ by less"):
        small(1e-150).collect(labels=np.full((8, 1), 0.5))
