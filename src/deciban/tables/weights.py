"""The weights of experts, fitted on rows left out of the sums, and boosted trees on what the experts leave unexplained.

What weights are worth is evaluated on rows that had no part in them: see pool.py. So is what boosted trees add: for
each fold, the fold is taken out of the sums first. Otherwise the left-one-out scores of the other rows would hold the
fold's labels. Trees that fit what these scores leave unexplained would take those labels back out, and so predict the
opposite for rows of the fold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.corollaries.importance import MAX_ROWS_AT_FIT, max_rows, spread_rows
from deciban.corollaries.leave_one_out import of_one_size
from deciban.deferred import Deferred
from deciban.joint import log_class_prior, log_class_prior_without
from deciban.pool import (
    MIN_ROWS_FOR_CLOSED_FORM,
    NEGLIGIBLE_WEIGHT,
    ByFold,
    Chosen,
    Doubt,
    FoldPart,
    Folds,
    Pool,
    Vectors,
    WeightPrior,
    closed_fit,
    cross_fit,
    distinct_marks,
)
from deciban.results.importance import Importance
from deciban.tables.candidates import Candidates
from deciban.tables.encode import EncodedRows
from deciban.tables.experts import boosted
from deciban.tables.experts.base import Expert
from deciban.tables.experts.boosted import BoostedTrees
from deciban.tables.experts.columns import ColumnDistributions, log_loss, row_losses
from deciban.tables.experts.fourier import FourierFeatures
from deciban.tables.model import Candidate, Record, TableModel, weight_without
from deciban.tables.sample import Sample
from deciban.tables.views import importance
from deciban.text.parallel import in_threads

N_FOLDS = 3  # for fitting the weights on few rows, and for boosted trees
EXPERT_DOUBT, COLUMN_DOUBT, OFFSET_DOUBT = 10.0, 30.0, 1.0  # pseudo-rows of the prior of the weights
PRIOR_WEIGHT_LOG_ROWS = np.log([30.0, 100.0, 300.0])  # numbers of rows for which the prior weights below hold
PRIOR_WEIGHTS = {
    "columns": (0.12, 0.08, 0.02),
    "real": (0.02, 0.08, 0.16),
    "scores": (0.03, 0.09, 0.10),
    "pieces": (0.05, 0.06, 0.07),
    "contexts": (0.11, 0.06, 0.08),
    "finer contexts": (0.07, 0.01, 0.0),
    "trees": (0.19, 0.35, 0.48),
    "Fourier features": (0.05, 0.1, 0.2),  # the prior weights of the others share the rest
}
PRIOR_WEIGHT_OF_ORDER = 0.5  # if classes are in an order; the prior weights of the others then share the rest
MAX_COLUMNS_WITH_OWN_WEIGHT = 100
MIN_ROWS_TO_DROP_EXPERTS = 3000  # with so many rows to evaluate on, an expert is dropped unless it gains this:
MIN_GAIN_OF_EXPERT = 2.0  # nats in all;
MIN_GAIN_BEFORE_ALL_ROWS = 6.0  # and this before it learns more rows than those of the sample
MIN_GAIN_OF_OPTIONAL = 3.0, 0.002  # the same for experts that cost more than they usually gain: nats in all, and a row
FIXED = 1e15  # pseudo-rows that hold a weight at 0
MIN_ROWS_TO_BOOST = 100


def with_weights(model: TableModel, sample: Sample, tried: Candidates, boost: bool = True) -> TableModel:
    """The model with weights fitted on rows left out, boosted trees if they find anything, and a record of it all."""
    m, d = len(model.experts), len(model.encoding.columns)
    if not sample.has_classes:
        return replace(model, pool=Pool.zero(m + d, len(model.classes)))
    # Picking the best of many columns would use the labels: either all columns get a weight of their own, or none.
    columns = np.arange(d if d <= MAX_COLUMNS_WITH_OWN_WEIGHT else 0)
    vectors = evidence_vectors(model, sample, columns)
    log_prior, usual = log_class_prior("empirical", model.weight), weight_prior(model, sample, len(columns))
    mark, y, w = sample.eval_rows.mark, sample.eval_y, sample.eval_weight
    alone = log_loss(vectors[:, 0], log_prior, y, w)
    prepared, many = Vectors(vectors, y, log_prior, w), len(y) >= MIN_ROWS_FOR_CLOSED_FORM
    usual, begin = without_idle_experts(prepared, usual, min_gains(model.experts, len(y), prepared.total, boost))
    kept = np.arange(m) if many else np.flatnonzero(np.asarray(usual.ridge)[:m] < FIXED)
    places = np.append(kept, m + columns)
    if many:
        chosen, _ = closed_fit(prepared, int(mark.max()), usual, (Doubt(1.0, 1.0),), 1.0, begin=begin)
        pool = chosen.pool.spread(places, m + d)
        extra = boosted_trees(model, pool, sample) if boost else None
    else:
        fewer = replace(model, experts=tuple(model.experts[i] for i in kept))
        vectors = vectors[:, np.append(kept, np.arange(m, vectors.shape[1]))]
        mark = distinct_marks(mark, y)
        folds = Folds.of(mark, y, sample.k, N_FOLDS)
        parts = list(fold_parts(fewer, sample, columns, folds.which(mark, y), folds.count))
        evaluated = Evaluated(vectors, y, log_prior, w, folds, mark, parts)
        chosen = evaluated.fit(weight_prior(fewer, sample, len(columns)))
        for i, least in min_gains(fewer.experts, len(y), prepared.total, boost).items():
            held = evaluated.fit(without_weight(weight_prior(fewer, sample, len(columns), with_fourier=False), i))
            if evaluated.loss(held) - evaluated.loss(chosen) < least:
                chosen = held
        pool = chosen.pool.spread(places, m + d)
        extra = boosted_trees_of_parts(sample, chosen, parts, mark) if boost else None
    assert chosen.left_out is not None
    left_out = chosen.left_out.spread(places, m + d)
    candidates = [Candidate(model.columns.name, model.columns.settings, alone, None, True), *tried.tried]
    weights = iter(pool.weights)
    candidates = [replace(c, weight=float(next(weights))) if c.chosen else c for c in candidates]
    table, which = log_class_prior_without("empirical", model.weight, y, w)
    prior = table[which]
    scores = chosen.left_out.pooled(chosen.pool, vectors, y, mark, prior, w) + prior
    if extra is not None:
        before = log_loss(scores, np.zeros(sample.k), y, w)
        scores += extra.limited(extra.evidence_without(sample.eval_rows, y))
        candidates.append(Candidate(extra.name, extra.settings, before, 1.0, True))
    answers = scores - prior + log_prior if of_one_size(model.weight, w) else scores  # see LeaveOneOut
    accuracy = float(np.average(answers.argmax(axis=1) == y, weights=w))
    loss = log_loss(scores, np.zeros(sample.k), y, w)
    record = Record(tuple(candidates), tried.smoothings, loss, accuracy, len(y), float(model.weight.sum()))
    model = replace(model, pool=pool, left_out=left_out, record=record)
    model = (model if extra is None else model.with_expert(extra)).without_idle_experts()
    return replace(model, record=replace(record, later=importance_later(model, sample)))


def importance_later(model: TableModel, sample: Sample) -> Deferred[Importance | None]:
    """The importance of columns on some of the evaluation rows, which are in the order of their marks."""
    items = len(model.encoding.columns) + len(model.encoding.texts) + 1
    some = spread_rows(len(sample.eval_y), max_rows(items, sample.k, MAX_ROWS_AT_FIT))
    rows, y = sample.eval_rows.take(some), np.ascontiguousarray(sample.eval_y[some])
    # Rows are taken out with the weights that they were learned with; those of the evaluation may be rounded.
    weight = None if sample.weight is None else np.ascontiguousarray(sample.weight[sample.eval_index[some]])
    return Deferred(lambda: importance(model, rows, y, weight, True))


# ---------------------------------------------------------------------- weights


def weight_prior(model: TableModel, sample: Sample, columns: int, with_fourier: bool = True) -> WeightPrior:
    """The prior of the weights; the fewer rows there are, the stronger it is."""
    n, m, kinds = len(sample.eval_index), len(model.experts), expert_kinds(model.experts)
    prior_weights = [
        float(np.interp(np.log(n), PRIOR_WEIGHT_LOG_ROWS, PRIOR_WEIGHTS.get(kind, [1.0 / (m + 1)] * 3)))
        for kind in kinds
    ]
    if "ordered" in kinds:
        prior_weights = [(1.0 - PRIOR_WEIGHT_OF_ORDER) * weight for weight in prior_weights]
        prior_weights[kinds.index("ordered")] = PRIOR_WEIGHT_OF_ORDER
    if "Fourier features" in kinds and with_fourier:
        at = kinds.index("Fourier features")
        prior_weights = [w if i == at else w * (1.0 - prior_weights[at]) for i, w in enumerate(prior_weights)]
    few = max(1.0, MIN_ROWS_FOR_CLOSED_FORM / n)
    doubt = np.append(np.full(m, EXPERT_DOUBT), np.full(columns, COLUMN_DOUBT * np.sqrt(500 / n)))
    return WeightPrior(doubt * few, np.append(prior_weights, np.zeros(columns)), OFFSET_DOUBT)


def expert_kinds(experts: Sequence[Expert]) -> list[str]:
    """What kind each expert is, as named in PRIOR_WEIGHTS."""
    kinds: list[str] = []
    for expert in experts:
        again = expert.kind == "contexts" and "contexts" in kinds
        kinds.append("finer contexts" if again else expert.kind)
    return kinds


class Evaluated(NamedTuple):
    """Evidence of few rows, and of each fold in turn by sums without it: see `cross_fit`."""

    evidence: Floats
    y: Codes
    log_prior: Floats
    weight: Floats | None
    folds: Folds
    mark: Array
    parts: Sequence[FoldPart]

    def fit(self, prior: WeightPrior) -> Chosen:
        chosen = cross_fit(*self, prior)
        for pool in (chosen.pool, *self.pools(chosen)):
            pool.weights[pool.weights < NEGLIGIBLE_WEIGHT] = 0.0  # held at 0 by a large ridge
        return chosen

    def pools(self, chosen: Chosen) -> tuple[Pool, ...]:
        assert isinstance(chosen.left_out, ByFold)
        return chosen.left_out.pools

    def loss(self, chosen: Chosen) -> float:
        """The log loss of all rows in nats, each fold by sums and weights without it."""
        total = 0.0
        for part, pool in zip(self.parts, self.pools(chosen), strict=True):
            losses = row_losses(pool.pooled(part.outside), part.log_prior, self.y[part.out])
            total += float(losses.sum() if self.weight is None else self.weight[part.out] @ losses)
        return total


def without_weight(prior: WeightPrior, i: int) -> WeightPrior:
    """The prior that holds weight i at 0."""
    ridge, weights = np.array(prior.ridge, dtype=float), prior.weights.copy()
    ridge[i], weights[i] = FIXED, 0.0
    return prior._replace(ridge=ridge, weights=weights)


def min_gains(experts: Sequence[Expert], rows: int, total: float, learned: bool) -> dict[int, float]:
    """The nats in all that experts must gain on so many evaluation rows of some total weight, if they must; `learned`:
    they have learned all rows."""
    least = MIN_GAIN_OF_EXPERT if learned else MIN_GAIN_BEFORE_ALL_ROWS
    gains = dict.fromkeys(range(1, len(experts)) if rows >= MIN_ROWS_TO_DROP_EXPERTS else (), least)
    whole, each = MIN_GAIN_OF_OPTIONAL
    return gains | {i: max(whole, each * total) for i, e in enumerate(experts) if isinstance(e, FourierFeatures)}


def without_idle_experts(
    rows: Vectors, usual: WeightPrior, min_gain: Mapping[int, float]
) -> tuple[WeightPrior, Pool | None]:
    """The prior of the weights that holds at 0 those of experts that gain too little, and the weights.

    The experts overlap, and each takes time in every answer. The one of the least weight is left out first.
    """

    def fitted(prior: WeightPrior, begin: Pool | None) -> tuple[Pool, float]:
        return rows.fit(prior.ridge, prior.weights, begin, 1e-6, prior.offset_ridge, rows.n // 8)

    if not min_gain:
        return usual, None
    pool, loss = fitted(usual, None)
    for i in sorted(min_gain, key=lambda i: pool.weights[i] * rows.spread[i]):
        held, begin = without_weight(usual, i), pool.weights.copy()
        begin[i] = 0.0
        without, now = fitted(held, Pool(begin, pool.offsets))
        if (now - loss) * rows.total < min_gain[i]:
            usual, pool = held, without
            if min_gain[i] > min(min_gain.values()):  # what it cost counts for none of the others
                loss = now
    return usual, pool


def evidence_vectors(
    model: TableModel, sample: Sample, columns: Array, some: Array | None = None, learned: bool = True
) -> Floats:
    """Evidence of (some) evaluation rows, each without itself: by expert, then by these columns; (n, g, k)."""
    rows, y, w = sample.eval_rows, sample.eval_y, sample.eval_weight
    if some is not None:
        rows, y, w = rows.take(some), np.ascontiguousarray(y[some]), None if w is None else w[some]
    m, removed = len(model.experts), w if learned else np.zeros(len(rows))
    out = np.zeros((len(rows), m + len(columns), sample.k))
    whole = np.ones(len(model.columns.smoothings))
    model.columns.weighted_evidence_without(rows, y, removed, whole, columns, (out[:, 0], out[:, m:]))

    def work(i: int) -> None:
        expert = model.experts[i]
        if some is None and id(expert) in sample.evidence:
            out[:, i] = sample.evidence[id(expert)][1]
            return
        evidence = expert.evidence_without(rows, y, w) if learned else expert.evidence_unlearned(rows, y)
        out[:, i] = expert.limited(evidence)

    list(in_threads(lambda i: work(m - 1 - i), m - 1, sample.workers))  # trees, which take the longest, first
    return out


def fold_parts(model: TableModel, sample: Sample, columns: Array, fold: Array, folds: int) -> Iterator[FoldPart]:
    """The evidence of the evaluation rows, each fold in turn taken out of the sums."""
    # What was learned is taken out again: with its exact weight, which may differ from that of the evaluation.
    exact = None if sample.weight is None else sample.weight[sample.eval_index]
    rounded = sample.eval_weight
    amount = np.ones(len(fold)) if exact is None or rounded is None else np.maximum(exact, rounded)
    for f in range(folds):
        out, rest = np.flatnonzero(fold == f), np.flatnonzero(fold != f)
        without = removed_from(model, sample.eval_rows, sample.eval_y, exact, out)
        rest, out = (
            rest[without.weight[sample.eval_y[rest]] > amount[rest] * (1.0 + 1e-9)],
            out[without.weight[sample.eval_y[out]] > 0],
        )
        inside = evidence_vectors(without, sample, columns, rest)
        outside = evidence_vectors(without, sample, columns, out, learned=False)
        yield FoldPart(rest, inside, out, outside, log_class_prior("empirical", without.weight))


def removed_from(model: TableModel, rows: EncodedRows, y: Codes, weight: Floats | None, out: Array) -> TableModel:
    """The model without those of the rows that are `out`, which it has learned."""
    removed = some_rows(rows, y, weight, out)
    experts = tuple(expert.without(*removed) for expert in model.experts)
    return replace(model, experts=experts, weight=weight_without(model.weight, removed.y, removed.weight))


class SomeRows(NamedTuple):
    """Rows of classes y, with their weights."""

    rows: EncodedRows
    y: Codes
    weight: Floats | None


def some_rows(rows: EncodedRows, y: Codes, weight: Floats | None, at: Array) -> SomeRows:
    weight = None if weight is None else np.ascontiguousarray(weight[at])
    return SomeRows(rows.take(at), np.ascontiguousarray(y[at]), weight)


# ---------------------------------------------------------------------- boosted trees


def boosted_trees(model: TableModel, pool: Pool, sample: Sample) -> BoostedTrees | None:
    """Boosted trees on what the pool leaves unexplained, if they find anything on rows that they never used."""
    some = sample.usable
    rows, y = sample.rows.take(some), np.ascontiguousarray(sample.y[some])
    w = None if sample.weight is None else np.ascontiguousarray(sample.weight[some])
    folds = Folds.of(rows.mark, y, sample.k, N_FOLDS)
    fold = folds.which(rows.mark, y)

    def scores(which: Sequence[int]) -> Floats:
        return scores_without(model, pool, rows, y, w, fold, which, sample.workers)

    return boosted.grown(rows, y, w, sample.encoding, scores, folds, fold, False, sample.workers)


def boosted_trees_of_parts(
    sample: Sample, chosen: Chosen, parts: Sequence[FoldPart], mark: Array
) -> BoostedTrees | None:
    """The same with few rows, whose evidence without each fold is known."""
    y, left_out = sample.eval_y, chosen.left_out
    assert isinstance(left_out, ByFold)
    if len(y) < MIN_ROWS_TO_BOOST:
        return None
    scores, fold = np.full((len(parts), len(y), sample.k), -np.inf), left_out.folds.which(mark, y)
    for own, part, pool in zip(scores, parts, left_out.pools, strict=True):
        own[part.rest] = pool.pooled(part.inside) + part.log_prior
        own[part.out] = pool.pooled(part.outside) + part.log_prior
    rows, w, workers = sample.eval_rows, sample.eval_weight, sample.workers
    return boosted.grown(
        rows, y, w, sample.encoding, lambda some: scores[list(some)], left_out.folds, fold, True, workers
    )


def scores_without(
    model: TableModel,
    pool: Pool,
    rows: EncodedRows,
    y: Codes,
    weight: Floats | None,
    fold: Array,
    which: Sequence[int],
    workers: int,
) -> Floats:
    """The log joint of rows by the sums without each of some folds, (folds, n, k); of the other rows, each without
    itself."""
    used = [i for i in range(len(model.experts)) if i == 0 or pool.weights[i] > 0]
    column_weights = pool.weights[0] + pool.weights[len(model.experts) :]
    removed = [np.flatnonzero(fold == f) for f in which]
    rest = [np.flatnonzero(fold != f) for f in which]
    parts = [[some_rows(rows, y, weight, at) for at in both] for both in zip(removed, rest, strict=True)]

    def work(i: int) -> tuple[int, Floats, Floats]:
        place, f = divmod(i, len(which))
        at, (gone, kept) = used[-1 - place], parts[f]  # trees, which take the longest, first
        expert, r = model.experts[at].without(*gone), pool.weights[at]
        if isinstance(expert, ColumnDistributions):
            none = np.zeros(0, dtype=np.intp)
            inside = expert.weighted_evidence_without(*kept, column_weights, none)[0]
            return f, inside, expert.weighted_evidence(gone.rows, column_weights)
        inside = expert.limited(expert.evidence_without(*kept))
        outside = expert.limited(expert.evidence_unlearned(gone.rows, gone.y))
        inside *= r
        outside *= r
        return f, inside, outside

    total = np.tile(pool.offsets, (len(which), len(y), 1))
    for f, inside, outside in in_threads(work, len(used) * len(which), workers):
        total[f, rest[f]] += inside
        total[f, removed[f]] += outside
    for own, (gone, kept), at, out in zip(total, parts, rest, removed, strict=True):
        left = weight_without(model.weight, gone.y, gone.weight)
        table, place = log_class_prior_without("empirical", left, kept.y, kept.weight)
        own[at] += table[place]
        own[out] += log_class_prior("empirical", left)
    return total
