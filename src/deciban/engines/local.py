"""Arrays in memory, in threads: a block of rows is a partial sum, and sums merge by `+`.

Kernels release the GIL, so plain threads do. Blocks have a fixed size and merge in order, so that a result
does not depend on how many threads there were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from deciban import em
from deciban._kernel import counts, moments
from deciban._kernel import posterior as posterior_kernel
from deciban._kernel import scatter as scatter_kernel
from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats, Labels, Matrix
from deciban.algebra import RESIDUE, Stats, second_moments, shift
from deciban.bayes import report
from deciban.engines.threads import ENTRIES, threads
from deciban.errors import DecibanError
from deciban.joint import Joint, Model
from deciban.measure import XX, XY, Above, Is, Measure, Pairs, incomplete
from deciban.rows import as_value, complain, csr_view, has_missing, row_slice
from deciban.schema import Columns, Schema

Result = TypeVar("Result")

CODES = (np.uint8, np.int32, np.int64, np.float32, np.float64)


def size_of(data: Data) -> int:
    """How many numbers there are."""
    return sum(X.nnz if issparse(X) else X.shape[0] * X.shape[1] for X in data)


def row_blocks(data: Data, entries: int) -> list[slice]:
    """Slices of rows, about so many numbers each."""
    n = data[0].shape[0]
    step = max(1, int(entries * n // max(1, size_of(data)))) if n else 1
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def long_blocks(data: Data, n_jobs: int | None) -> int:
    """Entries of a block where a block costs something of its own: few blocks, but one for every thread."""
    size = size_of(data)
    return max(ENTRIES, min(16 * ENTRIES, size // threads(n_jobs, size) + 1))


def over_rows(
    data: Data, n_jobs: int | None, work: Callable[[slice], Result], entries: int | None = None
) -> list[Result]:
    """work(rows) for every block of rows, in order, in threads."""
    blocks = row_blocks(data, entries if entries is not None else ENTRIES)
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

    Where columns depend on each other, a row with missing entries adds what the model `guess` expects of it, and
    without a guess nothing.
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
    """n_y. Where no entry was missing (`one` is narrower than its columns), a block has counted the rows already.

    Where columns depend on each other, a row with missing entries counts as far as something was expected of it.
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
    """One block's sums, whatever its measures and its storage."""
    pairs = next((m for m in measures if isinstance(m, Pairs)), None)
    if pairs is not None:
        return pairs.sums(count_codes(pairs.offsets, X, labels, weight, k, n_jobs, pairs.places))
    if any(isinstance(m, Is) for m in measures):
        return {"is": count_codes(columns.offsets, X, labels, weight, k, n_jobs)}
    squares = any(isinstance(m, XX) for m in measures)
    above = next((m.threshold for m in measures if isinstance(m, Above)), None)
    pivot = columns.pivot if columns.pivot is not None else np.zeros((k, columns.size))
    pivot = np.ascontiguousarray(pivot)
    if any(isinstance(m, XY) for m in measures):
        sums = scatter_sums(X, labels, weight, k, pivot, any(m.name == "xxyy" for m in measures), n_jobs)
    elif issparse(X):
        sums = sparse_sums(X, labels, weight, k, squares, above, n_jobs)
        sums = shift(sums, -pivot) if squares else sums  # from zero to the pivots
    else:
        sums = dense_sums(X, labels, weight, k, pivot, squares, above, n_jobs)
    if not all(np.isfinite(array).all() for array in sums.values()):
        complain(X, columns)
    # Squares below 1e-308 lose digits or vanish: 1e-280 a row leaves a double's sixteen to the smallest that matter.
    # A sum can also be small because EM's shares are: then the squares are as small as the values, not smaller, and
    # below 1e-305 neither has digits to tell by.
    vanishing = np.zeros((0, 0), dtype=bool)
    if "xx" in sums or "xy" in sums:
        second = second_moments(sums)
        least, first = 1e-280 * sums["one"], np.abs(sums["x"])
        vanishing = (second < least) & (first > 0.0)
        if labels.ndim == 2:
            vanishing &= (second <= 1e-140 * first) & (first > 1e-305)
        if "xxyy" in sums:
            fourth = np.diagonal(sums["xxyy"], axis1=1, axis2=2)
            vanishing |= (fourth < least) & (fourth <= 1e-140 * second) & (first > 0.0)
    if vanishing.any():
        column = int(np.argwhere(vanishing)[0][1])
        raise DecibanError(
            f"the values of column {columns.name(column)!r} differ by less than 1e-140, which is too small to square: "
            "multiply the column by a number that brings it near 1"
        )
    wanted = {m.name for m in measures}
    return {name: array for name, array in sums.items() if name in wanted}


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
            # NaN poisons a sum, so the sums themselves tell whether an entry was missing: no separate pass.
            part = sums_of(rows, False)
            if not np.isnan(part[1]).any():
                return part
            seen_missing = True
        return sums_of(rows, True)

    with np.errstate(invalid="ignore"):
        parts = over_rows([X], n_jobs, work, 4 * ENTRIES)
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
        if np.isnan(sums["x"]).any():  # NaN poisons a sum, so the sums themselves tell whether an entry was missing
            there = ~incomplete(block)
            block, mine, w = block[there], mine[there], None if w is None else w[there]
            sums = sums_of(block, mine, w)
        return sums | (higher_moments(block, mine, w, pivot) if fourth else {})

    with np.errstate(invalid="ignore", over="ignore"):
        # A block's sums are as large as the scatter matrices, so blocks are at least a few times longer than that.
        parts = over_rows([X], n_jobs, work, max(ENTRIES, 4 * k * d * d))
    if not parts:
        return work(slice(0, 0))
    return {name: np.add.reduce([part[name] for part in parts]) for name in parts[0]}


