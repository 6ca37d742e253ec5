"""Importance: what explanations say on average over rows.

For a row of class y, the evidence of a column is its item in the row's explanation for y over the likeliest other
class, under sums that the row is not in. A column's importance is the mean of its absolute value, in decibans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.bayes import DECIBANS
from deciban.results.importance import Curve, Importance, Item, Pair, Point
from deciban.show import number, plain

MAX_ROWS_AT_FIT = 200  # on which importance is computed while fitting,
MAX_ROWS_GIVEN = 400  # and on rows that are given
MAX_ENTRIES = 1 << 22  # of evidence: rows by items by classes
MIN_ROWS = 20  # however many entries that is
FEW_FOLDS, ROWS_PER_ROW_OUT = 5, 20  # rows leave the sums at once if so many stay for each, and otherwise in folds
MAX_CLASSES, MAX_ITEMS = 6, 200  # in what is stored: the largest classes, the most important items
MAX_POINTS = 12  # of a curve, besides missing values and other categories
MAX_NATS = 50.0  # of an item in a row: what rules out a class is counted as so much
MAX_PAIRS, MAX_COLUMNS_PAIRED = 3, 12  # pairs that are named, among the most important columns
MIN_PAIR_DECIBANS, MIN_PAIR_SHARE = 0.5, 0.15  # of the variation within a value that the other column explains
MIN_ROWS_PER_VALUE = 4  # on average, where variation within a value is measured
MISSING, OTHERS = "missing", "others"


class Values(NamedTuple):
    """A column's values in some rows: each row's group of values, ascending, and what the groups are called."""

    group: Codes  # (n,) −1: the row has no value of it
    names: tuple[str, ...]
    at: tuple[float | None, ...]  # where they are, of numbers


class RowEvidence(NamedTuple):
    """The evidence of each item for every class in nats, (n, items, k), up to a constant per row and item; and the
    rows' scores, (n, k)."""

    evidence: Floats
    scores: Floats


