"""Scores that are linear in x: Σ_j zero_j + x_j·slope_j, with impossible events (log 0) counted, not multiplied.

0 · (−∞) is NaN in a matrix product, so the finite parts are multiplied and the impossible ones counted separately.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from deciban._kernel import scores as kernel
from deciban._scipy import issparse
from deciban._typing import Array, Floats, Matrix
from deciban.errors import DecibanError
from deciban.matrix import as_value, missing_mask
from deciban.schema import Columns

if TYPE_CHECKING:
    from deciban.formula import Sketch, Slopes

BLOCK_ENTRIES = 1 << 20  # entries of a dense block converted at a time


def finite(array: Floats) -> Floats:
    """The array with 0 in place of infinities and NaN."""
    return array if np.isfinite(array.sum()) else np.where(np.isfinite(array), array, 0.0)


def dot(X: Matrix, weights: Floats, above: float | None = None) -> tuple[Floats, bool]:
    """X · weights, (n, d)·(d, k), and whether some entry was missing: these count as zero. `weights` is finite.

    With `above`, X is replaced by 1[x > above]. A product with NaN is NaN, so it shows whether an entry was missing.
    """
    n, k = X.shape[0], weights.shape[1]
    weights = np.ascontiguousarray(weights)
    if issparse(X):

        def product(data: Array) -> Floats:
            out = np.zeros((n, k))
            binary, threshold = above is not None, above or 0.0
            kernel.csr_dot(as_value(data), X.indices, X.indptr, weights, out, binary, threshold)
            return out

        out = product(X.data)
        if not np.isnan(out.sum()):
            return out, False
        return product(np.where(np.isnan(X.data), 0.0, X.data)), True
    out = np.empty((n, k))
    some_missing = False
    step = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
    for start in range(0, n, step):
        block = X[start : start + step]
        values = block if above is None else (block > above).astype(np.float64)
        missing = block.dtype.kind == "f" and bool(np.isnan(block.sum())) and np.isnan(block)
        if missing is not False:
            some_missing = True
            values = np.where(missing, 0.0, values)
        np.matmul(values, weights, out=out[start : start + step])
    return out, some_missing


def score(
    X: Matrix, zero: Floats | None, present: Floats, slope: Floats | None = None, above: float | None = None
) -> Floats:
    """Σ_j zero_j + x_j·slope_j, shape (n, k), from (k, d) tables.

    `zero` is the score at x = 0 (None: 0) and `present` that at x = 1; −∞ marks the impossible. The slope is the
    difference of the two unless it is given.
    """
    base = None if zero is None else finite(zero)
    if slope is None:
        slope = finite(present) if base is None else finite(present) - base
    out, some_missing = dot(X, slope.T, above)
    missing = missing_mask(X) if some_missing else None
    if base is not None:
        out += base.sum(axis=1)
        if missing is not None:
            out -= missing @ base.T
    if base is zero and np.isfinite(present.sum()):
        return out  # nothing is impossible
    never_present = np.isneginf(present)
    never_zero = np.zeros_like(never_present) if zero is None else np.isneginf(zero)
    there = X > (above or 0.0)
    hits = never_zero.sum(axis=1) + there @ (never_present.astype(float) - never_zero).T
    if missing is not None:
        hits = hits - missing @ never_zero.astype(float).T
    out[np.asarray(hits) > 0.5] = -np.inf
    return out


def slopes(sketch: Sketch, columns: Columns, zero: Floats, slope: Floats) -> Slopes:
    """The same as a term of a formula, from (k, d) tables; −∞ in the slope marks the impossible."""
    from deciban.formula import Slopes

    return Slopes(sketch.numbers(columns), zero, finite(slope), np.isneginf(slope))


def integrated_out(name: str) -> DecibanError:
    """Why a distribution whose parameters are integrated out has no formula."""
    return DecibanError(
        f"with predictive=True a {name} distribution has its parameters integrated out, with gamma functions that SQL "
        f"and ONNX do not have: fit with predictive=False"
    )


def spread(alpha: Array | float, k: int, d: int) -> Floats:
    """alpha as a (k, d) table."""
    return np.array(np.broadcast_to(np.asarray(alpha, dtype=np.float64), (k, d)), order="C")  # as kernels read it


def groups(y: Array, weight: Floats | None) -> list[tuple[int, float, Array]]:
    """Rows by class and weight: (class, weight, rows). Without any one of them, the class has the same distribution."""
    if weight is None:
        return [(int(c), 1.0, np.flatnonzero(y == c)) for c in np.unique(y) if c >= 0]
    pairs, inverse = np.unique(np.column_stack([y, weight]), axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    bounds = np.searchsorted(inverse.ravel()[order], np.arange(len(pairs) + 1))
    return [
        (int(c), float(w), order[bounds[g] : bounds[g + 1]]) for g, (c, w) in enumerate(pairs) if c >= 0 and w != 0.0
    ]
