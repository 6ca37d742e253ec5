"""Scores that are linear in x: Σ_j zero_j + x_j·slope_j, with impossible events (log 0) counted, not multiplied.

0 · (−∞) is NaN in a matrix product, so the finite parts are multiplied and the impossible ones counted apart.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from deciban._kernel import scores as kernel
from deciban._typing import Array, Floats, Matrix

BLOCK = 1 << 20  # entries of a dense block converted at a time


def finite(array: Floats) -> Floats:
    return np.where(np.isfinite(array), array, 0.0)


def dot(X: Matrix, weights: Floats) -> Floats:
    """X · weights, (n, d)·(d, k), missing entries counting as zero; `weights` finite."""
    n, k = X.shape[0], weights.shape[1]
    if sp.issparse(X):
        out = np.zeros((n, k))
        data = X.data if not has_missing(X) else np.nan_to_num(X.data, nan=0.0)
        kernel.csr_dot(as_value(data), X.indices, X.indptr, np.ascontiguousarray(weights), out)
        return out
    out = np.empty((n, k))
    step = max(1, BLOCK // max(1, X.shape[1]))
    for start in range(0, n, step):
        block = X[start : start + step]
        part = block @ weights
        if np.isnan(part).any():
            part = np.nan_to_num(block, nan=0.0) @ weights
        out[start : start + step] = part
    return out


def score(X: Matrix, zero: Floats, present: Floats, slope: Floats) -> Floats:
    """Σ_j zero_j + x_j·slope_j, shape (n, k), from (k, d) tables.

    `zero` is what x = 0 says and `present` what x = 1 says; −∞ in them marks the impossible. `slope` is finite.
    """
    out = dot(X, np.ascontiguousarray(slope.T)) + finite(zero).sum(axis=1)
    missing = missing_mask(X)
    if missing is not None:
        out -= missing @ finite(zero).T
    never_zero, never_present = np.isneginf(zero), np.isneginf(present)
    if never_zero.any() or never_present.any():
        there = X > 0
        hits = never_zero.sum(axis=1) + there @ (never_present.astype(float) - never_zero).T
        if missing is not None:
            hits = hits - missing @ never_zero.astype(float).T
        out[np.asarray(hits) > 0.5] = -np.inf
    return out


def has_missing(X: Matrix) -> bool:
    values = X.data if sp.issparse(X) else X
    return values.dtype.kind == "f" and bool(np.isnan(values).any())


def missing_mask(X: Matrix) -> Matrix | None:
    """Where entries are missing, as numbers to multiply with; None where none is."""
    if not has_missing(X):
        return None
    if sp.issparse(X):
        mask = sp.csr_matrix((np.isnan(X.data).astype(float), X.indices, X.indptr), shape=X.shape)
        mask.eliminate_zeros()
        return mask
    return np.isnan(X).astype(float)


def as_value(data: Array) -> Array:
    """Sparse values as a type the kernels know."""
    if data.dtype in (np.int32, np.int64, np.float32, np.float64):
        return data
    return data.astype(np.float64)


def entries(X: Matrix) -> tuple[Array, Array, Floats]:
    """Rows, columns and values of the entries that are neither zero nor missing."""
    if sp.issparse(X):
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
    return np.asarray(X.sum(axis=1), dtype=np.float64).ravel()


def spread(alpha: Array | float, k: int, d: int) -> Floats:
    """alpha as a (k, d) table."""
    return np.array(np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k, d)))


def without(total: Floats, part: Floats | float) -> Floats:
    """total − part, where what is left of a subtraction by rounding alone counts as nothing."""
    left = total - part
    return np.where(np.abs(left) <= np.abs(total) * RESIDUE, 0.0, left)


# Sums of up to 2^22 weights, each within 2^-52 of itself, are off by less than this share of themselves.
RESIDUE = 2.0**-30


def groups(y: Array, weight: Floats | None) -> list[tuple[int, float, Array]]:
    """Rows that share class and weight: (class, weight, rows). Their own-class law without one row is the same."""
    if weight is None:
        return [(int(c), 1.0, np.flatnonzero(y == c)) for c in np.unique(y) if c >= 0]
    pairs, inverse = np.unique(np.column_stack([y, weight]), axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    bounds = np.searchsorted(inverse.ravel()[order], np.arange(len(pairs) + 1))
    return [
        (int(c), float(w), order[bounds[g] : bounds[g + 1]]) for g, (c, w) in enumerate(pairs) if c >= 0 and w != 0.0
    ]
