"""EM over rows with a missing label or missing values: the step, and the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deciban import em
from deciban._kernel import posterior as posterior_kernel
from deciban._scipy import issparse
from deciban._typing import Array, Data, Floats
from deciban.algebra import Stats, about_the_means
from deciban.collect import collect, long_blocks, one_hot, over_rows
from deciban.joint import Joint, Model
from deciban.matrix import row_slice
from deciban.measure import incomplete
from deciban.score import apply
from deciban.threads import ENTRIES_PER_BLOCK


def expect(
    data: Data,
    model: Model,
    codes: Array | None = None,
    allowed: Array | None = None,
    weight: Floats | None = None,
    n_jobs: int | None = None,
) -> tuple[float, Stats]:
    """A step of EM in one pass: Σ log p(x) under the constraints, and the sums of T(x) under the posterior.

    Row i may belong to the classes marked by `allowed[codes[i]]`; without codes, to any.
    """
    stats = about_the_means(model.stats)
    if stats is not model.stats:
        model = Model(model.joint, stats)
    model.scorers()  # made once, before the threads share them
    log_prior = model.log_prior
    log_mask = None if allowed is None else np.where(allowed, 0.0, -np.inf)

    def work(rows: slice) -> tuple[float, Stats]:
        block = [row_slice(X, rows) for X in data]
        shares = model.log_joint(block)
        mine = None if codes is None or log_mask is None else log_mask[codes[rows]]
        if mine is not None:
            shares += mine
        evidence = np.empty(len(shares))
        posterior_kernel.normalise(shares, log_prior, evidence, False)
        impossible = np.flatnonzero(~np.isfinite(evidence))
        if len(impossible):  # impossible under every class: the prior over the allowed ones, and not in the likelihood
            evidence[impossible] = 0.0
            if mine is not None:
                shares[impossible] = np.exp(mine[impossible]) * np.maximum(np.exp(log_prior), np.finfo(float).tiny)
                some = shares[impossible].sum(axis=1, keepdims=True)
                shares[impossible] /= np.where(some > 0, some, 1.0)  # no class is allowed: nothing is added
        if weight is not None:
            evidence *= weight[rows]
            shares *= weight[rows, None]
        return float(evidence.sum()), collect(block, model.joint, model.schema, shares, None, 1, model)

    # A block's sums are as large as the model, so blocks are at least a few times larger than that.
    size = 4 * max((array.size for block in model.stats.sums for array in block.values()), default=0)
    entries = max(size, long_blocks(data, n_jobs) if any(issparse(X) for X in data) else ENTRIES_PER_BLOCK // 8)
    total, sums = 0.0, model.joint.zero(model.schema)
    for part, stats in over_rows(data, n_jobs, work, entries) if data[0].shape[0] else []:
        total += part
        sums = sums + stats
    return total, sums


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
    """EM over missing labels (code −1), and over missing values if columns depend on each other (S17).

    `model` has learned the complete rows; `hidden_weight` is the weight of a row without a label relative to a labelled
    one (Nigam et al. 2000).
    """
    data, codes, weight = drop_weightless(data, codes, weight)
    known, rows = model.stats, HiddenRows.of(data, model, codes, weight, hidden_weight)

    def step(model: Model) -> tuple[float, Stats]:
        total, sums = rows.expected(model, n_jobs)
        return total, known + sums

    start = first_guess(data, model, codes, weight) if rows.gaps else model
    return em.learn(start, step, rows=rows.total, **how)


def drop_weightless(data: Data, codes: Array, weight: Floats | None) -> tuple[Data, Array, Floats | None]:
    """The rows without those of weight zero."""
    if weight is None or weight.all():
        return data, codes, weight
    some = np.flatnonzero(weight)
    return [X[some] for X in data], codes[some], weight[some]


@dataclass(frozen=True, slots=True, eq=False)
class HiddenRows:
    """Rows with a missing label (code −1) or missing values, and the others, which only enter the likelihood."""

    hidden: Data
    codes: Array
    weight: Floats
    settled: Data
    settled_codes: Array
    settled_weight: Floats | None
    gaps: bool

    @classmethod
    def of(cls, data: Data, model: Model, codes: Array, weight: Floats | None, hidden_weight: float) -> HiddenRows:
        data, codes, weight = drop_weightless(data, codes, weight)
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
        """The total weight of all rows."""
        settled = float(len(self.settled_codes) if self.settled_weight is None else self.settled_weight.sum())
        return settled + float(self.weight.sum())

    def expected(self, model: Model, n_jobs: int | None = None) -> tuple[float, Stats]:
        """Σ log p of all rows under their labels, and the sums of the incomplete ones."""
        k = len(model.classes)
        allowed = np.vstack([np.eye(k, dtype=bool), np.ones((1, k), dtype=bool)])  # the last row is code −1
        log_density = apply(self.settled, model, "log_joint", n_jobs)[
            np.arange(len(self.settled_codes)), self.settled_codes
        ]
        log_density = np.where(np.isfinite(log_density), log_density, 0.0)
        total, sums = expect(self.hidden, model, self.codes, allowed, self.weight, n_jobs)
        return float(
            (log_density if self.settled_weight is None else log_density * self.settled_weight).sum()
        ) + total, sums


def rows_with_gaps(data: Data, joint: Joint) -> Array:
    """Which rows have missing values in a block whose columns depend on each other."""
    gaps = np.zeros(data[0].shape[0], dtype=bool)
    for block, X in zip(joint.blocks, data, strict=True):
        if block.family.whole_rows:
            gaps |= incomplete(X)
    return gaps


def first_guess(data: Data, model: Model, codes: Array, weight: Floats | None) -> Model:
    """The start of EM: rows with missing values are added as if columns were independent."""
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

    A start is a matrix of responsibilities drawn by `first`, or else a random row for each class (k-means++), together
    with an equal share of all rows.
    """
    data, _, weight = drop_weightless(data, np.zeros(data[0].shape[0]), weight)
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
    """The first class's statistics, divided evenly among all k."""
    stats = model.stats
    sums = tuple({name: np.repeat(array[:1] / k, k, axis=0) for name, array in block.items()} for block in stats.sums)
    return Model(model.joint, Stats(stats.schema, np.full(k, stats.weight[0] / k), sums))


def seeded(data: Data, whole: Model, weight: Floats | None, rng: np.random.RandomState, n_jobs: int | None) -> Model:
    """A start for EM: each class is pulled towards a row of its own, drawn far from the others' (k-means++)."""
    k, n = len(whole.classes), data[0].shape[0]
    alone = whole.stats.scale(1.0)
    usual = apply(data, whole, "log_joint", n_jobs)[:, 0]
    likely = np.full(n, -np.inf)
    stats = alone
    share = float(whole.stats.weight.sum()) / k
    for c in range(k):
        # How much less likely a row is under the seeds so far than the seeds themselves.
        worse = np.ones(n) if c == 0 else np.maximum(np.max(likely) - likely, 0.0)
        chance = worse * (1.0 if weight is None else weight)
        at = int(rng.choice(n, p=chance / chance.sum())) if chance.sum() > 0 else int(rng.randint(n))
        row = [X[at : at + 1] for X in data]
        seed = collect(row, whole.joint, whole.schema, np.array([c], dtype=np.int32), np.array([share]), 1, whole)
        stats = stats + seed
        log_density = apply(data, Model(whole.joint, alone + seed), "log_joint", n_jobs)[:, c] - usual
        likely = np.maximum(likely, log_density)
    return Model(whole.joint, stats)
