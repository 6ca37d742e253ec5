"""Importance: the average of explanations over rows.

For a row of class y, the evidence of a column is its item in the row's explanation for y over the most probable other
class, under sums that the row is not in. A column's importance is the mean of its absolute value, in decibans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.bayes import DECIBANS
from deciban.errors import DecibanError
from deciban.results.importance import NEW_ROWS, ROWS_LEFT_OUT, ActingPair, Curve, Importance, Item, Point
from deciban.schema import find
from deciban.show import number, plain

MAX_ROWS_AT_FIT = 200  # on which importance is computed while fitting,
MAX_ROWS_GIVEN = 400  # and on rows that are given
MAX_ENTRIES = 1 << 22  # of evidence: rows by items by classes
MIN_ROWS = 20  # however many entries that is
FEW_FOLDS, ROWS_PER_ROW_OUT = 5, 10  # rows leave the sums at once if this many stay for each, otherwise in folds
MAX_CLASSES, MAX_ITEMS = 6, 200  # in what is stored: the largest classes, the most important items
MAX_POINTS = 12  # of a curve, besides missing values and other categories
MAX_NATS = 50.0  # of an item in a row: the cap for evidence that rules out a class
MAX_PAIRS, MAX_COLUMNS_PAIRED = 3, 12  # pairs that are named, among the most important columns
MIN_PAIR_DECIBANS, MIN_PAIR_SHARE = 1.0, 0.15  # of the variation within a value that the other column explains
FEW_GROUPS = 4  # of values, if two columns are looked at together
MIN_DEGREES = 20  # degrees of freedom for the variation within a value
MISSING, OTHERS = "missing", "others"


class ColumnValues(NamedTuple):
    """An item's values in some rows: each row's group of values, ascending, and what the groups are called."""

    group: Codes  # (n,) −1: the row does not have the item
    names: tuple[str, ...]
    at: tuple[float | None, ...]  # their positions, for numbers


PRESENT = ColumnValues(np.zeros(1, dtype=np.int32), ("",), (None,))  # of a word, which is present or not


class RowEvidence(NamedTuple):
    """The evidence of items in rows for every class, in nats, up to a constant per entry; and the rows' scores."""

    row: Array  # (entries,)
    item: Array  # (entries,)
    evidence: Floats  # (entries, k)
    scores: Floats  # (n, k)

    @classmethod
    def dense(cls, evidence: Floats, scores: Floats) -> RowEvidence:
        """Of rows that have every item, (n, items, k)."""
        n, d, k = evidence.shape
        return cls(np.repeat(np.arange(n), d), np.tile(np.arange(d), n), evidence.reshape(n * d, k), scores)

    def compared(self, y: Codes, class_weight: Floats) -> ComparedEvidence:
        """What importance needs of it, for rows of classes y."""
        centred, at = centred_evidence(self.evidence, class_weight), np.arange(len(self.row))
        own, rival = centred[at, y[self.row]], centred[at, rivals(self.scores, y)[self.row]]
        return ComparedEvidence(self.row, self.item, own, rival, centred, largest_classes(class_weight))


class ComparedEvidence(NamedTuple):
    """The evidence of items in rows, in nats less their mean over the classes, for the classes that matter."""

    row: Array  # (entries,)
    item: Array  # (entries,)
    own: Floats  # (entries,) for the row's class,
    rival: Floats  # (entries,) for the most probable other,
    drawn: Floats  # (entries, columns) and for classes to draw curves of,
    largest: Array  # among them the largest ones, as columns


def largest_classes(class_weight: Floats) -> Array:
    """The classes that curves are drawn of, ascending."""
    return np.sort(np.argsort(-class_weight, kind="stable")[:MAX_CLASSES])


