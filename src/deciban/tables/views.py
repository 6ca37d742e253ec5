"""Explanations and summaries of a model of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.bayes import DECIBANS, log_evidence
from deciban.corollaries.explain import compared_classes
from deciban.corollaries.importance import MAX_POINTS, MISSING, OTHERS, ColumnValues, RowEvidence, folds_out
from deciban.corollaries.importance import importance as of_rows
from deciban.corollaries.leave_one_out import alone_in_their_class, class_frequencies
from deciban.pool import Pool
from deciban.reading.columns import Column, Levels
from deciban.reading.frames import Frame
from deciban.reading.kinds import LEFT_OUT
from deciban.reading.native import iso_date
from deciban.results.evidence import CORRECTION, TOGETHER, Evidence
from deciban.results.importance import NEW_ROWS, ROWS_LEFT_OUT, Importance
from deciban.results.summary import Decisive, Summary, candidates_table
from deciban.show import Table, plain
from deciban.tables.encode import Coded, EncodedRows, Known
from deciban.tables.experts.base import Expert
from deciban.tables.model import TableModel, weight_without

MIN_SHARE_DECISIVE, SHARE_BEYOND_DOUBT = 0.8, 0.95  # of the log loss of class frequencies, that one column takes away
TIMES_NEXT_BEST = 3.0  # as much as the next best column, below the second
LEGEND = (  # of the table of candidates
    "Experts: columns, each on its own; gaussians, all columns at once as numbers; ordered classes, the same with "
    "classes on a line; contexts, each column given others; trees, questions in turn; Fourier features, random "
    "cosines of all columns at once; boosted trees, small trees for what the other experts leave unexplained; "
    "words, a column of text. In settings, pseudo-rows are how many rows the coarser estimate counts for (of all "
    "classes, of fewer columns, of the branch above a leaf): the more, the less a few rows decide. The diagonal is "
    "how far columns are taken to be uncorrelated; heavy tails let outliers count less; pieces let a class have "
    "several centres."
)
MIN_ROWS_DECISIVE = 40  # with fewer rows a column may do so by chance


def explain(model: TableModel, frame: Frame, target: int | None, against: int | None, by: str = "column") -> Evidence:
    """One row's evidence for a class over another: prior + Σ = the log-odds, column by column or expert by expert."""
    rows = model.encoding.rows(frame, views=model.views)
    scores = model.pooled(rows, model.log_prior)[0]
    target, against = compared_classes(scores, model.classes, target, against)
    experts: dict[str, float] = {}
    items: list[tuple[str, Any, float]] = []
    columns = np.zeros(len(model.encoding.names) + 1)  # the last is evidence of no single column
    for name, expert, parts in expert_terms(model, rows):
        nats = parts[0, :, target] - parts[0, :, against]
        experts[name] = float(nats.sum())
        words = None if expert is None else expert.items(rows, target, against, by)
        if words is None:
            columns += nats
        else:
            shares = shared_out(np.array([db for _, db in words]), experts[name] * DECIBANS)
            items += [(name, "", db) for (name, _), db in zip(words, shares.tolist(), strict=True)]
    if by == "expert":
        items = [(name, "", nats * DECIBANS) for name, nats in experts.items()]
    else:
        values = [*(value_of(frame[name]) for name in model.encoding.names), ""]
        named = zip((*model.encoding.names, TOGETHER), values, (columns * DECIBANS).tolist(), strict=True)
        items += list(named)
    items.sort(key=lambda item: -abs(item[2]))
    same = model.log_prior[target] == model.log_prior[against]  # both may be ruled out
    prior = 0.0 if same else float(model.log_prior[target] - model.log_prior[against]) * DECIBANS
    probability = float(np.exp(scores[target] - log_evidence(scores[None])[0]))
    return Evidence(
        plain(model.classes[target]), plain(model.classes[against]), prior, tuple(items), min(1.0, probability)
    )


def expert_terms(
    model: TableModel, rows: EncodedRows, unlearned: Codes | None = None
) -> Iterator[tuple[str, Expert | None, Floats]]:
    """The evidence of each expert in use by column, and last of no single column, (n, d + 1, k); all of them, the
    offsets and the log prior add up to the scores. `unlearned` as in `Expert.terms`."""
    each, together = model.columns.terms(rows, unlearned)
    yield model.columns.name, model.columns, stacked(model.column_weights[:, None] * each, together)
    yield CORRECTION, None, stacked(np.zeros_like(each), np.tile(model.pool.offsets, (len(rows), 1)))
    for weight, expert in zip(model.pool.weights[1:], model.experts[1:], strict=False):
        if weight > 0:
            parts = weight * within_limit(stacked(*expert.terms(rows, unlearned)), expert.limit)
            yield f"{expert.name}: {expert.settings}", expert, parts


def stacked(each: Floats, together: Floats) -> Floats:
    return np.concatenate([each, together[:, None]], axis=1)