def higher_moments(X: Array, labels: Array, weight: Floats | None, pivot: Floats) -> dict[str, Floats]:
    """Σt²tᵀ and Σt²(t²)ᵀ by class: what the Ledoit–Wolf intensity is made of."""
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
    """Sums about zero: entries that are not stored are zeros and add nothing but their weight."""
    gone = np.isnan(X.data) if has_missing(X) else None
    data = as_value(X.data) if gone is None else np.where(gone, 0.0, X.data)
    sums: dict[str, Floats] = {}
    if labels.ndim == 2:
        values = data.astype(np.float64) if above is None else (data > above).astype(np.float64)
        if gone is not None:
            values = np.where(gone, 0.0, values)
        S = type(X)((values, X.indices, X.indptr), shape=X.shape)
        sums["one"] = labels.sum(axis=0)[:, None]
        sums["x"] = np.ascontiguousarray((S.T @ labels).T)
        if squares:
            sums["xx"] = np.ascontiguousarray((S.power(2).T @ labels).T)
        if gone is not None:
            holes = type(X)((gone.astype(float), X.indices, X.indptr), shape=X.shape)
            sums["one"] = sums["one"] - (holes.T @ labels).T
        return sums
    one = np.zeros((k, 1))
    counts.class_weights(labels, weight, one[:, 0])
    sums["one"], sums["x"] = one, stored_sums(X, data, labels, weight, k, above, False, n_jobs)
    if gone is not None:
        sums["one"] = one - stored_sums(X, gone.astype(float), labels, weight, k, None, False, n_jobs)
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
    parts = over_rows([values], n_jobs, work, max(ENTRIES, 4 * k * d))
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
    """How often each code of each column occurs by class, (k, cells); `codes` of a block of rows are those to count."""
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