def spread_rows(n: int, most: int) -> Array:
    """At most `most` of n row numbers, evenly spread."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.intp)


def max_rows(items: int, k: int, most: int) -> int:
    """How many rows to take, for their evidence to fit in memory."""
    return int(np.clip(MAX_ENTRIES // max(1, items * k), MIN_ROWS, most))


def folds_out(n: int, learned: float) -> Iterator[Array]:
    """Rows to take out of the sums at a time, for n rows among this many learned ones."""
    folds = 1 if n * ROWS_PER_ROW_OUT <= learned else min(n, FEW_FOLDS)
    return (np.arange(f, n, folds) for f in range(folds))


def rivals(scores: Floats, y: Codes) -> Codes:
    """The most probable class of each row other than its own."""
    others = scores.copy()
    others[np.arange(len(y)), y] = -np.inf
    ruled_out = ~np.isfinite(others).any(axis=1)  # every other class: any of them
    others[ruled_out] = 0.0
    others[np.flatnonzero(ruled_out), y[ruled_out]] = -np.inf
    return np.asarray(others.argmax(axis=1), dtype=np.int32)


def importance(
    names: Sequence[str],
    rows: RowEvidence | ComparedEvidence,
    y: Codes,
    classes: Array,
    class_weight: Floats,
    values_of: Callable[[int, Array], ColumnValues | None],
    how: str,
    weight: Floats | None = None,
    what: str = "column",
) -> Importance:
    """The importance of these items; values_of(item, entries) has an item's values for its curve, or None."""
    rows = rows.compared(y, class_weight) if isinstance(rows, RowEvidence) else rows
    n, k, d = len(y), len(classes), len(names)
    w, own = np.ones(n) if weight is None else weight, y[rows.row]
    decibans, largest = (rows.own - rows.rival) * DECIBANS, largest_classes(class_weight)
    amount = w[rows.row] / w.sum()
    size, net = (np.bincount(rows.item, amount * part, minlength=d) for part in (np.abs(decibans), decibans))
    by_class = np.zeros((d, len(largest)))
    for i, c in enumerate(largest.tolist()):
        total = float(w[y == c].sum())
        if total > 0:
            mine = own == c
            by_class[:, i] = np.bincount(rows.item[mine], (w[rows.row] * decibans)[mine], minlength=d) / total
    having = np.bincount(rows.item, minlength=d)
    order = [j for j in np.argsort(-size, kind="stable")[:MAX_ITEMS].tolist() if size[j] > 0]
    items = tuple(
        Item(names[j], rounded(size[j]), rounded(net[j]), tuple(map(rounded, by_class[j])), int(having[j]))
        for j in order
    )
    first = 1 if k == 2 else 0  # of two classes, the second is enough
    against_mean = rows.drawn * (k / max(1, k - 1) * DECIBANS)  # each class against the mean of the others
    by_item = np.argsort(rows.item, kind="stable")
    ends = np.append(0, np.cumsum(having))
    drawn: list[tuple[str, ColumnValues, Floats]] = []  # with the evidence of each row, (n, columns)
    curves: list[Curve] = []
    sides = rows.largest[first:]
    for j in order:
        entries = by_item[ends[j] : ends[j + 1]]
        own_values = values_of(j, entries)
        if own_values is None:
            continue
        if what == "word":  # it is there or not: a single point
            mine = w[rows.row[entries]]
            mean = mine @ against_mean[np.ix_(entries, sides)] / mine.sum()
            point = Point(own_values.names[0], own_values.at[0], len(entries), tuple(map(rounded, mean)))
            curves.append(Curve(names[j], (point,)))
        else:
            full = np.zeros((n, rows.drawn.shape[1]))
            full[rows.row[entries]] = against_mean[entries]
            drawn.append((names[j], own_values, full))
            curves.append(curve(names[j], own_values, full[:, sides], w))
    labels = tuple(plain(c) for c in classes[largest]), tuple(plain(c) for c in classes[largest[first:]])
    return Importance(what, n, how, *labels, items, tuple(curves), acting_together(drawn))


def centred_evidence(evidence: Floats, class_weight: Floats) -> Floats:
    """Evidence less its mean over the classes that were learned, within ±MAX_NATS."""
    finite = np.nan_to_num(evidence, nan=0.0, posinf=MAX_NATS, neginf=-MAX_NATS)
    mean = finite[..., learned_classes(class_weight)].mean(axis=-1, keepdims=True)
    return np.asarray(np.clip(finite - mean, -MAX_NATS, MAX_NATS))


def learned_classes(class_weight: Floats) -> Array:
    """Which classes have any rows; all if none has."""
    return class_weight > 0 if (class_weight > 0).any() else np.ones(len(class_weight), dtype=bool)


# ------------------------------------------------------------------ curves


