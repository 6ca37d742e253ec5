"""Dense and sparse matrices of rows: their values, missing values and blocks."""

from __future__ import annotations

import numpy as np

from deciban._kernel import counts
from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Matrix
from deciban.errors import DecibanError
from deciban.schema import Columns

KERNEL_TYPES = (np.int32, np.int64, np.float32, np.float64)
MAX_VALUE = 1e150  # can be squared and summed without overflow


def as_value(data: Array) -> Array:
    """Sparse values as a type that the kernels support."""
    if data.dtype in KERNEL_TYPES:
        return data
    return data.astype(np.float64)


def all_counts(values: Array) -> bool:
    """Whether values are known to be finite, and none negative; quick, and False if in doubt."""
    if not values.flags.forc or values.dtype not in KERNEL_TYPES:
        return False
    return not counts.strange(values.ravel(order="K"))


def value_range(values: Array) -> tuple[float, float]:
    """The smallest and the largest value of an array, ignoring missing ones; (0, 0) if there is none."""
    if values.size == 0:
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    if np.isnan(low):
        low, high = float(np.fmin.reduce(values, axis=None)), float(np.fmax.reduce(values, axis=None))
    return (low, high) if low <= high else (0.0, 0.0)


def mix_bits(values: Array) -> Array:
    """Mix the bits so that each depends on all (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ (values >> np.uint64(31)))


def marks(data: Data) -> Array:
    """A hash of each row's entries, (n,) uint64; `data` is a matrix per block."""
    mark = np.zeros(data[0].shape[0], dtype=np.uint64)
    for X in data:
        odd = mix_bits(np.arange(X.shape[1], dtype=np.uint64)) | np.uint64(1)
        if issparse(X):
            rows = X.tocsr()
            bits = (rows.data.astype(np.float64) + 0.0).view(np.uint64)
            hashed = np.where(rows.data != 0, mix_bits(bits) * odd[rows.indices], np.uint64(0))
            total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashed, dtype=np.uint64)])
            mark = mix_bits(mark + total[rows.indptr[1:]] - total[rows.indptr[:-1]])
        elif X.shape[1]:
            bits = (np.ascontiguousarray(X, dtype=np.float64) + 0.0).view(np.uint64)
            mark = mix_bits(mark + mix_bits(bits) @ odd)
    return mark


def has_missing(X: Matrix) -> bool:
    values = X.data if issparse(X) else X
    return values.dtype.kind == "f" and bool(np.isnan(values.sum()) and np.isnan(values).any())


def missing_mask(X: Matrix) -> Matrix | None:
    """A matrix of ones where entries are missing; None if none is."""
    if not has_missing(X):
        return None
    if issparse(X):
        import scipy.sparse as sp

        is_missing = np.isnan(X.data)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return sp.csr_matrix((np.ones(int(is_missing.sum())), (rows[is_missing], X.indices[is_missing])), shape=X.shape)
    return np.isnan(X).astype(float)


def entries(X: Matrix) -> tuple[Array, Array, Floats]:
    """Rows, columns and values of the entries that are neither zero nor missing."""
    if issparse(X):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        columns, values = X.indices, X.data.astype(np.float64)
    else:
        rows, columns = np.nonzero(X)
        values = np.asarray(X[rows, columns], dtype=np.float64)
    keep = (values != 0.0) & ~np.isnan(values)
    return (rows, columns, values) if keep.all() else (rows[keep], columns[keep], values[keep])


def row_sums(values: Floats, rows: Array, n: int) -> Floats:
    return np.bincount(rows, weights=values, minlength=n).astype(np.float64)


def row_length(X: Matrix) -> Floats:
    """Σ_j x_j of every row."""
    if has_missing(X):
        rows, _, values = entries(X)
        return row_sums(values, rows, X.shape[0])
    if issparse(X):  # SciPy would add single-precision rows in single precision
        double = X if X.dtype == np.float64 else X.astype(np.float64)
        return np.asarray(double @ np.ones(X.shape[1]))
    return np.asarray(X.sum(axis=1, dtype=np.float64))


def row_slice(X: Matrix, rows: slice) -> Matrix:
    """A block of rows without copying them: SciPy's own slices of sparse rows copy."""
    if rows.start == 0 and rows.stop == X.shape[0]:
        return X
    if not issparse(X) or X.format != "csr":
        return X[rows]
    start, stop = X.indptr[rows.start], X.indptr[rows.stop]
    ends = X.indptr[rows.start : rows.stop + 1] - start
    return csr_view(X.data[start:stop], X.indices[start:stop], ends, (rows.stop - rows.start, X.shape[1]))


def csr_view(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> Matrix:
    """A sparse matrix over arrays known to be valid: SciPy's constructor would check them again."""
    import scipy.sparse as sp

    matrix = sp.csr_matrix(shape, dtype=data.dtype)
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    return matrix


def raise_overflow(X: Matrix, columns: Columns) -> None:
    """Raise an error that names the entry that made a sum overflow."""
    values = X.tocoo() if issparse(X) else X
    data = (values.data if issparse(X) else X).astype(np.float64)
    where = np.argwhere(np.abs(np.where(np.isnan(data), 0.0, data)) > MAX_VALUE)
    if len(where) == 0:
        raise DecibanError("the sums overflowed: the values are too large for float64")
    first = where[0]
    row, column = (values.row[first[0]], values.col[first[0]]) if issparse(X) else (first[0], first[1])
    value = data[tuple(first)]
    raise DecibanError(
        "Input X contains infinity or a value too large for dtype('float64'): row {row}, column {column!r} is {value}. "
        "Remove it, or make it NaN if it is missing.",
        row=row,
        column=columns.name(int(column)),
        value=float(value),
    )