def within_limit(parts: Floats, max_nats: float) -> Floats:
    """An expert's parts (n, items, k), so that they add up to its evidence as it is weighted: see `limited`.

    Compared with the best class, the parts against a class shrink in proportion if they exceed the limit. If a class is
    impossible, the last part gets all of it.
    """
    whole = parts.sum(axis=1)
    best = whole.argmax(axis=1)
    away = parts - np.take_along_axis(parts, best[:, None, None], axis=2)
    against = away.sum(axis=1)
    possible, none = np.isfinite(whole), ~np.isfinite(whole).any(axis=1)
    away = np.where(possible[:, None], away, 0.0)
    over = possible & (against < -max_nats)
    away *= np.where(over, -max_nats / np.where(over, against, 1.0), 1.0)[:, None]
    away[:, -1] = np.where(possible, away[:, -1], -max_nats)
    away[none] = 0.0
    return np.asarray(away - away.mean(axis=2, keepdims=True))


def shared_out(parts: Floats, total: float) -> Floats:
    """Parts in proportion that add up to `total`; if that is impossible, the last gets all of it."""
    whole = float(parts.sum())
    if np.isfinite(whole) and whole:
        return parts * (total / whole)
    return np.append(np.zeros(max(0, len(parts) - 1)), total)


# ------------------------------------------------------------------ importance of columns


def importance(
    model: TableModel, rows: EncodedRows, y: Codes, weight: Floats | None = None, learned: bool = False
) -> Importance | None:
    """The importance of every column on these rows; `learned`: they are taken out of the sums for it.

    None if there are no two classes that the rows could be of.
    """
    k, d = len(model.classes), len(model.encoding.names)
    names = (*model.encoding.names, *model.encoding.texts, TOGETHER)
    evidence, scores = np.zeros((len(rows), len(names), k)), np.zeros((len(rows), k))
    usable = np.zeros(len(rows), dtype=bool)
    parts = folds_out(len(rows), float(model.weight.sum())) if learned else iter([np.arange(len(rows))])
    for at in parts:
        mine, own = rows.take(at), np.ascontiguousarray(y[at])
        w = None if weight is None else np.ascontiguousarray(weight[at])
        part = without(model, mine, own, w) if learned else model
        if (part.weight > 0).sum() < 2:
            continue
        for _, expert, terms in expert_terms(part, mine, own if learned else None):
            place = None if expert is None else expert.text_place
            at_items = [*range(d), len(names) - 1 if place is None else d + place]
            evidence[np.ix_(at, at_items)] += terms
        scores[at] = evidence[at].sum(axis=1) + part.log_prior
        usable[at] = part.weight[own] > 0
    use = np.flatnonzero(usable)
    if not len(use):
        return None

    def column_values(j: int, entries: Array) -> ColumnValues | None:
        del entries  # every row has every column
        return values_of(model.encoding.columns[j], rows.codes[use, j]) if j < d else None

    kept, how = RowEvidence.dense(evidence[use], scores[use]), ROWS_LEFT_OUT if learned else NEW_ROWS
    w = None if weight is None else weight[use]
    return of_rows(names, kept, y[use], model.classes, model.weight, column_values, how, w)


def without(model: TableModel, rows: EncodedRows, y: Codes, weight: Floats | None) -> TableModel:
    """The model without learned rows, and with only the experts that it uses; structures and weights stay."""
    m = len(model.experts)
    used = [i for i in range(m) if i == 0 or model.pool.weights[i] > 0]
    experts = tuple(model.experts[i].without(rows, y, weight) for i in used)
    weights = model.pool.weights[[*used, *range(m, len(model.pool.weights))]]
    remaining = weight_without(model.weight, y, weight)
    return replace(model, experts=experts, weight=remaining, pool=Pool(weights, model.pool.offsets))


def values_of(coded: Coded, codes: Codes) -> ColumnValues:
    """A column's values by code: numbers in groups of about equal shares of rows, the most frequent categories."""
    if isinstance(coded, Known):
        most = min(MAX_POINTS, len(coded.levels))
        group = np.where(codes < 0, most + 1, np.minimum(codes, most + 1)).astype(np.int32)
        return ColumnValues(group, (*(coded.label(code) for code in range(most + 1)), OTHERS), (None,) * (most + 2))
    middle = np.cumsum(coded.mass) - coded.mass / 2
    by_bin = np.unique((middle * MAX_POINTS).astype(np.intp), return_inverse=True)[1]
    if len(coded.mass) <= MAX_POINTS:
        by_bin = np.arange(len(coded.mass))
    names, at = [MISSING], list[float | None]([None])
    for g in range(int(by_bin.max(initial=-1)) + 1):
        bins = np.flatnonzero(by_bin == g)
        names.append(coded.label(int(bins[0]) + 1, int(bins[-1]) + 1))
        middles = (coded.low[bins] + coded.high[bins]) / 2
        at.append(float(np.average(middles, weights=coded.mass[bins]) if coded.mass[bins].any() else middles.mean()))
    return ColumnValues(np.append(0, by_bin + 1)[np.maximum(codes, 0)].astype(np.int32), tuple(names), tuple(at))