def curve(name: str, values: ColumnValues, decibans: Floats, weight: Floats) -> Curve:
    """The mean evidence of each value, (n, sides)."""
    present = np.unique(values.group[values.group >= 0]).tolist()
    amount = members(values.group) * weight
    means = (amount @ decibans) / amount.sum(axis=1, keepdims=True)
    rows = np.bincount(values.group[values.group >= 0])
    points = (
        Point(values.names[g], values.at[g], int(rows[g]), tuple(map(rounded, mean)))
        for g, mean in zip(present, means.tolist(), strict=True)
    )
    return Curve(name, tuple(points))


def grouped_numbers(numbers: Floats, most: int = MAX_POINTS) -> ColumnValues:
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
    names, at = [MISSING], list[float | None]([None])
    for g in range(int(by_value.max(initial=-1)) + 1):
        mine = distinct[by_value == g]
        names.append(number(mine[0]) if len(mine) == 1 else f"{number(mine[0])} to {number(mine[-1])}")
        at.append(float(np.mean(numbers[group == g + 1])))
    return ColumnValues(group, tuple(names), tuple(at))


def grouped_categories(levels: Sequence[Any], most: int = MAX_POINTS) -> ColumnValues:
    """The most frequent values, and the others together; None is missing."""
    counts: dict[Any, int] = {}
    for level in levels:
        counts[level] = counts.get(level, 0) + 1
    frequent = sorted((level for level in counts if level is not None), key=lambda level: -counts[level])[:most]
    place = {level: i + 1 for i, level in enumerate(frequent)} | {None: 0}
    group = np.array([place.get(level, len(frequent) + 1) for level in levels], dtype=np.int32)
    return ColumnValues(group, (MISSING, *map(str, frequent), OTHERS), (None,) * (len(frequent) + 2))


# ------------------------------------------------------------------ columns that act together


def acting_together(columns: Sequence[tuple[str, ColumnValues, Floats]]) -> tuple[ActingPair, ...]:
    """Columns whose evidence for the same value varies with another column, the strongest first.

    Within each group of rows with about the same value, the evidence has a variance, a mean over the classes; few
    groups of both columns' values explain a share of it. Both are corrected for the number of groups.
    """
    found: list[ActingPair] = []
    for name, values, decibans in columns[:MAX_COLUMNS_PAIRED]:
        have, k = np.flatnonzero(values.group >= 0), decibans.shape[1]
        own = members(values.group[have])
        rest = within(decibans[have], own)
        degrees = len(have) - len(own)
        if degrees < MIN_DEGREES or not rest.any():
            continue
        variance, best = float((rest**2).sum()) / degrees / k, (0.0, "")
        coarse = few_groups(values)[have]
        for other, other_values, _ in columns[:MAX_COLUMNS_PAIRED]:
            both = members(coarse * FEW_GROUPS + few_groups(other_values)[have])
            left = degrees - len(both) + len(np.unique(coarse))
            if other != name and left >= MIN_DEGREES:
                unexplained = float((within(rest, both) ** 2).sum()) / left / k
                best = max(best, (1.0 - unexplained / variance, other))
        share, other = best
        strength = float(np.sqrt(share * variance))
        if share >= MIN_PAIR_SHARE and strength >= MIN_PAIR_DECIBANS:
            found.append(ActingPair(name, other, rounded(strength)))
    strongest: dict[frozenset[str], ActingPair] = {}
    for pair in sorted(found, key=lambda pair: -pair.decibans):
        strongest.setdefault(frozenset((pair.first, pair.second)), pair)
    return tuple(strongest.values())[:MAX_PAIRS]


