"""Products of sparse rows, against NumPy's of dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deciban._kernel import common as kernel


def sparse(seed: int, n: int = 9, d: int = 6):
    """Sparse rows with columns in any order, and the dense matrix."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, d)) < 0.5, rng.random((n, d)), 0.0)
    dense[rng.integers(n)] = 0.0
    at = [rng.permutation(np.flatnonzero(row)) for row in dense]
    indptr = np.cumsum([0, *map(len, at)])
    columns = np.concatenate(at).astype(np.int32)
    return (indptr, columns, np.concatenate([row[c] for row, c in zip(dense, at, strict=True)])), dense


seeds = st.integers(0, 10_000)


@given(seeds, st.integers(0, 9), st.integers(0, 9))
def test_sums_of_rows_and_of_their_products(seed, first, last):
    rows, dense = sparse(seed)
    rng = np.random.default_rng(seed)
    y, weight = rng.integers(-1, 3, 9).astype(np.int32), rng.choice([0.0, 1.0, 2.5], 9)
    by_class, products = np.zeros((3, 6)), np.zeros((6, 6))
    kernel.sums(*rows, y, weight, by_class, products, first, last)
    some = (np.arange(9) >= first) & (np.arange(9) < last) & (y >= 0)
    kernel.mirror(products)
    np.testing.assert_allclose(products, (dense * (weight * some)[:, None]).T @ dense, rtol=1e-14, atol=1e-15)
    for c in range(3):
        expected = (dense * (weight * some * (y == c))[:, None]).sum(axis=0)
        np.testing.assert_allclose(by_class[c], expected, rtol=1e-14, atol=1e-15)


@given(seeds)
def test_products_with_matrices(seed):
    rows, dense = sparse(seed)
    matrix = np.random.default_rng(seed).normal(size=(6, 4))
    product = np.full((9, 4), np.nan)
    kernel.project(*rows, matrix, product, 0, 9)
    np.testing.assert_allclose(product, dense @ matrix, rtol=1e-13, atol=1e-14)
    both = np.random.default_rng(seed).normal(size=(6, 6, 2))
    both = np.ascontiguousarray(both + both.transpose(1, 0, 2))
    squares = np.full((9, 2), np.nan)
    kernel.square(*rows, both, squares, 0, 9)
    np.testing.assert_allclose(squares, np.einsum("ni,ijr,nj->nr", dense, both, dense), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 100])
def test_the_other_half_of_a_matrix(n):
    matrix = np.random.default_rng(n).normal(size=(n, n))
    expected = np.tril(matrix) + np.tril(matrix, -1).T
    kernel.mirror(matrix)
    np.testing.assert_array_equal(matrix, expected)


def test_columns_of_items():
    indptr, indices = np.array([0, 3, 3, 5]), np.array([4, 0, -1, 2, 4], dtype=np.int32)
    column = np.array([7, -1, -1, -1, 5], dtype=np.int32)
    ends = np.zeros(4, dtype=np.int64)
    kernel.gather(indptr, indices, column, ends, None)
    assert ends.tolist() == [0, 2, 0, 1]
    ends, at = np.cumsum(ends), np.zeros(3, dtype=np.int32)
    kernel.gather(indptr, indices, column, ends, at)
    assert at.tolist() == [5, 7, 5]
    assert ends.tolist() == [2, 2, 3, 3], "behind the last of each row"


def test_what_is_not_there_is_refused():
    (indptr, at, x), _ = sparse(0)
    y, weight = np.zeros(9, dtype=np.int32), np.ones(9)
    for broken in ((indptr, at + 6, x), (indptr, at - 6, x), (indptr[::-1].copy(), at, x), (indptr, at[:-1], x)):
        with pytest.raises(ValueError, match="column"):
            kernel.sums(*broken, y, weight, np.zeros((1, 6)), np.zeros((6, 6)), 0, 9)
        with pytest.raises(ValueError, match="column"):
            kernel.project(*broken, np.zeros((6, 2)), np.zeros((9, 2)), 0, 9)
    with pytest.raises(ValueError, match="class"):
        kernel.sums(indptr, at, x, y + 1, weight, np.zeros((1, 6)), np.zeros((6, 6)), 0, 9)
    with pytest.raises(ValueError, match="item"):
        kernel.gather(indptr, at, np.zeros(2, dtype=np.int32), np.zeros(10, dtype=np.int64), None)
    with pytest.raises(ValueError, match="buffer"):
        kernel.gather(indptr, at, np.zeros(6, dtype=np.int32), indptr.copy(), np.zeros(1, dtype=np.int32))
    with pytest.raises(ValueError, match="square"):
        kernel.mirror(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="two matrices"):
        kernel.square(indptr, at, x, np.zeros((6, 6, 3)), np.zeros((9, 2)), 0, 9)


def test_half_a_matrix_is_unpacked_and_can_be_one_of_products():
    _, x = sparse(0)
    products = x.T @ x
    half, out = products[np.tril_indices(6)], np.empty((6, 6))
    assert kernel.unpack(half, out, 1.0 + 1e-9)
    np.testing.assert_array_equal(out, products)
    for wrong in (-half, np.where(np.arange(21) == 3, 1e9, half)):
        assert not kernel.unpack(wrong, out, 1.0 + 1e-9)
    assert kernel.unpack(np.zeros(0), np.zeros((0, 0)), 1.0)
    with pytest.raises(ValueError, match="half"):
        kernel.unpack(half[1:], out, 1.0)
