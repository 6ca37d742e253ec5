"""Whether the strings of a column are names or texts, if their form leaves it open: predictions decide.

"Braund, Mr. Owen Harris" is a name that no other row has, and so predicts nothing; its words do. "New York" is a name
that is repeated often, and its words predict no more than the name. The strings alone do not distinguish the two.

Each half of the rows is predicted by the other. Leave-one-out does not work here: if strings are repeated,
how informative a word is depends on the very row that is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from zlib import crc32

import numpy as np

from deciban._typing import Array, Codes, Floats
from deciban.joint import log_class_prior
from deciban.reading.columns import Levels
from deciban.reading.frames import Frame
from deciban.reading.kinds import ColumnKind
from deciban.reading.table import TableColumns
from deciban.tables.encode import EncodedRows, choose_encoding
from deciban.tables.experts.base import Expert
from deciban.tables.experts.columns import ColumnDistributions, choose_smoothings, row_losses
from deciban.tables.experts.words import Words
from deciban.threads import own_threads

MAX_ROWS = 3000  # enough to decide
DEGREES = (0.25, 0.5, 0.75, 1.0)  # weights of a category's evidence
MIN_GAIN_NATS, MIN_GAIN_ERRORS = 6.0, 2.0  # what a change must gain over all rows, in nats and in standard errors


def with_kinds_decided(
    reader: TableColumns, frame: Frame, y: Codes, k: int, weight: Floats | None = None
) -> TableColumns:
    """The columns with every doubtful one a category or a text, as rows with a label (code ≥ 0) decide."""
    if not any(kind.maybe_text for kind in reader.kinds):
        return reader
    rows = np.flatnonzero(y >= 0)
    if len(rows) > MAX_ROWS:
        rows = rows[np.linspace(0, len(rows) - 1, MAX_ROWS).astype(np.intp)]
    codes, some = np.ascontiguousarray(y[rows]), frame.take(rows)
    amount = np.ones(len(rows)) if weight is None else weight[rows]
    with own_threads():
        kinds = [decided(kind, some, codes, k, amount) if kind.maybe_text else kind for kind in reader.kinds]
    return TableColumns(tuple(kinds))


def decided(kind: ColumnKind, frame: Frame, y: Codes, k: int, weight: Floats) -> ColumnKind:
    """The kind of a column by which new rows are predicted better; unchanged unless the gain is clear."""
    column = frame[kind.name]
    assert isinstance(column, Levels)
    losses = np.array(list(losses_by_halves(kind, frame, halves(column), y, k, weight)))
    if not losses.size:
        return kind
    amount, text, without, names = losses[:, 0], losses[:, 1], losses[:, 2], losses[:, 3:]
    name = names[:, np.argmin(amount @ names)] if kind.kind != "identifier" else without
    best, other = (name, text) if kind.kind == "text" else (text, name)
    if not all(is_clear(amount * (loss - best)) for loss in (other, without)):
        return kind
    best_loss, other_loss = (float(np.average(loss, weights=amount)) for loss in (best, other))
    against = f"log loss {best_loss:.3f} against {other_loss:.3f}"
    if kind.kind == "text":
        why = f"its values predict better than their words: {against}"
        return replace(kind, kind="category", why=why, surprising=True)
    return replace(kind, kind="text", why=f"its words predict better than whole values: {against}", surprising=True)


def is_clear(gain: Floats) -> bool:
    """Whether the gain of rows, in nats, is more than chance."""
    return bool(gain.sum() > max(MIN_GAIN_NATS, MIN_GAIN_ERRORS * np.sqrt(len(gain)) * gain.std()))


def halves(column: Levels) -> Array:
    """Which half each row is in, (n,) bool: of rows with the same string every other one, regardless of class."""
    first = np.array([*(crc32(str(level).encode("utf-8", "surrogatepass")) & 1 for level in column.levels), 0])
    order = np.argsort(column.codes, kind="stable")
    begins = np.flatnonzero(np.diff(column.codes[order], prepend=-2))
    copy = np.empty(len(order), dtype=np.int64)
    copy[order] = np.arange(len(order)) - np.repeat(begins, np.diff(begins, append=len(order)))
    return np.asarray((copy + first[column.codes]) % 2 == 1)


def losses_by_halves(
    kind: ColumnKind, frame: Frame, half: Array, y: Codes, k: int, weight: Floats
) -> Iterator[tuple[float, ...]]:
    """Of each row its weight, and its log loss with the column as text, without it, and as a category.

    As a category it is given several weights: the pool of a model would not give it full weight either.
    """
    as_text, as_name = (
        TableColumns((replace(kind, kind=one),)).read(frame.select([kind.name])) for one in ("text", "category")
    )
    texts = choose_encoding(as_text, (kind.name,)).rows(as_text, marked=True)
    encoding = choose_encoding(as_name)
    names = encoding.rows(as_name)
    for learned in (half, ~half):
        count = np.bincount(y[learned], weight[learned], minlength=k).astype(float)
        train = np.flatnonzero(learned & (weight > 0))
        test = np.flatnonzero(~learned & (weight > 0) & (count[y] > 0))
        if np.count_nonzero(count) < 2 or not len(test):
            continue
        own, w = np.ascontiguousarray(y[train]), np.ascontiguousarray(weight[train])
        log_prior = log_class_prior("empirical", count)
        usable = np.flatnonzero(count[own] > w * (1.0 + 1e-9))
        words = Words.chosen(kind.name, 0, texts.take(train), own, k, w, usable) if len(usable) else None
        empty = ColumnDistributions((), encoding.offsets, np.zeros((k, int(encoding.offsets[-1]))))
        counts = empty.learned(names.take(train), own, w).counts
        smoothings, _, _ = choose_smoothings(
            counts, encoding.offsets, encoding.ordered, log_prior, float(w.mean()), choose=True
        )
        truth = np.ascontiguousarray(y[test])
        without = row_losses(np.zeros((len(test), k)), log_prior, truth)
        text = without if words is None else row_losses(evidence_of(words, texts.take(test)), log_prior, truth)
        evidence = evidence_of(ColumnDistributions(smoothings, encoding.offsets, counts), names.take(test))
        as_category = [row_losses(degree * evidence, log_prior, truth) for degree in DEGREES]
        yield from zip(weight[test], text, without, *as_category, strict=True)


def evidence_of(expert: Expert, rows: EncodedRows) -> Floats:
    return expert.limited(expert.evidence(rows))
