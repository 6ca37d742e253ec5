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

LANES, PANEL = kernel.PANEL_SHAPE  # classes side by side in the kernels' tables
MAX_OFFSET = 2.0**12  # nats: a sum this large has lost twelve bits of its last term, and no more


def finite(array: Floats) -> Floats:
    """The array with 0 in place of infinities and NaN."""
    return array if np.isfinite(array.sum()) else np.where(np.isfinite(array), array, 0.0)


class Product:
    """Rows times weights, (n, d)·(d, k), which are finite; the weights are laid out when first needed.

    With `above`, x is replaced by 1[x > above]; with `centre` by x − centre, for dense rows.
    """

    __slots__ = ("above", "by_column", "centre", "panels", "weights")

    def __init__(self, weights: Floats, above: float | None = None, centre: Floats | None = None) -> None:
        self.weights, self.above, self.centre = weights, above, centre
        self.panels: Floats | None = None
        self.by_column: Floats | None = None

    def write(self, X: Matrix, start: Floats, out: Floats) -> bool:
        """out = start + X · weights, and whether some entry was missing: without a centre, these count as zero.

        A product with NaN is NaN, so it shows whether an entry was missing.
        """
        how = (self.above is not None, self.above or 0.0)
        nothing = 0.0 if self.above is None else -np.inf
        if issparse(X):
            if self.by_column is None:
                self.by_column = by_column(self.weights)
            kernel.csr_dot(as_value(X.data), X.indices, X.indptr, self.by_column, start, out, *how)
            if not np.isnan(out.sum()):
                return False
            data = np.where(np.isnan(X.data), nothing, X.data)
            kernel.csr_dot(as_value(data), X.indices, X.indptr, self.by_column, start, out, *how)
            return True
        if self.panels is None:
            self.panels = in_panels(self.weights)
        X = as_value(X)
        if not kernel.dense_dot(X, self.panels, start, out, self.centre, *how):
            return False
        kernel.dense_dot(np.where(np.isnan(X), nothing, X), self.panels, start, out, self.centre, *how)
        return True


class Affine:
    """Offsets (k,) + (x − centre)·weights, from a (k, d) table: scores of classes up to what they have in common.

    A centre near the rows keeps digits that are lost if it is far from zero; if it is not, no row needs to be moved.
    """

    __slots__ = ("offsets", "product")

    def __init__(self, weights: Floats, offsets: Floats, centre: Floats) -> None:
        moves = weights * centre
        near = bool((np.abs(moves).sum(axis=1) < MAX_OFFSET).all())
        self.offsets = offsets - moves.sum(axis=1) if near else offsets
        self.product = Product(weights.T, centre=None if near else np.ascontiguousarray(centre))

    def write(self, X: Matrix, start: Floats, out: Floats) -> bool:
        """Write start + scores of the rows, unless one has a missing entry, or is sparse and must be moved."""
        if issparse(X) and self.product.centre is not None:
            return False
        return not self.product.write(X, start + self.offsets, out)


def by_column(weights: Floats) -> Floats:
    """Weights (d, k) with the classes of a column side by side, zeros past the last; no column straddles lines."""
    d, k = weights.shape
    width = -(-k // LANES) * LANES if k > 2 else 2
    room = np.zeros(d * width + 7)
    first = -(room.ctypes.data // 8) % 8
    table = room[first : first + d * width].reshape(d, width)
    table[:, :k] = weights
    return table


def by_code(table: Floats, unseen: Floats) -> Floats:
    """Scores of codes (cells, k), of unknown codes (d, k) and of none, for `code_scores`."""
    return by_column(np.concatenate([table, unseen, np.zeros((1, table.shape[1]))]))


def in_panels(weights: Floats) -> Floats:
    """Weights (d, k) in panels of up to PANEL classes, one after the other, each padded with zeros to whole LANES."""
    d, k = weights.shape
    table = np.zeros((d, -(-k // LANES) * LANES))
    table[:, :k] = weights
    return np.concatenate([np.zeros(0), *(table[:, c : c + PANEL].ravel() for c in range(0, k, PANEL))])


def dot(X: Matrix, weights: Floats) -> tuple[Floats, bool]:
    """X · weights, (n, d)·(d, k), and whether some entry was missing: these count as zero. `weights` is finite."""
    out = np.empty((X.shape[0], weights.shape[1]))
    some_missing = Product(weights).write(X, np.zeros(weights.shape[1]), out)
    return out, some_missing


class Linear:
    """Σ_j zero_j + x_j·slope_j, shape (n, k), from (k, d) tables: a scorer.

    `zero` is the score at x = 0 (None: 0) and `present` that at x = 1; −∞ marks the impossible. The slope is the
    difference of the two unless it is given.
    """

    __slots__ = ("above", "base", "never_present", "never_zero", "product", "total")

    def __init__(
        self, zero: Floats | None, present: Floats, slope: Floats | None = None, above: float | None = None
    ) -> None:
        base = None if zero is None else finite(zero)
        if slope is None:
            slope = finite(present) if base is None else finite(present) - base
        self.product, self.above, self.base = Product(slope.T, above), above, base
        self.total = None if base is None else base.sum(axis=1)
        self.never_present: Array | None = None
        self.never_zero: Array | None = None
        if base is not zero or not np.isfinite(present.sum()):  # something is impossible
            self.never_present = np.isneginf(present)
            self.never_zero = np.zeros_like(self.never_present) if zero is None else np.isneginf(zero)

    def __call__(self, X: Matrix, start: Floats, out: Floats) -> None:
        some_missing = self.product.write(X, start if self.total is None else start + self.total, out)
        missing = missing_mask(X) if some_missing else None
        if self.base is not None and missing is not None:
            out -= missing @ self.base.T
            out[np.asarray(missing.sum(axis=1)).ravel() == X.shape[1]] = (
                start  # exactly, so that equal priors stay equal
            )
        if self.never_present is None or self.never_zero is None:
            return
        there = X > (self.above or 0.0)
        hits = self.never_zero.sum(axis=1) + there @ (self.never_present.astype(float) - self.never_zero).T
        if missing is not None:
            hits = hits - missing @ self.never_zero.astype(float).T
        out[np.asarray(hits) > 0.5] = -np.inf


def score(
    X: Matrix, zero: Floats | None, present: Floats, slope: Floats | None = None, above: float | None = None
) -> Floats:
    """`Linear` of rows that are scored once."""
    out = np.empty((X.shape[0], len(present)))
    Linear(zero, present, slope, above)(X, np.zeros(len(present)), out)
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