def value_of(column: Column) -> Any:
    """The value in the first row, for display; None if it is missing."""
    if column.missing[0]:
        return None
    if isinstance(column, Levels):
        return column.levels[column.codes[0]]
    value = float(column.values[0])
    if column.dates is not None:
        return iso_date(value)
    return int(value) if column.whole and abs(value) < 2**53 else value


def summary(model: TableModel) -> Summary:
    """What was chosen and why: columns with the evidence of each alone, and candidates, those in use first."""
    smoothings = {name: (smoothing, gain) for name, smoothing, gain, _ in model.record.smoothings}
    weights = dict(zip(model.encoding.names, model.column_weights, strict=True))
    rows: list[tuple[Any, ...]] = []
    for kind in model.reader.kinds:
        smoothing, gain = smoothings.get(kind.name, ("left out" if kind.kind in LEFT_OUT else "", None))
        decibans = None if gain is None else gain * DECIBANS
        rows.append((kind.name, kind.kind, decibans, weights.get(kind.name), smoothing, kind.why))
    title = "columns (dB: evidence of each alone about a row's class, on average)"
    columns = Table(title, ("column", "kind", "dB", "weight", "distribution", "why"), rows, most=max(60, len(rows)))
    candidates = sorted(model.record.candidates, key=lambda c: (not c.weight, not c.chosen, c.loss))
    tried = candidates_table((c.expert, c.setting, c.loss, c.weight, c.chosen) for c in candidates)
    tried = replace(tried, most=sum(c.chosen for c in candidates) + 5)
    seen = model.weight > 0
    share = model.weight[seen] / model.weight.sum() if seen.any() else np.ones(1)
    notes = [f"column {kind.name!r} is left out: {kind.why}" for kind in model.reader.kinds if kind.kind in LEFT_OUT]
    now, then = float(model.weight.sum()), model.record.weight
    if alone := int((model.weight == 1).sum()):
        notes.append(alone_in_their_class(alone, round(now)))
    if then and abs(now - then) > 1e-9 * max(now, then):  # with too few rows nothing was chosen
        notes.append(f"choices and losses are from the {then:g} rows that fit saw; {now:g} are learned now")
    if model.record.importance is None:
        notes.append("importance is not stored with this model: importance(X, y) computes it")
    entropy = abs(float(share @ np.log(share)))
    baseline, baseline_accuracy = class_frequencies(model.weight)
    return Summary(
        "Classifier",
        round(now),
        tuple(plain(label) for label in model.classes),
        columns,
        tried,
        model.record.loss,
        model.record.accuracy,
        tuple(notes),
        baseline,
        model.way,
        model.record.importance,
        baseline_accuracy,
        model.record.rows or None,
        decisive(model, entropy),
        LEGEND,
    )


def decisive(model: TableModel, entropy: float) -> tuple[Decisive, ...]:
    """The columns that almost decide alone: each takes away most of the log loss of the class frequencies.

    A column that is only known after the outcome does so, and leaves all others far behind. Others rarely do:
    one that takes away less than nearly everything is not named if another comes near it.
    """
    shares = {name: gain / entropy for name, _, gain, _ in model.record.smoothings} if entropy > 0 else {}
    others = len(shares) + len(model.encoding.texts) - 1
    if others < 1 or model.record.weight < MIN_ROWS_DECISIVE:
        return ()
    next_best = max((share for share in shares.values() if share < MIN_SHARE_DECISIVE), default=0.0)
    return tuple(
        Decisive(name, min(1.0, share))
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= SHARE_BEYOND_DOUBT or (share >= MIN_SHARE_DECISIVE and next_best < share / TIMES_NEXT_BEST)
    )


def strongest(model: TableModel, target: int, most: int) -> list[tuple[str, float]]:
    """The strongest evidence of single values for a class against the mean of the others, in decibans.

    On average over the rows of `importance`, if it was computed; otherwise by the distributions of single columns.
    """
    if not model.weight[target] > 0:
        return []
    if model.record.importance is not None:
        found = model.record.importance.strongest(plain(model.classes[target]), most)
        return [(name, decibans) for name, decibans, _ in found]
    table, others = model.columns.centred_log_table(), np.flatnonzero(model.weight > 0)
    others = others[others != target]
    evidence = table[:, target] - (table[:, others].mean(axis=1) if len(others) else 0.0)
    offsets = model.encoding.offsets
    nats = np.repeat(model.column_weights, np.diff(offsets)) * evidence
    items = []
    for cell in np.argsort(-nats, kind="stable")[:most]:
        j = int(np.searchsorted(offsets, cell, side="right")) - 1
        label = model.encoding.columns[j].label(int(cell - offsets[j]))
        items.append((f"{model.encoding.names[j]} = {label}", float(nats[cell]) * DECIBANS))
    return [(item, decibans) for item, decibans in items if decibans > 0]