def few_groups(values: ColumnValues) -> Codes:
    """Each row's group among FEW_GROUPS: of neighbouring numbers, or the most frequent categories and the rest."""
    present, place, count = np.unique(values.group, return_inverse=True, return_counts=True)
    if any(at is not None for at in values.at):
        return np.asarray(place * FEW_GROUPS // max(len(present), FEW_GROUPS), dtype=np.int32)
    rank = np.argsort(np.argsort(-count, kind="stable"), kind="stable")
    return np.minimum(rank, FEW_GROUPS - 1)[place].astype(np.int32)


def rounded(decibans: float) -> float:
    """To a thousandth, which is what a file holds."""
    return round(float(decibans), 3) + 0.0  # −0 becomes 0


def members(group: Codes) -> Floats:
    """(groups, n): 1 if a row is in a group; groups without any row are left out."""
    table = np.zeros((int(group.max(initial=-1)) + 2, len(group)))
    table[group, np.arange(len(group))] = 1.0  # those of −1 are in the last
    return table[:-1][table[:-1].any(axis=1)]


def within(values: Floats, member: Floats) -> Floats:
    """ColumnValues (n, k) less the mean of their group."""
    return np.asarray(values - member.T @ (member @ values / member.sum(axis=1)[:, None]))


# ------------------------------------------------------------------ any model, by its explanations


def by_explanations(model: Any, rows: Any, codes: Codes, weight: Floats | None, learned: bool) -> Importance | None:
    """The importance of every item in a learner's explanations of rows; `learned`: they are taken out of the sums.

    None if no row is left that can be explained.
    """
    k, places, names = len(model.classes), dict[str, int](), list[str]()
    entries: list[tuple[int, int, Any, Floats]] = []  # row, item, value, evidence
    scores = np.full((len(codes), k), -np.inf)
    parts = folds_out(len(codes), float(model.weight.sum())) if learned else iter([np.arange(len(codes))])
    for at in parts:
        part = model
        if learned:
            part = model.out_of_sums(rows.take(at), codes[at], None if weight is None else weight[at])
        where = find(part.classes, model.classes)
        if len(where) < 2:
            continue
        for i, log_joint in zip(at.tolist(), part.log_joints(rows.take(at)), strict=True):
            if codes[i] not in where or not part.weight[np.flatnonzero(where == codes[i])[0]] > 0:
                continue  # its class is empty
            scores[i, where] = log_joint
            for name, value, nats in part.item_evidence(rows.take(np.array([i]))):
                if name not in places:
                    places[name] = len(names)
                    names.append(name)
                evidence = np.zeros(k)
                evidence[where] = nats
                entries.append((i, places[name], value, evidence))
    used = np.unique([row for row, *_ in entries]).astype(np.intp)
    if not len(used):
        return None
    row = np.searchsorted(used, [row for row, *_ in entries])
    kept = RowEvidence(row, np.array([j for _, j, *_ in entries]), np.array([e for *_, e in entries]), scores[used])
    given = [value for _, _, value, _ in entries]

    def values_of(item: int, at: Array) -> ColumnValues | None:
        del item
        values = PRESENT if model.item_kind == "word" else grouped([given[i] for i in at.tolist()])
        group = np.full(len(used), -1, dtype=np.int32)
        group[row[at]] = values.group
        return values._replace(group=group)

    how, w = ROWS_LEFT_OUT if learned else NEW_ROWS, None if weight is None else weight[used]
    return importance(names, kept, codes[used], model.classes, model.weight, values_of, how, w, model.item_kind)


def grouped(values: Sequence[Any]) -> ColumnValues:
    """ColumnValues in groups: numbers if all are, categories otherwise."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return grouped_numbers(np.array(values, dtype=np.float64))
    return grouped_categories(values)


def importance_of(model: Any, rows: Any, codes: Codes, weight: Floats | None, learned: bool) -> Importance:
    """A learner's importance on some of these rows, those that have a label (code ≥ 0)."""
    usable = np.flatnonzero((codes >= 0) if weight is None else (codes >= 0) & (weight > 0))
    some = usable[spread_rows(len(usable), MAX_ROWS_GIVEN)]
    if len(some) < len(codes):
        rows = rows.take(some)
    own = np.ascontiguousarray(codes[some], dtype=np.int32)
    w = None if weight is None else np.ascontiguousarray(weight[some])
    found = model.importance(rows, own, w, learned) if len(model.classes) > 1 else None
    if found is None:
        raise DecibanError(
            "importance needs rows that have a label, and two classes that were learned{also}",
            also=", also without these rows" if learned else "",
        )
    return found  # type: ignore[no-any-return]  # a learner's


def stored_importance(model: Any) -> Importance:
    """What was computed when the model was fitted."""
    if model.stored_importance is None:
        raise DecibanError(
            "importance is not stored with this model: importance(X, y) computes it on rows that you give"
        )
    return model.stored_importance  # type: ignore[no-any-return]  # a learner's
