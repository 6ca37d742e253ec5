"""Statistics of arrays in memory, in threads: a block of rows is a partial sum, and sums merge by `+`.

Kernels release the GIL, so threads suffice. Blocks have a fixed size and merge in order, so that a result does not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from deciban import measure as measured
from deciban._kernel import counts, moments
from deciban._kernel import scatter as scatter_kernel
from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Labels, Matrix
from deciban.algebra import Stats, shift
from deciban.errors import DecibanError
from deciban.joint import Joint, Model
from deciban.matrix import as_value, csr_view, has_missing, raise_overflow, row_slice
from deciban.measure import XX, XXY, XXYY, XY, Above, Is, Measure, One, Pairs, has_squares, incomplete, second_moments
from deciban.schema import Columns, Schema
from deciban.threads import ENTRIES_PER_BLOCK, threads

Result = TypeVar("Result")

CODE_TYPES = (np.uint8, np.int32, np.int64, np.float32, np.float64)
KERNELS = (One, measured.X, Above, XX, XY, XXY, XXYY, Is, Pairs)  # measures with compiled kernels


def size_of(data: Data) -> int:
    """The number of stored entries."""
    return sum(X.nnz if issparse(X) else X.shape[0] * X.shape[1] for X in data)


def row_blocks(data: Data, entries: int) -> list[slice]:
    """Slices of rows, each with about this many entries."""
    n = data[0].shape[0]
    step = max(1, int(entries * n // max(1, size_of(data)))) if n else 1
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def long_blocks(data: Data, n_jobs: int | None) -> int:
    """The entries of a block if each block has an overhead: few blocks, but at least one per thread."""
    size = size_of(data)
    return max(ENTRIES_PER_BLOCK, min(16 * ENTRIES_PER_BLOCK, size // threads(n_jobs, size) + 1))


def over_rows(
    data: Data, n_jobs: int | None, work: Callable[[slice], Result], entries: int | None = None
) -> list[Result]:
    """work(rows) for every block of rows, in threads; results in order."""
    blocks = row_blocks(data, entries if entries is not None else ENTRIES_PER_BLOCK)
    workers = threads(n_jobs, size_of(data))
    if workers == 1 or len(blocks) == 1:
        return [work(rows) for rows in blocks]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, blocks))


def collect(
    data: Data,
    joint: Joint,
    schema: Schema,
    labels: Labels,
    weight: Floats | None = None,
    n_jobs: int | None = None,
    guess: Model | None = None,
) -> Stats:
    """Sums of T(x) by class over all rows. Labels are class codes (−1: no class), or an (n, k) matrix of weights.

    If columns depend on each other, a row with missing values adds its expectation under the model `guess`, and
    nothing without a guess.
    """
    k = len(schema.classes)
    soft = labels.ndim == 2
    if soft:
        labels = labels if weight is None else labels * weight[:, None]
    else:
        labels = np.ascontiguousarray(labels, dtype=np.int32)
    total = []
    for b, (block, columns, X) in enumerate(zip(joint.blocks, schema.blocks, data, strict=True)):
        sums = collect_block(block.family.measures(columns), columns, X, labels, weight, k, n_jobs)
        if guess is not None and block.family.whole_rows and has_missing(X):
            rows = np.flatnonzero(incomplete(X))
            shares = labels[rows] if soft else one_hot(labels[rows], k, None if weight is None else weight[rows])
            filled = block.family.expected_sums(guess.params[b], columns, X[rows], shares)
            sums = {name: sums[name] + filled[name] for name in sums}
        total.append(sums)
    return Stats(schema, class_weights(joint, schema, total, labels, weight), tuple(total))


def class_weights(
    joint: Joint, schema: Schema, total: Sequence[dict[str, Floats]], labels: Array, weight: Floats | None
) -> Floats:
    """n_y. If no entry was missing (`one` is narrower than its columns), a block has already counted the rows.

    If columns depend on each other, a row with missing values counts only if its expectation was added.
    """
    for block, sums, columns in zip(joint.blocks, total, schema.blocks, strict=True):
        counted = "one" in sums and sums["one"].shape[1] == 1 and (columns.size > 1 or block.family.whole_rows)
        if counted and (len(joint.blocks) == 1 or not block.family.whole_rows):
            return np.array(sums["one"][:, 0])
    if labels.ndim == 2:
        return np.asarray(labels.sum(axis=0))
    out = np.zeros(len(schema.classes))
    counts.class_weights(labels, weight, out)
    return out


def one_hot(codes: Array, k: int, weight: Floats | None) -> Floats:
    """Class codes as an (n, k) matrix of weights."""
    out = np.zeros((len(codes), k))
    known = np.flatnonzero(codes >= 0)
    out[known, codes[known]] = 1.0 if weight is None else weight[known]
    return out


def collect_block(
    measures: Sequence[Measure],
    columns: Columns,
    X: Matrix,
    labels: Array,
    weight: Floats | None,
    k: int,
    n_jobs: int | None,
) -> dict[str, Floats]:
    """One block's sums, dense or sparse: by kernels, or else by the measures' definitions."""
    pivot = columns.pivot if columns.pivot is not None else np.zeros((k, columns.size))
    pivot = np.ascontiguousarray(pivot)
    others = [m for m in measures if type(m) not in KERNELS]
    if others:
        known = [m for m in measures if m not in others]
        sums = collect_block(known, columns, X, labels, weight, k, n_jobs) if known else {}
        return sums | sums_by_definition(others, columns, X, labels, weight, pivot, n_jobs)
    pairs = next((m for m in measures if isinstance(m, Pairs)), None)
    if pairs is not None:
        return pairs.sums(count_codes(pairs.offsets, X, labels, weight, k, n_jobs, pairs.places))
    if any(isinstance(m, Is) for m in measures):
        return {"is": count_codes(columns.offsets, X, labels, weight, k, n_jobs)}
    squares = any(isinstance(m, XX) for m in measures)
    above = next((m.threshold for m in measures if isinstance(m, Above)), None)
    if any(isinstance(m, XY) for m in measures):
        sums = scatter_sums(X, labels, weight, k, pivot, any(isinstance(m, XXYY) for m in measures), n_jobs)
    elif issparse(X):
        sums = sparse_sums(X, labels, weight, k, squares, above, n_jobs)
        sums = shift(sums, -pivot) if squares else sums  # from zero to the pivots
    else:
        sums = dense_sums(X, labels, weight, k, pivot, squares, above, n_jobs)
    if not all(np.isfinite(array).all() for array in sums.values()):
        raise_overflow(X, columns)
    # Squares below 1e-308 lose digits or vanish: from 1e-280 per row on they keep a double's sixteen digits. A sum can
    # also be small because EM's responsibilities are: then the squares are as small as the values, not smaller, and
    # below 1e-305 neither has enough digits to decide.
    vanishing = np.zeros((0, 0), dtype=bool)
    if has_squares(sums):
        second = second_moments(sums)
        least, first = 1e-280 * sums["one"], np.abs(sums["x"])
        vanishing = (second < least) & (first > 0.0)
        if labels.ndim == 2:
            vanishing &= (second <= 1e-140 * first) & (first > 1e-305)
        if XXYY.name in sums:
            fourth = np.diagonal(sums[XXYY.name], axis1=1, axis2=2)
            vanishing |= (fourth < least) & (fourth <= 1e-140 * second) & (first > 0.0)
    if vanishing.any():
        column = int(np.argwhere(vanishing)[0][1])
        raise DecibanError(
            "the values of column {column!r} differ by less than 1e-140, which is too small to square: multiply the "
            "column so that its values are near 1",
            column=columns.name(column),
        )
    wanted = {m.name for m in measures}
    return {name: array for name, array in sums.items() if name in wanted}


def sums_by_definition(
    measures: Sequence[Measure],
    columns: Columns,
    X: Matrix,
    labels: Array,
    weight: Floats | None,
    pivot: Floats,
    n_jobs: int | None,
) -> dict[str, Floats]:
    """Σ T(x) by class as the measures define T, a block of rows at a time."""
    k = len(pivot)

    def work(rows: slice) -> dict[str, Floats]:
        block = X[rows].toarray() if issparse(X) else X[rows]
        block = np.asarray(block, dtype=np.float64)
        shares = labels[rows]
        if shares.ndim == 1:
            shares = one_hot(shares, k, None if weight is None else weight[rows])
        out = {}
        for m in measures:
            sums = np.zeros((k, *m.shapes(columns)[-1]))
            for c in np.flatnonzero(shares.any(axis=0)):
                at = np.flatnonzero(shares[:, c])
                sums[c] = np.tensordot(shares[at, c], m.of(block[at], pivot[c]), axes=1)
            out[m.name] = sums
        return out

    parts = over_rows([X], n_jobs, work)
    total = {m.name: np.zeros((k, *m.shapes(columns)[-1])) for m in measures}
    for part in parts:
        total = {name: total[name] + part[name] for name in total}
    if not all(np.isfinite(array).all() for array in total.values()):
        raise_overflow(X, columns)
    return total


def dense_sums(
    X: Array,
    labels: Array,
    weight: Floats | None,
    k: int,
    pivot: Floats,
    squares: bool,
    above: float | None,
    n_jobs: int | None,
) -> dict[str, Floats]:
    d = X.shape[1]
    soft = labels.ndim == 2
    seen_missing = False

    def sums_of(rows: slice, missing: bool) -> tuple[Floats, Floats, Floats | None]:
        one = np.zeros((k, d if missing else 1))
        x = np.zeros((k, d))
        xx = np.zeros((k, d)) if squares else None
        how = (missing, above is not None, above or 0.0)
        block = X[rows] if X.dtype in (np.float32, np.float64) else X[rows].astype(np.float64)
        if soft:
            moments.soft_sums(block, labels[rows], pivot, one, x, xx, *how)
        else:
            w = None if weight is None else weight[rows]
            moments.class_sums(block, labels[rows], w, pivot, one, x, xx, *how)
        return one, x, xx

    def work(rows: slice) -> tuple[Floats, Floats, Floats | None]:
        nonlocal seen_missing
        if not seen_missing:
            # A sum with NaN is NaN, so the sums themselves show whether an entry was missing: no separate pass.
            part = sums_of(rows, False)
            if not np.isnan(part[1]).any():
                return part
            seen_missing = True
        return sums_of(rows, True)

    with np.errstate(invalid="ignore"):
        parts = over_rows([X], n_jobs, work, 4 * ENTRIES_PER_BLOCK)
        total = {"one": np.zeros((k, 1)), "x": np.zeros((k, d))}
        if squares:
            total["xx"] = np.zeros((k, d))
        for one, x, xx in parts:
            total["one"] = total["one"] + one
            total["x"] += x
            if xx is not None:
                total["xx"] += xx
    return total


def scatter_sums(
    X: Array, labels: Array, weight: Floats | None, k: int, pivot: Floats, fourth: bool, n_jobs: int | None
) -> dict[str, Floats]:
    """n, Σt and Σttᵀ of whole rows by class, t = x − pivot; with `fourth` also Σt²tᵀ and Σt²(t²)ᵀ."""
    d = X.shape[1]
    soft = labels.ndim == 2

    def sums_of(block: Array, mine: Array, w: Floats | None) -> dict[str, Floats]:
        sums = {"one": np.zeros((k, 1)), "x": np.zeros((k, d)), "xy": np.zeros((k, d, d))}
        if soft:
            scatter_kernel.soft_scatter(block, mine, pivot, *sums.values())
        else:
            scatter_kernel.class_scatter(block, mine, w, pivot, *sums.values())
        return sums

    def work(rows: slice) -> dict[str, Floats]:
        block = X[rows] if X.dtype in (np.float32, np.float64) else X[rows].astype(np.float64)
        mine, w = labels[rows], None if weight is None else weight[rows]
        sums = sums_of(block, mine, w)
        if np.isnan(sums["x"]).any():  # a sum with NaN is NaN, so the sums show whether an entry was missing
            there = ~incomplete(block)
            block, mine, w = block[there], mine[there], None if w is None else w[there]
            sums = sums_of(block, mine, w)
        return sums | (higher_moments(block, mine, w, pivot) if fourth else {})

    with np.errstate(invalid="ignore", over="ignore"):
        # A block's sums are as large as the scatter matrices, so blocks are at least a few times longer than that.
        parts = over_rows([X], n_jobs, work, max(ENTRIES_PER_BLOCK, 4 * k * d * d))
    if not parts:
        return work(slice(0, 0))
    return {name: np.add.reduce([part[name] for part in parts]) for name in parts[0]}


def higher_moments(X: Array, labels: Array, weight: Floats | None, pivot: Floats) -> dict[str, Floats]:
    """Σt²tᵀ and Σt²(t²)ᵀ by class, for the Ledoit–Wolf intensity."""
    k, d = pivot.shape
    sums = {"xxy": np.zeros((k, d, d)), "xxyy": np.zeros((k, d, d))}
    for c in range(k):
        mine = labels[:, c] if labels.ndim == 2 else (labels == c).astype(float) * (1.0 if weight is None else weight)
        rows = np.flatnonzero(mine)
        w, t = mine[rows], X[rows] - pivot[c]
        squares = w[:, None] * t**2
        sums["xxy"][c], sums["xxyy"][c] = squares.T @ t, squares.T @ t**2
    return sums


def sparse_sums(
    X: Matrix,
    labels: Array,
    weight: Floats | None,
    k: int,
    squares: bool,
    above: float | None,
    n_jobs: int | None,
) -> dict[str, Floats]:
    """Sums about zero: entries that are not stored are zeros and add only their weight."""
    is_missing = np.isnan(X.data) if has_missing(X) else None
    data = as_value(X.data) if is_missing is None else np.where(is_missing, 0.0, X.data)
    sums: dict[str, Floats] = {}
    if labels.ndim == 2:
        values = data.astype(np.float64) if above is None else (data > above).astype(np.float64)
        if is_missing is not None:
            values = np.where(is_missing, 0.0, values)
        S = type(X)((values, X.indices, X.indptr), shape=X.shape)
        sums["one"] = labels.sum(axis=0)[:, None]
        sums["x"] = np.ascontiguousarray((S.T @ labels).T)
        if squares:
            sums["xx"] = np.ascontiguousarray((S.power(2).T @ labels).T)
        if is_missing is not None:
            missing = type(X)((is_missing.astype(float), X.indices, X.indptr), shape=X.shape)
            sums["one"] = sums["one"] - (missing.T @ labels).T
        return sums
    one = np.zeros((k, 1))
    counts.class_weights(labels, weight, one[:, 0])
    sums["one"], sums["x"] = one, stored_sums(X, data, labels, weight, k, above, False, n_jobs)
    if is_missing is not None:
        sums["one"] = one - stored_sums(X, is_missing.astype(float), labels, weight, k, None, False, n_jobs)
    if squares:
        sums["xx"] = stored_sums(X, data, labels, weight, k, None, True, n_jobs)
    return sums


def stored_sums(
    X: Matrix,
    data: Array,
    labels: Array,
    weight: Floats | None,
    k: int,
    above: float | None,
    square: bool,
    n_jobs: int | None,
) -> Floats:
    """Σ of the stored entries (or their squares, or 1[x > above]) by class and column, for CSR in threads."""
    d = X.shape[1]
    how = (square, above is not None, above or 0.0)
    if X.format == "csc":
        total = np.zeros((k, d))
        counts.csc_sums(data, X.indices, X.indptr, labels, weight, total, *how)
        return total
    values = csr_view(data, X.indices, X.indptr, X.shape)

    def work(rows: slice) -> Floats:
        part, block = np.zeros((k, d)), row_slice(values, rows)
        w = None if weight is None else weight[rows]
        counts.csr_sums(block.data, block.indices, block.indptr, labels[rows], w, part, *how)
        return part

    # A block's sums are as wide as the vocabulary, so blocks are at least a few times longer than that.
    parts = over_rows([values], n_jobs, work, max(ENTRIES_PER_BLOCK, 4 * k * d))
    return np.add.reduce(parts) if len(parts) > 1 else parts[0] if parts else np.zeros((k, d))


def count_codes(
    offsets: Array,
    X: Array,
    labels: Array,
    weight: Floats | None,
    k: int,
    n_jobs: int | None,
    codes: Callable[[Array], Array] = lambda block: block,
) -> Floats:
    """Counts of each code of each column by class, (k, cells); `codes` maps a block of rows to the codes to count."""
    cells = int(offsets[-1])
    soft = labels.ndim == 2

    def work(rows: slice) -> Floats:
        if soft:
            out = np.zeros((cells, k))
            counts.code_counts_soft(codes(X[rows]), np.ascontiguousarray(labels[rows]), offsets, out)
            return out.T
        out = np.zeros((k, cells))
        w = None if weight is None else weight[rows]
        counts.code_counts(codes(X[rows]), labels[rows], w, offsets, out)
        return out

    total = np.zeros((k, cells))
    for part in over_rows([X], n_jobs, work):
        total += part
    return total