def spread_rows(n: int, most: int) -> Array:
    """At most `most` of n row numbers, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.intp)


def max_rows(items: int, k: int, most: int) -> int:
    """How many rows to take, for their evidence to fit in memory."""
    return int(np.clip(MAX_ENTRIES // max(1, items * k), MIN_ROWS, most))


def folds_out(n: int, learned: float) -> Iterator[Array]:
    """Rows to take out of the sums at a time, of n rows among so many that were learned."""
    folds = 1 if n * ROWS_PER_ROW_OUT <= learned else min(n, FEW_FOLDS)
    return (np.arange(f, n, folds) for f in range(folds))


def rivals(scores: Floats, y: Codes) -> Codes:
    """The likeliest class of each row that is not its own."""
    others = scores.copy()
    others[np.arange(len(y)), y] = -np.inf
    ruled_out = ~np.isfinite(others).any(axis=1)  # every other class: any of them will do
    others[ruled_out] = 0.0
    others[np.flatnonzero(ruled_out), y[ruled_out]] = -np.inf
    return others.argmax(axis=1).astype(np.int32)


def importance(
    names: Sequence[str],
    rows: RowEvidence,
    y: Codes,
    classes: Array,
    class_weight: Floats,
    values: Sequence[Values | None],
    how: str,
    weight: Floats | None = None,
) -> Importance:
    """The importance of these items; `values` has those of each item for curves, or None."""
    n, k = rows.scores.shape
    w = np.ones(n) if weight is None else weight
    centred = centred_evidence(rows.evidence, class_weight)
    at = np.arange(n)
    decibans = (centred[at, :, y] - centred[at, :, rivals(rows.scores, y)]) * DECIBANS  # (n, items)
    largest = np.sort(np.argsort(-class_weight, kind="stable")[:MAX_CLASSES])
    size, net = np.average(np.abs(decibans), axis=0, weights=w), np.average(decibans, axis=0, weights=w)
    by_class = np.zeros((len(names), len(largest)))
    for i, c in enumerate(largest.tolist()):
        own = w * (y == c)
        if own.any():
            by_class[:, i] = np.average(decibans, axis=0, weights=own)
    order = np.argsort(-size, kind="stable")[:MAX_ITEMS].tolist()
    items = tuple(
        Item(names[j], float(size[j]), float(net[j]), tuple(by_class[j].tolist()), n) for j in order if size[j] > 0
    )
    sides = largest[1:] if k == 2 else largest
    against_mean = centred * (k / max(1, k - 1) * DECIBANS)  # each class against the mean of the others
    shown = [(j, own) for j in order if size[j] > 0 and (own := values[j]) is not None]
    curves = tuple(curve(names[j], own, against_mean[:, j, sides], w) for j, own in shown)
    pairs = acting_together(names, against_mean, values, [j for j, _ in shown])
    labels = tuple(plain(c) for c in classes[largest]), tuple(plain(c) for c in classes[sides])
    return Importance("column", n, how, *labels, items, curves, pairs)


def centred_evidence(evidence: Floats, class_weight: Floats) -> Floats:
    """Evidence less its mean over the classes that were learned, within ±MAX_NATS."""
    finite = np.nan_to_num(evidence, nan=0.0, posinf=MAX_NATS, neginf=-MAX_NATS)
    seen = class_weight > 0 if (class_weight > 0).any() else np.ones(len(class_weight), dtype=bool)
    return np.asarray(np.clip(finite - finite[..., seen].mean(axis=-1, keepdims=True), -MAX_NATS, MAX_NATS))


# ------------------------------------------------------------------ curves


def curve(name: str, values: Values, decibans: Floats, weight: Floats) -> Curve:
    """The mean evidence of each value, (n, sides)."""
    points = []
    for g, value in enumerate(values.names):
        mine = np.flatnonzero(values.group == g)
        if len(mine):
            mean = np.average(decibans[mine], axis=0, weights=weight[mine])
            points.append(Point(value, values.at[g], len(mine), tuple(mean.tolist())))
    return Curve(name, tuple(points))


def grouped_numbers(numbers: Floats, most: int = MAX_POINTS) -> Values:
    """Groups of about equal numbers of rows, each from one value to another; missing values come first."""
    is_missing = np.isnan(numbers)
    distinct, place, count = np.unique(numbers[~is_missing], return_inverse=True, return_counts=True)
    group = np.full(len(numbers), 0, dtype=np.int32)
    if len(distinct) > most:
        middle = (np.cumsum(count) - count / 2) / max(1, count.sum())
        by_value = np.unique((middle * most).astype(np.intp), return_inverse=True)[1]
    else:
        by_value = np.arange(len(distinct))
    group[~is_missing] = 1 + by_value[place]
    names, at = [MISSING], [None]
    for g in range(int(by_value.max(initial=-1)) + 1):
        mine = distinct[by_value == g]
        names.append(number(mine[0]) if len(mine) == 1 else f"{number(mine[0])} to {number(mine[-1])}")
        at.append(float(np.mean(numbers[group == g + 1])))
    return Values(group, tuple(names), tuple(at))


def grouped_categories(levels: Sequence[Any], most: int = MAX_POINTS) -> Values:
    """The most frequent values, and the others together; None is missing."""
    counts: dict[Any, int] = {}
    for level in levels:
        counts[level] = counts.get(level, 0) + 1
    frequent = sorted((level for level in counts if level is not None), key=lambda level: -counts[level])[:most]
    place = {level: i + 1 for i, level in enumerate(frequent)} | {None: 0}
    group = np.array([place.get(level, len(frequent) + 1) for level in levels], dtype=np.int32)
    return Values(group, (MISSING, *map(str, frequent), OTHERS), (None,) * (len(frequent) + 2))


# ------------------------------------------------------------------ columns that act together


def acting_together(
    names: Sequence[str], decibans: Floats, values: Sequence[Values | None], columns: Sequence[int]
) -> tuple[Pair, ...]:
    """Columns whose evidence for the same value varies with another column, the strongest first.

    Within each group of rows with about the same value, the evidence has a variance, summed over the classes; the
    other column explains a share of it, by its groups, both corrected for the number of groups.
    """
    found: list[Pair] = []
    named: set[frozenset[int]] = set()
    for j in columns[:MAX_COLUMNS_PAIRED]:
        own = values[j]
        assert own is not None
        rest = within(decibans[:, j], own.group)
        degrees = len(rest) - len(np.unique(own.group))
        if degrees < MIN_ROWS_PER_VALUE * 2:
            continue
        variance = float((rest**2).sum()) / degrees / max(1, decibans.shape[2] - 1)
        best = (0.0, -1)
        for i in columns:
            other = values[i]
            if i == j or other is None or names[i] == names[j]:
                continue
            left = degrees - len(np.unique(other.group)) + 1
            if left >= MIN_ROWS_PER_VALUE and variance > 0:
                unexplained = float((within(rest, other.group) ** 2).sum()) / left / max(1, decibans.shape[2] - 1)
                best = max(best, (1.0 - unexplained / variance, i))
        share, i = best
        strength = float(np.sqrt(max(0.0, share) * variance))
        if share >= MIN_PAIR_SHARE and strength >= MIN_PAIR_DECIBANS and frozenset((i, j)) not in named:
            named.add(frozenset((i, j)))
            found.append(Pair(names[j], names[i], strength))
    return tuple(sorted(found, key=lambda pair: -pair.decibans)[:MAX_PAIRS])


def within(values: Floats, group: Codes) -> Floats:
    """Values (n, k) less the mean of their group."""
    _, place, count = np.unique(group, return_inverse=True, return_counts=True)
    total = np.zeros((len(count), values.shape[1]))
    np.add.at(total, place, values)
    return np.asarray(values - (total / count[:, None])[place])