def expect(
    data: Data,
    model: Model,
    codes: Array | None = None,
    allowed: Array | None = None,
    weight: Floats | None = None,
    n_jobs: int | None = None,
) -> tuple[float, Stats]:
    """A step of EM in one pass: Σ log p(x) under the constraints, and the sums of T(x) under the posterior.

    Row i may belong to the classes that `allowed[codes[i]]` marks; without codes to any. Both are computed while a
    block of rows is at hand.
    """
    model = centred(model)
    _ = model.params  # estimated once, before the threads share them
    log_prior = np.ascontiguousarray(model.log_prior)
    shut = None if allowed is None else np.where(allowed, 0.0, -np.inf)

    def work(rows: slice) -> tuple[float, Stats]:
        block = [row_slice(X, rows) for X in data]
        shares = model.log_joint(block)
        mine = None if codes is None or shut is None else shut[codes[rows]]
        if mine is not None:
            shares += mine
        evidence = np.empty(len(shares))
        posterior_kernel.normalise(shares, log_prior, evidence, False)
        lost = np.flatnonzero(~np.isfinite(evidence))
        if len(lost):  # impossible under every class: the prior over those allowed, and no say in the likelihood
            evidence[lost] = 0.0
            if mine is not None:
                shares[lost] = np.exp(mine[lost]) * np.maximum(np.exp(log_prior), np.finfo(float).tiny)
                some = shares[lost].sum(axis=1, keepdims=True)
                shares[lost] /= np.where(some > 0, some, 1.0)  # nothing is allowed: nothing is added
        if weight is not None:
            evidence *= weight[rows]
            shares *= weight[rows, None]
        return float(evidence.sum()), collect(block, model.joint, model.schema, shares, None, 1, model)

    # A block's sums are as large as the model, so blocks are at least a few times longer than that.
    size = 4 * max((array.size for block in model.stats.sums for array in block.values()), default=0)
    entries = max(size, long_blocks(data, n_jobs) if any(issparse(X) for X in data) else ENTRIES // 8)
    total, sums = 0.0, model.joint.zero(model.schema)
    for part, stats in over_rows(data, n_jobs, work, entries) if data[0].shape[0] else []:
        total += part
        sums = sums + stats
    return total, sums


def centred(model: Model) -> Model:
    """The model with pivots at the means of classes that have moved far from theirs, as they may during EM."""
    blocks = list(model.schema.blocks)
    for b, (columns, sums) in enumerate(zip(model.schema.blocks, model.stats.sums, strict=True)):
        if columns.pivot is None:
            continue
        n = np.where(sums["one"] > 0, sums["one"], 1.0)
        offset = sums["x"] / n
        far = offset**2 > 0.99 * second_moments(sums) / n  # ten standard deviations
        if far.any():
            blocks[b] = replace(columns, pivot=np.where(far, columns.pivot + offset, columns.pivot))
    if all(a is b for a, b in zip(blocks, model.schema.blocks, strict=True)):
        return model
    return Model(model.joint, model.stats.embed(replace(model.schema, blocks=tuple(blocks))))


def learn_hidden(
    data: Data,
    model: Model,
    codes: Array,
    weight: Floats | None = None,
    *,
    hidden_weight: float = 1.0,
    n_jobs: int | None = None,
    **how: Any,
) -> em.Learned:
    """EM over what is not known of the rows: labels (code −1), and entries where columns depend on each other (S17).

    `model` has learned the rows that hide nothing; `hidden_weight` is what a row without a label counts beside one
    that has one (Nigam et al. 2000).
    """
    data, codes, weight = that_weigh(data, codes, weight)
    known, rows = model.stats, HiddenRows.of(data, model, codes, weight, hidden_weight)

    def step(model: Model) -> tuple[float, Stats]:
        total, sums = rows.expected(model, n_jobs)
        return total, known + sums

    start = first_guess(data, model, codes, weight) if rows.gaps else model
    return em.learn(start, step, rows=rows.total, **how)


def that_weigh(data: Data, codes: Array, weight: Floats | None) -> tuple[Data, Array, Floats | None]:
    """Rows but those of weight zero, which are as good as not there."""
    if weight is None or weight.all():
        return data, codes, weight
    some = np.flatnonzero(weight)
    return [X[some] for X in data], codes[some], weight[some]


@dataclass(frozen=True, slots=True, eq=False)
class HiddenRows:
    """Rows of which something is hidden, a label (code −1) or entries, and the others, which only say how likely."""

    hidden: Data
    codes: Array
    weight: Floats
    settled: Data
    settled_codes: Array
    settled_weight: Floats | None
    gaps: bool

    @classmethod
    def of(cls, data: Data, model: Model, codes: Array, weight: Floats | None, hidden_weight: float) -> HiddenRows:
        data, codes, weight = that_weigh(data, codes, weight)
        gaps = rows_with_gaps(data, model.joint)
        hidden, seen = np.flatnonzero((codes < 0) | gaps), np.flatnonzero((codes >= 0) & ~gaps)
        each = np.where(codes[hidden] < 0, hidden_weight, 1.0) * (1.0 if weight is None else weight[hidden])
        return cls(
            [X[hidden] for X in data],
            codes[hidden],
            each,
            [X[seen] for X in data],
            codes[seen],
            None if weight is None else weight[seen],
            bool(gaps.any()),
        )

    @property
    def total(self) -> float:
        """What all rows weigh."""
        settled = float(len(self.settled_codes) if self.settled_weight is None else self.settled_weight.sum())
        return settled + float(self.weight.sum())

    def expected(self, model: Model, n_jobs: int | None = None) -> tuple[float, Stats]:
        """Σ log p of all rows under their labels, and the sums of those that hide something."""
        k = len(model.classes)
        allowed = np.vstack([np.eye(k, dtype=bool), np.ones((1, k), dtype=bool)])  # the last row is code −1
        said = apply(self.settled, model, "log_joint", n_jobs)[np.arange(len(self.settled_codes)), self.settled_codes]
        said = np.where(np.isfinite(said), said, 0.0)
        total, sums = expect(self.hidden, model, self.codes, allowed, self.weight, n_jobs)
        return float((said if self.settled_weight is None else said * self.settled_weight).sum()) + total, sums


def rows_with_gaps(data: Data, joint: Joint) -> Array:
    """Which rows have missing entries in a block whose columns depend on each other."""
    gaps = np.zeros(data[0].shape[0], dtype=bool)
    for block, X in zip(joint.blocks, data, strict=True):
        if block.family.whole_rows:
            gaps |= incomplete(X)
    return gaps


def first_guess(data: Data, model: Model, codes: Array, weight: Floats | None) -> Model:
    """The model with rows that have gaps filled in as if columns were independent: where EM starts."""
    rows = np.flatnonzero(rows_with_gaps(data, model.joint) & (codes >= 0))
    shares = one_hot(codes, len(model.classes), weight)
    sums = []
    for block, columns, X, known in zip(model.joint.blocks, model.schema.blocks, data, model.stats.sums, strict=True):
        if block.family.whole_rows:
            loose = block.family.first_guess(columns, X, shares)
            filled = block.family.expected_sums(loose, columns, X[rows], shares[rows])
            known = {**known, **{name: known[name] + filled[name] for name in filled}}
        sums.append(known)
    return Model(model.joint, Stats(model.schema, model.stats.weight + shares[rows].sum(axis=0), tuple(sums)))


def learn_clusters(
    data: Data,
    empty: Model,
    weight: Floats | None,
    rng: np.random.RandomState,
    *,
    starts: int = 5,
    first: Callable[[np.random.RandomState], Floats] | None = None,
    n_jobs: int | None = None,
    **how: Any,
) -> em.Learned:
    """EM without any label, from several random starts: the one with the greatest likelihood (S16, S17).

    A start is a way to share rows out that `first` draws, or a row drawn for each class, those far from the ones before
    being likelier, beside a share of what all rows together say.
    """
    data, _, weight = that_weigh(data, np.zeros(data[0].shape[0]), weight)
    n, k = data[0].shape[0], len(empty.classes)
    joint, schema = empty.joint, empty.schema
    even = np.full((n, k), 1.0 / k)
    filled = (
        first_guess(data, empty, np.zeros(n, dtype=np.int32), weight) if rows_with_gaps(data, joint).any() else None
    )
    everything = collect(data, joint, schema, even, weight, n_jobs, spread_evenly(filled, k) if filled else None)
    whole = Model(joint, everything)

    def step(model: Model) -> tuple[float, Stats]:
        return expect(data, model, None, None, weight, n_jobs)

    def attempt(shares: Floats | None) -> em.Learned:
        start = seeded(data, whole, weight, rng, n_jobs)
        if shares is not None:
            start = Model(joint, collect(data, joint, schema, shares, weight, n_jobs, whole))
        return em.learn(start, step, rows=n if weight is None else float(weight.sum()), **how)

    return em.best_of(partial(attempt, first(rng) if first else None) for _ in range(starts))


def spread_evenly(model: Model, k: int) -> Model:
    """The first class's statistics, shared out among all k."""
    stats = model.stats
    sums = tuple({name: np.repeat(array[:1] / k, k, axis=0) for name, array in block.items()} for block in stats.sums)
    return Model(model.joint, Stats(stats.schema, np.full(k, stats.weight[0] / k), sums))


def seeded(data: Data, whole: Model, weight: Floats | None, rng: np.random.RandomState, n_jobs: int | None) -> Model:
    """A start for EM: each class leans towards a row of its own, drawn far from the others' (k-means++)."""
    k, n = len(whole.classes), data[0].shape[0]
    alone = whole.stats.scale(1.0)
    usual = apply(data, whole, "log_joint", n_jobs)[:, 0]
    likely = np.full(n, -np.inf)
    stats = alone
    share = float(whole.stats.weight.sum()) / k
    for c in range(k):
        # How much worse a row is explained by the seeds so far than the seeds themselves are.
        worse = np.ones(n) if c == 0 else np.maximum(np.max(likely) - likely, 0.0)
        chance = worse * (1.0 if weight is None else weight)
        at = int(rng.choice(n, p=chance / chance.sum())) if chance.sum() > 0 else int(rng.randint(n))
        row = [X[at : at + 1] for X in data]
        seed = collect(row, whole.joint, whole.schema, np.array([c], dtype=np.int32), np.array([share]), 1, whole)
        stats = stats + seed
        said = apply(data, Model(whole.joint, alone + seed), "log_joint", n_jobs)[:, c] - usual
        likely = np.maximum(likely, said)
    return Model(whole.joint, stats)


def check_finite(data: Data, model: Model) -> None:
    """Infinities are an error, with their place."""
    for X, columns in zip(data, model.schema.blocks, strict=True):
        values: Any = X.data if issparse(X) else X
        if values.dtype.kind == "f" and np.isinf(values).any():
            complain(X, columns)


def apply(data: Data, model: Model, how: str = "log_joint", n_jobs: int | None = None) -> Array:
    """Score rows in threads: "log_joint", "posterior" or "log_posterior", each (n, k), or "best", class codes (n,)."""
    n, k = data[0].shape[0], len(model.classes)
    out: Array = np.empty(n, dtype=np.intp) if how == "best" else np.empty((n, k))
    _ = model.params  # estimated once, before the threads share them
    log_prior = np.ascontiguousarray(model.log_prior)

    def work(rows: slice) -> tuple[int, int]:
        part = model.log_joint([row_slice(X, rows) for X in data])
        ties, bad = 0, -1
        if how == "best":
            ties, bad = posterior_kernel.best(part, log_prior, out[rows])
        else:
            if how != "log_joint":
                ties, bad = posterior_kernel.normalise(part, log_prior, None, how == "log_posterior")
            out[rows] = part
        return ties, bad + rows.start if bad >= 0 else -1

    # Sparse scores prepare tables as wide as the vocabulary, so their blocks are long.
    entries = long_blocks(data, n_jobs) if any(issparse(X) for X in data) else ENTRIES // 4
    found = over_rows(data, n_jobs, work, entries) if n else []
    ties, bad = sum(ties for ties, _ in found), min((bad for _, bad in found if bad >= 0), default=-1)
    if ties or bad >= 0:
        check_finite(data, model)
    report(ties, bad, n)
    return out


def leave_one_out(
    data: Data, model: Model, y: Labels, weight: Floats | None = None, n_jobs: int | None = None
) -> Floats:
    """log P(y | x_i) without row i, (n, k), in threads. Where nothing is possible, the prior without row i.

    A row that lies so far out that rounding hides what the sums of its class are without it is NaN.
    """
    out = np.empty((data[0].shape[0], len(model.classes)))
    for b in range(len(data)):
        model.alpha(b)
    log_prior = np.ascontiguousarray(model.log_prior)

    def work(rows: slice) -> bool:
        w = None if weight is None else weight[rows]
        part, strange = model.leave_one_out([row_slice(X, rows) for X in data], y[rows], w)
        _, bad = posterior_kernel.normalise(part, log_prior, None, True)
        out[rows] = part
        return strange or bad >= 0

    # Each block prepares tables of its own, so blocks are long.
    if len(out) and any(over_rows(data, n_jobs, work, long_blocks(data, n_jobs))):
        check_finite(data, model)
    return out


def learned_without(data: Data, model: Model, y: Labels, weight: Floats | None, row: int) -> Model | None:
    """The model with its row's class learned anew from the class's other rows; None where they are not all here."""
    c, stats = int(y[row]), model.stats
    mine = np.flatnonzero(y == c)
    each = np.ones(len(mine)) if weight is None else weight[mine]
    if abs(float(each.sum()) - float(stats.weight[c])) > RESIDUE * float(stats.weight[c]):
        return None
    others, each = mine[mine != row], each[mine != row]
    rows = [X[others] for X in data]
    blocks = tuple(about_rows(columns, X, c) for columns, X in zip(model.schema.blocks, rows, strict=True))
    alone = Schema(model.classes[c : c + 1], blocks)
    fresh = collect(rows, model.joint, alone, np.zeros(len(others), dtype=np.int32), each, 1)
    return Model(model.joint, but_class(stats, c) + fresh)


def about_rows(columns: Columns, X: Matrix, c: int) -> Columns:
    """The columns as one class has them, with a pivot at the mean of its rows."""
    if columns.pivot is None:
        return columns
    if issparse(X):  # summed about zero, where most of the entries are
        return replace(columns, pivot=np.zeros((1, columns.size)))
    gap = X - columns.pivot[c]
    there = ~np.isnan(gap)
    mean = np.where(there, gap, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return replace(columns, pivot=(columns.pivot[c] + mean)[None])


def but_class(stats: Stats, c: int) -> Stats:
    """The statistics of all classes but one."""
    keep = np.arange(len(stats.classes)) != c
    blocks = [
        columns if columns.pivot is None else replace(columns, pivot=columns.pivot[keep])
        for columns in stats.schema.blocks
    ]
    sums = tuple({name: array[keep] for name, array in block.items()} for block in stats.sums)
    return Stats(Schema(stats.classes[keep], tuple(blocks)), stats.weight[keep], sums)
